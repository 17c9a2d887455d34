from __future__ import annotations

import pytest

from rocketpipe.client.consumer.handling.handler_stats import HandlerStats
from rocketpipe.testing.clock import ManualClock


async def test_the_last_minute_counts_and_failures_are_kept_in_sum() -> None:
    clock = ManualClock()
    counts = HandlerStats(clock)
    counts.count("t", 3, 4, clock.monotonic_ms() - 40)
    await clock.advance(5_000)
    rates = counts.rates()["t"]
    assert rates.consume_ok_tps == pytest.approx(3 / 55)
    assert rates.consume_failed_tps == pytest.approx(1 / 55)
    assert rates.consume_rt == 10
    await clock.advance(120_000)
    later = counts.rates()["t"]
    assert (later.consume_ok_tps, later.consume_failed_msgs) == (0.0, 1)
    counts.count("t", 1, 1, clock.monotonic_ms())
    assert counts.rates()["t"].consume_ok_tps > 0


def test_topics_are_counted_apart() -> None:
    counts = HandlerStats(ManualClock())
    counts.count("a", 1, 1, 0)
    counts.count("b", 0, 1, 0)
    rates = counts.rates()
    assert rates["a"].consume_failed_msgs == 0
    assert rates["b"].consume_failed_msgs == 1
