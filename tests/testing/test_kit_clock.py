"""The clock of the test kit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from rocketpipe.testing.kit_clock import HOPS, KitClock, in_ms

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("written", "millis"),
    [
        ("16m", 960_000),
        ("1.5h", 5_400_000),
        (" 250 ms ", 250),
        ("3d", 259_200_000),
        (1234, 1234),
        (timedelta(seconds=2), 2000),
        (0, 0),
    ],
)
def test_a_duration_may_be_text_a_number_or_a_timedelta(written: object, millis: int) -> None:
    assert in_ms(written) == millis  # type: ignore[arg-type]


@pytest.mark.parametrize("written", ["", "16", "m", "16 minutes", "1e3s", "-5s", "٣s"])
def test_what_is_no_duration_is_named_with_what_would_be_one(written: str) -> None:
    with pytest.raises(ValueError, match="16m"):
        KitClock().advance(written)


@pytest.mark.parametrize("back", [-1, timedelta(seconds=-1)])
def test_time_does_not_run_backwards(back: int | timedelta) -> None:
    with pytest.raises(ValueError, match="backwards"):
        KitClock().advance(back)


def test_both_readings_leap_and_time_goes_on_from_there() -> None:
    clock = KitClock()
    wall, mono = clock.now_ms(), clock.monotonic_ms()
    clock.advance("1h")
    assert clock.now_ms() >= wall + HOUR_MS
    assert clock.monotonic_ms() >= mono + HOUR_MS
    assert clock.monotonic_ms() - mono == pytest.approx(HOUR_MS, abs=60_000)


async def test_a_sleeper_wakes_by_itself_when_nobody_turns_the_clock() -> None:
    clock = KitClock()
    before_ms = clock.monotonic_ms()
    await clock.sleep(5)
    assert clock.monotonic_ms() >= before_ms + 5
    await clock.sleep(0)


async def test_sleepers_wake_in_order_never_early_and_hardly_late() -> None:
    clock = KitClock()
    woken: list[tuple[str, int]] = []
    start_ms = clock.monotonic_ms()

    async def sleeper(name: str, duration_ms: int) -> None:
        await clock.sleep(duration_ms)
        woken.append((name, clock.monotonic_ms() - start_ms))

    tasks = [
        asyncio.create_task(sleeper(name, duration_ms))
        for name, duration_ms in (("late", 3 * HOUR_MS), ("early", HOUR_MS), ("never", 9 * HOUR_MS))
    ]
    await asyncio.sleep(0)
    await clock.advance("4h")
    assert [name for name, _ in woken] == ["early", "late"]
    for (_, at_ms), due_ms in zip(woken, (HOUR_MS, 3 * HOUR_MS), strict=True):
        assert due_ms <= at_ms <= due_ms + 4 * HOUR_MS // HOPS + 60_000
    tasks[-1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_who_sleeps_again_is_woken_again_within_one_advance_a_bounded_number_of_times() -> (
    None
):
    clock = KitClock()
    ticks = 0

    async def ticker() -> None:
        nonlocal ticks
        while True:
            await clock.sleep(1)
            ticks += 1

    task = asyncio.create_task(ticker())
    await asyncio.sleep(0)
    await clock.advance("1d")
    assert ticks >= HOPS // 2
    task.cancel()


async def test_who_was_not_due_yet_sleeps_only_what_is_left() -> None:
    clock = KitClock()
    task = asyncio.create_task(clock.sleep(HOUR_MS))
    await asyncio.sleep(0)
    await clock.advance(HOUR_MS - 20)
    async with asyncio.timeout(30):  # without a new timer it would be an hour
        await task


async def test_a_leap_waits_until_nothing_stirs() -> None:
    clock = KitClock()
    start_ms = clock.monotonic_ms()

    async def busy() -> int:
        for _ in range(500):
            clock.stir()
            await asyncio.sleep(0)
        return clock.monotonic_ms()

    sleeping = asyncio.create_task(clock.sleep(2 * HOUR_MS))
    working = asyncio.create_task(busy())
    await asyncio.sleep(0)
    await clock.advance("1h")
    assert await working < start_ms + HOUR_MS // HOPS
    sleeping.cancel()


async def test_who_never_is_quiet_does_not_stop_time() -> None:
    clock = KitClock()

    async def restless() -> None:
        while True:
            clock.stir()
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(clock.sleep(HOUR_MS)), asyncio.create_task(restless())]
    await asyncio.sleep(0)
    await clock.advance("1h")
    assert tasks[0].done()
    tasks[1].cancel()


@contextmanager
def another_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_sleepers_of_other_loops_have_run_when_a_plain_call_returns() -> None:
    clock = KitClock()
    woken: list[int] = []

    async def chain() -> None:
        for number in range(3):
            await clock.sleep(HOUR_MS)
            woken.append(number)

    with another_loop() as loop:
        task = asyncio.run_coroutine_threadsafe(chain(), loop)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(30)
        clock.advance("2.5h")
        assert woken == [0, 1]
        clock.advance("1h")
        assert woken == [0, 1, 2]
        task.result(30)


def test_a_loop_that_is_blocked_holds_nobody_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpipe.testing.kit_clock._TURN_TIMEOUT_S", 0.01)
    clock = KitClock()
    go_on = threading.Event()
    with another_loop() as loop:
        task = asyncio.run_coroutine_threadsafe(clock.sleep(HOUR_MS), loop)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(30)
        loop.call_soon_threadsafe(go_on.wait, 30)
        clock.advance("2h")  # comes back although that loop stands still
        assert not task.done()
        go_on.set()
        task.result(30)


def test_a_sleeper_whose_loop_was_closed_is_passed_over() -> None:
    clock = KitClock()
    loop = asyncio.new_event_loop()
    sleeping = loop.create_task(clock.sleep(HOUR_MS))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    clock.advance("2h")
    assert not sleeping.done()
    sleeping.get_coro().close()  # type: ignore[union-attr]
    sleeping._log_destroy_pending = False  # type: ignore[attr-defined]


def test_the_wall_is_the_machines() -> None:
    assert abs(KitClock().now_ms() - time.time_ns() // 1_000_000) < 60_000
