"""Who follows, who stands, who leads: the real keeper, a coordinator in memory, a turned clock."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from random import Random

import pytest
from tests.broker.replication.support.sim_group import SimGroup, SimReplica

from rocketpipe.broker.replication.role import LeaderPossible, RoleKeeper
from rocketpipe.coordination.coordinator import Fenced, GroupState, IdTaken, Leadership


async def _lead_by_one(group: SimGroup) -> SimReplica:
    """Have all three started and in sync, the first of them leading."""
    group[1].start()
    await group.until(lambda: group.leader)
    group[2].start()
    group[3].start()
    await group.until(lambda: group.ensemble.state().in_sync == {1, 2, 3})
    assert group.leader is group[1]
    return group[1]


async def test_the_first_to_ask_leads_alone_and_others_join_its_set_when_they_caught_up() -> None:
    async with SimGroup() as group:
        group[2].start()
        await group.until(lambda: group.leader)
        assert group[2].keeper.role == "leading"
        assert group.ensemble.elected[0].epoch == 1
        assert group.ensemble.state().in_sync == {2}
        group[1].start()
        await group.until(lambda: group.ensemble.state().in_sync == {1, 2})
        assert group[1].keeper.role == "following"
        assert group[1].keeper.leader == group.ensemble.state().leader


async def test_of_many_who_start_together_one_leads_and_is_alone_in_its_first_set() -> None:
    async with SimGroup() as group:
        for replica in group.replicas.values():
            replica.start()
        await group.until(lambda: group.ensemble.elected)
        assert len(group.ensemble.state().in_sync) == 1
        await group.until(lambda: group.ensemble.state().in_sync == {1, 2, 3})
        assert len(group.ensemble.elected) == 1


async def test_a_killed_leader_is_replaced_and_the_dead_leave_the_set_with_the_election() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        await first.kill()
        await group.until(lambda: group.leader)
        assert group.leader is not None
        assert group.ensemble.state().in_sync == {2, 3}
        assert group.ensemble.state().epoch == 2
        group[1].start()
        await group.until(lambda: group.ensemble.state().in_sync == {1, 2, 3})
        assert group[1].keeper.role == "following"


async def test_a_follower_closes_its_connection_before_it_stands() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        group[2].told.clear()
        await first.kill()
        await group.until(lambda: group.leader)
        told = [what for what in group[2].told + group[3].told if not what.startswith("follow")]
        assert told.index("stop following") < told.index("lead 2")


async def test_who_has_more_of_the_log_stands_first() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        group[2].linked = False  # still in the set, and behind
        await group.turn(100)
        await first.kill()
        await group.until(lambda: group.leader)
        assert group.leader is group[3]


async def test_who_is_not_in_the_set_does_not_stand_even_if_nobody_else_is_left() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        await group[2].kill()
        await group[3].kill()
        await group.until(lambda: group.ensemble.state().in_sync == {1})
        await first.kill()
        group[2].start()
        group[3].start()
        await group.turn(10_000)
        assert group.leader is None
        assert group.ensemble.state().epoch == 1
        group[1].start()
        await group.until(lambda: group.ensemble.state().in_sync == {1, 2, 3})


async def test_an_unclean_member_does_not_stand_unless_the_operator_says_so() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        await group[3].kill()
        await group[2].kill()
        await group.until(lambda: group.ensemble.state().in_sync == {1})
        await first.kill()
        first.clean = False
        first.start()
        await group.turn(10_000)
        assert group.leader is None
        assert (await first.keeper.without_leader()).in_sync == {1}
        first.has_word = True
        first.keeper.lead_anyway()
        await group.until(lambda: group.leader is first)


async def test_one_that_was_not_in_sync_leads_by_word_only_once_none_that_was_is_there() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        with pytest.raises(LeaderPossible, match="replica 1 leads"):
            await group[2].keeper.without_leader()
        await group[2].kill()
        await group.until(lambda: group.ensemble.state().in_sync == {1, 3})
        group[2].linked = False
        group[2].start()
        await first.crash(lost=1)
        await group[3].kill()
        first.start()
        await group.until(lambda: group.ensemble.state().members.keys() == {1, 2})
        with pytest.raises(LeaderPossible, match="have that one lead"):
            await group[2].keeper.without_leader()
        group[2].keeper.lead_anyway()
        await group.turn(5_000)
        await first.kill()
        await group.turn(10_000)
        assert group.leader is None, "a word that came too early counts for nothing later"
        assert (await group[2].keeper.without_leader()).in_sync == {1, 3}
        group.acked.clear()  # what the word gives up
        group[2].keeper.lead_anyway()
        await group.until(lambda: group.leader is group[2])
        assert group.ensemble.state().in_sync == {2}


async def test_a_word_is_of_no_use_where_a_clean_member_may_lead() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        await group[2].crash(lost=1)
        await first.kill()
        group[2].start()
        await group.until(lambda: group.leader is group[3])
        assert group[2].keeper.role == "following"
        with pytest.raises(LeaderPossible, match="replica 3 leads"):
            await group[2].keeper.without_leader()


async def test_an_unclean_member_leaves_the_set_at_the_next_election() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        group[2].linked = False  # so that it is not taken in again
        await group[2].crash(lost=3)
        group[2].start()
        await group.turn(100)
        assert 2 in group.ensemble.state().in_sync
        await first.kill()
        await group.until(lambda: group.leader)
        assert group.leader is group[3]
        assert group.ensemble.state().in_sync == {3}


async def test_a_lost_session_makes_a_leader_step_down_in_the_same_stretch() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        first.coordinator._lost()
        assert first.term is None
        assert first.told[-1] == "step down: its session with the coordinator is over"
        assert first.keeper.role == "following"


async def test_a_leader_whose_session_ends_while_it_is_promoted_never_leads() -> None:
    async with SimGroup() as group:
        group[1].start()
        await group.until(lambda: group[1].keeper.role == "promoting")
        group[1].coordinator._session = None
        group[1].coordinator._lost()
        assert group[1].told[-1].startswith("step down")
        assert group[1].term is None
        await group.until(lambda: group[1].term is not None)
        assert group[1].term is not None
        assert group[1].term.epoch == 2


async def test_what_was_won_in_a_session_that_is_over_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with SimGroup() as group:
        group[1].start()
        coordinator = group[1].coordinator
        campaign = coordinator.campaign

        async def crossed(seen: GroupState, in_sync: frozenset[int], *, anyway: bool) -> Leadership:
            won = await campaign(seen, in_sync)
            monkeypatch.undo()
            coordinator._session = None
            coordinator._lost()  # told before the answer
            return won

        monkeypatch.setattr(coordinator, "campaign", crossed)
        await group.until(lambda: group.leader)
        assert group.terms == {2: 1}


async def test_a_leader_goes_on_while_the_coordinator_is_away_and_followers_keep_following(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        group.ensemble.stop()
        acked = len(group.acked)
        await group.turn(900)  # less than a session
        assert group.leader is first
        assert len(group.acked) > acked
        await group.turn(1_000)
        assert group.leader is None
        assert group[2].follows is not None
        assert first.told[-1] == "follow None", "it is a follower, though of nobody"
        group.ensemble.start()
        await group.until(lambda: group.leader)
        assert group.ensemble.state().epoch == 2
        assert "coordinator away" in caplog.text


async def test_a_broker_that_starts_without_coordinator_says_so_and_keeps_trying(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with SimGroup() as group:
        group.ensemble.stop()
        group[1].start()
        await group.turn(100_000)
        assert group[1].keeper.role == "starting"
        assert group[1].told == []
        lines = [line for line in caplog.messages if "coordinator away" in line]
        assert len(lines) == 2, "said again, and not at each try"
        assert "follows nobody yet" in lines[0]
        group.ensemble.start()
        await group.until(lambda: group.leader is group[1])


async def test_a_leader_that_resigns_names_who_stands_at_once() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        await first.keeper.resign(to=3)
        assert first.term is None
        await group.until(lambda: group.leader, most_ms=300)
        assert group.leader is group[3]
        await group.until(lambda: group.ensemble.state().in_sync == {1, 2, 3})
        with pytest.raises(Fenced):
            await first.keeper.resign()


async def test_others_stand_when_the_one_who_was_named_does_not() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        group[3].pause()
        await first.keeper.resign(to=3)
        await group.until(lambda: group.leader)
        assert group.leader is group[2]


async def test_a_leader_without_followers_that_resigns_leads_again() -> None:
    async with SimGroup(replicas=1) as group:
        group[1].start()
        await group.until(lambda: group.leader)
        await group[1].keeper.resign()
        await group.until(lambda: group.leader)
        assert group.ensemble.state().epoch == 2


async def test_who_cannot_lead_lets_others_stand(caplog: pytest.LogCaptureFixture) -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        group[2].fails_to_lead = True
        await first.keeper.resign(to=2)
        await group.until(lambda: group.leader)
        assert group.leader is not group[2]
        assert "cannot lead" in caplog.text
        assert any(what.startswith("step down: it cannot lead") for what in group[2].told)


async def test_who_cannot_lead_and_is_alone_rests_between_its_tries() -> None:
    async with SimGroup(replicas=1) as group:
        group[1].fails_to_lead = True
        group[1].start()
        await group.turn(60_000)
        assert 2 < len(group.terms) < 8
        group[1].fails_to_lead = False
        await group.until(lambda: group.leader, most_ms=70_000)


async def test_what_was_won_without_knowing_it_is_won_again_in_the_next_epoch() -> None:
    async with SimGroup(late_ms=20) as group:
        group[1].start()
        await group.until(lambda: group.ensemble.elected)
        group[1].coordinator.cut()  # the answer does not come
        await group.turn(100)
        assert group.leader is None
        group[1].coordinator.heal()
        await group.until(lambda: group.leader, most_ms=5_000)
        assert group.ensemble.state().epoch == 2


async def test_a_set_whose_change_was_not_answered_is_changed_from_what_it_is() -> None:
    async with SimGroup(late_ms=20) as group:
        first = await _lead_by_one(group)
        in_sync = frozenset({1, 2})
        lead = first.keeper._lead
        assert lead is not None
        group.ensemble.change_in_sync(lead, group.ensemble.state(), in_sync)  # the answer is lost
        group[2].linked = group[3].linked = False
        change = asyncio.create_task(first.keeper.change_in_sync(frozenset({1})))
        await group.until(change.done)
        await change
        assert group.ensemble.state().in_sync == {1}


async def test_a_replaced_leader_that_changes_its_set_is_fenced_and_steps_down() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        first.pause()
        await group.until(lambda: group.ensemble.state().epoch == 2)
        first.coordinator._running.set()  # runs, and has not yet heard of anything
        lead, state = first.keeper._lead, first.keeper.state
        assert lead is not None
        with pytest.raises(Fenced):
            group.ensemble.change_in_sync(lead, state, frozenset({1}))
        assert group.ensemble.state().in_sync == {2, 3}
        first.resume()
        await group.until(lambda: group.ensemble.state().in_sync == {1, 2, 3})
        assert any(what.startswith("step down") for what in first.told)


async def test_a_leadership_that_somebody_removed_by_hand_is_noticed() -> None:
    async with SimGroup() as group:
        await _lead_by_one(group)
        group.ensemble._leader = None  # and no watch tells of it
        await group.until(lambda: group.ensemble.state().epoch == 2)


async def test_an_id_that_is_taken_ends_the_keeper_with_an_error_that_says_so() -> None:
    async with SimGroup() as group:
        await _lead_by_one(group)
        member = replace(group[2].member(), address="elsewhere:10911")
        twin = SimReplica(2, group)
        twin.member = lambda: member  # type: ignore[method-assign]
        keeper = RoleKeeper(group.ensemble.coordinator(), twin, group.clock, Random(1), me=2)
        with pytest.raises(IdTaken, match="brokerIdentity"):
            await keeper.run()


async def test_epochs_go_on_above_those_that_a_forgetful_coordinator_never_saw() -> None:
    async with SimGroup() as group:
        group[1].joined = 41
        group[1].start()
        await group.until(lambda: group.leader)
        assert group.ensemble.state().epoch == 42


async def test_when_the_coordinator_forgets_the_group_only_those_stand_that_were_in_sync() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        group[3].linked = False
        await group.until(lambda: group.ensemble.state().in_sync == {1, 2})
        await group.until(lambda: len(group[2].log) > len(group[3].log) + 3)
        await first.kill()
        group[2].pause()
        group.ensemble.forget()
        group[3].linked = True
        await group.turn(20_000)  # the third alone: what the second has was acknowledged
        assert group.leader is None
        group[2].resume()
        await group.until(lambda: group.leader)
        assert group.leader is group[2]
        await group.until(lambda: group.ensemble.state().in_sync == {2, 3})


async def test_who_was_started_since_is_given_time_to_say_what_it_has() -> None:
    async with SimGroup() as group:
        await _lead_by_one(group)
        group[3].linked = False
        await group.until(lambda: group.ensemble.state().in_sync == {1, 2})
        await group.until(lambda: len(group[2].log) > len(group[3].log) + 3)
        for each in (1, 2, 3):
            await group[each].kill()
        group.ensemble.forget()
        group[3].linked = True
        group[3].start()
        await group.turn(1_000)
        group[2].start()
        await group.until(lambda: group.leader)
        assert group.leader is group[2]


async def test_a_killed_leader_that_is_started_at_once_waits_for_nobody() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        await first.kill()
        first.start()
        await group.until(lambda: group.leader, most_ms=group.ensemble.session_ms // 2)
        assert group.leader is first
        assert group.ensemble.state().epoch == 2


async def test_the_role_is_put_down_when_the_keeper_is_cancelled() -> None:
    async with SimGroup() as group:
        first = await _lead_by_one(group)
        first._task.cancel()
        await asyncio.wait([first._task])
        assert first.told[-1] == "step down: this broker stops"


@pytest.fixture(autouse=True)
def log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
