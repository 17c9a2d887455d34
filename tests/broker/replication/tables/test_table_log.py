"""The tables of a leader, brought to its followers by the log."""

from __future__ import annotations

import asyncio
import random
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.broker.support.table_parts import Replica
from tests.waiting import until

from rocketpipe.background import running
from rocketpipe.broker.replication.tables.table_log import WRITE_EVERY_MS
from rocketpipe.broker.replication.tables.table_records import MAX_BODY_BYTES
from rocketpipe.broker.tables.queue_locks import LOCK_MS
from rocketpipe.errors import RequestRejected
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import MAX_GROUP, MAX_TOPIC, TABLES_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.clients import RequestMode
from rocketpipe.store.errors import StoreFull
from rocketpipe.store.files.background_sync import run_steps_blocking
from rocketpipe.store.upkeep.cutting import cut
from rocketpipe.testing.simulation.disk import SimDisk


async def second(replica: Replica) -> None:
    """A second of a leader's life, or a follower's."""
    loop = replica.log.keep_written if replica.tables.replicas else replica.log.keep_applied
    async with running(loop(), "tables"):
        await asyncio.sleep(0)
        await replica.clock.advance(WRITE_EVERY_MS)
        await until(lambda: replica.is_asleep)


def change_all(replica: Replica) -> None:
    """Change something in every table."""
    tables = replica.tables
    tables.topics.update(TopicSettings(name="t", read_queues=4, attributes={"a": "b"}), 5)
    tables.groups.update(GroupSettings(name="g", max_retries=3), 6)
    tables.groups.forbid("g", "t", 4, 7)
    tables.offsets.commit("g", "t", 0, QueueOffset(17))
    tables.offsets.reset("g", "t", 1, QueueOffset(3), online=True)
    tables.delays.advance(2, QueueOffset(100))
    tables.orders.popped(
        "t",
        "g",
        0,
        offsets=[QueueOffset(17)],
        pop_ms=replica.clock.now_ms(),
        invisible_ms=60,
        attempt_id="a",
    )
    tables.modes.set(RequestMode(topic="t", consumer_group="g"))
    assert replica.lock("client", 0)


def delete_topic(replica: Replica, name: str) -> None:
    """Delete a topic as far as tables go."""
    now_ms, end = replica.clock.now_ms(), replica.store.positions.written
    replica.tables.topics.delete(name, now_ms, end)
    replica.tables.offsets.forget_topic(name)


# From the leader to the follower


async def test_every_table_is_at_the_follower_a_second_later(
    leader: Replica, follower: Replica
) -> None:
    change_all(leader)
    await second(leader)
    follower.follow(leader)
    follower.log.catch_up()
    assert follower.state == leader.state
    leader.tables.topics.renew(8)
    leader.tables.groups.forbid("g", "t", 0, 9)
    leader.tables.groups.delete("g", 10)
    leader.tables.offsets.forget_group("g")
    leader.tables.orders.clear("t", "g", 0)
    leader.locks.unlock("g", "client", [each for _, each in leader.owners.owned()])
    await second(leader)
    follower.follow(leader)
    follower.log.catch_up()
    assert follower.state == leader.state
    assert not follower.state["owners"]


async def test_a_snapshot_and_all_changes_say_the_same(tmp_path: Path, leader: Replica) -> None:
    change_all(leader)
    await second(leader)
    (changes,) = leader.groups[1:]
    leader.log._snapshot_at = None
    await leader.log.settled()
    snapshot = leader.groups[-1]
    for name, puts in (("changes", changes), ("snapshot", snapshot)):
        source, replica = Replica(tmp_path / f"{name} log"), Replica(tmp_path / name)
        source.store.adopt_tail()
        source.append(puts)
        replica.follow(source)
        replica.log.catch_up()
        assert replica.state == leader.state, name


async def test_what_did_not_change_is_not_written(leader: Replica) -> None:
    change_all(leader)
    await second(leader)
    assert len(leader.groups) == 2
    await second(leader)
    assert len(leader.groups) == 2
    leader.tables.topics.renew(8)  # a version alone
    await second(leader)
    assert len(leader.groups) == 3


