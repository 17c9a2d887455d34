"""Times in the log go by the clock, however wrong that was for a while."""

from __future__ import annotations

import pytest
from tests.broker.support.stepped_clock import HOUR_MS, SteppedClock

from rocketpipe.store.log.store_times import MAX_LEAD_MS, StoreTimes


def stored(times: StoreTimes) -> int:
    at_ms = times.next()
    times.stored(at_ms)
    return at_ms


def test_a_clock_that_goes_back_a_little_takes_no_time_back() -> None:
    clock = SteppedClock()
    times = StoreTimes(clock, 0)
    first = stored(times)
    clock.step(-MAX_LEAD_MS)
    assert stored(times) == first
    clock.step(MAX_LEAD_MS + 1)
    assert stored(times) == first + 1
    assert times.corrections == 0


def test_a_clock_that_was_ahead_for_one_message_shifts_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = SteppedClock()
    times = StoreTimes(clock, 0)
    first = stored(times)
    clock.step(24 * HOUR_MS)
    assert stored(times) == first + 24 * HOUR_MS
    clock.step(-24 * HOUR_MS)
    assert [stored(times), stored(times)] == [first, first]
    assert times.corrections == 1
    assert f"lead_ms={24 * HOUR_MS}" in caplog.text


def test_a_clock_that_was_ahead_in_the_last_run_is_told_of_and_not_followed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = SteppedClock()
    times = StoreTimes(clock, clock.now_ms() + HOUR_MS)
    assert f"lead_ms={HOUR_MS}" in caplog.text
    assert stored(times) == clock.now_ms()


async def test_a_clock_that_is_set_again_and_again_is_told_of_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = SteppedClock()
    times = StoreTimes(clock, 0)
    for number in range(20):
        clock.step(-HOUR_MS if number % 2 else HOUR_MS)
        stored(times)
    assert times.corrections == 10
    assert caplog.text.count("have it set by NTP") == 1
    await clock.advance(60_000)
    clock.step(-HOUR_MS)
    stored(times)
    assert caplog.text.count("have it set by NTP") == 2
