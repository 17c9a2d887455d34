"""Time as an argument, so that tests turn it by hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

#: A wall clock that moved by so much against the monotonic one was set.
STEP_MS: Final = 5
#: What is less is no step to those who look seldom, but a clock being kept right.
_LEAST_STEP_S: Final = 1.0


class Clock(Protocol):
    """What the servers and clients know of time."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970: for timestamps, not for waiting."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that only grow: for measuring and for deadlines."""
        ...

    async def sleep(self, duration_ms: int) -> None:
        """Wait until ``duration_ms`` have passed on the monotonic clock."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    async def sleep(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)


async def within(clock: Clock, duration_ms: int, work: Coroutine[Any, Any, object]) -> bool:
    """Wait for something, but no longer than that; says whether it came to its end.

    What did not is cancelled. Its errors come out of here.
    """
    done = await _done(clock, duration_ms, work)
    if done is not None:
        done.result()
    return done is not None


async def in_time(
    clock: Clock,
    duration_ms: int,
    work: Coroutine[Any, Any, T],
    late: Callable[[], Exception],
) -> T:
    """What comes of work that may take so long and no longer; then it is cancelled.

    Raises:
        Exception: What ``late`` gives, if it takes longer; and its own errors.
    """
    done = await _done(clock, max(0, duration_ms), work)
    if done is None:
        raise late()
    return done.result()


async def _done(
    clock: Clock, duration_ms: int, work: Coroutine[Any, Any, T]
) -> asyncio.Future[T] | None:
    doing = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(clock.sleep(duration_ms))
    try:
        await asyncio.wait((doing, waiting), return_when=asyncio.FIRST_COMPLETED)
        finished = doing.done()
    finally:
        doing.cancel()
        waiting.cancel()
        await asyncio.wait((doing, waiting))
    return doing if finished else None


def _steady_s() -> float:
    """A clock that nobody sets, and that goes on while the machine sleeps where there is one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class SetClock:
    """By how much the wall clock was set since this was made.

    For what goes by the time of day all the same, as Spark's triggers and the ages of files: where
    it is set back by an hour, a trigger is an hour late; where it is set forward by a month, files
    seem a month old that a reader has just begun to read.
    """

    def __init__(
        self,
        wall_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = _steady_s,
    ) -> None:
        self._wall_s = wall_s
        self._steady_s = steady_s
        self._apart_s = wall_s() - steady_s()
        self._least_s = self._most_s = 0.0

    def is_behind(self) -> bool:
        """Whether it shows less than it would by the farthest that it was ahead at a look."""
        return self._most_s - self._look() >= _LEAST_STEP_S

    def ahead_ms(self) -> int:
        """How much older things seem than they are, at the most, that were made between looks."""
        ahead_s = self._look() - self._least_s
        return int(ahead_s * 1000) if ahead_s >= _LEAST_STEP_S else 0

    def _look(self) -> float:
        now_s = self._wall_s() - self._steady_s() - self._apart_s
        self._least_s = min(self._least_s, now_s)
        self._most_s = max(self._most_s, now_s)
        return now_s
