"""Time as an argument, so that tests turn it by hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

#: A wall clock that moved by so much against the monotonic one was set.
STEP_MS: Final = 5


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
