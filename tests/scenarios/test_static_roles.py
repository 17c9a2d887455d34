"""Masters and slaves whose roles their settings say, in all three of RocketMQ's modes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.support.replica_group import ReplicaGroup, Running, log_bytes, replica_group
from tests.ports import lasting_ports
from tests.waiting import until

from rocketpipe import Admin, Message, Producer, PullConsumer
from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.topics import UpdateAndCreateTopic
from rocketpipe.remoting.caller import Caller

pytestmark = pytest.mark.scenario


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ReplicaGroup]:
    async with replica_group(tmp_path) as made:
        yield made


async def caught_up(master: Running, slave: Running) -> None:
    await until(
        lambda: (
            slave.log_end == master.log_end
            and slave.core.store.positions.dispatched == master.core.store.positions.dispatched
        )
    )


async def send(group: ReplicaGroup, count: int, topic: str = "orders", at: int = 0) -> None:
    async with Producer(group.name_server) as producer:
        for number in range(at, at + count):
            await producer.send(Message(topic=topic, body=b"%d" % number))


def topic_bytes(running: Running, topic: str) -> dict[int, bytes]:
    """The entries of every queue of a topic."""
    store = running.core.store
    return {
        queue_id: store.derived.queues.entries(
            name, queue_id, store.min_offset(name, queue_id), 10_000
        )
        for name, queue_id in store.queues()
        if name == topic
    }


async def test_a_slave_has_its_master_s_log_and_queues_byte_for_byte(group: ReplicaGroup) -> None:
    master = await group.master()
    await send(group, 20)
    slave = await group.slave()
    await send(group, 200, at=20)
    await caught_up(master, slave)
    assert log_bytes(slave.core) == log_bytes(master.core)
    assert topic_bytes(slave, "orders") == topic_bytes(master, "orders") != {}


async def test_a_slave_that_knows_where_its_master_is_asks_who_that_is(group: ReplicaGroup) -> None:
    (ha_port,) = lasting_ports(1)
    slave = await group.slave(master=f"127.0.0.1:{ha_port}")
    master = await group.master(ha_port=ha_port)
    await send(group, 20)
    await caught_up(master, slave)
    # Else it could not go on when the master is found at a NameServer, and asked.
    assert slave.core.group.status().epochs == master.core.group.status().epochs != ()


async def test_a_slave_goes_on_after_it_was_away(group: ReplicaGroup) -> None:
    master = await group.master()
    slave = await group.slave()
    await send(group, 50)
    await caught_up(master, slave)
    await slave.stop()
    await send(group, 50, at=50)
    slave = await group.slave()
    await caught_up(master, slave)
    assert log_bytes(slave.core) == log_bytes(master.core)


async def test_a_slave_follows_a_master_that_was_started_again(group: ReplicaGroup) -> None:
    master = await group.master()
    slave = await group.slave()
    await send(group, 50)
    await caught_up(master, slave)
    await master.stop()
    master = await group.master()
    await send(group, 50, at=50)
    await caught_up(master, slave)
    assert log_bytes(slave.core) == log_bytes(master.core)


async def test_topics_groups_and_offsets_reach_the_slave(group: ReplicaGroup) -> None:
    master = await group.master()
    slave = await group.slave()
    await send(group, 10)
    async with PullConsumer(group.name_server, group="billing") as consumer:
        await consumer.subscribe("orders")
        got = 0
        while got < 10:
            got += len(await consumer.poll())
        await consumer.commit()
    tables = slave.core.tables
    await until(lambda: tables.topics.get("orders") is not None)
    await until(lambda: tables.groups.get("billing") is not None)
    there = {
        place: at
        for *place, at in map(tuple, master.core.tables.offsets.all())
        for place in [tuple(place)]
    }
    await until(lambda: {tuple(place): at for *place, at in tables.offsets.all()} == there)


async def test_a_slave_is_read_when_its_master_is_away(group: ReplicaGroup) -> None:
    master = await group.master()
    slave = await group.slave()
    await send(group, 30)
    await caught_up(master, slave)
    await until(lambda: slave.core.tables.topics.get("orders") is not None)
    await master.stop()
    async with PullConsumer(group.name_server, group="late") as consumer:
        await consumer.subscribe("orders")
        got: list[bytes] = []
        while len(got) < 30:
            got += [message.body for message in await consumer.poll()]
        await consumer.seek_to_begin()
        assert await consumer.poll()
    assert sorted(map(int, got)) == list(range(30))
    async with Admin(group.name_server) as admin:
        ends = await admin.offsets.ends("orders")
        places = await admin.offsets.of_group("late", "orders")
    assert sum(each.end for each in ends.values()) == 30
    assert sum(place.end for place in places) == 30


async def test_a_slave_sends_senders_to_its_master(group: ReplicaGroup) -> None:
    master = await group.master()
    slave = await group.slave()
    await until(lambda: slave.core.group.status().leader is not None)
    async with Caller() as caller:
        with pytest.raises(RequestRejected) as refused:
            await caller.call(
                slave.address,
                UpdateAndCreateTopic(
                    topic="orders",
                    default_topic="TBW102",
                    read_queue_nums=1,
                    write_queue_nums=1,
                    perm=6,
                ),
            )
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert f"leader={master.address}" in refused.value.remark


async def test_a_synchronous_master_waits_for_its_slave(group: ReplicaGroup) -> None:
    master = await group.master(role=BrokerRole.SYNC_MASTER)
    slave = await group.slave()
    async with Producer(group.name_server) as producer:
        for number in range(50):
            await producer.send(Message(topic="orders", body=b"%d" % number))
            # What is acknowledged is in the slave's log by then.
            assert slave.log_end >= master.core.store.positions.dispatched
    assert slave.log_end > 0


async def test_a_synchronous_master_without_slaves_takes_nothing(group: ReplicaGroup) -> None:
    master = await group.master(role=BrokerRole.SYNC_MASTER)
    before = master.log_end
    async with Producer(group.name_server, timeout_ms=1000) as producer:
        with pytest.raises(RocketPipeError, match="in-sync replicas not enough"):
            await producer.send(Message(topic="orders", body=b"x"))
    # But for what it has to say of its tables.
    assert not topic_bytes(master, "orders")
    assert master.log_end >= before


async def test_a_slave_of_another_file_size_takes_its_master_s_where_it_is_empty(
    group: ReplicaGroup,
) -> None:
    master = await group.master(segment_bytes=1 << 20)
    await send(group, 30)
    slave = await group.slave(segment_bytes=2 << 20)
    await until(lambda: slave.core.store.commit_log.segment_bytes == 1 << 20)
    await caught_up(master, slave)
    assert log_bytes(slave.core) == log_bytes(master.core)