async def test_a_reset_is_known_to_be_told_yet_until_it_was(
    leader: Replica, follower: Replica
) -> None:
    leader.tables.offsets.commit("g", "t", 0, QueueOffset(50))
    leader.tables.offsets.reset("g", "t", 0, QueueOffset(3), online=True)
    await second(leader)
    follower.follow(leader)
    follower.log.catch_up()
    assert follower.tables.offsets.committed("g", "t", 0) == 3
    assert follower.tables.offsets.resets == {("g", "t", 0): 3}
    assert leader.tables.offsets.reset_to("g", "t", 0, 50) == 3
    await second(leader)
    follower.follow(leader)
    follower.log.catch_up()
    assert not follower.tables.offsets.resets


async def test_versions_do_not_move_by_saving_at_a_follower(
    leader: Replica, follower: Replica
) -> None:
    change_all(leader)
    leader.tables.save()
    await second(leader)
    follower.follow(leader)
    follower.log.catch_up()
    for _ in range(2):
        follower.tables.save()
        assert follower.state == leader.state


# Answered when acknowledged


async def test_settings_are_written_at_once_and_waited_for(follower: Replica) -> None:
    leader = follower
    await leader.lead(alone=False)
    leader.acknowledge()
    await leader.tables.settled()
    tables = leader.tables
    for change, wait in (
        (lambda: tables.topics.ensure("t", queues=1, now_ms=1), tables.settled),
        (lambda: tables.groups.ensure("g", 1), lambda: tables.group_kept("g")),
        (lambda: tables.modes.set(RequestMode(topic="t", consumer_group="g")), tables.modes_saved),
        (lambda: tables.offsets.commit("g", "t", 0, QueueOffset(1)), tables.offsets_saved),
        (lambda: leader.lock("a", 0), lambda: leader.owners.kept(leader.owners.owned())),
    ):
        change()
        count = len(leader.groups)
        waiting = [asyncio.ensure_future(wait()) for _ in range(2)]
        await until(lambda: leader.waiting == 2)
        assert len(leader.groups) == count + 1
        assert not any(each.done() for each in waiting)
        leader.acknowledge()
        await asyncio.gather(*waiting)
        await wait()
        assert len(leader.groups) == count + 1, "and once only"


async def test_who_asks_again_for_a_queue_is_not_told_before_replicas_know(
    follower: Replica,
) -> None:
    leader = follower
    await leader.lead(alone=False)
    leader.acknowledge()
    for code in (ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.FLUSH_DISK_TIMEOUT):
        assert leader.lock("a", 0)
        leader.acknowledge(code)
        with pytest.raises(RequestRejected, match="did not acknowledge") as refused:
            await leader.owners.kept(leader.owners.owned())
        assert refused.value.code == ResponseCode.SYSTEM_ERROR
    leader.acknowledge()
    await leader.owners.kept(leader.owners.owned())


async def test_places_are_written_at_once_where_that_is_asked_for(leader: Replica) -> None:
    leader.tables.offsets.commit("g", "t", 0, QueueOffset(1))
    await leader.tables.settled()
    assert len(leader.groups) == 1, "they have a second"
    await leader.tables.offsets_saved()
    assert len(leader.groups) == 2


async def test_what_the_store_does_not_take_is_refused_and_tried_again(leader: Replica) -> None:
    leader.store.health.watermark(StoreFull(Path("/"), 0, "full"))
    leader.tables.topics.ensure("t", queues=1, now_ms=1)
    with pytest.raises(RequestRejected) as refused:
        await leader.tables.settled()
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    await second(leader)
    leader.store.health.watermark(None)
    await second(leader)
    assert b'"topicName":"t"' in leader.groups[1][0].body


async def test_a_snapshot_that_was_not_taken_is_written_before_anything_is_settled(
    leader: Replica,
) -> None:
    leader.send("t", body=bytes(600_000))
    leader.tables.topics.ensure("t", queues=1, now_ms=1)
    leader.store.health.watermark(StoreFull(Path("/"), 0, "full"))
    await second(leader)
    leader.store.health.watermark(None)
    await leader.tables.settled()
    assert b'"snapshot":[3,0,true]' in leader.groups[2][0].body
    assert b'"topicName":"t"' in leader.groups[2][0].body


async def test_nothing_is_written_by_one_that_leads_no_longer(leader: Replica) -> None:
    leader.tables.topics.ensure("t", queues=1, now_ms=1)
    async with leader.log._writing:
        waiting = asyncio.create_task(leader.log.settled())
        await asyncio.sleep(0)
        leader.log.step_down()
    with pytest.raises(RequestRejected) as refused:
        await waiting
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert len(leader.groups) == 1
    await leader.tables.settled()
    assert leader.pins.lowest() is None


