"""What a doctor makes of replicas: each rule by itself, then of replicas on real sockets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.broker.support.group_status import following, leading
from tests.client.admin.support.replicas import replicas as running

from rocketpipe.client.admin.diagnosis import Diagnosis
from rocketpipe.client.admin.findings import Finding, Level
from rocketpipe.client.admin.replica_findings import BEHIND_BYTES, replicas
from rocketpipe.client.admin.replicas import ReplicaInfo
from rocketpipe.client.session import Session
from rocketpipe.protocol.refusals import ACKNOWLEDGED_WOULD_GO
from rocketpipe.testing import Cluster

LEADER = ReplicaInfo(
    cluster="c", broker="b", id=0, address="h:1", role="leader", epoch=3, log_end=9, lag=0,
    in_sync=True,
)  # fmt: skip
FOLLOWER = ReplicaInfo(
    cluster="c", broker="b", id=2, address="h:2", role="follower", epoch=3, log_end=9, lag=0,
    in_sync=True, follows="h:10912",
)  # fmt: skip
SYNC = {"brokerRole": "SYNC_MASTER", "minInSyncReplicas": "2"}


def found(*rows: ReplicaInfo, settings: dict[str, str] | None = None) -> dict[str, Finding]:
    return {each.what: each for each in replicas("b", rows, SYNC if settings is None else settings)}


def test_replicas_that_keep_up_are_well() -> None:
    told = found(LEADER, FOLLOWER)
    assert {each.level for each in told.values()} == {Level.OK}
    assert told["in-sync replicas of b"].detail == "2, of at least 2"
    assert told["replica 2 of b"].detail == "follows h:10912, 0 bytes behind"


def test_a_broker_alone_is_not_spoken_of() -> None:
    assert found(LEADER, settings={"brokerRole": "ASYNC_MASTER"}) == {}


def test_a_replica_that_is_far_behind_is_noticed() -> None:
    near = replace(FOLLOWER, lag=BEHIND_BYTES)
    assert found(LEADER, near)["replica 2 of b"].level is Level.OK
    far = found(LEADER, replace(FOLLOWER, lag=BEHIND_BYTES + 1))["replica 2 of b"]
    assert (far.level, far.detail) == (Level.WARNING, "16 MiB behind h:10912")
    assert far.remedy is not None
    assert "haStatus -b h:2" in far.remedy


def test_a_follower_that_follows_nobody_is_a_problem() -> None:
    told = found(LEADER, replace(FOLLOWER, follows=None))["replica 2 of b"]
    assert (told.level, told.detail) == (Level.PROBLEM, "follows nobody")


def test_why_it_follows_nobody_is_told_if_it_says_so() -> None:
    told = found(LEADER, replace(FOLLOWER, follows=None, refused="no route"))["replica 2 of b"]
    assert told.detail == "follows nobody: no route"


def test_of_a_leader_that_lacks_what_its_followers_have_the_way_out_is_named() -> None:
    """Sends that an old copy of a directory takes alone are a second history."""
    settings = {**SYNC, "zookeeperAddr": "z:2181"}
    refused = f"apart at 5: {ACKNOWLEDGED_WOULD_GO}"
    second = replace(FOLLOWER, follows=None, lag=-1, log_end=10, in_sync=False)
    third = replace(second, id=3, lag=-3, log_end=12, refused=refused)
    told = found(LEADER, second, third, settings=settings)
    one = told["replica 3 of b"]
    assert one.level is Level.PROBLEM
    assert one.detail == f"follows nobody, and has 3 bytes more than its leader: {refused}"
    for each in ("replica 2 of b", "replica 3 of b"):
        remedy = told[each].remedy or ""
        assert "stop it, rocketpipe broker lead b --id 3 --yes, empty the directory" in remedy
    few = told["in-sync replicas of b"]
    assert few.level is Level.PROBLEM
    assert "minInSyncReplicas" not in (few.remedy or "")
    # What it wrote when it came to lead may be more than what it lacks.
    told = found(LEADER, replace(third, lag=4), settings=SYNC)
    assert told["replica 3 of b"].detail == f"follows nobody: {refused}"
    assert "start replica 3 as the master" in (told["replica 3 of b"].remedy or "")
    assert "minInSyncReplicas" not in (told["in-sync replicas of b"].remedy or "")


def test_two_leaders_of_one_name_are_a_problem() -> None:
    told = found(LEADER, replace(LEADER, address="h:3", epoch=2))["leader of b"]
    assert told.level is Level.PROBLEM
    assert "h:1 (epoch 3), h:3 (epoch 2)" in told.detail


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        (SYNC, Level.PROBLEM),
        ({**SYNC, "minInSyncReplicas": "1"}, Level.OK),
        ({**SYNC, "brokerRole": "ASYNC_MASTER"}, None),
        ({}, None),
    ],
)
def test_too_few_in_sync_is_a_problem_where_they_are_waited_for(
    settings: dict[str, str], level: Level | None
) -> None:
    told = found(LEADER, replace(FOLLOWER, in_sync=False), settings=settings)
    one = told.get("in-sync replicas of b")
    assert (one.level if one is not None else None) is level
    if level is Level.PROBLEM:
        assert one is not None
        assert "sends are refused" in one.detail
        assert "minInSyncReplicas=1" in (one.remedy or "")


def test_what_is_not_known_is_not_counted() -> None:
    told = found(LEADER, replace(FOLLOWER, in_sync=None, lag=None))
    assert "in-sync replicas of b" not in told
    assert "unknown how far" in told["replica 2 of b"].detail


async def test_a_doctor_finds_them_in_a_cluster(servers: Cluster) -> None:
    async with (
        Session(servers.name_server) as session,
        running(servers.name_server, leading(), following(), following(id=3, following=None)) as (
            first,
            second,
            _,
        ),
    ):

        async def told() -> dict[str, Finding]:
            return {each.what: each async for each in Diagnosis(session).findings()}

        seen = await told()
        assert seen["replica 2 of broker-r"].level is Level.OK
        assert seen["replica 3 of broker-r"].detail == "follows nobody"
        assert seen["in-sync replicas of broker-r"].level is Level.OK
        assert "replica" not in " ".join(what for what in seen if servers.broker in what)
        first.status = leading(in_sync=frozenset({1}))
        second.leads(epoch=2)
        seen = await told()
        assert seen["in-sync replicas of broker-r"].level is Level.PROBLEM
        assert seen["leader of broker-r"].level is Level.PROBLEM
        await first.registrar.unregister()
        seen = await told()
        assert seen["broker broker-r"].detail == "has no leader"
