"""What a channel was given and has not acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from kombu.transport import virtual

from rocketpipe import RocketPipeError
from rocketpipe.integrations.held import Held
from rocketpipe.integrations.kombu.fetching import Fetching
from rocketpipe.integrations.kombu.link import Link

log = logging.getLogger(__name__)


class Consuming(Protocol):
    """A channel, as far as it matters here."""

    link: Link
    fetching: Fetching


class QoS(virtual.QoS):
    """Acknowledges at the broker, and gives back what nobody worked on."""

    channel: Consuming

    def __init__(self, channel: Consuming, prefetch_count: int = 0) -> None:
        super().__init__(channel, prefetch_count)
        self._held: dict[str, Held] = {}

    @property
    def in_hand(self) -> int:
        """How many deliveries are neither acknowledged nor rejected."""
        return len(self._delivered) - len(self._dirty)

    def hold(self, delivery_tag: str, held: Held) -> None:
        """Note what a delivery stands for; then it is appended."""
        self._held[delivery_tag] = held

    def ack(self, delivery_tag: str) -> None:
        """Be done with a message."""
        held = self._held.pop(delivery_tag, None)
        super().ack(delivery_tag)
        if held is not None:
            self.channel.link.ack(held)
        self.channel.fetching.look()

    def release(self, delivery_tag: str) -> None:
        """Be done with a message that is not to be acknowledged."""
        held = self._held.pop(delivery_tag, None)
        if held is not None:
            self.channel.link.ack(held)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Have a message come again at once, or never."""
        if not requeue:
            self.ack(delivery_tag)
            return
        held = self._held.pop(delivery_tag, None)
        super().ack(delivery_tag)
        if held is not None:
            self._start(self.channel.link.holding.give_back([held]))
        self.channel.fetching.look()

    def restore_unacked(self) -> list[Any]:
        """Give back everything; what cannot be comes again by itself when its time is over."""
        self._flush()
        left, self._held = list(self._held.values()), {}
        self._delivered.clear()
        if left and self.channel.link.is_ours:
            try:
                self.channel.link.run(self.channel.link.holding.give_back(left))
            except RocketPipeError as error:
                log.warning("not given back messages=%d reason=%s", len(left), error)
        return []

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self.channel.link.start(work)
        except RocketPipeError as error:
            log.warning("not given back, so that it comes again later: %s", error)
