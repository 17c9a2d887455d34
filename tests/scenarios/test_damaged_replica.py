"""A replica that finds its own log damaged does not lead, and is mended from its leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.broker.support.replica_group import log_bytes
from tests.waiting import until

from rocketpipe import Message, Producer, PullConsumer
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.errors import UnderRepair
from rocketpipe.store.layout import StoreLayout

pytestmark = pytest.mark.scenario

SEGMENT_BYTES = 64 << 10
BODY_BYTES = 4000
MESSAGES = 60


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ElectedGroup]:
    async with elected_group(tmp_path) as made:
        yield made


async def filled(group: ElectedGroup) -> int:
    """Three replicas with a log of several files; gives who leads."""
    for number in (1, 2, 3):
        await group.replica(number, segment_bytes=SEGMENT_BYTES)
    await group.in_sync(1, 2, 3)
    async with Producer(group.name_server) as producer:
        for number in range(MESSAGES):
            await producer.send(Message(topic="orders", body=b"%04d" % number * (BODY_BYTES // 4)))
    await until(lambda: len({each.log_end for each in group.replicas.values()}) == 1)
    return await group.leader()


def layout(group: ElectedGroup, number: int) -> StoreLayout:
    return StoreLayout(group.root / f"replica-{number}")


def files(group: ElectedGroup, number: int) -> list[Path]:
    return sorted(layout(group, number).commit_log.iterdir())


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    with path.open("r+b") as file:  # the same file: a broker may have it open
        file.write(data)


def flip_last(paths: list[Path]) -> None:
    """A bit of the last record."""
    flip(paths[-1], len(paths[-1].read_bytes().rstrip(b"\0")) - 10)


def cut(paths: list[Path]) -> None:
    with paths[1].open("r+b") as file:
        file.truncate(SEGMENT_BYTES // 3)


def delete_middle(paths: list[Path]) -> None:
    paths[2].unlink()


def delete_last(paths: list[Path]) -> None:
    paths[-1].unlink()


def delete_all(paths: list[Path]) -> None:
    for path in paths:
        path.unlink()


def equal(group: ElectedGroup, one: int, other: int) -> bool:
    return log_bytes(group.replicas[one].core) == log_bytes(group.replicas[other].core)


@pytest.mark.parametrize("damage", [flip_last, cut, delete_middle, delete_last, delete_all])
async def test_a_damaged_follower_is_mended_when_it_starts(
    group: ElectedGroup, damage: Callable[[list[Path]], None], caplog: pytest.LogCaptureFixture
) -> None:
    leader = await filled(group)
    follower = leader % 3 + 1
    await group.stop(follower)
    damage(files(group, follower))
    with caplog.at_level(logging.WARNING):
        await group.replica(follower, segment_bytes=SEGMENT_BYTES)
        await group.in_sync(1, 2, 3)
    await until(lambda: equal(group, leader, follower))
    assert "log is damaged, and this replica takes no part" in caplog.text
    assert f"damage is mended from leader={ha_address(group, leader)}" in caplog.text
    kept = layout(group, follower).quarantine
    assert kept.exists() == (damage in (flip_last, cut))
    store = group.replicas[follower].core.store
    queues = [store.max_offset("orders", number) for number in range(8)]
    await until(lambda: sum(store.max_offset("orders", n) for n in range(8)) == MESSAGES)
    for number, end in enumerate(queues):
        for at in range(end):
            found = store.read("orders", number, QueueOffset(at), max_count=1)
            assert found.count == 1


def ha_address(group: ElectedGroup, number: int) -> str:
    return group.replicas[number].core.group.status().ha_address


async def test_a_damaged_replica_is_not_elected_though_it_was_in_sync(group: ElectedGroup) -> None:
    leader = await filled(group)
    damaged = leader % 3 + 1
    for each in group.coordinators.values():
        each.die()  # all at once: nobody leaves the set
    for number in (1, 2, 3):
        await group.stop(number)
    await until(lambda: not group.ensemble.state().members)
    delete_middle(files(group, damaged))
    starting = asyncio.create_task(group.replica(damaged, segment_bytes=SEGMENT_BYTES))
    await until(lambda: damaged in group.ensemble.state().members)
    assert group.ensemble.state().in_sync == {1, 2, 3}
    assert not group.ensemble.state().members[damaged].clean
    for number in {1, 2, 3} - {damaged}:
        await group.replica(number, segment_bytes=SEGMENT_BYTES)
    await starting
    assert [each.id for each in group.ensemble.elected].count(damaged) == 0
    await group.in_sync(1, 2, 3)
    await until(lambda: equal(group, group.leading() or damaged, damaged))


async def test_a_follower_that_reads_a_damaged_record_gets_it_again(
    group: ElectedGroup, caplog: pytest.LogCaptureFixture
) -> None:
    leader = await filled(group)
    follower = leader % 3 + 1
    flip(files(group, follower)[1], SEGMENT_BYTES // 2)
    running = group.replicas[follower]
    assert damaged_reads(group, follower) == 1
    before = running.core
    await until(lambda: running.core is not before)
    assert "damage is mended from leader" in caplog.text
    assert damaged_reads(group, follower) == 0
    await until(lambda: equal(group, leader, follower))
    await until(lambda: group.ensemble.state().members[follower].clean)


def damaged_reads(group: ElectedGroup, number: int) -> int:
    """Read every message there; gives how many are refused."""
    store = group.replicas[number].core.store
    refused = 0
    for queue in range(8):
        for at in range(store.max_offset("orders", queue)):
            try:
                store.read("orders", queue, QueueOffset(at), max_count=1)
            except UnderRepair:
                refused += 1
    return refused


async def test_a_leader_that_reads_a_damaged_record_hands_over_and_nothing_is_missed(
    group: ElectedGroup,
) -> None:
    leader = await filled(group)
    flip(files(group, leader)[1], SEGMENT_BYTES // 2)
    got: set[bytes] = set()
    async with PullConsumer(group.name_server, group="all") as consumer:
        await consumer.subscribe("orders")
        while len(got) < MESSAGES:
            got.update(message.body for message in await consumer.poll())
    assert await group.leader() != leader
    await group.in_sync(1, 2, 3)
    await until(lambda: damaged_reads(group, leader) == 0)
    now = await group.leader()
    await until(lambda: equal(group, now, leader))
