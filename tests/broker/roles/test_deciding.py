"""Who decides which role a replica has: a coordinator, or its settings."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.broker.support.leader_parts import fixed
from tests.broker.support.replica_parts import Parts
from tests.waiting import until

from rocketpipe.background import running
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.broker.replication.role import RoleKeeper
from rocketpipe.broker.roles.deciding import (
    LOOK_EVERY_MS,
    NAMED_WITHIN_MS,
    TAKEN_AGAIN_MS,
    elected,
    follows,
    hand_over,
    keep_following,
    leads,
    without_leader,
)
from rocketpipe.broker.roles.replica import Replica
from rocketpipe.clock import SystemClock
from rocketpipe.coordination.coordinator import Fenced, GroupState, Leader, NotInSync
from rocketpipe.errors import ConnectionLost, StoreError
from rocketpipe.protocol.requests.brokers import BrokerConfigReply, GetBrokerConfig
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.coordinator import SimEnsemble

# Settings


def test_only_a_slave_follows_by_its_settings(tmp_path: Path) -> None:
    slave = fixed(role=BrokerRole.SLAVE)
    assert follows(BrokerConfig(data=tmp_path, replication=slave, broker_id=1))
    assert not follows(BrokerConfig(data=tmp_path, replication=fixed()))
    assert not follows(BrokerConfig(data=tmp_path))


async def test_a_master_leads_in_an_epoch_above_all_that_it_has_seen(one: Parts) -> None:
    await leads(one.replica)
    assert one.run.epochs.last_epoch == 1
    one.run.joined.join(7)
    await leads(one.replica)
    assert one.run.epochs.last_epoch == 8
    assert one.replica.leads


class Slave:
    """A replica as far as it is told whom to follow, and a registrar that knows or does not."""

    def __init__(self) -> None:
        self.told: list[Leader | None] = []
        self.fails = 0
        self.is_connected = True
        self.master: tuple[str, str] | None = None
        self.registered = 0
        self.run = self.core = self.registrar = self.config = self.caller = self
        self.cluster, self.name = "c", "a"
        #: What is answered by the broker below the port that was told.
        self.settings: bytes | None = None

    async def call(self, address: str, request: GetBrokerConfig, timeout_ms: int) -> object:
        if self.settings is None:
            raise ConnectionLost(address, "nobody is there")
        return BrokerConfigReply(version="{}", properties=self.settings)

    async def follow(self, leader: Leader | None) -> None:
        if self.fails:
            self.fails -= 1
            raise StoreError("not today")
        self.told.append(leader)

    async def register(self, *, settle: bool) -> None:
        self.registered += 1

    @property
    def addresses(self) -> list[tuple[str, str] | None]:
        return [(each.address, each.ha_address) if each else None for each in self.told]


async def followed(slave: Slave, clock: ManualClock, *ms: int, **settings: Any) -> None:
    """Let it look for its master; see what it does in so much time."""
    config = fixed(role=BrokerRole.SLAVE, **settings)
    async with running(keep_following(cast("Replica", slave), config, clock), "following"):
        await asyncio.sleep(0)
        for each in ms:
            await clock.advance(each)


async def test_a_slave_follows_whom_the_name_servers_name() -> None:
    slave = Slave()
    slave.master = ("10.0.0.1:10911", "10.0.0.1:10912")
    await followed(slave, ManualClock(), 3 * LOOK_EVERY_MS)
    assert slave.addresses == [("10.0.0.1:10911", "10.0.0.1:10912")]
    assert not slave.registered


async def test_a_slave_without_a_master_says_so_once_and_keeps_looking(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slave = Slave()
    slave.is_connected = False
    await followed(slave, ManualClock(), 3 * LOOK_EVERY_MS)
    assert slave.addresses == [None]
    assert slave.registered == 4
    assert caplog.text.count("no master of this name") == 1


async def test_a_master_that_is_known_by_its_log_alone_is_named_first_if_that_may_be() -> None:
    slave, clock = Slave(), ManualClock()
    await followed(slave, clock, NAMED_WITHIN_MS // 2, master="10.0.0.1:10912")
    assert slave.addresses == [None]
    slave = Slave()
    await followed(slave, clock, NAMED_WITHIN_MS + LOOK_EVERY_MS, master="10.0.0.1:10912")
    assert slave.addresses == [None, ("", "10.0.0.1:10912")]
    slave = Slave()
    slave.settings = b"brokerClusterName=c\nbrokerName=a\nbrokerId=0\n"
    await followed(slave, clock, 1, NAMED_WITHIN_MS, master="10.0.0.1:10912")
    assert slave.addresses == [("10.0.0.1:10911", "10.0.0.1:10912")], "it said who it is"


async def test_a_slave_that_could_not_do_as_told_tries_again() -> None:
    slave = Slave()
    slave.master = ("10.0.0.1:10911", "10.0.0.1:10912")
    slave.fails = 2
    await followed(slave, ManualClock(), 3 * LOOK_EVERY_MS)
    assert slave.addresses == [slave.master]


async def test_a_master_that_the_name_servers_forget_is_followed_on() -> None:
    slave, clock = Slave(), ManualClock()
    slave.master = ("10.0.0.1:10911", "10.0.0.1:10912")
    config = fixed(role=BrokerRole.SLAVE)
    async with running(keep_following(cast("Replica", slave), config, clock), "following"):
        await until(lambda: slave.told)
        slave.master = None
        await clock.advance(3 * LOOK_EVERY_MS)
    assert len(slave.told) == 1


# A coordinator


async def test_a_coordinator_s_leader_hands_over_when_it_stops(one: Parts, two: Parts) -> None:
    clock, chance = SystemClock(), random.Random(1)
    ensemble = SimEnsemble(clock, chance)
    ours, theirs = ensemble.coordinator(), ensemble.coordinator()
    async with running(ensemble.run(), "ensemble"):
        async with elected(two.replica, theirs, clock, chance):
            async with elected(one.replica, ours, clock, chance):
                await until(lambda: len(ensemble.state().in_sync) == 2)
                leader = ensemble.state().leader
                assert leader is not None
                first, other = (one, two) if leader.id == 1 else (two, one)
                await until(lambda: first.core.standing.refusal is None)
                resign = first.core.group.resign
                assert resign is not None
                await resign(other.replica.me)
                await until(lambda: other.core.standing.refusal is None)
                assert first.core.group.status().role == "following"
                await until(lambda: len(ensemble.state().in_sync) == 2)
        await ours.close()
        await theirs.close()


def idle_keeper(parts: Parts, kind: type[RoleKeeper] = RoleKeeper) -> RoleKeeper:
    """One that has not joined anything."""
    clock, chance = SystemClock(), random.Random(1)
    coordinator = SimEnsemble(clock, chance).coordinator()
    return kind(coordinator, parts.replica, clock, chance, me=parts.replica.me)


async def test_a_leader_that_nobody_has_caught_up_with_goes_on(one: Parts) -> None:
    await one.lead(1)
    keeper = idle_keeper(one)
    with pytest.raises(NotInSync, match="goes on leading"):
        await hand_over(one.replica, keeper)
    await one.send()


async def test_who_does_not_lead_cannot_hand_over(one: Parts, two: Parts) -> None:
    await two.replica.follow(await one.lead(1))
    await until(lambda: frozenset({1, 2}) in one.told.asked)
    keeper = idle_keeper(one)
    with pytest.raises(Fenced):
        await hand_over(one.replica, keeper, 2)


async def test_what_a_replica_has_is_of_the_epoch_that_wrote_it_whatever_it_joined(
    one: Parts,
) -> None:
    await one.lead(3)
    await one.send()
    one.run.joined.join(7)

    class Leaderless(RoleKeeper):
        async def without_leader(self) -> GroupState:
            return GroupState()

    keeper = idle_keeper(one, Leaderless)
    found = await without_leader(one.replica, keeper, SystemClock(), do_it=False)
    assert (found.log_end, found.last_epoch) == (one.end, 3)


async def test_a_replica_whose_id_is_taken_says_so_and_tries_again(
    one: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    clock, chance = ManualClock(), random.Random(1)
    ensemble = SimEnsemble(clock, chance, session_ms=10**9)
    other = ensemble.coordinator()
    await other.join(replace(one.replica.member(), address="10.9.9.9:1"))
    async with elected(one.replica, ensemble.coordinator(), clock, chance) as keeper:
        await until(lambda: "takes no part in its group" in caplog.text)
        assert keeper.role == "starting"
        await other.close()
        await clock.advance(TAKEN_AGAIN_MS)
        await until(lambda: keeper.role != "starting")


async def test_whom_a_leader_does_not_know_it_looks_for(one: Parts) -> None:
    clock, chance = ManualClock(), random.Random(1)
    ensemble = SimEnsemble(clock, chance, session_ms=10**9, watches_lost=1.0)
    async with elected(one.replica, ensemble.coordinator(), clock, chance) as keeper:
        await until(lambda: keeper.role != "starting")
        await ensemble.coordinator().join(replace(one.replica.member(), id=7))
        knows = one.replica.knows
        assert knows is not None
        assert not knows(7)
        await until(lambda: knows(7))
