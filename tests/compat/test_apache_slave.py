"""Apache's brokers as slaves of ours: they have our log, our queues and our tables, byte for byte.

One of them goes through everything that can happen to a slave: it is started again, comes from far
behind, sees its master go and come, is stopped in the middle of a send, and begins with nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.replica_group import ReplicaGroup, Running, replica_group
from tests.compat.support.apache import (
    NEWEST,
    OLDEST,
    Apache,
    ApacheBroker,
    find_apache,
    free_port,
)
from tests.compat.support.copies import (
    ORDERS,
    QUEUE_FILE_BYTES,
    SEGMENT_BYTES,
    consume_some,
    differences,
    send_everything,
)
from tests.waiting import until

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.producer.producer import Producer
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.protocol import fastjson

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

SYNC, ASYNC = BrokerRole.SYNC_MASTER, BrokerRole.ASYNC_MASTER
PATIENCE_S = 120
SLAVE = {
    "brokerRole": "SLAVE",
    "brokerId": 1,
    "slaveReadEnable": "true",
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": QUEUE_FILE_BYTES,
}


def master_config(group: ReplicaGroup, role: BrokerRole) -> BrokerConfig:
    config = group.config("master", role, segment_bytes=SEGMENT_BYTES)
    assert config.store is not None
    files = replace(config.store, queue_file_bytes=QUEUE_FILE_BYTES)
    return replace(config, port=free_port(), store=files)


async def until_same(master: Running, slave: ApacheBroker, *, begin: int = 0) -> None:
    """Wait until a slave has all that its master has, and nothing else."""
    left = ["not looked yet"]
    try:
        async with asyncio.timeout(PATIENCE_S):
            while left:
                await asyncio.sleep(0.2)
                end, root = master.log_end, master.core.store.config.root
                left = differences(root, slave.store, end=end, begin=begin)
    except TimeoutError:
        raise AssertionError(f"the slave differs: {left}") from None


async def until_in_sync(master: Running) -> None:
    await until(lambda: any(each.in_sync for each in master.core.group.status().followers))


@contextmanager
def stalled(slave: ApacheBroker) -> Iterator[None]:
    os.kill(slave.pid, signal.SIGSTOP)
    try:
        # A thread of many may go on for a moment.
        threads = list(Path(f"/proc/{slave.pid}/task").iterdir())
        while not all((each / "stat").read_text().rpartition(")")[2][1] == "T" for each in threads):
            time.sleep(0.001)
        yield
    finally:
        os.kill(slave.pid, signal.SIGCONT)


@pytest.mark.parametrize("role", [SYNC, ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("version", [NEWEST, OLDEST])
async def test_a_slave_has_our_log_and_queues_whatever_happens(
    tmp_path: Path, version: str, role: BrokerRole
) -> None:
    apache = find_apache(version)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    async with replica_group(tmp_path) as group:
        config = master_config(group, role)
        master = await group.start(config)
        async with apache.replica(theirs, group.name_server, **SLAVE) as slave:
            await until_in_sync(master)
            await send_everything(group.name_server, "first")
            await consume_some(group.name_server)
            await until_same(master, slave)
            await until_tables(master, slave)
            await check_ha_status(group.name_server, master, slave, version)
            if role is SYNC:
                await check_sync_sends(group.name_server, slave)
                await until_same(master, slave)
            said = slave.errors()
        if role is SYNC:
            await check_refused(group.name_server)
        else:
            await send_everything(group.name_server, "away", singles=6000)
            assert master.log_end > 2 * SEGMENT_BYTES
        async with apache.replica(theirs, group.name_server, **SLAVE) as slave:
            await until_same(master, slave)
            await master.stop()
            master = await group.start(config)
            await until_in_sync(master)
            await send_everything(group.name_server, "again", singles=20)
            await until_same(master, slave)
            assert not [*said, *slave.errors()]
        (tmp_path / "empty").mkdir()
        await check_empty(apache, group, master, tmp_path / "empty")


async def check_empty(apache: Apache, group: ReplicaGroup, master: Running, place: Path) -> None:
    """A slave with nothing begins at the start of our last file, as behind Apache's masters."""
    begin = master.log_end - master.log_end % SEGMENT_BYTES
    async with apache.replica(place, group.name_server, **SLAVE) as slave:
        await until_in_sync(master)
        await until_same(master, slave, begin=begin)
        files = {int(each.name) for each in (slave.store / "commitlog").iterdir()}
        assert min(files) == begin


async def until_tables(master: Running, slave: ApacheBroker) -> None:
    """Wait until a slave has topics, groups, offsets and delays of its master, and saved them."""
    tables: dict[str, str] = {
        "topics": "topicConfigTable",
        "subscriptionGroup": "subscriptionGroupTable",
        "consumerOffset": "offsetTable",
        "delayOffset": "offsetTable",
    }
    left = list(tables)
    async with asyncio.timeout(PATIENCE_S):
        while left:
            await asyncio.sleep(0.5)
            root = master.core.config.data
            left = [
                name
                for name, field in tables.items()
                if _table(root, name, field) != _table(slave.store, name, field)
            ]


def _table(store: Path, name: str, field: str) -> object:
    try:
        table = fastjson.read((store / "config" / f"{name}.json").read_bytes(), dict[str, Any])
    except (OSError, RocketPipeError):  # it is being written
        return None
    found = table.get(field) or {}
    if field == "topicConfigTable":
        return {
            topic: {key: each[key] for key in ("readQueueNums", "writeQueueNums", "perm")}
            for topic, each in found.items()
        }
    if field == "subscriptionGroupTable":
        return {
            group: {key: each[key] for key in ("consumeEnable", "retryMaxTimes", "brokerId")}
            for group, each in found.items()
        }
    return found


async def check_ha_status(
    name_server: str, master: Running, slave: ApacheBroker, version: str
) -> None:
    """Both say of each other where they are."""
    async with Admin(name_server) as admin:
        said = await admin.replicas.ha_status(master.address)
        assert said.leads
        assert (said.in_sync, [each.in_sync for each in said.followers]) == (1, [True])
        assert said.followers[0].lag == 0
        if version == OLDEST:
            return  # brokers before 5.0 are not asked for it
        told = await admin.replicas.ha_status(slave.address)
        assert not told.leads
        status = master.core.group.status()
        assert told.following.master == status.ha_address
        assert told.following.log_end == status.log_end


async def check_sync_sends(name_server: str, slave: ApacheBroker) -> None:
    async with Producer(name_server, group="waiting-makers") as producer:
        sent = await producer.send(ORDERS, b"with the slave there")
        assert sent.durable is True
        with stalled(slave):
            late = await producer.send(ORDERS, b"with the slave stalled", timeout_ms=20_000)
            assert late.durable is None
        again = await producer.send(ORDERS, b"with the slave there again")
        assert again.durable is True


async def check_refused(name_server: str) -> None:
    async with Producer(name_server, group="waiting-makers") as producer:
        with pytest.raises(RequestRejected, match="in-sync replicas not enough"):
            await producer.send(ORDERS, b"with no slave", timeout_ms=3_000)
