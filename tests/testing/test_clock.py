"""The clock that tests turn."""

from __future__ import annotations

import asyncio

from rocketpipe.testing import ManualClock


async def test_sleepers_wake_in_the_order_of_their_deadlines_at_their_own_moments() -> None:
    clock = ManualClock(now_ms=1000)
    woken: list[tuple[str, int]] = []

    async def sleeper(name: str, duration_ms: int) -> None:
        await clock.sleep(duration_ms)
        woken.append((name, clock.now_ms()))

    tasks = [asyncio.create_task(sleeper("late", 50)), asyncio.create_task(sleeper("early", 20))]
    await asyncio.sleep(0)
    await clock.advance(19)
    assert woken == []
    await clock.advance(100)
    assert woken == [("early", 1020), ("late", 1050)]
    assert clock.now_ms() == 1119
    await asyncio.gather(*tasks)


async def test_who_sleeps_again_on_waking_is_woken_again_within_one_advance() -> None:
    clock = ManualClock()
    ticks: list[int] = []

    async def ticker() -> None:
        while True:
            await clock.sleep(10)
            ticks.append(clock.monotonic_ms())

    task = asyncio.create_task(ticker())
    await asyncio.sleep(0)
    await clock.advance(35)
    assert ticks == [10, 20, 30]
    task.cancel()