async def test_nothing_is_written_from_the_moment_on_that_it_steps_down(leader: Replica) -> None:
    for number in range(20_000):
        leader.tables.offsets.commit("g", f"t{number}", 0, QueueOffset(1))
    writing = asyncio.create_task(leader.log.offsets_settled())
    await until(lambda: len(leader.groups) == 2)
    leader.log.step_down()
    with pytest.raises(RequestRejected):
        await writing
    assert len(leader.groups) == 2


async def test_who_steps_down_before_it_led_has_all_the_same_to_apply_what_came(
    leader: Replica, follower: Replica
) -> None:
    leader.tables.topics.update(TopicSettings(name="t"), 5)
    await leader.log.settled()
    follower.follow(leader)
    follower.log.step_down()
    await follower.lead()
    assert follower.tables.topics.get("t") is not None


# Owners of queues


async def test_an_owner_is_told_when_replicas_know_it(leader: Replica, follower: Replica) -> None:
    assert leader.lock("a", 0)
    await leader.owners.kept(leader.owners.owned())
    follower.follow(leader)
    follower.log.catch_up()
    await follower.log.apply_tail()
    assert not follower.lock("b", 0)


async def test_a_lock_lasts_its_whole_life_after_a_promotion(
    leader: Replica, follower: Replica
) -> None:
    assert leader.lock("a", 0)
    await second(leader)
    follower.follow(leader)
    follower.log.catch_up()
    await second(follower)
    follower.store.close()
    follower = Replica(follower.store.config.root)
    async with running(follower.owners.keep_tidy(), "locks"):
        await follower.clock.advance(3 * LOCK_MS)  # its owner renews it at the leader
    await follower.log.apply_tail()
    await follower.clock.advance(LOCK_MS)
    assert not follower.lock("b", 0)
    assert follower.lock("b", 1)
    await follower.clock.advance(1)
    assert follower.lock("b", 0)


async def test_who_knows_no_owners_gives_no_queue_away(follower: Replica, tmp_path: Path) -> None:
    follower.store.adopt_tail()
    follower.send("t")
    follower.store.close()
    follower.owners.path.unlink()
    again = Replica(tmp_path / "follower", clock=follower.clock)
    async with running(again.owners.keep_tidy(), "locks"):
        await again.clock.advance(3 * LOCK_MS)
    assert not again.owners.path.exists(), "it would say that nobody owned anything"
    await again.log.apply_tail()
    await again.clock.advance(LOCK_MS)
    assert not again.lock("b", 0)
    await again.clock.advance(1)
    assert again.lock("b", 0)


# Topics


async def test_who_takes_over_knows_the_topics_that_only_the_log_has(
    leader: Replica, follower: Replica
) -> None:
    leader.send("t", 3)
    follower.follow(leader, dispatch=False)
    await follower.lead(alone=False)
    follower.acknowledge()
    await second(follower)
    topic = follower.tables.topics.get("t")
    assert topic is not None
    assert topic.write_queues == 4


# Deleted topics


async def test_the_queues_of_a_deleted_topic_go_at_the_follower_too(
    leader: Replica, follower: Replica
) -> None:
    leader.tables.topics.ensure("t", queues=1, now_ms=1)
    leader.tables.offsets.commit("g", "t", 0, QueueOffset(1))
    for _ in range(3):
        leader.send("t")
    await second(leader)
    delete_topic(leader, "t")
    await leader.tables.settled()
    follower.follow(leader)
    follower.log.catch_up()
    await second(follower)
    assert follower.state == leader.state
    assert follower.store.max_offset("t", 0) == 0
    await second(leader)
    assert leader.store.max_offset("t", 0) == 0


async def test_a_topic_that_was_deleted_elsewhere_goes_once_all_before_that_is_dispatched(
    leader: Replica, follower: Replica
) -> None:
    leader.send("t")
    follower.follow(leader)
    await second(follower)
    end = leader.send("t")
    follower.tables.topics.replicate((), (), {"t": end}, follower.tables.topics.version)
    follower.log.cut_topic("t", end)
    await second(follower)
    assert follower.store.max_offset("t", 0) == 1
    follower.follow(leader)
    assert follower.store.max_offset("t", 0) == 2
    await second(follower)
    assert follower.store.max_offset("t", 0) == 0


