"""One queue that this consumer has been given: what is in hand of it, and who is at work on it.

It ends in one of two ways. Drained: handlers finish what they have, and its offset is saved.
Dropped: whatever becomes of its messages counts for nothing, because they come again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from rocketpipe.client.consumer.pushing.process_queue import ProcessQueue
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue


@dataclass(slots=True)
class Lease:
    """A queue lock that a broker granted, by when the request was sent that got it."""

    renewed_ms: int

    def lasts(self, now_ms: int, life_ms: int) -> bool:
        """Whether it was renewed less than ``life_ms`` ago."""
        return now_ms - self.renewed_ms < life_ms


class Handling:
    """Whoever is at work on a queue's messages, each until what it did is noted."""

    __slots__ = ("_busy", "_rest")

    def __init__(self) -> None:
        self._busy = 0
        #: Somebody waits for the last one to leave.
        self._rest: asyncio.Event | None = None

    def begin(self) -> None:
        """One more is at work."""
        self._busy += 1

    def end(self, many: int = 1) -> None:
        """So many are done."""
        self._busy -= many
        assert self._busy >= 0, "more ended than began"
        if self._rest is not None and not self._busy:
            self._rest.set()
            self._rest = None

    @property
    def is_over(self) -> bool:
        """Whether nobody is at work."""
        return not self._busy

    async def over(self) -> None:
        """Wait until nobody is at work."""
        while self._busy:
            if self._rest is None:
                self._rest = asyncio.Event()
            await self._rest.wait()


class HeldQueue:
    """A queue while it is this consumer's; everything here happens on one event loop."""

    def __init__(self, queue: MessageQueue, lease: Lease | None = None) -> None:
        self.queue = queue
        self.messages = ProcessQueue()
        #: The lock, where messages are consumed in order.
        self.lease = lease
        #: What the next pull may commit in passing.
        self.committable: QueueOffset | None = None
        #: Set when there is something for an ordered consumer to look at.
        self.arrived = asyncio.Event()
        #: Whether handlers are to be given nothing more.
        self.is_ending = False
        #: Who is at work on its messages.
        self.handling = Handling()
        self._ending = asyncio.Event()
        self._shrunk = asyncio.Event()
        self._wants_room = False

    @property
    def is_dropped(self) -> bool:
        """Whether no result counts any more."""
        return self.messages.dropped

    def drain(self) -> None:
        """Give handlers nothing more; what they have, they finish."""
        self.is_ending = True
        self._ending.set()
        self._shrunk.set()
        self.arrived.set()

    def drop(self) -> None:
        """Give up what is in hand: it comes again, here or elsewhere."""
        self.messages.drop()
        self.drain()

    async def ending(self) -> None:
        """Wait until it is drained or dropped."""
        await self._ending.wait()

    def shrank(self) -> None:
        """Tell who waits for room that there is less in hand."""
        if self._wants_room:
            self._wants_room = False
            self._shrunk.set()

    async def shrinking(self) -> None:
        """Wait until there is less in hand than now, or the end has come."""
        self._shrunk.clear()
        self._wants_room = True
        if not self.is_ending:
            await self._shrunk.wait()

    @property
    def is_quiet(self) -> bool:
        """Whether nobody is at work on its messages."""
        return self.handling.is_over

    async def quiet(self) -> None:
        """Wait until nobody is at work on its messages."""
        await self.handling.over()
