"""What operators see of a master and its slave, and change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.support.replica_group import ReplicaGroup, replica_group
from tests.waiting import PATIENCE_S

from rocketpipe import Admin, Message, Producer
from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.client.admin.diagnosis import Diagnosis
from rocketpipe.client.admin.findings import Finding, Level
from rocketpipe.client.admin.replicas import ReplicaInfo
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected, RocketPipeError

pytestmark = pytest.mark.scenario


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ReplicaGroup]:
    async with replica_group(tmp_path) as made:
        yield made


async def looked_over(group: ReplicaGroup) -> dict[str, Finding]:
    async with Session(group.name_server) as session:
        return {each.what: each async for each in Diagnosis(session).findings()}


async def caught_up(admin: Admin) -> list[ReplicaInfo]:
    """The replicas, once there are two and both have everything."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            rows = await admin.replicas.all()
            if len(rows) == 2 and all(one.lag == 0 and one.in_sync for one in rows):
                return rows
            await asyncio.sleep(0.05)


async def test_operators_see_who_leads_and_how_far_the_slave_is(group: ReplicaGroup) -> None:
    master = await group.master(role=BrokerRole.SYNC_MASTER)
    slave = await group.slave()
    async with Admin(group.name_server) as admin:
        leader, follower = await caught_up(admin)
        assert (leader.role, leader.address, leader.epoch) == ("leader", master.address, 1)
        assert (follower.id, follower.role) == (1, "follower")
        assert (follower.address, follower.epoch) == (slave.address, 1)
        assert follower.follows == master.core.group.status().ha_address
        status = await admin.replicas.ha_status(master.address)
        assert [one.in_sync for one in status.followers] == [True]
        state = await admin.replicas.in_sync("broker-a")
        assert [(one.id, one.address) for one in state.in_sync] == [
            (0, master.address),
            (1, slave.address),
        ]
        with pytest.raises(RequestRejected, match="roles are fixed"):
            await admin.replicas.elect("broker-a", 1)
        found = await looked_over(group)
        assert found["replica 1 of broker-a"].level is Level.OK
        assert found["in-sync replicas of broker-a"].detail == "2, of at least 2"
        assert not [each for each in found.values() if each.level is Level.PROBLEM]


async def test_the_doctors_word_on_too_few_copies_helps(group: ReplicaGroup) -> None:
    await group.master(role=BrokerRole.SYNC_MASTER)
    async with (
        Admin(group.name_server) as admin,
        Producer(group.name_server) as producer,
    ):
        with pytest.raises(RocketPipeError, match="in-sync replicas not enough"):
            await producer.send(Message(topic="orders", body=b"refused"), timeout_ms=1000)
        found = (await looked_over(group))["in-sync replicas of broker-a"]
        assert found.level is Level.PROBLEM
        assert found.remedy is not None
        assert "--set minInSyncReplicas=1" in found.remedy
        await admin.brokers.change("broker-a", {"minInSyncReplicas": "1"})
        result = await producer.send(Message(topic="orders", body=b"taken"))
        assert result.durable is None, "stored, with no slave to have it too"
        assert (await looked_over(group))["in-sync replicas of broker-a"].level is Level.OK
