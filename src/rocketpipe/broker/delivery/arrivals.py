"""Who is told when a message has become readable."""

from __future__ import annotations

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.derived import OnArrival


class Arrivals:
    """Passes on what the store says of each message that it dispatched, in the order of asking."""

    def __init__(self) -> None:
        self._listeners: list[OnArrival] = []

    def listen(self, listener: OnArrival) -> None:
        """Have ``listener`` called for every message; it must be quick, and not raise."""
        self._listeners.append(listener)

    def __call__(
        self,
        topic: str,
        queue_id: int,
        offset: QueueOffset,
        tag_code: int,
        stored_ms: int,
        properties: bytes,
    ) -> None:
        for listener in self._listeners:
            listener(topic, queue_id, offset, tag_code, stored_ms, properties)
