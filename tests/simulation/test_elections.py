"""Real role keepers under sessions that end, processes that stand still and networks that part.

``ROCKETPIPE_ELECTION_SEEDS`` says how many seeds are tried.
"""

from __future__ import annotations

import os

import pytest
from tests.broker.replication.support.sim_group import SimGroup

SEEDS = int(os.environ.get("ROCKETPIPE_ELECTION_SEEDS", "45"))
PARTS = 3
STEPS = 12


async def _walk(seed: int) -> SimGroup:
    """Things go wrong for a while, then all is well again: somebody leads, and all follow."""
    async with SimGroup(seed, late_ms=40, watches_lost=0.2) as group:
        chance = group.chance
        for replica in group.replicas.values():
            replica.start()
        for _ in range(STEPS):
            replica = group[chance.choice(list(group.replicas))]
            match chance.randrange(10):
                case 0 if replica.alive:
                    await replica.kill()
                case 1 if not replica.alive:
                    replica.start()
                case 2 if replica.alive and not replica.paused:
                    replica.pause()
                case 3 if replica.paused:
                    replica.resume()
                case 4 if replica.alive:
                    replica.coordinator.cut()
                case 5 if replica.alive:
                    replica.coordinator.heal()
                case 6:
                    replica.linked = not replica.linked
                case 7:
                    (group.ensemble.stop if group.ensemble.up else group.ensemble.start)()
                case 8 if (leader := group.leader) is not None:
                    leader.resign_soon(chance.choice([None, *group.replicas]))
                case 9 if replica.alive and _others_have_all(group, replica.id):
                    await replica.crash(lost=chance.randrange(30))
            await group.turn(chance.choice((10, 50, 200, 700, 1_500, 3_000)))
        group.ensemble.start()
        for replica in group.replicas.values():
            if replica.paused:
                replica.resume()
            if not replica.alive:
                replica.start()
            replica.linked = True
            replica.coordinator.heal()
        await group.until(lambda: len(group.ensemble.state().in_sync) == len(group.replicas))
        epochs = [leader.epoch for leader in group.ensemble.elected]
        assert epochs == sorted(set(epochs)), "epochs only grow"
        acked = len(group.acked)
        await group.until(lambda: len(group.acked) > acked)
        return group


def _others_have_all(group: SimGroup, id_: int) -> bool:
    """Whether it may lose its log's end: the promise is about the others in the set."""
    others = group.ensemble.state().in_sync - {id_}
    return any(group[other].clean for other in others)


@pytest.mark.parametrize("part", range(PARTS))
async def test_what_was_acknowledged_stays_and_somebody_leads_when_all_is_well(part: int) -> None:
    elections = acks = 0
    for seed in range(part, SEEDS, PARTS):
        try:
            group = await _walk(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        elections += len(group.ensemble.elected)
        acks += len(group.acked)
    assert elections > 2 * SEEDS // PARTS, "the walks had elections to survive"
    assert acks > 50 * SEEDS // PARTS


async def test_a_seed_runs_the_same_way_twice() -> None:
    first, second = await _walk(7), await _walk(7)
    assert first.ensemble.elected == second.ensemble.elected
    assert first.acked == second.acked
