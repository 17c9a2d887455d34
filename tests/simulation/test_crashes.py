"""The promises of each mode, over lives that end as badly as a seed can make them.

``ROCKETPIPE_CRASH_SEEDS`` says how many seeds are tried, a thousand unless told otherwise.
"""

from __future__ import annotations

import os

import pytest

from rocketpipe.store.config import FlushMode
from rocketpipe.testing.simulation.simulation import StoreRun

SEEDS = int(os.environ.get("ROCKETPIPE_CRASH_SEEDS", "1000"))
PARTS = 4  # so that several processes share them
ONCE_FAILING: dict[FlushMode, list[int]] = {
    FlushMode.ASYNC: [787, 1423, 3207, 3240, 3725],
    FlushMode.SYNC: [1402, 1423, 1715, 3725],
}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("flush", FlushMode)
def test_the_promises_of_the_mode_hold_over_crashes(flush: FlushMode, part: int) -> None:
    for seed in range(part, SEEDS // 2, PARTS):
        StoreRun(seed, flush).run()


@pytest.mark.parametrize("flush", FlushMode)
def test_the_promises_hold_whenever_syncs_are_done_beside_the_store(flush: FlushMode) -> None:
    for seed in range(SEEDS // 10):
        StoreRun(seed, flush, late=True).run()


@pytest.mark.parametrize("flush", FlushMode)
def test_seeds_that_once_failed_stay_good(flush: FlushMode) -> None:
    for seed in ONCE_FAILING[flush]:
        StoreRun(seed, flush).run()


@pytest.mark.parametrize("flush", FlushMode)
def test_a_seed_runs_the_same_way_twice(flush: FlushMode) -> None:
    for seed in range(0, 200, 50):
        first, second = StoreRun(seed, flush), StoreRun(seed, flush)
        first.run()
        second.run()
        assert first.user.story == second.user.story
        assert first.disk.trace == second.disk.trace
