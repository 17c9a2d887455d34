"""Clocks of two replicas that are apart are told of, once."""

from __future__ import annotations

import pytest

from rocketpipe.broker.replication.following.leader_clock import MAX_APART_MS, LeaderClock
from rocketpipe.testing import ManualClock

HOUR_MS = 3_600_000


@pytest.mark.parametrize(("by_ms", "word"), [(HOUR_MS, "ahead of"), (-HOUR_MS, "behind")])
async def test_a_leader_whose_clock_is_apart_is_told_of_once(
    by_ms: int, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    leader = LeaderClock("h:1", clock)
    leader.stored(100, clock.now_ms() + by_ms)  # before it was heard of
    leader.greeted(1000)
    leader.stored(1000, clock.now_ms() + by_ms)  # whoever stored that, whenever
    assert caplog.messages == []
    for end in (1001, 1002):
        leader.stored(end, clock.now_ms() + by_ms)
    (line,) = caplog.messages
    assert f"{word} this machine's by 3600 s" in line


async def test_what_was_on_its_way_for_long_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    leader = LeaderClock("h:1", clock)
    leader.greeted(1000)
    stored_ms = clock.now_ms() - MAX_APART_MS
    await clock.advance(HOUR_MS)
    leader.stored(2000, stored_ms)
    leader.stored(3000, clock.now_ms() + MAX_APART_MS)
    assert caplog.messages == []
