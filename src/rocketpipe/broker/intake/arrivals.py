"""Who is told when a message has become readable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.derived.derivation import Arrival

log = logging.getLogger(__name__)

#: Called with the fields of an `Arrival`.
Listener = Callable[[str, int, QueueOffset, int, int, bytes], None]


def always() -> bool:
    return True


class Arrivals:
    """Passes on what the store says of messages that it dispatched, in the order of asking."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Listener, Callable[[], object], str | None]] = []

    def listen(
        self,
        listener: Listener,
        *,
        while_: Callable[[], object] = always,
        topic: str | None = None,
    ) -> None:
        """Have ``listener`` called for every message, or those of one topic; it must be quick.

        It is not called as long as ``while_`` gives something false: nobody waits there.
        """
        self._listeners.append((listener, while_, topic))

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """Let listeners that are added inside the block go at its end."""
        before = list(self._listeners)
        try:
            yield
        finally:
            self._listeners[:] = before

    @property
    def wanted(self) -> Collection[str] | None:
        """The topics that somebody waits for now; None for all."""
        topics = []
        for _, wanted, topic in self._listeners:
            if wanted():
                if topic is None:
                    return None
                topics.append(topic)
        return topics

    def tell(self, arrivals: Sequence[Arrival]) -> None:
        """Tell of messages that became readable together; what a listener raises is logged."""
        for listener, wanted, topic in self._listeners:
            if not wanted():
                continue
            for arrival in arrivals:
                if topic is None or arrival[0] == topic:
                    try:
                        listener(*arrival)
                    except Exception:
                        log.exception("listener failed topic=%s queue_id=%d", *arrival[:2])
