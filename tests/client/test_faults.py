"""Which brokers are avoided, and for how long."""

from __future__ import annotations

import random

import pytest

from rocketpipe.client.faults import PROBE_EVERY_MS, FaultTable, Variant
from rocketpipe.testing import ManualClock


def table(variant: Variant, clock: ManualClock, **limits: int) -> FaultTable:
    return FaultTable(variant.value, clock, random.Random(1), **limits)


@pytest.mark.parametrize(
    ("latency_ms", "v4_ms", "v5_ms"),
    [
        (0, 0, 0),
        (50, 0, 0),
        (100, 0, 0),
        (549, 0, 0),
        (550, 30_000, 2000),
        (600, 30_000, 2000),
        (1000, 60_000, 2000),
        (1800, 60_000, 5000),
        (2000, 120_000, 5000),
        (3000, 180_000, 6000),
        (5000, 180_000, 10_000),
        (14_999, 180_000, 10_000),
        (15_000, 600_000, 30_000),
        (30_000, 600_000, 30_000),
    ],
)
def test_a_slow_send_has_its_broker_avoided_by_the_table(
    latency_ms: int, v4_ms: int, v5_ms: int
) -> None:
    assert Variant.V4.value.avoided_ms(latency_ms) == v4_ms
    assert Variant.V5.value.avoided_ms(latency_ms) == v5_ms


def test_a_failure_counts_whatever_time_it_took() -> None:
    assert Variant.V4.value.avoided_ms(1, failed=True) == 600_000
    assert Variant.V5.value.avoided_ms(1, failed=True) == 10_000


async def test_a_broker_is_available_again_at_the_very_millisecond() -> None:
    clock = ManualClock()
    faults = table(Variant.V4, clock)
    assert faults.is_available("a")
    faults.note("a", 600)
    assert not faults.is_available("a")
    await clock.advance(29_999)
    assert not faults.is_available("a")
    await clock.advance(1)
    assert faults.is_available("a")


async def test_4_9_believes_the_last_send_and_5_x_the_worst() -> None:
    clock = ManualClock()
    old, new = table(Variant.V4, clock), table(Variant.V5, clock)
    for faults in (old, new):
        faults.note("a", 15_000)
        faults.note("a", 10)
    assert old.is_available("a")
    assert not new.is_available("a")
    await clock.advance(30_000)
    assert new.is_available("a")


def test_5_x_knows_who_refused_until_a_send_goes_well() -> None:
    faults = table(Variant.V5, ManualClock())
    assert faults.is_reachable("a")
    faults.note("a", 5, failed=True, reachable=False)
    assert not faults.is_reachable("a")
    faults.note("a", 5)
    assert faults.is_reachable("a")
    assert not faults.is_available("a")  # that ends by time alone


async def test_the_better_half_is_available_then_faster_then_sooner_back() -> None:
    clock = ManualClock()
    faults = table(Variant.V4, clock)
    faults.note("slow", 700)
    faults.note("slower", 2500)
    await clock.advance(1)
    faults.note("slow-later", 700)
    faults.note("fine", 40)
    picks = {faults.pick_at_least_one() for _ in range(20)}
    assert picks == {"fine", "slow"}


def test_one_broker_is_picked_when_there_is_one_and_none_of_none() -> None:
    faults = table(Variant.V4, ManualClock())
    assert faults.pick_at_least_one() is None
    faults.note("a", 20_000)
    assert faults.pick_at_least_one() == "a"
    faults.forget("a")
    assert faults.pick_at_least_one() is None
    faults.forget("a")


def test_equal_brokers_take_turns() -> None:
    faults = table(Variant.V4, ManualClock())
    for name in "abcd":
        faults.note(name, 700)
    assert {faults.pick_at_least_one() for _ in range(100)} == set("abcd")


async def test_a_broker_is_probed_only_while_it_is_unreachable_and_not_too_often() -> None:
    clock = ManualClock()
    faults = table(Variant.V5, clock)
    faults.note("a", 1, failed=True, reachable=False)
    faults.note("b", 1, failed=True)
    assert faults.to_probe() == []
    await clock.advance(PROBE_EVERY_MS)
    assert faults.to_probe() == ["a"]
    assert faults.to_probe() == []
    await clock.advance(PROBE_EVERY_MS)
    assert faults.to_probe() == ["a"]
    faults.answered("a")
    faults.answered("never seen")
    await clock.advance(PROBE_EVERY_MS)
    assert faults.to_probe() == []
    assert faults.is_reachable("a")


def test_of_too_many_brokers_the_oldest_is_forgotten() -> None:
    faults = table(Variant.V4, ManualClock(), max_brokers=2)
    for name in "abc":
        faults.note(name, 20_000)
    assert [faults.is_available(name) for name in "abc"] == [True, False, False]
    faults.retain(lambda name: name == "c")
    assert faults.is_available("b")
    assert not faults.is_available("c")
