"""Who enters and leaves the coordinator's set, and in which order that is told and gone by."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.broker.support.leader_parts import LeaderParts, elected, fixed, leading
from tests.broker.support.scripted_follower import ScriptedFollower, following
from tests.waiting import until

from rocketpipe.coordination.coordinator import CoordinatorAway, Fenced
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.testing.clock import ManualClock

ALL = {1, 2, 3}


class Gate:
    """Keeps the coordinator's answer back until it is opened."""

    def __init__(self) -> None:
        self._open = asyncio.Event()

    async def __call__(self) -> None:
        await self._open.wait()

    def open(self) -> None:
        self._open.set()


def sets(parts: LeaderParts) -> list[set[int]]:
    return [set(each) for each in parts.told.asked]


async def turned_until(clock: ManualClock, holds: object, every_ms: int = 100) -> None:
    assert callable(holds)
    for _ in range(200):
        if holds():
            return
        await clock.advance(every_ms)
        await asyncio.sleep(0.001)  # sockets have their turn
    raise AssertionError("it never came")


async def caught_up(parts: LeaderParts, *followers: ScriptedFollower) -> None:
    for each in followers:
        each.reports = True
        each.report(max(each.end, 0))
    await until(lambda: all(each.end == parts.end for each in parts.followers.status()))


async def test_every_member_has_to_have_it(tmp_path: Path) -> None:
    async with (
        leading(tmp_path, elected(), in_sync=ALL) as parts,
        following(parts.address, 2) as two,
        following(parts.address, 3) as three,
    ):
        two.reports = True
        end = parts.append()
        await until(lambda: three.end == end)
        await until(lambda: parts.end_of(2) == end)
        assert parts.acknowledged == 0
        three.report(end)
        await parts.reached(end)


async def test_a_member_that_is_not_there_freezes_it(tmp_path: Path) -> None:
    """To count only who has reported would acknowledge what the third has not."""
    async with (
        leading(tmp_path, elected(), in_sync=ALL) as parts,
        following(parts.address, 2) as two,
    ):
        two.reports = True
        end = parts.append()
        await until(lambda: parts.end_of(2) == end)
        assert parts.acknowledged == 0
        assert parts.followers.refusal() is None
        async with following(parts.address, 3) as three:
            three.reports = True
            await parts.reached(end)
        await parts.heard(1)
        later = parts.append()
        await until(lambda: parts.end_of(2) == later)
        assert parts.acknowledged == end


async def test_alone_it_acknowledges_by_itself_if_that_is_wanted(tmp_path: Path) -> None:
    async with leading(tmp_path, elected(min_in_sync=1), in_sync={1}) as parts:
        assert await parts.followers.acknowledged(parts.append()) == 0
        assert parts.followers.late is not None
        assert parts.followers.late[0] == 1
    async with leading(tmp_path / "two", elected(), in_sync={1}) as parts:
        assert parts.followers.refusal() is not None


async def test_who_enters_is_required_before_the_coordinator_hears_of_it(tmp_path: Path) -> None:
    clock, gate = ManualClock(), Gate()
    async with (
        leading(tmp_path, elected(), clock, in_sync={1, 2}) as parts,
        following(parts.address, 2) as two,
    ):
        await caught_up(parts, two)
        await parts.reached(parts.append())
        seen = parts.end
        parts.told.before = gate
        async with following(parts.address, 3, 0) as three:
            await until(lambda: three.end == seen)
            assert sets(parts) == []
            three.report(seen)
            await turned_until(clock, lambda: sets(parts) == [ALL])
            end = parts.append()
            await until(lambda: two.end == three.end == end)
            await until(lambda: parts.end_of(2) == end)
            assert parts.acknowledged == seen, "who is about to enter does not have it"
            three.report(end)
            await parts.reached(end)
            assert not parts.followers.status()[1].in_sync
            gate.open()
            await until(lambda: parts.followers.status()[1].in_sync)


async def test_who_leaves_is_required_until_the_coordinator_knows(tmp_path: Path) -> None:
    clock, gate = ManualClock(), Gate()
    async with (
        leading(tmp_path, elected(max_lag_ms=1_000), clock, in_sync=ALL) as parts,
        following(parts.address, 2) as two,
        following(parts.address, 3) as three,
    ):
        await caught_up(parts, two, three)
        three.reports = False
        end = parts.append()
        parts.told.before = gate
        await clock.advance(900)
        assert sets(parts) == []
        await turned_until(clock, lambda: sets(parts) == [{1, 2}])
        await until(lambda: parts.end_of(2) == end)
        assert parts.acknowledged == 0, "it may still be elected"
        gate.open()
        await parts.reached(end)
        assert parts.followers.refusal() is None


