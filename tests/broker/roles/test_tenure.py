"""A time as leader: it serves once all that was inherited shows, and can end at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.broker.support.replica_parts import Parts, replica_parts
from tests.broker.support.scripted_follower import ScriptedFollower, following
from tests.waiting import until

from rocketpipe.broker.roles import tenure
from rocketpipe.broker.roles.tenure import STORE_EVERY_MS, LeadershipLost
from rocketpipe.coordination.coordinator import NotInSync
from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import GetMaxOffset
from rocketpipe.store.upkeep.retention import Pin, Pins
from rocketpipe.testing.clock import ManualClock

ASK = GetMaxOffset(topic="t", queue_id=0)


async def inheriting(one: Parts, two: Parts) -> asyncio.Task[object]:
    """Three messages that both have, unconfirmed for want of a third; replica 2 begins to lead."""
    await two.replica.follow(await one.lead(1, 9))
    await two.caught_up(one)
    one.append(3)
    await two.caught_up(one)
    one.replica.step_down("another leads")
    two.replica.stop_following()
    assert two.core.store.positions.confirmed < two.end
    promotion = asyncio.create_task(two.lead(2, 1))
    await until(lambda: two.replica.followers is not None)
    return promotion


async def test_who_leads_takes_sends_in_its_epoch(one: Parts) -> None:
    with pytest.raises(RequestRejected, match="not the master"):
        await one.send()
    await one.lead(3)
    assert (await one.send()).queue_offset == 0
    assert one.run.epochs.last_epoch == one.run.joined.epoch == 3


async def test_a_second_epoch_of_one_leader_goes_on_where_the_first_ended(one: Parts) -> None:
    await one.lead(1)
    await one.send()
    before = one.replica.followers
    await one.lead(2)
    assert one.replica.followers is not before
    assert (await one.send()).queue_offset == 1
    assert [each.epoch for each in one.run.epochs.entries] == [1, 2]


async def test_nobody_is_answered_before_the_in_sync_set_has_what_was_inherited(
    one: Parts, two: Parts
) -> None:
    promotion = await inheriting(one, two)
    asking = asyncio.create_task(two.ask(ASK))
    await until(lambda: not two.board._taken.is_set())
    two.core.visibility.dispatch()
    assert not asking.done()
    assert not promotion.done()
    await one.replica.follow(two.leadership(2).leader)
    await promotion
    assert (await asking).offset == 3


async def test_a_step_down_in_the_midst_of_a_promotion_ends_it(one: Parts, two: Parts) -> None:
    promotion = await inheriting(one, two)
    asking = asyncio.create_task(two.send())
    await until(lambda: not two.board._taken.is_set())
    two.replica.step_down("its session is over")
    with pytest.raises(LeadershipLost):
        await promotion
    with pytest.raises(RequestRejected, match="has no leader now"):
        await asking
    assert not two.replica.leads
    assert two.replica.followers is None
    assert two.run.serves
    await one.replica.follow(None)
    await two.lead(3)
    assert (await two.send()).queue_offset == 3


async def test_a_promotion_that_is_cancelled_leaves_a_follower(one: Parts, two: Parts) -> None:
    promotion = await inheriting(one, two)
    promotion.cancel()
    await asyncio.wait([promotion])
    assert not two.replica.leads
    assert two.run.serves
    await two.replica.follow(await one.lead(3))
    await two.caught_up(one)


async def test_a_store_that_fails_in_the_midst_of_a_promotion_ends_it(
    one: Parts, two: Parts
) -> None:
    promotion = await inheriting(one, two)
    two.core.store.health.fail("the disk is gone")
    with pytest.raises(StoreError, match="the disk is gone"):
        await promotion
    assert not two.replica.leads
    assert two.core.standing.refusal is not None


async def test_who_waits_for_replicas_hears_14_when_their_leader_steps_down(one: Parts) -> None:
    await one.lead(1, 2)  # without 2 nothing is acknowledged
    end = one.end
    sending = asyncio.create_task(one.send())
    await until(lambda: one.end > end)
    one.replica.step_down("another leads")
    with pytest.raises(RequestRejected) as refused:
        await sending
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    stored = one.end
    with pytest.raises(RequestRejected):
        await one.send()
    assert one.end == stored


async def test_no_follower_connects_to_who_does_not_lead(one: Parts, two: Parts) -> None:
    leader = await one.lead(1)
    one.replica.step_down("another leads")
    await two.replica.follow(leader)
    await until(lambda: two.replica.refused is not None or two.replica.following is not None)
    assert not two.replica.is_connected
    await two.replica.follow(await one.lead(2))
    await two.caught_up(one)


async def test_a_leader_whose_store_failed_has_another_lead(one: Parts, two: Parts) -> None:
    aside = asyncio.Event()

    async def stand_aside() -> None:
        aside.set()

    one.replica.stand_aside = stand_aside
    await one.lead(1)
    await two.replica.follow(await one.lead(2))
    await until(lambda: frozenset({1, 2}) in one.told.asked)
    one.core.store.health.fail("the disk is gone")
    await aside.wait()


async def test_a_follower_that_has_everything_is_found_and_nothing_is_sent_meanwhile(
    one: Parts, two: Parts
) -> None:
    await two.replica.follow(await one.lead(1))
    await until(lambda: frozenset({1, 2}) in one.told.asked)
    one.append(100)
    assert await one.replica.hand_over(2) == 2
    assert two.end == one.end
    sending = asyncio.create_task(one.send())
    one.replica.step_down("it resigned")
    leader = await two.lead(2)
    await one.replica.follow(leader)
    assert (await sending).queue_offset == 100, "it was passed on"


async def test_who_has_nobody_to_hand_over_to_goes_on(one: Parts) -> None:
    assert await one.replica.hand_over() is None
    await one.lead(1)
    assert await one.replica.hand_over() is None
    assert (await one.send()).queue_offset == 0


@asynccontextmanager
async def led(root: Path) -> AsyncIterator[tuple[Parts, ScriptedFollower]]:
    """Replica 1 leads 2, which is in sync and says no more of what it takes in."""
    async with replica_parts(root) as parts:
        address = (await parts.lead(1, 2)).ha_address
        async with following(address, 2) as follower:
            await until(lambda: any(each.in_sync for each in parts.replica.status().followers))
            yield parts, follower


def takes_requests(parts: Parts) -> bool:
    return parts.board._taken.is_set()


async def test_requests_wait_until_a_follower_has_everything(tmp_path: Path) -> None:
    async with led(tmp_path) as (parts, follower):
        end = parts.append(3)
        handing = asyncio.create_task(parts.replica.hand_over())
        await until(lambda: not takes_requests(parts) and follower.end == end)
        assert not handing.done()
        follower.report(end)
        assert await handing == 2
        assert not takes_requests(parts), "the next leader is about to come"


async def test_nobody_is_named_who_does_not_catch_up_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenure, "CATCH_UP_MS", 50)
    async with led(tmp_path) as (parts, _):
        parts.append(3)
        assert await parts.replica.hand_over() is None
        assert takes_requests(parts)


async def test_nobody_is_named_who_may_not_lead_or_was_not_wanted(tmp_path: Path) -> None:
    async with led(tmp_path) as (parts, follower):
        follower.report(parts.end)
        assert await parts.replica.hand_over(3) is None
        parts.replica.candidates = tuple  # the machine of 2 crashed, though it follows again
        assert await parts.replica.hand_over() is None
        assert takes_requests(parts)
        parts.replica.candidates = lambda: {2}
        assert await parts.replica.hand_over() == 2


async def test_a_damaged_log_has_another_lead_as_soon_as_one_may(tmp_path: Path) -> None:
    clock, asked = ManualClock(), []

    async def resign(to: int | None) -> None:
        asked.append(to)
        raise NotInSync("none has everything yet")

    async with replica_parts(tmp_path, clock=clock) as parts:
        parts.replica.resign = resign
        parts.replica.candidates = tuple
        await parts.lead()
        parts.core.store.damaged.found(40)
        await clock.advance(10 * STORE_EVERY_MS)
        assert asked == []
        parts.replica.candidates = lambda: {2}
        await clock.advance(2 * STORE_EVERY_MS)
        assert asked == [None, None], "and again, while nobody could"


def held(parts: Parts) -> set[str]:
    return {pin.owner for pin in parts.core.pins._pins}


async def test_the_log_is_held_by_the_leaders_role_or_for_the_leader_at_every_moment(
    one: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = {"delayed messages", "timed messages"}
    assert held(one) == {"the leader's log"}
    seen: list[set[str]] = []

    def note(pins: Pins, pin: Pin) -> None:
        release(pins, pin)
        seen.append(held(one))

    release = Pins._release
    monkeypatch.setattr(Pins, "_release", note)
    await one.lead(1)
    assert roles < held(one)
    assert "the leader's log" not in held(one)
    await one.lead(2)
    assert "the leader's log" not in held(one)
    one.replica.step_down("another leads")
    assert "the leader's log" in held(one)
    await one.replica.follow(None)
    assert held(one) == {"the leader's log"}
    assert seen
    assert all("the leader's log" in each or roles < each for each in seen)


async def test_a_promotion_that_fails_leaves_the_log_held_for_the_next_leader(
    one: Parts, two: Parts
) -> None:
    promotion = await inheriting(one, two)
    two.replica.step_down("its session is over")
    with pytest.raises(LeadershipLost):
        await promotion
    assert held(two) == {"the leader's log"}
