"""What was long on its way is told from what comes from a clock that is off."""

from __future__ import annotations

import gc

import pytest
from tests.broker.support.stepped_clock import SteppedClock

from rocketpipe.broker.features.popping.request_ages import TOO_LATE_MS, RequestAges

WAIT_MS = 15_000


class Peer:
    """Somebody who asks."""


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 0, 3_600_000])
async def test_a_clock_that_is_off_makes_no_request_late(ahead_ms: int) -> None:
    clock, peer = SteppedClock(), Peer()
    ages = RequestAges(clock)
    for _ in range(3):
        born_ms = clock.now_ms() + ahead_ms
        assert not ages.is_late(peer, born_ms, 0)
        assert ages.age_ms(peer, born_ms) == 0
        await clock.advance(100)
        assert ages.age_ms(peer, born_ms) == 100
    born_ms = clock.now_ms() + ahead_ms
    await clock.advance(WAIT_MS + TOO_LATE_MS + 1)
    assert ages.is_late(peer, born_ms, WAIT_MS)


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
async def test_a_clock_that_is_set_makes_one_request_late_at_the_most(step_ms: int) -> None:
    clock, peer = SteppedClock(), Peer()
    ages = RequestAges(clock)
    assert not ages.is_late(peer, clock.now_ms(), WAIT_MS)
    clock.step(step_ms)
    ages.is_late(peer, clock.now_ms() - step_ms, WAIT_MS)
    assert not ages.is_late(peer, clock.now_ms() - step_ms, WAIT_MS)
    assert ages.age_ms(peer, clock.now_ms() - step_ms) == 0


@pytest.mark.parametrize("step_ms", [-10_000, -WAIT_MS - TOO_LATE_MS // 2])
async def test_a_clock_that_is_set_back_by_a_wait_does_not_shorten_waits_for_long(
    step_ms: int,
) -> None:
    clock, peer = SteppedClock(), Peer()
    ages = RequestAges(clock)
    for _ in range(3):
        assert ages.age_ms(peer, clock.now_ms()) == 0
        await clock.advance(WAIT_MS)
    assert not ages.is_late(peer, clock.now_ms() + step_ms, WAIT_MS)
    for _ in range(4):
        await clock.advance(WAIT_MS)
        ages.age_ms(peer, clock.now_ms() + step_ms)
    assert ages.age_ms(peer, clock.now_ms() + step_ms) == 0


def test_who_does_not_say_is_not_late_and_who_left_is_forgotten() -> None:
    ages = RequestAges(SteppedClock())
    peer = Peer()
    assert not ages.is_late(peer, 0, WAIT_MS)
    assert ages.age_ms(peer, 5) == 0
    assert len(ages._behind) == 1
    del peer
    gc.collect()
    assert len(ages._behind) == 0
