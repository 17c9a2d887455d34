"""A leader that is elected, and what becomes of messages when another one is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.broker.support.replica_group import log_bytes
from tests.waiting import until

from rocketpipe import Admin, Message, Producer, PullConsumer
from rocketpipe.errors import RocketPipeError

pytestmark = pytest.mark.scenario


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ElectedGroup]:
    async with elected_group(tmp_path) as made:
        yield made


async def three(group: ElectedGroup) -> int:
    """Start three replicas, all in sync; gives who leads."""
    for number in (1, 2, 3):
        await group.replica(number)
    await group.in_sync(1, 2, 3)
    return await group.leader()


async def test_sends_are_in_every_replica_that_is_in_sync(group: ElectedGroup) -> None:
    leader = await three(group)
    async with Producer(group.name_server) as producer:
        for number in range(30):
            await producer.send(Message(topic="orders", body=b"%d" % number))
            acknowledged = group.replicas[leader].core.store.positions.acknowledged
            assert acknowledged is not None
            assert all(each.log_end >= acknowledged for each in group.replicas.values())
    await until(lambda: len({each.log_end for each in group.replicas.values()}) == 1)
    logs = {log_bytes(each.core) for each in group.replicas.values()}
    assert len(logs) == 1


async def test_a_leader_that_stops_hands_over_and_nobody_sees_an_error(
    group: ElectedGroup,
) -> None:
    leader = await three(group)
    async with Producer(group.name_server, timeout_ms=10_000) as producer:
        for number in range(20):
            await producer.send(Message(topic="orders", body=b"%d" % number))
        await group.stop(leader)
        for number in range(20, 40):
            await producer.send(Message(topic="orders", body=b"%d" % number))
        after = await group.leader()
        assert after != leader
        async with PullConsumer(group.name_server, group="all") as consumer:
            await consumer.subscribe("orders")
            got: set[int] = set()
            while len(got) < 40:
                got.update(int(message.body) for message in await consumer.poll())
    assert got == set(range(40))


async def test_a_leader_whose_session_is_lost_follows_the_next(group: ElectedGroup) -> None:
    leader = await three(group)
    async with Producer(group.name_server, timeout_ms=10_000) as producer:
        await producer.send(Message(topic="orders", body=b"before"))
        group.coordinators[leader].cut()
        await until(lambda: group.leading() not in (None, leader))
        await producer.send(Message(topic="orders", body=b"after"))
        group.coordinators[leader].heal()
        await group.in_sync(1, 2, 3)
    await until(lambda: len({each.log_end for each in group.replicas.values()}) == 1)
    assert len({log_bytes(each.core) for each in group.replicas.values()}) == 1


async def test_the_last_of_three_takes_nothing(group: ElectedGroup) -> None:
    await three(group)
    await group.stop(1)
    await group.stop(2)
    await group.leader()
    await group.in_sync(3)
    async with Producer(group.name_server, timeout_ms=1500) as producer:
        with pytest.raises(RocketPipeError, match="in-sync replicas not enough"):
            await producer.send(Message(topic="orders", body=b"x"))
        async with Admin(group.name_server) as admin:
            # Neither is made, so that nobody has to wonder whether it was.
            with pytest.raises(RocketPipeError, match="in-sync replicas not enough"):
                await admin.topics.create("more")
            with pytest.raises(RocketPipeError, match="in-sync replicas not enough"):
                await admin.groups.create("more")
            tables = group.replicas[3].core.tables
            assert (tables.topics.get("more"), tables.groups.get("more")) == (None, None)
        await group.replica(1)
        await group.in_sync(1, 3)
        await producer.send(Message(topic="orders", body=b"x"))
