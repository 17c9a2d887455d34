"""Brokers of ours as slaves of Apache's masters: the same log and queues, and tables asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.broker.support.replica_group import Running, replica_group
from tests.compat.clients.catalog import JAVAS, Client
from tests.compat.clients.driver import driving
from tests.compat.support.apache import NEWEST, OLDEST, ApacheBroker, find_apache
from tests.compat.support.copies import (
    ORDERS,
    PLACES,
    POPS,
    QUEUE_FILE_BYTES,
    SEGMENT_BYTES,
    consume_some,
    differences,
    send_everything,
)
from tests.waiting import until

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.producer.producer import Producer

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

PATIENCE_S = 120
MASTER = {
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": QUEUE_FILE_BYTES,
    "slaveReadEnable": "true",
}
#: Both wait for the slave: 4.9 does so by its role alone.
SYNC = {**MASTER, "brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}


async def until_same(master: ApacheBroker, slave: Running, *, begin: int = 0) -> None:
    """Wait until a slave of ours has all that its master has."""
    left = ["not looked yet"]
    try:
        async with asyncio.timeout(PATIENCE_S), Admin(slave.core.config.name_servers[0]) as admin:
            while left:
                await asyncio.sleep(0.2)
                end = int((await admin.brokers.runtime(master.address))["commitLogMaxOffset"])
                root = slave.core.store.config.root
                left = [] if slave.log_end == end else [f"it ends at {slave.log_end} of {end}"]
                left = left or differences(master.store, root, end=end, begin=begin)
    except TimeoutError:
        raise AssertionError(f"the slave differs: {left}") from None


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
            await until_same(master, slave)
            await until_tables(slave, offsets, POPS if pops else PLACES)
            await check_ha_status(group.name_server, master, slave, version)
            await check_waits(group.name_server, slave)
            port = int(master.address.rpartition(":")[2])
        async with apache.replica(theirs, group.name_server, port=port, **MASTER) as master:
            await send_everything(group.name_server, "away", singles=6000)
            slave = await group.slave()
            await until_same(master, slave)
            begin = slave.log_end - slave.log_end % SEGMENT_BYTES
            assert begin >= 2 * SEGMENT_BYTES
            fresh = await group.slave("fresh", broker_id=2)
            await until_same(master, fresh, begin=begin)
            assert fresh.core.store.first_offset == begin
            await fresh.stop()
            await until(lambda: slave.core.tables.topics.get("timed") is not None)
        await check_reads(group.name_server, tmp_path)


async def until_tables(slave: Running, offsets: dict[int, int], group: str) -> None:
    """Wait until a slave knows topics, groups and offsets of its master."""
    tables = slave.core.tables
    await until(lambda: tables.offsets.places(PLACES, ORDERS) == offsets)
    assert {ORDERS, "delayed", "timed", "decided"} <= set(tables.topics.all())
    assert tables.groups.get(group) is not None
    assert tables.delays.all()[1] >= 1  # what was delayed by the first level has been delivered


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
        driver.until("reader", lambda got: wanted <= {each.body for each in got})
