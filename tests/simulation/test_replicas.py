"""Three replicas of the product in one simulated world, and what their clients were promised.

``ROCKETPIPE_REPLICA_SEEDS`` says how many seeds are tried, four hundred unless told otherwise: the
faults that are planted below are found within three hundred, and `make soak` tries a hundred
thousand. One that failed is seen again, with what the brokers said, by
``python -m tests.simulation.replay``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from tests.simulation.support.replica_mutants import MUTANTS, Mutant
from tests.simulation.support.replica_run import BROKERS, LOOPS, Broken, ReplicaRun

SEEDS = int(os.environ.get("ROCKETPIPE_REPLICA_SEEDS", "400"))
PARTS = 8  # so that several processes share them
#: Within so many seeds each planted fault is found.
MUTANT_SEEDS = 300


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Brokers that die by the hundred say more than anybody reads."""
    level = BROKERS.level
    BROKERS.setLevel(logging.ERROR)
    monkeypatch.setattr(BROKERS, "propagate", False)
    monkeypatch.setattr(LOOPS, "propagate", False)
    yield
    BROKERS.setLevel(level)


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_what_was_promised_is_kept_and_all_logs_are_one_in_the_end(
    part: int,
) -> None:
    acks = elections = 0
    for seed in range(part, SEEDS, PARTS):
        run = ReplicaRun(seed)
        run.run()
        acks += len(run.promises.acked)
        elections += len(run.ensemble.elected)
    assert acks > 20 * SEEDS // PARTS, "the runs had something to lose"
    assert elections > 3 * SEEDS // PARTS // 2, "and chances to lose it"


@pytest.mark.parametrize("mode", "ABCD")
def test_a_seed_runs_the_same_way_twice(mode: str) -> None:
    first, second = ReplicaRun(7, mode=mode), ReplicaRun(7, mode=mode)
    first.run()
    second.run()
    assert first.story == second.story
    assert first.promises.acked == second.promises.acked
    assert first.loop.turns == second.loop.turns


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_fault_turns_a_run_red(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    planted = MUTANTS[mutant]
    for seed in range(planted.first, planted.first + MUTANT_SEEDS):
        try:
            ReplicaRun(seed, mode=planted.mode, **planted.aim).run()
        except Broken:
            return
    pytest.fail("nothing was found")
