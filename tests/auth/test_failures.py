"""Failed logins, counted by where they come from."""

from __future__ import annotations

from rocketpipe.auth.failures import (
    MAX_ADDRESSES,
    MAX_FROM_ADDRESS,
    WINDOW_MS,
    Failures,
    neighbourhood,
)
from rocketpipe.testing.clock import ManualClock


async def test_an_address_of_many_failures_is_known_for_a_minute() -> None:
    clock = ManualClock()
    failures = Failures(clock)
    for _ in range(MAX_FROM_ADDRESS - 1):
        failures.failed("10.0.0.7", "x")
    assert not failures.is_flooded("10.0.0.7")
    failures.failed("10.0.0.7", "x")
    assert failures.is_flooded("10.0.0.7")
    assert not failures.is_flooded("10.0.0.8")
    await clock.advance(WINDOW_MS)
    assert not failures.is_flooded("10.0.0.7")
    assert failures.totals == {"x": MAX_FROM_ADDRESS}


async def test_an_address_of_a_failure_now_and_then_is_not() -> None:
    clock = ManualClock()
    failures = Failures(clock)
    for _ in range(5):
        for _ in range(MAX_FROM_ADDRESS - 1):
            failures.failed("10.0.0.7", "x")
        await clock.advance(WINDOW_MS)
        assert not failures.is_flooded("10.0.0.7")


def test_only_so_many_addresses_are_remembered() -> None:
    failures = Failures(ManualClock())
    for number in range(MAX_ADDRESSES + 100):
        failures.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "x")
    assert len(failures) == MAX_ADDRESSES


def test_a_network_of_ipv6_is_one_source() -> None:
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::ffff") == "2001:db8::/64"
    assert neighbourhood("::ffff:10.0.0.7") == "10.0.0.7"
    assert neighbourhood("unknown") == "unknown"
