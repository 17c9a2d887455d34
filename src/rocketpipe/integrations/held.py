"""Messages that others work on: hidden for as long as that takes, acknowledged when it is done.

    held = HeldMessages(consumer, invisible_ms=30_000, longest_ms=DAY_MS)
    async with running(held.keep_hidden(), "renewal"):
        ticket = held.hold(message)
        ...
        await ticket()      it is done
        await held.give_back()      the rest comes again at once

A ticket that nobody has any more, and that was not used, ends the hiding: whoever worked on the
message has failed without a word, and it comes again when its time is over.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from dataclasses import dataclass, field
from typing import Final

from rocketpipe import NoBroker, PoppedMessage, RocketPipeError, SimpleConsumer
from rocketpipe.clock import Clock
from rocketpipe.errors import NoRoute, ReceiptExpired

log = logging.getLogger(__name__)

#: Between two attempts to acknowledge to a broker that is away.
AGAIN_MS: Final = 500
#: For so long a broker is told that a message is done; then it comes again.
ACK_PATIENCE_MS: Final = 600_000
#: How many are renewed at a time.
TOGETHER: Final = 16


def is_passing(error: RocketPipeError) -> bool:
    """Whether the same may succeed once brokers and NameServers are back."""
    return error.retryable or error.stale_route or isinstance(error, NoRoute | NoBroker)


@dataclass(eq=False, slots=True)
class _Entry:
    message: PoppedMessage
    since_ms: int
    #: A receipt changes with each renewal: only one may be under way, and no acknowledgement.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_done: bool = False


class Ticket:
    """What acknowledges one message, by being awaited as a call."""

    __slots__ = ("__weakref__", "_entry", "_held")

    def __init__(self, held: HeldMessages, entry: _Entry) -> None:
        self._held, self._entry = held, entry

    async def __call__(self) -> None:
        """Acknowledge it; if that cannot be, a warning says that it comes again."""
        await self._held.acknowledge(self._entry)

    async def give_back(self) -> None:
        """Have it come again at once, to whoever asks next."""
        await self._held.return_entry(self._entry)


class HeldMessages:
    """Those of one consumer."""

    def __init__(
        self, consumer: SimpleConsumer, clock: Clock, *, invisible_ms: int, longest_ms: int
    ) -> None:
        """``invisible_ms`` is how long they are hidden at a time, ``longest_ms`` in all."""
        self._consumer, self._clock = consumer, clock
        self._invisible_ms, self._longest_ms = invisible_ms, longest_ms
        self._entries: set[_Entry] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def hold(self, message: PoppedMessage) -> Ticket:
        """Keep a message hidden until its ticket is used, or dropped."""
        entry = _Entry(message, self._clock.monotonic_ms())
        self._entries.add(entry)
        ticket = Ticket(self, entry)
        weakref.finalize(ticket, self._forget, entry).atexit = False
        return ticket

    async def keep_hidden(self) -> None:
        """Renew what is held, for as long as this runs."""
        pause_ms = max(1, self._invisible_ms // 3)
        while True:
            await self._clock.sleep(pause_ms)
            now_ms = self._clock.monotonic_ms()
            due = [each for each in self._entries if self._is_due(each, now_ms)]
            for at in range(0, len(due), TOGETHER):
                await asyncio.gather(*(self._renew(each) for each in due[at : at + TOGETHER]))

    def _is_due(self, entry: _Entry, now_ms: int) -> bool:
        until_ms = entry.message.hidden_until_ms
        return until_ms is None or until_ms - now_ms < 2 * self._invisible_ms // 3

    async def _renew(self, entry: _Entry) -> None:
        async with entry.lock:
            if entry.is_done:
                return
            message = entry.message
            if self._clock.monotonic_ms() - entry.since_ms >= self._longest_ms:
                log.warning(
                    "held for too long, it comes again topic=%s id=%s longest_ms=%d",
                    message.topic,
                    message.message_id,
                    self._longest_ms,
                )
                self._forget(entry)
                return
            try:
                await self._consumer.change_invisible(message, self._invisible_ms)
            except ReceiptExpired as error:
                log.warning(
                    "it comes again while it is worked on topic=%s id=%s reason=%s",
                    message.topic,
                    message.message_id,
                    error,
                )
                self._forget(entry)
            except RocketPipeError as error:
                log.warning("not renewed topic=%s reason=%s", message.topic, error)

    async def acknowledge(self, entry: _Entry) -> None:
        """Be done with a message, also with a broker that is away for a while."""
        async with entry.lock:
            until_ms = self._clock.monotonic_ms() + ACK_PATIENCE_MS
            while not entry.is_done:
                try:
                    await self._consumer.ack(entry.message)
                    self._forget(entry)
                except RocketPipeError as error:
                    if is_passing(error) and self._clock.monotonic_ms() < until_ms:
                        await self._clock.sleep(AGAIN_MS)
                        continue
                    log.warning(
                        "done, and comes again all the same topic=%s id=%s reason=%s",
                        entry.message.topic,
                        entry.message.message_id,
                        error,
                    )
                    self._forget(entry)

    async def give_back(self) -> None:
        """Have all that is held come again at once, to whoever asks next."""
        await asyncio.gather(*(self.return_entry(each) for each in tuple(self._entries)))

    async def return_entry(self, entry: _Entry) -> None:
        """The same for one."""
        async with entry.lock:
            if entry.is_done:
                return
            self._forget(entry)
            try:
                await self._consumer.change_invisible(entry.message, 0)
            except RocketPipeError as error:
                log.info("not given back, it comes again later reason=%s", error)

    def _forget(self, entry: _Entry) -> None:
        entry.is_done = True
        self._entries.discard(entry)