async def test_what_is_in_too_few_logs_is_not_acknowledged(tmp_path: Path) -> None:
    """It was appended while there were enough; since then the only other one has left the set."""
    clock = ManualClock()
    async with (
        leading(tmp_path, elected(max_lag_ms=1_000), clock, in_sync={1, 2}) as parts,
        following(parts.address, 2) as two,
    ):
        await caught_up(parts, two)
        two.reports = False
        end = parts.append()
        sent = asyncio.ensure_future(parts.followers.acknowledged(end))
        await turned_until(clock, lambda: sets(parts) == [{1}])
        await parts.reached(end)
        assert await sent == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert await parts.followers.acknowledged(end) == ResponseCode.FLUSH_SLAVE_TIMEOUT
        parts.followers.reconfigure(elected(min_in_sync=1))
        assert await parts.followers.acknowledged(end) == ResponseCode.SUCCESS


async def test_who_has_all_there_is_stays_however_long_nothing_comes(tmp_path: Path) -> None:
    clock = ManualClock()
    config = elected(max_lag_ms=1_000, silence_ms=10**6)
    async with (
        leading(tmp_path, config, clock, in_sync=ALL) as parts,
        following(parts.address, 2) as two,
        following(parts.address, 3) as three,
    ):
        await caught_up(parts, two, three)
        await clock.advance(60_000)
        three.reports = False
        parts.append()
        await clock.advance(900)
        assert sets(parts) == []
        await turned_until(clock, lambda: sets(parts) == [{1, 2}])


async def test_who_keeps_up_stays_though_more_comes_all_the_time(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        leading(tmp_path, elected(max_lag_ms=1_000), clock, in_sync={1, 2}) as parts,
        following(parts.address, 2) as two,
    ):
        await caught_up(parts, two)
        two.reports = False
        ends = [parts.append()]
        for _ in range(30):
            ends.append(parts.append())
            await until(lambda: two.end == parts.end)
            two.report(ends[-2])  # always one behind
            await parts.reached(ends[-2])
            await clock.advance(200)
        assert sets(parts) == []


