"""Pops that wait until there is something for them.

Whoever waits for a topic is woken by a message in it, or in the group's retry topic of it, one pop
at a time: the others of its group would find nothing. One that was woken and leaves something
behind wakes the next. In case that was not enough, one of each group has a look every five seconds.

An expression is asked once about a message, and only while its `Sieve` has something to spend: one
that was not asked has a pop of its line look for itself at the next tick.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Final, TypeAlias

from rocketpipe.broker.delivery.filtering import EVERYTHING, Choice, Expression
from rocketpipe.clock import Clock
from rocketpipe.model.names import pop_retry_topic, pop_retry_topic_v2

TICK_MS: Final = 50
RECHECK_MS: Final = 5000
MAX_WAITING: Final = 100_000
#: Of one group for one queue, or for any queue of one topic; as RocketMQ's popPollingSize.
MAX_ALIKE: Final = 1024

#: Topic, group, and queue or -1 for any: those who wait for the same.
Line: TypeAlias = tuple[str, str, int]

_ANY: Final = -1
_SLACK: Final = 1000


class _Waiting:
    __slots__ = ("asker", "choice", "due_ms", "woken")

    def __init__(
        self, choice: Choice, due_ms: int, woken: asyncio.Future[bool | None], asker: object
    ) -> None:
        self.choice = choice
        self.due_ms = due_ms
        #: True when there may be something, False when the time is up, None when its asker left.
        self.woken = woken
        self.asker = asker


class WaitingPops:
    """Wakes pops, the one that has waited longest first."""

    def __init__(
        self, clock: Clock, *, limit: int = MAX_WAITING, max_alike: int = MAX_ALIKE
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._max_alike = max_alike
        self._lines: dict[Line, OrderedDict[_Waiting, None]] = {}
        #: The lines that a topic's messages concern, its own and those of the topic it retries.
        self._by_topic: dict[str, dict[Line, None]] = {}
        self._count = 0
        self._due: list[tuple[int, int, Line, _Waiting]] = []
        self._turn = count()
        self._somebody = asyncio.Event()
        self._closing = False
        #: Lines of which one is to look for itself at the next tick.
        self._behind: dict[Line, None] = {}

    def __len__(self) -> int:
        return self._count

    def waiting(self, topic: str, group: str, queue_id: int) -> int:
        """How many wait for this queue, or for any (-1)."""
        return len(self._lines.get((topic, group, queue_id), ()))

    def is_full(self, topic: str, group: str, queue_id: int) -> bool:
        """Whether no more may wait, at all or for this."""
        alike = self.waiting(topic, group, queue_id)
        return self._count >= self._limit or alike >= self._max_alike

    async def wait(
        self,
        topic: str,
        group: str,
        queue_id: int,
        until_ms: int,
        choice: Choice = EVERYTHING,
        asker: object = None,
    ) -> bool | None:
        """Return True when it is worth another look, False at ``until_ms`` of the monotonic clock.

        None says that ``asker`` has left the group. The caller has seen that this is not full.
        """
        if self._closing or until_ms <= self._clock.monotonic_ms():
            return False
        loop = asyncio.get_running_loop()
        waiting = _Waiting(choice, until_ms, loop.create_future(), asker)
        line = (topic, group, queue_id)
        self._join(line, waiting)
        try:
            return await waiting.woken
        except asyncio.CancelledError:
            if waiting.woken.done() and not waiting.woken.cancelled():
                self.wake(topic, group, queue_id)  # whoever was meant is gone: the next one, then
            raise
        finally:
            self._leave(line, waiting)

    def _join(self, line: Line, waiting: _Waiting) -> None:
        if line not in self._lines:
            self._lines[line] = OrderedDict()
            for name in _names(line):
                self._by_topic.setdefault(name, {})[line] = None
        self._lines[line][waiting] = None
        self._count += 1
        heapq.heappush(self._due, (waiting.due_ms, next(self._turn), line, waiting))
        if len(self._due) > 2 * self._count + _SLACK:
            self._due = [each for each in self._due if not each[3].woken.done()]
            heapq.heapify(self._due)
        self._somebody.set()

    def _leave(self, line: Line, waiting: _Waiting) -> None:
        here = self._lines.get(line)
        if here is None or waiting not in here:
            return
        del here[waiting]
        self._count -= 1
        if not here:
            del self._lines[line]
            for name in _names(line):
                lines = self._by_topic[name]
                del lines[line]
                if not lines:
                    del self._by_topic[name]
        if not self._count:
            self._somebody.clear()

    def notify(self, topic: str, queue_id: int, tag_code: int, properties: bytes) -> None:
        """Tell those who wait that a message has arrived."""
        lines = self._by_topic.get(topic)
        if lines is None:
            return
        told: dict[Expression, bool] = {}
        for line in list(lines):
            is_retry = line[0] != topic
            if not is_retry and line[2] not in (_ANY, queue_id):
                continue
            for waiting in self._lines[line]:
                choice = waiting.choice
                if not is_retry and not choice.matches(tag_code):
                    continue
                accepts = choice.accepts
                if not is_retry and accepts is not None:
                    if accepts not in told:
                        if not accepts.is_cheap or accepts.sieve.is_spent:
                            self._behind[line] = None
                            continue
                        told[accepts] = accepts(properties)
                    if not told[accepts]:
                        continue
                self._wake(line, waiting, found=True)
                break

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """Have one look that waits for this queue, or for any of the topic."""
        for line in dict.fromkeys(((topic, group, _ANY), (topic, group, queue_id))):
            here = self._lines.get(line)
            if here:
                self._wake(line, next(iter(here)), found=True)

    def dismiss(self, group: str, asker: object) -> None:
        """Have nobody wait any longer for one who has left a group."""
        for line, here in list(self._lines.items()):
            if line[1] == group:
                for waiting in [each for each in here if each.asker is asker]:
                    self._wake(line, waiting, found=None)

    def _wake(self, line: Line, waiting: _Waiting, *, found: bool | None) -> None:
        self._leave(line, waiting)
        if not waiting.woken.done():
            waiting.woken.set_result(found)

    def wake_all(self) -> None:
        """Have nobody wait any longer, and nobody anew: the broker is about to stop."""
        self._closing = True
        for line, here in list(self._lines.items()):
            for waiting in list(here):
                self._wake(line, waiting, found=False)

    async def keep_time(self, on_tick: Callable[[], None]) -> None:
        """Wake those whose time is up, until cancelled; ``on_tick`` is called while some wait."""
        looked_ms = self._clock.monotonic_ms()
        while True:
            await self._somebody.wait()
            await self._clock.sleep(TICK_MS)
            now_ms = self._clock.monotonic_ms()
            while self._due and self._due[0][0] <= now_ms:
                _, _, line, waiting = heapq.heappop(self._due)
                self._wake(line, waiting, found=False)
            on_tick()
            behind, self._behind = self._behind, {}
            for line in behind:
                if here := self._lines.get(line):
                    self._wake(line, next(iter(here)), found=True)
            if now_ms - looked_ms >= RECHECK_MS:
                looked_ms = now_ms
                for line, here in list(self._lines.items()):
                    if here:
                        self._wake(line, next(iter(here)), found=True)


def _names(line: Line) -> tuple[str, str, str]:
    topic, group, _ = line
    return topic, pop_retry_topic(topic, group), pop_retry_topic_v2(topic, group)