async def test_what_a_new_topic_of_the_name_has_stays_whenever_that_is_applied(
    leader: Replica, follower: Replica, tmp_path: Path
) -> None:
    leader.tables.topics.ensure("t", queues=1, now_ms=1)
    leader.send("t")
    delete_topic(leader, "t")
    await leader.tables.settled()
    leader.tables.topics.ensure("t", queues=1, now_ms=2)
    leader.tables.offsets.commit("g", "t", 0, QueueOffset(2))
    leader.send("t", body=b"new")
    await second(leader)
    follower.follow(leader)
    follower.log.catch_up()
    for replica in (follower, Replica(tmp_path / "later")):
        if replica is not follower:
            replica.follow(leader)
            replica.log.catch_up()
        await second(replica)
        assert replica.state == leader.state
        assert (replica.store.min_offset("t", 0), replica.store.max_offset("t", 0)) == (1, 2)
    # A change of its settings deletes nothing.
    leader.tables.topics.update(TopicSettings(name="t", read_queues=2), 9)
    await leader.tables.settled()
    follower.follow(leader)
    follower.log.catch_up()
    assert follower.tables.offsets.committed("g", "t", 0) == 2


async def test_a_leader_cuts_off_nothing_before_that_is_acknowledged(leader: Replica) -> None:
    leader.tables.topics.ensure("t", queues=1, now_ms=1)
    leader.send("t")
    leader.store.positions.begin_acknowledged(leader.store.positions.written)
    delete_topic(leader, "t")
    settled = asyncio.create_task(leader.tables.settled())
    await second(leader)
    assert leader.store.max_offset("t", 0) == 1
    leader.acknowledge()
    await settled
    await second(leader)
    assert leader.store.max_offset("t", 0) == 0


async def test_who_leads_finishes_what_it_began_to_delete_alone(
    follower: Replica, tmp_path: Path
) -> None:
    leader = follower
    leader.store.adopt_tail()  # it had no replicas then
    leader.tables.topics.ensure("t", queues=1, now_ms=1)
    leader.send("t")
    leader.tables.topics.begin_delete("t", 2)
    leader.tables.save()
    leader.store.close()
    leader = Replica(tmp_path / "follower", clock=leader.clock)
    assert leader.tables.topics.get("t") is not None, "another may lead, and keep it"
    await leader.lead(alone=False)
    assert leader.tables.topics.get("t") is None
    assert leader.store.max_offset("t", 0) == 0
    leader.acknowledge()
    assert leader.store.max_offset("t", 0) == 1
    await second(leader)
    assert leader.store.max_offset("t", 0) == 0


# Snapshots


async def test_a_new_leaders_snapshot_takes_away_what_only_the_old_one_had(
    leader: Replica, follower: Replica
) -> None:
    change_all(leader)
    await second(leader)
    follower.follow(leader)
    follower.log.catch_up()
    tables = leader.tables  # and then tells nobody
    tables.topics.ensure("mine", queues=1, now_ms=1)
    tables.groups.ensure("mine", now_ms=1)
    tables.groups.forbid("mine", "t", 4, 7)
    tables.offsets.commit("mine", "t", 0, QueueOffset(17))
    tables.offsets.commit("g", "t", 7, QueueOffset(17))
    tables.modes.set(RequestMode(topic="mine", consumer_group="g"))
    tables.orders.popped("t", "g", 5, offsets=[QueueOffset(1)], pop_ms=9, invisible_ms=6)
    leader.lock("mine", 9)
    delete_topic(leader, "t")
    leader.log.step_down()
    await follower.lead()
    leader.follow(follower)
    leader.log.catch_up()
    assert leader.state == follower.state
    assert leader.tables.topics.get("t") is not None


async def test_every_half_segment_there_is_a_snapshot_and_the_newest_is_held(
    leader: Replica,
) -> None:
    first = leader.pins.lowest()
    assert first is not None
    assert (first.owner, first.offset) == ("tables of the replicas", 0)
    leader.send("x", body=bytes(400_000))
    await second(leader)
    assert len(leader.groups) == 2
    leader.send("x", body=bytes(200_000))
    end = leader.store.positions.written
    await second(leader)
    assert len(leader.groups) == 4
    newest = leader.pins.lowest()
    assert newest is not None
    assert newest.offset == end


async def test_followers_hear_where_the_log_begins_a_second_after_files_went(
    leader: Replica, follower: Replica
) -> None:
    for _ in range(3):
        leader.send("x", body=bytes(600_000))
    await second(leader)
    follower.follow(leader)
    follower.log.catch_up()
    assert follower.kept_from == 0
    leader.store.flush()
    first = LogOffset(leader.store.commit_log.segment_bytes)
    run_steps_blocking(leader.store.removal.before(first, lambda: nullcontext(True)))
    assert leader.store.first_offset == first
    await second(leader)
    follower.follow(leader)
    follower.log.catch_up()
    assert follower.kept_from == first


