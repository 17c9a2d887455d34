"""Pulls that wait."""

from __future__ import annotations

import asyncio

from rocketpipe.broker.delivery.long_poll import WaitingPulls


async def test_an_arrival_wakes_all_who_wait_for_its_queue_and_nobody_else() -> None:
    waiting = WaitingPulls()
    first = asyncio.create_task(waiting.grown("t", 0, 60_000))
    second = asyncio.create_task(waiting.grown("t", 0, 60_000))
    other = asyncio.create_task(waiting.grown("t", 1, 60_000))
    await asyncio.sleep(0)
    waiting.notify("t", 0)
    assert await first
    assert await second
    assert not other.done()
    other.cancel()


async def test_the_time_may_be_up_first() -> None:
    assert not await WaitingPulls().grown("t", 0, 1)


async def test_nobody_who_left_is_remembered() -> None:
    waiting = WaitingPulls()
    task = asyncio.create_task(waiting.grown("t", 0, 60_000))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert not waiting._waiting
