"""Replicas are added and removed while a group runs: empty, from far behind, from a backup."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.broker.support.replica_group import log_bytes
from tests.waiting import until

from rocketpipe import Admin, Message, Producer
from rocketpipe.clock import SystemClock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.upkeep.backup import back_up, restore
from rocketpipe.store.upkeep.maintenance import rebuild_derived

pytestmark = pytest.mark.scenario

SEGMENT_BYTES = 64 << 10


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ElectedGroup]:
    async with elected_group(tmp_path) as made:
        yield made


async def started(group: ElectedGroup, *numbers: int) -> None:
    for number in numbers:
        await group.replica(number, segment_bytes=SEGMENT_BYTES)
    await group.in_sync(*group.replicas)


async def send(group: ElectedGroup, topic: str, count: int) -> list[int]:
    """Send to one queue; gives the offsets that it gave."""
    async with Admin(group.name_server) as admin, Producer(group.name_server) as producer:
        if topic not in await admin.topics.names():
            await admin.topics.create(topic, queues=1)
        results = [
            await producer.send(Message(topic=topic, body=bytes(4000))) for _ in range(count)
        ]
    return [result.queue_offset for result in results]


def equal(group: ElectedGroup, one: int, other: int) -> bool:
    return log_bytes(group.replicas[one].core) == log_bytes(group.replicas[other].core)


async def test_one_that_begins_behind_what_expired_gives_no_offset_twice(
    group: ElectedGroup,
) -> None:
    await started(group, 1, 2)
    assert await send(group, "spent", 5) == [0, 1, 2, 3, 4]
    await send(group, "orders", 60)
    leader = await group.leader()
    for each in group.replicas.values():
        store = each.core.store
        await until(lambda store=store: store.positions.dispatched == store.positions.written)
        store.flush()
        store.delete_before(LogOffset(2 * SEGMENT_BYTES))
        assert store.first_offset == 2 * SEGMENT_BYTES
    # A snapshot of the tables is in the log again and again, as the newest is kept.
    other = 3 - leader
    async with Admin(group.name_server) as admin:
        await admin.replicas.elect("broker-a", other)
        await started(group, 3)
        assert group.replicas[3].core.store.first_offset == 2 * SEGMENT_BYTES
        await until(lambda: group.replicas[3].core.store.max_offset("spent", 0) == 5)
        await admin.replicas.elect("broker-a", 3)
    assert await group.leader() == 3
    assert await send(group, "spent", 1) == [5]
    assert await send(group, "orders", 1) == [60]


async def test_a_replica_that_was_away_for_too_long_begins_anew(group: ElectedGroup) -> None:
    await started(group, 1, 2, 3)
    await send(group, "orders", 20)
    leader = await group.leader()
    away = leader % 3 + 1
    await group.stop(away)
    await send(group, "orders", 60)
    status = group.replicas[leader].core.group.status
    await until(lambda: away not in status().addresses)
    async with Admin(group.name_server) as admin:
        await admin.replicas.forget("broker-a", away)
    for each in group.replicas.values():
        store = each.core.store
        await until(lambda store=store: store.positions.dispatched == store.positions.written)
        store.flush()
        store.delete_before(LogOffset(3 * SEGMENT_BYTES))
    await started(group, away)
    await until(lambda: equal(group, leader, away))
    assert group.replicas[away].core.store.first_offset == 3 * SEGMENT_BYTES


async def test_a_replica_that_is_gone_for_good_is_forgotten(group: ElectedGroup) -> None:
    await started(group, 1, 2, 3)
    await send(group, "orders", 5)
    leader = await group.leader()
    gone = leader % 3 + 1
    async with Admin(group.name_server) as admin:
        with pytest.raises(RequestRejected, match="stop it first"):
            await admin.replicas.forget("broker-a", gone)
        await group.stop(gone)
        status = group.replicas[leader].core.group.status
        await until(lambda: gone not in status().addresses)
        assert f"replica {gone}" in held_for(group, leader)
        await admin.replicas.forget("broker-a", gone)
        assert f"replica {gone}" not in held_for(group, leader)
        assert gone not in group.ensemble.state().in_sync
        await admin.replicas.forget("broker-a", gone)
    assert await send(group, "orders", 1) == [5]


def held_for(group: ElectedGroup, number: int) -> set[str]:
    """For whom a leader keeps a part of its log."""
    return {pin.owner for pin in group.replicas[number].core.pins._pins}


async def test_a_backup_of_one_becomes_another(group: ElectedGroup) -> None:
    await started(group, 1, 2, 3)
    await send(group, "orders", 40)
    leader = await group.leader()
    source = leader % 3 + 1
    await group.stop(source)
    copy(group, f"replica-{source}", "replica-4")
    await send(group, "orders", 5)
    await started(group, 4)
    await until(lambda: equal(group, leader, 4))
    followed = group.replicas[4].core.group.status().following
    assert followed is not None
    assert 0 < followed.bytes < SEGMENT_BYTES, "what the backup has is not sent again"


def copy(group: ElectedGroup, source: str, target: str) -> None:
    backup = group.root / "backup"
    back_up(Disk(), group.root / source, backup, clock=SystemClock())
    assert not (backup / "brokerIdentity").exists()
    restore(Disk(), backup, group.root / target)
    config = StoreConfig.embedded(group.root / target, segment_bytes=SEGMENT_BYTES)
    rebuild_derived(config, Disk(), SystemClock())


async def test_an_old_backup_in_the_place_of_a_replica_does_not_lead_before_it_caught_up(
    group: ElectedGroup,
) -> None:
    await started(group, 1, 2, 3)
    await send(group, "orders", 5)
    leader = await group.leader()
    old = leader % 3 + 1
    await group.stop(old)
    copy(group, f"replica-{old}", "copy")
    await started(group, old)
    await send(group, "orders", 5)
    for each in group.coordinators.values():
        each.die()  # all at once: nobody leaves the set
    for number in (1, 2, 3):
        await group.stop(number)
    await until(lambda: not group.ensemble.state().members)
    elections = len(group.ensemble.elected)
    shutil.rmtree(group.root / f"replica-{old}")
    (group.root / "copy").rename(group.root / f"replica-{old}")
    await group.replica(old, segment_bytes=SEGMENT_BYTES)
    await until(lambda: old in group.ensemble.state().members)
    assert old in group.ensemble.state().in_sync
    assert not group.ensemble.state().members[old].clean
    await group.replica(leader, segment_bytes=SEGMENT_BYTES)
    assert await group.leader() == leader
    assert len(group.ensemble.elected) == elections + 1
    await group.in_sync(leader, old)
    await until(lambda: group.ensemble.state().members[old].clean)
    assert equal(group, leader, old)
