"""What operators and machines do to replicas that they should not: said once, and nothing lost."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.broker.support.replica_group import ReplicaGroup, Running, log_bytes, replica_group
from tests.waiting import until

from rocketpipe import Message, Producer
from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.requests.membership import GetBrokerMemberGroup
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.remoting.caller import Caller

#: The lock of a process that runs is not copied with its data.
WHO_RUNS = shutil.ignore_patterns("lock")


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ReplicaGroup]:
    async with replica_group(tmp_path) as made:
        yield made


@pytest.fixture
async def elected(tmp_path: Path) -> AsyncIterator[ElectedGroup]:
    async with elected_group(tmp_path) as made:
        yield made


async def send(group: ReplicaGroup, count: int) -> None:
    async with Producer(group.name_server) as producer:
        for number in range(count):
            await producer.send(Message(topic="orders", body=b"%d" % number))


async def has_all(slave: Running, master: Running) -> None:
    await until(lambda: slave.log_end == master.log_end)


def said(caplog: pytest.LogCaptureFixture, part: str) -> int:
    """How many lines have this in them."""
    return sum(part in record.getMessage() for record in caplog.records)


async def test_a_master_whose_directory_was_emptied_has_nothing_cut_or_mixed(
    group: ReplicaGroup, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    master, slave = await group.master(), await group.slave()
    await send(group, 30)
    await has_all(slave, master)
    kept = log_bytes(slave.core)
    await master.stop()
    shutil.rmtree(tmp_path / "master")
    await group.master()
    await send(group, 60)
    await until(lambda: "nothing in common" in str(slave.core.group.status().following))
    assert log_bytes(slave.core) == kept
    assert said(caplog, "nothing in common") == 1


async def test_a_copied_replica_takes_no_part_and_no_place(
    elected: ElectedGroup, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (1, 2):
        await elected.replica(number)
    await elected.in_sync(1, 2)
    second = elected.replicas[2].address
    shutil.copytree(
        tmp_path / "replica-1", tmp_path / "copy", ignore=shutil.ignore_patterns("lock")
    )
    copy = await elected.replica(2, "copy")
    await until(lambda: said(caplog, "takes no part in its group"))
    assert copy.core.standing.refusal is not None
    async with Caller() as caller:
        asked = GetBrokerMemberGroup(cluster_name="DefaultCluster", broker_name="broker-a")
        reply = await caller.call(elected.name_server, asked)
    assert reply.group.members.addresses[2] == second
    await send(elected, 10)


async def test_what_a_synchronous_master_acknowledged_is_not_cut_at_its_slave(
    group: ReplicaGroup, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The master's machine lost the end of its log: the slave's is all that is left of it."""
    sync = BrokerRole.SYNC_MASTER
    master, slave = await group.master(role=sync), await group.slave()
    await until(lambda: any(each.in_sync for each in master.core.group.status().followers))
    await send(group, 10)
    shutil.copytree(tmp_path / "master", tmp_path / "before", ignore=WHO_RUNS)
    await send(group, 10)
    kept = log_bytes(slave.core)
    await master.stop()
    await group.master("before", sync)
    await until(lambda: "something acknowledged would go" in str(slave.core.group.status()))
    assert log_bytes(slave.core) == kept
    assert said(caplog, "something acknowledged would go") == 1


async def test_a_new_replica_waits_for_a_coordinator_that_is_away(
    group: ReplicaGroup, caplog: pytest.LogCaptureFixture
) -> None:
    """Which replica it is, only the coordinator can say."""
    config = group.config("new", None, zookeepers=("127.0.0.1:1",), session_ms=1000)
    starting = asyncio.create_task(group.start(config))
    await until(lambda: said(caplog, "waits for the coordinator"))
    assert said(caplog, "zookeeperAddr") == 1
    assert not starting.done()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_whether_a_slave_is_read_changes_while_it_runs(group: ReplicaGroup) -> None:
    master, slave = await group.master(), await group.slave()
    await send(group, 3)
    await has_all(slave, master)
    await until(lambda: slave.core.tables.topics.get("orders") is not None)
    pull = PullMessage(
        consumer_group="readers",
        topic="orders",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=1,
        sys_flag=0,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
    )
    async with Caller() as caller:
        for enabled in (False, True):
            slave.core.settings.change({"slaveReadEnable": str(enabled).lower()})
            with pytest.raises(RequestRejected) as refused:
                await caller.call(slave.address, pull)
            off = "slaveReadEnable is off" in str(refused.value)
            assert off is not enabled


async def test_the_longest_legal_message_reaches_every_copy(group: ReplicaGroup) -> None:
    master = await group.master(role=BrokerRole.SYNC_MASTER)
    slave = await group.slave()
    await until(lambda: any(each.in_sync for each in master.core.group.status().followers))
    topic = "t" * 127
    async with Producer(group.name_server, timeout_ms=30_000, compress_over=None) as producer:
        await producer.send(Message(topic=topic, body=bytes(4 << 20)))
        await producer.send_batch([Message(topic=topic, body=bytes(1000)) for _ in range(1000)])
    await has_all(slave, master)
    assert log_bytes(slave.core) == log_bytes(master.core)