async def test_a_leader_that_is_killed_applies_no_more_than_from_its_last_snapshot(
    leader: Replica, tmp_path: Path
) -> None:
    for _ in range(3):
        leader.send("x", body=bytes(600_000))
        change_all(leader)
        leader.tables.delays.advance(3, QueueOffset(leader.store.positions.written))
        await second(leader)
    assert leader.joined.tables_applied == leader.store.max_offset(TABLES_TOPIC, 0) - 1
    leader.store.close()
    again = Replica(tmp_path / "leader", clock=leader.clock)
    again.log.catch_up()
    assert again.state == leader.state


async def test_the_largest_tables_fit_and_others_have_their_turn_meanwhile(
    tmp_path: Path, follower: Replica
) -> None:
    leader = Replica(tmp_path / "large", segment_bytes=64 << 20)
    for number in range(10_000):
        name = f"{number:05}" + "t" * (MAX_TOPIC - 5)
        leader.tables.topics.ensure(name, queues=8, now_ms=number)
    group = "g" * MAX_GROUP
    for number in range(200_000):
        topic = f"{number // 20:05}" + "t" * (MAX_TOPIC - 5)
        leader.tables.offsets.commit(group, topic, number % 20, QueueOffset(number))
    for queue_id in range(65_536):
        leader.tables.offsets.commit("wide", "t", queue_id, QueueOffset(1 << 60))
    for number in range(10_000):
        leader.tables.groups.forbid("g", f"{number:05}" + "f" * (MAX_TOPIC - 5), 4, number)
    await leader.lead()
    (group_of_records,) = leader.groups
    assert len(group_of_records) > 5
    assert max(len(put.body) for put in group_of_records) <= MAX_BODY_BYTES
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    leader.log._snapshot_at = None
    async with running(others(), "others"):
        await leader.log._write_changes()
    assert turns > 20
    large = Replica(tmp_path / "large follower", segment_bytes=64 << 20)
    large.follow(leader, to=leader.ends[0])
    large.log.catch_up()
    assert large.state != leader.state, "it takes several turns"
    await until(lambda: not large.log._scheduled)
    assert large.state == leader.state


async def test_a_table_that_is_longer_than_a_group_may_be_goes_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketpipe.broker.replication.tables.table_log.MAX_GROUP_BYTES", 20_000)
    leader = Replica(tmp_path / "leader", most=4096)
    for number in range(2000):
        leader.tables.offsets.commit("g", f"t{number}", 0, QueueOffset(number))
    await leader.lead()
    assert len(leader.groups) > 1
    follower = Replica(tmp_path / "follower")
    follower.follow(leader)
    follower.log.catch_up()
    await until(lambda: not follower.log._scheduled)
    assert follower.state == leader.state


async def test_a_snapshot_of_which_half_had_come_is_applied_from_its_start_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketpipe.broker.replication.tables.table_log.MAX_GROUP_BYTES", 20_000)
    leader = Replica(tmp_path / "leader", most=4096)
    for number in range(2000):
        leader.tables.offsets.commit("g", f"t{number}", 0, QueueOffset(number))
    await leader.lead()
    follower = Replica(tmp_path / "follower")
    follower.tables.offsets.commit("mine", "t", 0, QueueOffset(1))
    follower.follow(leader, to=leader.ends[1])
    follower.log.catch_up()
    await second(follower)
    assert follower.tables.offsets.committed("g", "t1", 0) == 1
    follower.store.close()
    follower = Replica(tmp_path / "follower", clock=follower.clock)
    follower.follow(leader)
    follower.log.catch_up()
    await until(lambda: not follower.log._scheduled)
    assert follower.state == leader.state


@pytest.mark.parametrize("killed", [False, True])
async def test_of_a_log_that_was_cut_what_comes_in_its_place_is_applied(
    leader: Replica, follower: Replica, tmp_path: Path, killed: bool
) -> None:
    other = Replica(tmp_path / "other")
    other.follow(leader)
    for number in range(5):
        leader.tables.offsets.commit("g", "t", number, QueueOffset(1))
        await second(leader)
    follower.follow(leader)
    follower.log.catch_up()
    await second(follower)
    follower.store.close()
    cut(follower.store.config, follower.disk, follower.clock, leader.ends[0])
    await other.lead()
    change_all(other)
    await second(other)
    follower = Replica(tmp_path / "follower", clock=follower.clock)
    follower.follow(other)
    follower.log.catch_up()
    if killed:  # before anything of that is saved
        follower.store.close()
        follower = Replica(tmp_path / "follower", clock=follower.clock)
        follower.log.catch_up()
    assert follower.state == other.state


