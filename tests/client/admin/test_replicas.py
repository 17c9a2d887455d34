"""Who leads, who follows, and how far they are; asked of replicas on real sockets."""

from __future__ import annotations

import pytest
from tests.broker.support.group_status import following, leading
from tests.client.admin.support.replicas import replicas

from rocketpipe.broker.replication.status import FollowingStatus
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.fleet import NoBroker
from rocketpipe.client.admin.replicas import Elected
from rocketpipe.errors import RequestRejected
from rocketpipe.testing import Cluster


async def test_every_replica_is_listed_with_how_far_it_is(servers: Cluster, admin: Admin) -> None:
    async with replicas(servers.name_server, leading(), following(), following(id=3)) as made:
        leader, second, third = await admin.replicas.all(broker="broker-r")
        assert (leader.id, leader.role, leader.address) == (0, "leader", made[0].address)
        assert (leader.epoch, leader.log_end, leader.lag, leader.in_sync) == (3, 1000, 0, True)
        assert (second.id, second.role, second.lag) == (2, "follower", 100)
        assert (second.in_sync, second.follows) == (True, "127.0.0.1:10912")
        assert (third.id, third.in_sync) == (3, False)
        status = await admin.replicas.ha_status(made[0].address)
        assert len(status.followers) == 2
        epochs = (await admin.replicas.epochs(made[1].address)).epochs
        assert [span.epoch for span in epochs] == [1, 3]
        group = await admin.replicas.in_sync("broker-r")
        assert {one.id for one in group.in_sync} == {1, 2}


async def test_where_a_replica_is_comes_from_the_name_servers_if_its_leader_does_not_know(
    servers: Cluster, admin: Admin
) -> None:
    async with replicas(servers.name_server, leading(addresses={}), following()) as made:
        group = await admin.replicas.in_sync("broker-r")
        assert [one.address for one in group.in_sync] == [each.address for each in made]


async def test_a_broker_without_replicas_is_its_own_leader(servers: Cluster, admin: Admin) -> None:
    (one,) = await admin.replicas.all()
    assert (one.id, one.role, one.address, one.lag) == (0, "leader", servers.broker, 0)
    assert one.epoch is None
    with pytest.raises(RequestRejected):
        await admin.replicas.epochs(servers.broker)
    with pytest.raises(RequestRejected, match="zookeeperAddr"):
        await admin.replicas.elect(one.broker, 1)


async def test_one_that_is_ahead_and_does_not_follow_is_shown_as_such(
    servers: Cluster, admin: Admin
) -> None:
    refusing = FollowingStatus(master_ha="h:1", connected=False, refused="it would go")
    ahead = following(log_end=1003, following=refusing)
    async with replicas(servers.name_server, leading(), ahead, following(id=3, log_end=1003)):
        _, second, third = await admin.replicas.all(broker="broker-r")
        assert (second.lag, second.follows, second.refused) == (-3, None, "it would go")
        assert (third.lag, third.refused) == (0, None)  # it was asked later than its leader


async def test_one_that_does_not_answer_is_listed_as_such(servers: Cluster, admin: Admin) -> None:
    async with replicas(servers.name_server, leading(), following()) as made:
        made[1].registrar._address = "127.0.0.1:1"
        await made[1].register()
        leader, gone = await admin.replicas.all(broker="broker-r")
        assert leader.role == "leader"
        assert (gone.role, gone.lag, gone.in_sync) == (None, None, True)
        assert gone.problem


async def test_without_a_leader_nobody_is_compared(servers: Cluster, admin: Admin) -> None:
    async with replicas(servers.name_server, following()):
        (one,) = await admin.replicas.all(broker="broker-r")
        assert (one.role, one.lag, one.in_sync, one.log_end) == ("follower", None, None, 900)
        with pytest.raises(NoBroker, match="no leader"):
            await admin.replicas.in_sync("broker-r")


async def test_another_is_made_to_lead(servers: Cluster, admin: Admin) -> None:
    async with replicas(servers.name_server, leading(), following()) as (first, second):

        async def resign(to: int | None) -> None:
            second.leads(epoch=4)
            first.status = following(id=1, leader=second.status.leader)

        first.view.resign = resign
        done = await admin.replicas.elect("broker-r", 2)
        assert done == Elected(broker="broker-r", id=2, address=second.address, epoch=4)
