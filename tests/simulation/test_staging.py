"""Batches at two and three brokers: whatever dies, and whenever, each shows once or not at all."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.broker.support.staging_parts import EXPIRY_MS
from tests.broker.support.staging_world import World, hazards

from rocketpipe.errors import RocketPipeError

ROWS = 6
STEPS = 40


def rows_of(batch: int) -> list[bytes]:
    return [b"%d-%d" % (batch, number) for number in range(ROWS)]


@pytest.mark.parametrize("seed", range(60))
async def test_a_batch_shows_whole_or_not_at_all_and_once(seed: int) -> None:
    chance = random.Random(seed)
    names = ["a", "b", "c"][: chance.choice((2, 3))]
    world = World(names, seed)
    world.hook = hazards(world, chance)
    batch = 0
    done: set[int] = set()
    for _ in range(STEPS):
        match chance.choice(("write", "write", "write", "move on", "kill", "start", "time")):
            case "write":
                try:
                    await world.write(batch, rows_of(batch))
                except RocketPipeError:
                    continue
                done.add(batch)
                batch += 1
            case "move on":  # its writer never comes back
                if chance.random() < 0.3:
                    batch += 1
            case "kill":
                if world.running:
                    world.kill(chance.choice(sorted(world.running)))
            case "start":
                for name in set(names) - set(world.running):
                    world.start(name)
            case "time":
                await world.clock.advance(chance.choice((1000, EXPIRY_MS // 2, 3 * EXPIRY_MS)))
                await world.tend()
        assert not [row for row, times in Counter(world.shown()).items() if times > 1]
    world.hook = None
    for name in sorted(set(names) - set(world.running)):
        world.start(name)
    await world.tend()
    shown = set(world.shown())
    for number in done:
        assert shown.issuperset(rows_of(number)), number
    await world.write(batch, rows_of(batch))
    for _ in range(3):
        await world.clock.advance(2 * EXPIRY_MS)
        await world.tend()
    shown_rows = Counter(world.shown())
    assert set(shown_rows.values()) <= {1}
    for number in range(batch + 1):
        missing = [row for row in rows_of(number) if row not in shown_rows]
        assert missing == [] or (len(missing) == ROWS and number not in done), number
    for parts in world.running.values():
        assert not len(parts.staging.book.stages), "nothing is kept for ever"
        assert not len(parts.staging.book.prepared)
