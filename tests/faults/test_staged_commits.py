"""A broker that dies at any step of a staged commit: none twice, none lost, none early."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.broker.support.staging_parts import StagingParts

from rocketpipe.protocol.requests.staging import StageList
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import PowerCut, SimDisk
from rocketpipe.testing.simulation.small_store import ROOT

BODIES = [b"%d" % number * 40 for number in range(12)]
PARTS = 2
#: What asks for nothing is moved by another way than what does.
PLAIN = b"UNIQ_KEY\x01K1\x02"

Work = Callable[[StagingParts], Awaitable[None]]


def opened(disk: SimDisk) -> StagingParts:
    return StagingParts(ROOT, ManualClock(), disk=disk, segment_bytes=4096, queue_file_bytes=200)


async def write(parts: StagingParts, attempt: int) -> None:
    """One attempt at the batch: two stages in parts, one that is not named, and the commit."""
    await parts.stage(f"lost-{attempt}", b"never")
    for number in range(3):
        await parts.stage(f"a-{attempt}", *BODIES[3 * number : 3 * number + 3], part=number)
    await parts.stage(f"b-{attempt}", *BODIES[9:], queue_id=1, properties=PLAIN)
    assert parts.bodies() == [] or attempt
    await parts.commit({f"a-{attempt}": 3, f"b-{attempt}": 1})
    await parts.commit({f"a-{attempt}": 3, f"b-{attempt}": 1})


def dies(
    disk: SimDisk, parts: StagingParts, work: Callable[[StagingParts], Awaitable[None]]
) -> bool:
    """Whether the broker died of the work."""
    try:
        asyncio.run(work(parts))  # type: ignore[arg-type]
    except PowerCut:
        return True
    disk.heal()
    return False


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power-cut"])
def test_a_batch_shows_whole_or_not_at_all_and_once(power: bool, part: int) -> None:
    steps = 0
    for at in range(1 + part, 10_000, PARTS):
        disk = SimDisk(at)
        parts = opened(disk)
        disk.cut_power(at=at)
        if not dies(disk, parts, lambda parts: write(parts, 0)):
            break
        steps += 1
        disk.crash(None if power else "everything")
        parts = opened(disk)
        # The broker alone completes what was committed, and nothing else.
        asyncio.run(parts.staging.tend())
        assert sorted(parts.bodies()) in ([], sorted(BODIES)), at
        # The writer does not know what became of it, and does all of it again.
        asyncio.run(write(parts, 1))
        assert sorted(parts.bodies()) == sorted(BODIES), at
        disk.crash("everything")
        parts = opened(disk)
        asyncio.run(parts.staging.tend())
        assert sorted(parts.bodies()) == sorted(BODIES), at
    assert steps > 10, "the steps of a commit"


@pytest.mark.parametrize("part", range(PARTS))
def test_a_broker_may_die_again_while_it_completes_a_commit(part: int) -> None:
    steps = 0
    for at in range(1 + part, 10_000, PARTS):
        disk = SimDisk(at)
        parts = opened(disk)
        asyncio.run(_commit_only(parts))
        disk.crash("everything")
        parts = opened(disk)
        disk.cut_power(at=at)
        if not dies(disk, parts, lambda parts: parts.staging.tend()):
            break
        steps += 1
        disk.crash("everything")
        parts = opened(disk)
        asyncio.run(parts.staging.tend())
        assert sorted(parts.bodies()) == sorted(BODIES), at
    assert steps > 2


async def _commit_only(parts: StagingParts) -> None:
    """Stage a batch and record its commit, and die before anything was moved."""
    for number in range(4):
        bodies = BODIES[3 * number : 3 * number + 3]
        await parts.stage("a", *bodies, part=number, properties=PLAIN if number % 2 else b"")
    parts.staging._record(("app", 0), StageList(stages={"a": 4}))
