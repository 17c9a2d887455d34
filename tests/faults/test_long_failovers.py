"""Failovers of real processes, many of them: for `make soak`, which prints how long each took."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pytest
from benchmarks.replication.takeover import percentiles
from tests.faults.support.elected_processes import Load, Reader, check, elected_processes

from rocketpipe import Producer

pytestmark = [pytest.mark.scenario, pytest.mark.soak]

KILLS = 100
STOPS = 20
ROUNDS = 20


async def test_a_hundred_leaders_are_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    took: list[float] = []
    async with (
        elected_processes(tmp_path, session="3s", zookeepers=3) as group,
        Producer(group.name_server) as producer,
    ):
        load, reader = Load(producer), Reader()
        async with load.under_way(), reader.at_followers(group):
            for _ in range(KILLS):
                leader = await group.all_in_sync()
                await group.say("kill", leader)
                began = time.monotonic()
                while not await load.send():
                    pass
                took.append(time.monotonic() - began)
                await group.say("start", leader)
        await check(group, load.acked, reader.seen)
    p50, p99 = percentiles(took)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{KILLS} kills, session 3 s: p50 {p50:.2f} s, p99 {p99:.2f} s, "
            f"{len(load.acked)} sends, {len(load.errors)} errors\n"
        )


async def test_leaders_are_stopped_for_a_while_again_and_again(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    async with elected_processes(tmp_path) as group, Producer(group.name_server) as producer:
        load, reader = Load(producer), Reader()
        try:
            async with load.under_way(), reader.at_followers(group):
                for _ in range(STOPS):
                    leader = await group.all_in_sync()
                    await group.say("pause", leader, for_ms=chance.randint(1_000, 30_000))
                    await load.goes_on()
            await check(group, load.acked, reader.seen)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


async def test_restarts_one_after_the_other_are_seen_by_nobody(tmp_path: Path) -> None:
    async with (
        elected_processes(tmp_path) as group,
        Producer(group.name_server) as producer,
    ):
        load, reader = Load(producer), Reader()
        async with load.under_way(), reader.at_followers(group):
            for _ in range(ROUNDS):
                await group.restart_all(load)
        assert load.errors == []
        await check(group, load.acked, reader.seen)