async def test_one_that_lost_what_it_had_leaves_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    async with (
        leading(tmp_path, elected(), clock, in_sync=ALL) as parts,
        following(parts.address, 2) as two,
    ):
        async with following(parts.address, 3) as three:
            await caught_up(parts, two, three)
            await parts.reached(parts.append())
            seen = parts.end
        await parts.heard(1)
        async with following(parts.address, 3, seen // 2):
            await until(lambda: sets(parts)[:1] == [{1, 2}])
            assert parts.acknowledged == seen
            assert "replica has lost what it had" in caplog.text


async def test_one_that_comes_back_with_all_of_it_stays(tmp_path: Path) -> None:
    async with leading(tmp_path, elected(), in_sync={1, 2}) as parts:
        async with following(parts.address, 2) as two:
            await caught_up(parts, two)
            await parts.reached(parts.append())
        await parts.heard(0)
        async with following(parts.address, 2, parts.end) as two:
            two.reports = True
            await parts.reached(parts.append())
            assert sets(parts) == []


async def test_a_member_that_never_had_what_was_acknowledged_leaves(tmp_path: Path) -> None:
    async with leading(tmp_path, elected(min_in_sync=1), in_sync={1}) as parts:
        await parts.followers.acknowledged(parts.append())
        parts.followers.fail(14, "over")
    async with leading(tmp_path, elected(), in_sync={1, 2}) as parts:
        parts.store.dispatch()
        parts.followers.fail(14, "over")
        parts.store.positions.begin_acknowledged(parts.store.positions.written)
        parts.lead(2)
        keeping = asyncio.ensure_future(parts.followers.keep_current())
        async with following(parts.address, 2):
            await until(lambda: sets(parts) == [{1}])
        keeping.cancel()


async def test_learners_never_enter(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        leading(tmp_path, elected(), clock, in_sync={1}) as parts,
        following(parts.address, 2, learner=True) as two,
    ):
        await caught_up(parts, two)
        await clock.advance(1_000)
        assert sets(parts) == []


async def test_without_the_coordinator_what_is_pending_counts_in_full(tmp_path: Path) -> None:
    clock = ManualClock()

    async def away() -> None:
        raise CoordinatorAway("no answer")

    async with (
        leading(tmp_path, elected(max_lag_ms=2_000), clock, in_sync={1, 2}) as parts,
        following(parts.address, 2) as two,
    ):
        await caught_up(parts, two)
        parts.told.before = away
        async with following(parts.address, 3) as three:
            await caught_up(parts, two, three)
            await turned_until(clock, lambda: len(sets(parts)) >= 2)
            assert set.union(*sets(parts)) == ALL
        await parts.heard(1)
        end = parts.append()
        await until(lambda: parts.end_of(2) == end)
        assert parts.acknowledged == 0, "the coordinator may have it in its set"
        parts.told.before = None
        parts.told.asked.clear()
        await turned_until(clock, lambda: {1, 2} in sets(parts))
        await parts.reached(end)


async def test_one_that_was_replaced_says_so(tmp_path: Path) -> None:
    async def replaced() -> None:
        raise Fenced("epoch 2 began")

    async with leading(tmp_path, elected(), in_sync={1}) as parts:
        parts.told.before = replaced
        keeping = asyncio.ensure_future(parts.followers.keep_current())
        async with following(parts.address, 2) as two:
            two.report(0)
            await asyncio.wait([keeping], timeout=None)
        with pytest.raises(Fenced, match="epoch 2 began"):
            keeping.result()


async def test_after_its_end_the_set_is_left_alone(tmp_path: Path) -> None:
    clock = ManualClock()
    async with leading(tmp_path, elected(), clock, in_sync=ALL) as parts:
        parts.followers.fail(14, "over")
        await clock.advance(20_000)
        assert sets(parts) == []


async def test_ids_that_were_made_up_are_not_collected(tmp_path: Path) -> None:
    async with leading(tmp_path, elected(min_in_sync=1), in_sync={1}) as parts:
        for number in range(100, 120):
            async with following(parts.address, number, learner=True):
                await parts.heard(1)
            await parts.heard(0)
        kept = parts.followers._elected
        assert kept is not None
        assert (kept._most, set(kept._caught_up_ms)) == ({}, {1})


async def test_a_member_that_ended_is_not_waited_for(tmp_path: Path) -> None:
    """Neither connected nor seen by the coordinator; one that is still either is given its time."""
    clock = ManualClock()
    async with (
        leading(tmp_path, elected(), clock, in_sync=ALL, members=ALL) as parts,
        following(parts.address, 2) as two,
    ):
        await caught_up(parts, two)
        end = parts.append()
        await clock.advance(parts.config.max_lag_ms // 2)
        assert sets(parts) == []
        parts.members = {1}
        await turned_until(clock, lambda: sets(parts), every_ms=10)
        assert sets(parts) == [{1, 2}]
        await parts.reached(end)


# Fixed roles


@pytest.mark.parametrize("number", [None, 3])
async def test_a_slave_that_stalls_holds_nobody_up_for_longer_than_a_send_waits(
    tmp_path: Path, number: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    clock, told = ManualClock(), list[int]()
    async with (
        leading(tmp_path, fixed(), clock) as parts,
        following(parts.address, 2) as well,
        following(parts.address, number) as stalled,
    ):
        well.reports = True
        await parts.heard(2)
        end = parts.append()
        parts.followers.when_acknowledged(LogOffset(end), lambda code, _: told.append(code))
        await turned_until(clock, lambda: told)
        assert told == [0]
        assert clock.monotonic_ms() < parts.config.slave_timeout_ms
        assert [each.in_sync for each in parts.followers.status()] == [True, False]
        await until(lambda: stalled.end == end)
        stalled.report(end)
        await turned_until(clock, lambda: parts.followers.status()[1].in_sync)
        assert sum("fallen behind" in line for line in caplog.messages) == 1


async def test_with_the_only_slave_stalled_sends_are_refused_and_then_taken_again(
    tmp_path: Path,
) -> None:
    clock, told = ManualClock(), list[int]()
    async with (
        leading(tmp_path, fixed(), clock) as parts,
        following(parts.address, 2) as slave,
    ):
        await parts.heard(1)
        end = parts.append()
        parts.followers.when_acknowledged(LogOffset(end), lambda code, _: told.append(code))
        await turned_until(clock, lambda: parts.followers.refusal() is not None)
        assert "1 of minInSyncReplicas 2" in str(parts.followers.refusal())
        await until(lambda: slave.end == end)
        slave.report(end)
        await until(lambda: told)
        assert (told, parts.followers.refusal()) == ([0], None)
