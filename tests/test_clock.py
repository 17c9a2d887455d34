"""The machine's clock."""

from __future__ import annotations

from rocketpipe.clock import SystemClock


async def test_a_sleep_lasts_at_least_as_long_as_asked() -> None:
    clock = SystemClock()
    before = clock.monotonic_ms()
    await clock.sleep(2)
    assert clock.monotonic_ms() - before >= 1


def test_wall_time_is_milliseconds_since_1970() -> None:
    assert 1_700_000_000_000 < SystemClock().now_ms() < 10_000_000_000_000
