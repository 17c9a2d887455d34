from __future__ import annotations

import asyncio
from datetime import UTC

import pytest

from rocketpipe.broker.stats import DAY_MS, HOUR_MS, MINUTE_MS, Span, Stats
from rocketpipe.testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)  # 22:13 in Greenwich


@pytest.fixture
def stats(clock: ManualClock) -> Stats:
    return Stats(clock, max_keys=2, zone=UTC)


def test_a_span_lets_go_of_what_is_too_old() -> None:
    span = Span(10_000, 6)
    span.add(5_000, 7)
    span.add(65_000, 1)
    assert span.total(65_000) == 8
    assert span.total(65_000, 10_000) == 1
    assert span.total(75_000) == 1
    assert span.total(10_000_000) == 0


def test_a_span_that_nobody_touched_for_long_is_empty() -> None:
    span = Span(10_000, 6)
    for step in range(7):
        span.add(step * 10_000, 1)
    assert span.total(60_000) == 7
    assert span.total(60_000 + 7 * 10_000) == 0


async def test_rates_are_over_ten_seconds_a_minute_and_ten(
    clock: ManualClock, stats: Stats
) -> None:
    for _ in range(60):
        stats.put("t", 10, 1000)
        stats.settle()
        await clock.advance(10_000)
    at_ms = stats.now_ms
    assert stats.puts.rate(at_ms, 10_000) == pytest.approx(1.0)
    assert stats.puts.rate(at_ms, MINUTE_MS) == pytest.approx(1.0)
    assert stats.puts.rate(at_ms, 10 * MINUTE_MS) == pytest.approx(1.0)
    await clock.advance(MINUTE_MS)
    assert stats.puts.rate(stats.now_ms, 10_000) == 0
    assert stats.puts.rate(stats.now_ms, 10 * MINUTE_MS) == pytest.approx(0.9)


async def test_a_young_broker_does_not_divide_by_time_that_never_was(
    clock: ManualClock, stats: Stats
) -> None:
    stats.put("t", 4, 1)
    assert stats.topic_rate("t") == 4.0
    await clock.advance(2000)
    assert stats.topic_rate("t") == 2.0


def test_topics_and_groups_are_counted_apart(stats: Stats) -> None:
    stats.put("t", 3, 300)
    stats.get("g", "t", 2, 200)
    stats.get("h", "t", 1, 100)
    stats.miss()
    stats.sent_back("g", "t")
    topic, group, back = stats.of_topic("t"), stats.of_group("g", "t"), stats.of_sent_back("g", "t")
    assert topic is not None
    assert (topic.count, topic.bytes) == (3, 300)
    assert group is not None
    assert (group.count, group.bytes) == (2, 200)
    assert back is not None
    assert back.count == 1
    assert (stats.gets.count, stats.found.count, stats.missed.count) == (3, 2, 1)
    stats.forget_topic("t")
    assert stats.of_topic("t") is stats.of_group("g", "t") is stats.of_sent_back("g", "t") is None


def test_more_keys_than_there_is_room_for_count_in_sum_alone(stats: Stats) -> None:
    for name in ("a", "b", "c"):
        stats.put(name, 1, 1)
        stats.get("g", name, 1, 1)
    assert stats.puts.count == stats.gets.count == 3
    assert stats.of_topic("c") is stats.of_group("g", "c") is None


async def test_what_was_idle_for_a_day_makes_room(clock: ManualClock, stats: Stats) -> None:
    stats.put("a", 1, 1)
    stats.get("g", "a", 1, 1)
    stats.settle()
    await clock.advance(DAY_MS + 1)
    stats.settle()
    assert stats.of_topic("a") is stats.of_group("g", "a") is None
    assert stats.puts.count == 1


async def test_mornings_are_counted_at_midnight(clock: ManualClock, stats: Stats) -> None:
    stats.put("a", 5, 1)
    stats.settle()
    await clock.advance(2 * HOUR_MS)  # past midnight
    stats.settle()
    stats.put("a", 2, 1)
    stats.settle()
    assert (stats.put_days.yesterday_morning, stats.put_days.this_morning) == (0, 5)
    await clock.advance(DAY_MS)
    stats.settle()
    assert (stats.put_days.yesterday_morning, stats.put_days.this_morning) == (5, 7)


def test_times_of_storing_are_told_in_steps(stats: Stats) -> None:
    for took_ms in (0, 0, 0, 7, 70, 20_000):
        stats.stored_in(took_ms)
    assert "[<=0ms]:3 [0~10ms]:1 [10~50ms]:0 [50~100ms]:1" in stats.put_times()
    assert stats.put_times().endswith("[10s~]:1")
    assert stats.slowest_put_ms == 20_000
    assert stats.put_time_below(0.5) == 0
    assert stats.put_time_below(0.6) == 10
    assert stats.put_time_below(0.999) == 20_000


async def test_counts_are_settled_while_the_broker_runs(clock: ManualClock, stats: Stats) -> None:
    running = asyncio.ensure_future(stats.keep_settled())
    await asyncio.sleep(0)
    stats.put("a", 60, 1)
    await clock.advance(10_000)
    tally = stats.of_topic("a")
    assert tally is not None
    assert tally.minute.total(stats.now_ms) == 60
    running.cancel()
