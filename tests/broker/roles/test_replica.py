"""A replica follows and leads in one run after another, whatever fails on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.broker.support.replica_parts import Parts, replica_parts
from tests.waiting import until

from rocketpipe.broker.roles.replica import PASS_ON_MS
from rocketpipe.broker.roles.run import LOST, Run
from rocketpipe.broker.roles.tenure import LeadershipLost
from rocketpipe.clock import SystemClock
from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.protocol.refusals import leader_in, stored_nothing
from rocketpipe.protocol.requests.offsets import GetMaxOffset

ASK = GetMaxOffset(topic="t", queue_id=0)


class LateClock(SystemClock):
    """Time that passes by itself, and at once where a test says so."""

    later_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.later_ms


class FailingRuns:
    """Opens no store while it ``fails``."""

    def __init__(self, parts: Parts) -> None:
        self._runs = parts.replica._runs
        self.fails = True
        self.tried = 0
        parts.replica._runs = self.opened

    @asynccontextmanager
    async def opened(self, segment_bytes: int | None) -> AsyncIterator[Run]:
        self.tried += 1
        if self.fails:
            raise StoreError("the directory cannot be used")
        async with self._runs(segment_bytes) as run:
            yield run


async def test_it_leads_and_follows_in_one_run(one: Parts, two: Parts) -> None:
    runs = one.run, two.run
    await two.replica.follow(await one.lead(1))
    await one.send()
    await two.caught_up(one)
    await one.replica.follow(await two.lead(2))
    assert (one.replica.leads, two.replica.leads) == (False, True)
    await two.send()
    await one.caught_up(two)
    assert (one.run, two.run) == runs
    with pytest.raises(RequestRejected) as refused:
        await one.send()
    assert leader_in(refused.value.remark) == two.replica.address


async def test_who_follows_nobody_answers_what_readers_ask(one: Parts) -> None:
    await one.lead(1)
    await one.send()
    await one.replica.follow(None)
    assert (await one.ask(ASK)).offset == 1
    with pytest.raises(RequestRejected, match="has no leader now"):
        await one.send()


async def test_sends_are_passed_on_for_a_while_after_a_planned_switch(tmp_path: Path) -> None:
    clock = LateClock()
    async with (
        replica_parts(tmp_path / "1", clock=clock) as one,
        replica_parts(tmp_path / "2", 2) as two,
    ):
        await two.replica.follow(await one.lead(1))
        await until(lambda: frozenset({1, 2}) in one.told.asked)
        assert await one.replica.hand_over() == 2
        await one.replica.follow(await two.lead(2))
        assert (await one.send()).queue_offset == 0
        clock.later_ms = PASS_ON_MS
        with pytest.raises(RequestRejected) as refused:
            await one.send()
        assert leader_in(refused.value.remark) == two.replica.address


async def test_who_was_replaced_before_its_turn_does_not_begin_to_lead(one: Parts) -> None:
    async with one.replica._turn:
        promotion = asyncio.create_task(one.lead(1))
        await until(lambda: one.replica.leads)
        one.replica.step_down("its session is over")
    with pytest.raises(LeadershipLost, match="replaced before it had begun"):
        await promotion
    assert not one.run.epochs.entries
    assert (await one.ask(ASK)).offset == 0


async def test_only_who_has_stored_nothing_is_told_so_once_nobody_leads(one: Parts) -> None:
    await one.lead(1, 9)
    positions = one.run.core.store.positions
    end = positions.written
    waiting = asyncio.create_task(one.send())
    await until(lambda: positions.written > end)
    one.replica.step_down("its session is over")
    with pytest.raises(RequestRejected, match="leads no longer") as before:
        await waiting
    with pytest.raises(RequestRejected, match="has no leader now") as after:
        await one.send()
    assert not stored_nothing(before.value.code, before.value.remark)
    assert stored_nothing(after.value.code, after.value.remark)


async def test_a_store_that_cannot_be_opened_again_is_tried_until_it_can(
    one: Parts, two: Parts
) -> None:
    await two.replica.follow(await one.lead(1, 9))
    await two.caught_up(one)
    two.replica.stop_following()
    one.append(3)  # which only replica 1 has
    runs = FailingRuns(one)
    one.replica.step_down("another leads")
    await one.replica.follow(await two.lead(2))
    await until(lambda: one.replica.refused)
    assert "the directory cannot be used" in (one.replica.refused or "")
    with pytest.raises(RequestRejected, match="ask again"):
        await one.ask(ASK)
    runs.fails = False
    await one.caught_up(two)
    assert one.replica.refused is None
    assert (await one.ask(ASK)).offset == 0


async def test_who_has_no_store_cannot_lead_and_follows_once_it_has(one: Parts, two: Parts) -> None:
    runs = FailingRuns(one)
    with pytest.raises(StoreError):
        await one.replica._reopen(lambda: None)
    with pytest.raises(StoreError, match="the directory cannot be used"):
        await one.lead(1)
    assert not one.replica.leads
    with pytest.raises(StoreError):
        await one.replica.follow(None)
    runs.fails = False
    await one.replica.follow(await two.lead(2))
    await one.caught_up(two)


async def test_where_the_log_cannot_be_changed_the_run_goes_on_with_it(one: Parts) -> None:
    await one.lead(1)
    await one.send()
    await one.replica.follow(None)

    def change() -> None:
        raise StoreError("not today")

    with pytest.raises(StoreError, match="not today"):
        await one.replica._reopen(change)
    assert (await one.ask(ASK)).offset == 1


async def test_what_operators_changed_lasts_over_a_change_of_its_log(one: Parts) -> None:
    one.core.settings.change({"minInSyncReplicas": "3"})
    await one.replica._reopen(lambda: None)
    now = one.core.settings.now.replication
    assert now is not None
    assert now.min_in_sync == 3


async def test_who_lost_something_is_clean_once_it_has_all_that_is_confirmed(
    tmp_path: Path, one: Parts
) -> None:
    leader = await one.lead(1)
    async with replica_parts(tmp_path / "2", 2) as two:
        await two.replica.follow(leader)
        await two.caught_up(one)
        two.run.joined.save(boot_id=LOST)
    async with replica_parts(tmp_path / "2", 2) as two:
        assert not two.replica.member().clean
        told = asyncio.Event()
        two.replica.member_changed = told.set
        await two.replica.follow(leader)
        await told.wait()
        assert two.replica.member().clean
    async with replica_parts(tmp_path / "2", 2) as two:
        assert two.replica.member().clean


async def test_whose_store_has_failed_does_not_stand(one: Parts) -> None:
    assert one.replica.member().clean
    one.core.store.health.fail("the disk is gone")
    assert not one.replica.member().clean


async def test_a_replica_says_where_its_log_ends_and_whom_it_has_joined(
    one: Parts, two: Parts
) -> None:
    await one.replica.follow(await two.lead(7))
    await one.caught_up(two)
    mine = one.replica.member()
    assert (mine.id, mine.last_epoch, mine.log_end) == (1, 7, two.end)
    assert (mine.address, mine.ha_address) == (one.replica.address, one.replica.ha_address)


async def test_closing_ends_whatever_it_does(tmp_path: Path) -> None:
    async with replica_parts(tmp_path / "1") as one:
        await one.lead(1)
        await one.send()
        end = one.end
    async with replica_parts(tmp_path / "1") as one:
        assert one.end == end
        assert one.run.is_clean
        await one.replica.close()
        await one.replica.close()
