"""Brokers of ours as slaves of Apache's masters: the same log and queues, and tables asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.broker.support.asking import message, topic
from tests.broker.support.replica_group import ReplicaGroup, Running, replica_group
from tests.compat.clients.catalog import JAVAS, Client
from tests.compat.clients.driver import driving
from tests.compat.support.apache import NEWEST, OLDEST, ApacheBroker, find_apache
from tests.compat.support.copies import (
    ORDERS,
    PLACES,
    POPS,
    QUEUE_FILE_BYTES,
    SEGMENT_BYTES,
    check_pulls,
    consume_some,
    send_everything,
    until_copied,
)
from tests.waiting import until

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.producer.producer import Producer
from rocketpipe.protocol.requests.topics import DeleteTopic
from rocketpipe.remoting.caller import Caller

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

PATIENCE_S = 120
#: Of a topic that sends create.
QUEUES = 4
MASTER = {
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": QUEUE_FILE_BYTES,
    "slaveReadEnable": "true",
}
#: Both wait for the slave: 4.9 does so by its role alone.
SYNC = {**MASTER, "brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}


def is_following(slave: Running) -> bool:
    following = slave.core.group.status().following
    return following is not None and following.connected


@pytest.mark.parametrize("version", [NEWEST, OLDEST])
async def test_a_slave_of_ours_has_a_masters_log_queues_and_tables(
    tmp_path: Path, version: str
) -> None:
    apache = find_apache(version)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    pops = version == NEWEST
    async with replica_group(tmp_path) as group:
        async with apache.replica(theirs, group.name_server, **SYNC) as master:
            slave = await group.slave()
            await until(lambda: is_following(slave))
            await send_everything(group.name_server, "first")
            offsets = await consume_some(group.name_server, pops=pops)
            await until_copied(master.address, master.store, slave)
            await until_tables(slave, offsets, POPS if pops else PLACES)
            await check_pulls(master.address, slave.address, ORDERS, QUEUES)
            if version == NEWEST:  # 4.9 then has no queue of half messages either
                await check_deleted(master, slave)
            await check_ha_status(group.name_server, master, slave, version)
            await check_waits(group.name_server, slave)
            port = int(master.address.rpartition(":")[2])
        async with apache.replica(theirs, group.name_server, port=port, **MASTER) as master:
            await send_everything(group.name_server, "away", singles=6000)
            slave = await group.slave()
            await until_copied(master.address, master.store, slave)
            begin = slave.log_end - slave.log_end % SEGMENT_BYTES
            assert begin >= 2 * SEGMENT_BYTES
            fresh = await group.slave("fresh", broker_id=2)
            await until_copied(master.address, master.store, fresh, begin=begin)
            assert fresh.core.store.first_offset == begin
            await fresh.stop()
            await until(lambda: slave.core.tables.topics.get("timed") is not None)
        await check_reads(group.name_server, tmp_path)
        await slave.stop()
        await check_promoted(group, offsets)


async def until_tables(slave: Running, offsets: dict[int, int], group: str) -> None:
    """Wait until a slave knows topics, groups and offsets of its master."""
    tables = slave.core.tables
    await until(lambda: tables.offsets.places(PLACES, ORDERS) == offsets)
    # What was delayed by the first level has been delivered.
    await until(lambda: tables.delays.all().get(1, 0) >= 1)
    assert {ORDERS, "delayed", "timed", "decided"} <= set(tables.topics.all())
    assert tables.groups.get(group) is not None


async def check_deleted(master: ApacheBroker, slave: Running) -> None:
    """A topic that is deleted goes from the slave with its queues, and may come again."""
    topics, store = slave.core.tables.topics, slave.core.store

    async def make_and_send(count: int) -> None:
        await caller.call(master.address, topic("passing"))
        for number in range(count):
            await caller.call(master.address, message("passing", b"%d" % number))
        await until(lambda: store.max_offset("passing", 0) == count)
        await until(lambda: topics.get("passing") is not None)

    async with Caller() as caller:
        await make_and_send(5)
        await caller.call(master.address, DeleteTopic(topic="passing"))
        await until(lambda: topics.get("passing") is None)
        await until(lambda: store.max_offset("passing", 0) == 0)
        await make_and_send(1)
    await until_copied(master.address, master.store, slave)


async def check_promoted(group: ReplicaGroup, offsets: dict[int, int]) -> None:
    """Made the master by hand, a slave of ours has everything and goes on behind it."""
    master = await group.master("slave")
    store, end = master.core.store, master.log_end
    ends = [store.max_offset(ORDERS, queue_id) for queue_id in range(QUEUES)]
    assert master.core.tables.offsets.places(PLACES, ORDERS) == offsets
    async with Producer(group.name_server) as producer:
        sent = [await producer.send(ORDERS, b"promoted %d" % each) for each in range(QUEUES)]
    assert sorted((each.queue.queue_id, each.queue_offset) for each in sent) == list(
        enumerate(ends)
    )
    wanted = {b"first 0 ", *(b"promoted %d" % each for each in range(QUEUES))}
    async with PullConsumer(group.name_server, group="late") as consumer:
        await consumer.subscribe(ORDERS)
        async with asyncio.timeout(PATIENCE_S):
            while wanted:
                wanted -= {each.body for each in await consumer.poll(1000)}
    assert master.log_end > end


async def check_ha_status(
    name_server: str, master: ApacheBroker, slave: Running, version: str
) -> None:
    async with Admin(name_server) as admin:
        told = await admin.replicas.ha_status(slave.address)
        assert (told.leads, told.following.master) == (False, master.ha_address)
        if version == OLDEST:
            return  # brokers before 5.0 are not asked for it
        said = await admin.replicas.ha_status(master.address)
        assert (said.leads, said.in_sync, len(said.followers)) == (True, 1, 1)
        assert said.followers[0].acknowledged == told.following.log_end


async def check_waits(name_server: str, slave: Running) -> None:
    """A master that waits for its slave is content with ours, and not without it."""
    async with Producer(name_server, group="waiting-makers") as producer:
        assert (await producer.send(ORDERS, b"with the slave there")).durable is True
        await slave.stop()
        sent = await producer.send(ORDERS, b"without it", timeout_ms=20_000)
        assert sent.durable is None


async def check_reads(name_server: str, scratch: Path) -> None:
    """With the master gone, everybody reads the slave."""
    wanted = {b"with the slave there", b"away 5999 " * (1 + 5999 % 40)}
    got: set[bytes] = set()
    async with PullConsumer(name_server, group="readers") as consumer, asyncio.timeout(PATIENCE_S):
        await consumer.subscribe(ORDERS)
        while not wanted <= got:
            got.update(each.body for each in await consumer.poll(1000))
    for client in JAVAS:
        if client.name != "java-5.3.3":
            await asyncio.to_thread(check_java_reads, client, name_server, scratch, wanted)


def check_java_reads(client: Client, name_server: str, scratch: Path, wanted: set[bytes]) -> None:
    place = scratch / client.name
    place.mkdir()
    start = client.start(name_server, client.word, place)
    with driving(client.word, start.command, place, start.environ) as driver:
        driver.consume("reader", f"{client.word}-readers", ORDERS)
        driver.until_bodies("reader", list(wanted))
