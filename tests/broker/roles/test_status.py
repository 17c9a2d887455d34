"""How a replica stands in its group, as it tells those who ask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tests.broker.support.replica_parts import Parts
from tests.waiting import until

from rocketpipe.broker.roles.status import status_of
from rocketpipe.coordination.coordinator import GroupState, Leader, Member


async def test_who_leads_tells_of_its_followers(one: Parts, two: Parts) -> None:
    await two.replica.follow(await one.lead(4))
    await until(lambda: frozenset({1, 2}) in one.told.asked)
    await two.caught_up(one)
    await until(lambda: status_of(one.replica).in_sync == {1, 2})
    now = status_of(one.replica)
    assert (now.role, now.leads, now.epoch, now.id) == ("leading", True, 4, 1)
    assert [(each.id, each.lag) for each in now.followers] == [(2, 0)]
    assert now.following is None
    assert now.epochs == ((4, 0),)
    assert now.log_end == one.end


async def test_who_follows_tells_of_its_leader(one: Parts, two: Parts) -> None:
    await two.replica.follow(await one.lead(4))
    await two.caught_up(one)
    now = status_of(two.replica)
    assert (now.role, now.leads, now.epoch) == ("following", False, 4)
    assert now.leader is not None
    assert now.leader.address == one.replica.address
    assert now.following is not None
    assert (now.following.connected, now.following.leader_end) == (True, one.end)
    assert now.followers == ()
    assert now.in_sync == frozenset()


async def test_who_cannot_follow_says_why(one: Parts) -> None:
    nobody = Leader(id=2, epoch=1, address="127.0.0.1:1", ha_address="127.0.0.1:2")
    await one.replica.follow(nobody)
    await until(lambda: one.replica.refused)
    following = status_of(one.replica).following
    assert following is not None
    assert (following.connected, following.master_ha) == (False, "127.0.0.1:2")
    assert following.refused


async def test_who_knows_of_nobody_tells_the_epoch_that_it_joined(one: Parts) -> None:
    await one.lead(4)
    await one.replica.follow(None)
    now = status_of(one.replica)
    assert (now.epoch, now.leader) == (4, None)


async def test_a_coordinator_knows_more_of_the_group(one: Parts) -> None:
    others = {
        number: Member(id=number, address=f"10.0.0.{number}:1", ha_address="")
        for number in (1, 2, 3)
    }
    state = GroupState(epoch=1, in_sync=frozenset({1, 3}), members=others, in_sync_version=6)
    keeper = cast("Any", SimpleNamespace(role="candidate", state=state))
    now = status_of(one.replica, keeper)
    assert (now.role, now.in_sync, now.in_sync_version) == ("candidate", {1, 3}, 6)
    assert now.addresses == {1: "10.0.0.1:1", 2: "10.0.0.2:1", 3: "10.0.0.3:1"}


async def test_settings_that_changed_are_those_of_now(one: Parts) -> None:
    one.core.settings.change({"minInSyncReplicas": "3"})
    assert status_of(one.replica).min_in_sync == 3
