"""The machine's clock, and waiting no longer than a clock says."""

from __future__ import annotations

import asyncio

import pytest

from rocketpipe.clock import SetClock, SystemClock, in_time, within
from rocketpipe.testing import ManualClock


async def test_a_sleep_lasts_at_least_as_long_as_asked() -> None:
    clock = SystemClock()
    before = clock.monotonic_ms()
    await clock.sleep(2)
    assert clock.monotonic_ms() - before >= 1


def test_wall_time_is_milliseconds_since_1970() -> None:
    assert 1_700_000_000_000 < SystemClock().now_ms() < 10_000_000_000_000


async def test_waiting_ends_with_the_work_or_with_the_time() -> None:
    clock = ManualClock()
    event = asyncio.Event()
    cancelled = []

    async def work() -> None:
        try:
            await event.wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    late = asyncio.create_task(within(clock, 100, work()))
    while not clock._sleepers:  # noqa: ASYNC110 - the condition is the clock's, not ours
        await asyncio.sleep(0)
    await clock.advance(100)
    assert await late is False
    assert cancelled == [True]
    event.set()
    assert await within(clock, 100, work()) is True


async def test_what_the_work_raises_comes_out() -> None:
    async def fails() -> None:
        raise KeyError("id")

    with pytest.raises(KeyError):
        await within(ManualClock(), 100, fails())


async def test_work_gives_what_it_came_to_or_is_cut_off_at_its_time() -> None:
    clock = ManualClock()
    ended = asyncio.Event()

    async def work() -> int:
        try:
            await clock.sleep(100)
            return 7
        finally:
            ended.set()

    async def both_wait() -> None:
        while sum(not each[2].done() for each in clock._sleepers) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)

    doing = asyncio.create_task(in_time(clock, 100, work(), TimeoutError))
    await both_wait()
    await clock.advance(100)
    assert await doing == 7
    ended.clear()
    slow = asyncio.create_task(in_time(clock, 99, work(), TimeoutError))
    await both_wait()
    await clock.advance(99)
    with pytest.raises(TimeoutError):
        await slow
    await ended.wait()


class Hands:
    """Two clocks, of which one is set."""

    def __init__(self) -> None:
        self.wall_s, self.steady_s = 1_000_000.0, 50.0
        self.clock = SetClock(lambda: self.wall_s, lambda: self.steady_s)

    def go(self, seconds: float, set_s: float = 0) -> None:
        self.wall_s += seconds + set_s
        self.steady_s += seconds


def test_time_that_passes_is_not_a_clock_that_is_set() -> None:
    hands = Hands()
    hands.go(90_000, 0.3)
    assert not hands.clock.is_behind()
    assert hands.clock.ahead_ms() == 0
    hands.go(90_000, -0.9)
    assert not hands.clock.is_behind()
    assert hands.clock.ahead_ms() == 0


def test_a_clock_that_is_set_back_is_behind_until_it_is_right_again() -> None:
    hands = Hands()
    hands.go(1, -3600)
    assert hands.clock.is_behind()
    hands.go(1, 3600)
    assert not hands.clock.is_behind()
    hands.go(1, 3600)
    assert not hands.clock.is_behind()
    hands.go(1, -3600)  # it is right, and behind what it has shown
    assert hands.clock.is_behind()


def test_what_was_made_while_it_was_behind_seems_older_by_that() -> None:
    hands = Hands()
    hands.go(1, 3600)
    assert hands.clock.ahead_ms() == 3_600_000
    hands.go(1, -2 * 3600)
    assert hands.clock.ahead_ms() == 0
    hands.go(1, 3600)
    assert hands.clock.ahead_ms() == 3_600_000
