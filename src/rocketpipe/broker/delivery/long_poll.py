"""Pulls that wait at the end of a queue until it grows.

A waiting pull ends in one of three ways, and is answered by a second look at the queue, which waits
no more:

    a message arrives that it may want     at once; tag and properties are asked first
    the queue has grown without that       RECHECK_MS later: it passes over what it does not want
    its time is up                         a tick or two later

Time is kept for all of them by one loop, in ticks, so that a pull costs no timer of its own.

An expression is asked once about a message, whoever waits by it, and within what a `Sieve` has to
spend. What is too much at the arrival is asked about aside, by `keep_sifting`; and if that falls
behind too, or an expression is dear and others wait, the pulls concerned look for themselves a tick
later: a pull takes its turns at the sieve, as many as it needs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from rocketpipe.broker.delivery.filtering import Expression
from rocketpipe.clock import Clock

TICK_MS: Final = 100
#: As often as RocketMQ's brokers look whether a queue has grown under those who wait for it.
RECHECK_MS: Final = 5000
MAX_WAITING: Final = 100_000
#: Arrivals that expressions are yet to be asked about, and how many of dear ones among them.
MAX_LATE: Final = 1000
MAX_LATE_DEAR: Final = 8
#: Pulls that are to look for themselves, at one tick.
MAX_BEHIND_A_TICK: Final = 200

Queue = tuple[str, int]


class WaitingPull:
    """One pull that waits; ``wake`` is called once, unless it leaves before."""

    __slots__ = ("accepts", "due", "matches", "offset", "queue", "wake")

    def __init__(
        self,
        queue: Queue,
        offset: int,
        due: int,
        matches: Callable[[int], bool],
        accepts: Expression | None,
        wake: Callable[[], None],
    ) -> None:
        self.queue = queue
        self.offset = offset
        #: The tick at which its time is up.
        self.due = due
        self.matches = matches
        self.accepts = accepts
        self.wake = wake


class WaitingPulls:
    """Wakes those who wait for a queue as soon as it has something for them."""

    def __init__(self, clock: Clock, *, limit: int = MAX_WAITING) -> None:
        self._clock = clock
        self._limit = limit
        self._count = 0
        self._by_queue: dict[Queue, set[WaitingPull]] = {}
        self._by_tick: dict[int, set[WaitingPull]] = {}
        self._somebody = asyncio.Event()
        #: Expressions that are yet to be asked about properties, and who waits by them.
        self._late: deque[tuple[Expression, bytes, list[WaitingPull]]] = deque()
        self._is_late = asyncio.Event()
        #: Who is to look for itself at the next tick.
        self._behind: dict[WaitingPull, None] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether no more may wait."""
        return self._count >= self._limit

    def park(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        wait_ms: int,
        matches: Callable[[int], bool],
        accepts: Expression | None,
        wake: Callable[[], None],
    ) -> WaitingPull:
        """Have ``wake`` called when a message at ``offset`` or behind may be wanted, or in time.

        ``matches`` is asked about a tag's hash, then ``accepts`` about encoded properties. The
        caller has seen that this is not full.
        """
        assert self._count < self._limit
        queue = (topic, queue_id)
        due = (self._clock.monotonic_ms() + max(wait_ms, 0)) // TICK_MS + 1
        waiting = WaitingPull(queue, offset, due, matches, accepts, wake)
        self._by_queue.setdefault(queue, set()).add(waiting)
        self._by_tick.setdefault(due, set()).add(waiting)
        self._count += 1
        self._somebody.set()
        return waiting

    def leave(self, waiting: WaitingPull) -> None:
        """Forget a pull, which may have been woken already: its peer is gone, or it has enough."""
        here = self._by_queue.get(waiting.queue)
        if here is None or waiting not in here:
            return
        here.discard(waiting)
        if not here:
            del self._by_queue[waiting.queue]
        together = self._by_tick[waiting.due]
        together.discard(waiting)
        if not together:
            del self._by_tick[waiting.due]
        self._behind.pop(waiting, None)
        self._count -= 1
        if not self._count:
            self._somebody.clear()

    async def grown(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        wait_ms: int,
        matches: Callable[[int], bool],
        accepts: Expression | None = None,
    ) -> None:
        """Return when it is time to look at the queue again; see `park`."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        waiting = self.park(topic, queue_id, offset, wait_ms, matches, accepts, wake)
        try:
            await woken
        finally:
            # Cancelled, as its connection was lost: nobody is there to be answered.
            self.leave(waiting)

    def notify(
        self, topic: str, queue_id: int, next_offset: int, tag_code: int, properties: bytes = b""
    ) -> None:
        """Tell those who wait that the message before ``next_offset`` has arrived."""
        here = self._by_queue.get((topic, queue_id))
        if here is None:
            return
        choosy: dict[Expression, list[WaitingPull]] = {}
        for waiting in [
            each for each in here if each.offset < next_offset and each.matches(tag_code)
        ]:
            if waiting.accepts is None:
                self._wake(waiting)
            else:
                choosy.setdefault(waiting.accepts, []).append(waiting)
        for accepts, those in choosy.items():
            if accepts.is_cheap and not accepts.sieve.is_spent and not self._late:
                self._tell(accepts, properties, those)
            elif len(self._late) < (MAX_LATE if accepts.is_cheap else MAX_LATE_DEAR):
                self._late.append((accepts, properties, those))
                self._is_late.set()
            else:
                self._behind.update(dict.fromkeys(those))

    async def keep_sifting(self) -> None:
        """Ask expressions what they could not be asked at an arrival; runs beside the broker."""
        while True:
            await self._is_late.wait()
            while self._late:
                accepts, properties, those = self._late[0]
                await accepts.sieve.turn()
                self._late.popleft()
                if here := [each for each in those if self._is_parked(each)]:
                    self._tell(accepts, properties, here)
            self._is_late.clear()

    def wake(self, topic: str, queue_id: int) -> None:
        """Have those who wait for a queue look at it again, whatever it has."""
        for waiting in list(self._by_queue.get((topic, queue_id), ())):
            self._wake(waiting)

    async def keep_time(self, max_offset: Callable[[str, int], int]) -> None:
        """Wake those whose time is up, and those whose queue has grown; runs beside the broker.

        ``max_offset`` tells where a queue ends.
        """
        looked_ms = self._clock.monotonic_ms()
        while True:
            await self._somebody.wait()
            await self._clock.sleep(TICK_MS)
            now_ms = self._clock.monotonic_ms()
            for tick in [due for due in self._by_tick if due <= now_ms // TICK_MS]:
                for waiting in list(self._by_tick.get(tick, ())):
                    self._wake(waiting)
            for waiting in list(self._behind)[:MAX_BEHIND_A_TICK]:
                self._wake(waiting)
            if now_ms - looked_ms >= RECHECK_MS:
                looked_ms = now_ms
                self._look_again(max_offset)

    def wake_all(self) -> None:
        """Have everyone look once more and wait no longer: the broker is about to stop."""
        for here in list(self._by_queue.values()):
            for waiting in list(here):
                self._wake(waiting)

    def _look_again(self, max_offset: Callable[[str, int], int]) -> None:
        for queue, here in list(self._by_queue.items()):
            end = max_offset(*queue)
            for waiting in [each for each in here if each.offset < end]:
                self._wake(waiting)

    def _tell(self, accepts: Expression, properties: bytes, those: list[WaitingPull]) -> None:
        if accepts(properties):
            for waiting in those:
                self._wake(waiting)

    def _is_parked(self, waiting: WaitingPull) -> bool:
        return waiting in self._by_queue.get(waiting.queue, ())

    def _wake(self, waiting: WaitingPull) -> None:
        self.leave(waiting)
        waiting.wake()