# Kills


@pytest.mark.parametrize("seed", range(10))
async def test_a_follower_that_is_killed_anywhere_ends_with_the_leaders_tables(
    seed: int, leader: Replica
) -> None:
    chance = random.Random(seed)
    disk, root = SimDisk(seed), Path("/follower")
    disk.make_directory(root)
    life = Replica(root, disk=disk, clock=leader.clock)
    for _ in range(9):
        random_changes(leader, chance)
        await second(leader)
        life.follow(leader)
        life.log.catch_up()
        fate = chance.randrange(5)
        if fate == 1:
            await second(life)
        elif fate == 2:
            life.tables.save()  # and nothing of how far that is
        elif fate > 2:
            disk.kill() if fate == 3 else disk.crash()
            life = Replica(root, disk=disk, clock=leader.clock)
            life.log.catch_up()
    life.follow(leader)
    life.log.catch_up()
    assert life.state == leader.state


def random_changes(leader: Replica, chance: random.Random) -> None:
    """Some changes of any kind, as a leader takes them."""
    tables, now_ms = leader.tables, leader.clock.now_ms()
    for _ in range(chance.randrange(1, 8)):
        topic, group = f"t{chance.randrange(4)}", f"g{chance.randrange(4)}"
        queue_id, offset = chance.randrange(4), QueueOffset(chance.randrange(1000))
        # Of a topic that is not there no place is taken.
        is_there = tables.topics.get(topic) is not None
        match chance.randrange(13):
            case 0 if is_there:
                delete_topic(leader, topic)
            case 1 | 2:
                settings = TopicSettings(name=topic, read_queues=chance.randrange(9))
                tables.topics.update(settings, now_ms)
            case 3 if is_there:
                leader.send(topic, queue_id)
            case 4:
                tables.groups.delete(group, now_ms)
                if chance.random() < 0.5:
                    tables.offsets.forget_group(group)
            case 5:
                settings_of = GroupSettings(name=group, max_retries=chance.randrange(9))
                tables.groups.update(settings_of, now_ms)
            case 6:
                tables.groups.forbid(group, topic, chance.choice([0, 4]), now_ms)
            case 7 if is_there:
                online = chance.random() < 0.5
                tables.offsets.reset(group, topic, queue_id, offset, online=online)
            case 8:
                tables.offsets.reset_to(group, topic, queue_id, -1)
            case 9:
                tables.delays.advance(queue_id, offset)
            case 10 if tables.orders.get(topic, group, queue_id) is None:
                tables.orders.popped(
                    topic, group, queue_id, offsets=[offset], pop_ms=now_ms, invisible_ms=60
                )
            case 10:
                tables.orders.clear(topic, group, queue_id)
            case 11:
                leader.lock(f"c{chance.randrange(2)}", queue_id, group)
                if chance.random() < 0.3:
                    queues = [each for _, each in leader.owners.owned()]
                    leader.locks.unlock(group, "c0", queues)
            case _ if is_there:
                tables.offsets.commit(group, topic, queue_id, offset)


@pytest.mark.parametrize("seed", range(20))
async def test_whoever_leads_followers_have_what_was_acknowledged(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    replicas = [Replica(tmp_path / name) for name in "abc"]
    leader = replicas[0]
    await leader.lead()
    for term in range(4):
        for _ in range(chance.randrange(1, 6)):
            random_changes(leader, chance)
            await second(leader)
        acknowledged = leader.state
        following = [each for each in replicas if each is not leader]
        for replica in following:
            if chance.random() < 0.7:
                replica.follow(leader, dispatch=False)
            else:
                replica.follow(leader)
                replica.log.catch_up()
        leader.tables.topics.ensure(f"lost{term}", queues=1, now_ms=1)  # and tells nobody
        leader.tables.offsets.commit("lost", "t1", term, QueueOffset(1))
        leader.log.step_down()
        leader = chance.choice(following)
        await leader.lead()
        assert leader.state == acknowledged
    for replica in replicas:
        if replica is not leader:
            replica.follow(leader)
            replica.log.catch_up()
            assert replica.state == leader.state
