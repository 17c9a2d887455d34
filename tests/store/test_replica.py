"""A log that is passed on and taken in: the same bytes, the same queues, and no offset twice."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.support.leader_log import (
    files_of,
    follow,
    groups_for,
    leader,
    log_bytes,
    portions,
    random_groups,
)
from tests.twins import WAYS, each_way

from rocketpipe.clock import SystemClock
from rocketpipe.errors import InvalidName
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import view_records
from rocketpipe.store.config import FlushMode
from rocketpipe.store.derived import derivation, dispatcher
from rocketpipe.store.errors import RecordMissing, StoreError, StoreFollows, StoreFull
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log import appender, raw_groups
from rocketpipe.store.log import end as log_end
from rocketpipe.store.log.commit_log import filler
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.state.checkpoint import NEVER, read_checkpoint
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import (
    HOST,
    KINDS,
    ROOT,
    SEGMENT_BYTES,
    StepClock,
    open_store,
    put,
    small_store,
)

SAME = ("commitlog", "consumequeue")


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    modules = (raw_groups, log_end, appender, derivation, dispatcher)
    with each_way(request.param, *modules):
        yield


def bodies(store: MessageStore, topic: str = "plain", queue_id: int = 0) -> list[bytes]:
    offset = store.min_offset(topic, queue_id)
    found = store.read(topic, queue_id, offset, max_count=1000, max_bytes=1 << 20)
    return [view.stored_body for view in view_records(found.records)]


def follower(disk: SimDisk | None = None, **changes: object) -> MessageStore:
    return open_store(disk or SimDisk(), replicated=True, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["plain", "without checksum"])
def test_a_follower_ends_with_the_same_log_and_queues(seed: int, kind: str) -> None:
    ours, theirs = SimDisk(), SimDisk()
    led = leader(random_groups(seed, 80), theirs, kind=KINDS[kind])
    mine = follower(ours)
    follow(mine, portions(log_bytes(led), random.Random(seed)))
    assert mine.positions.dispatched == led.positions.written
    for store in (led, mine):
        store.close()
    same = files_of(theirs, *SAME)
    assert len([path for path in same if "commitlog" in path.parts]) > 3
    assert len([path for path in same if "consumequeue" in path.parts]) > 3
    assert files_of(ours, *SAME) == same


def test_what_is_not_acknowledged_is_kept_and_not_shown() -> None:
    disk = SimDisk()
    led = leader([[put(b"one")], [put(b"two"), put(b"three")]])
    mine = follower(disk)
    piece = groups_for(mine).add(log_bytes(led))
    assert piece is not None
    mine.append_raw(piece)
    first = int.from_bytes(piece.data[:4], "big")
    mine.positions.acknowledged = LogOffset(first)
    assert mine.dispatch() == 1
    assert bodies(mine) == [b"one"]
    with pytest.raises(RecordMissing):
        mine.record_at(LogOffset(first))
    mine.flush()
    mine.close()
    checkpoint = read_checkpoint(disk, ROOT / "checkpoint")
    assert checkpoint.own is not None
    assert (checkpoint.confirmed, checkpoint.own.confirmed) == (first, piece.end)
    assert checkpoint.own.clean

    mine = follower(disk)
    positions = mine.positions
    assert (positions.written, positions.acknowledged) == (piece.end, first)
    assert (positions.confirmed, positions.dispatched) == (first, first)
    assert bodies(mine) == [b"one"]
    positions.acknowledged = piece.end
    mine.dispatch()
    assert bodies(mine) == [b"one", b"two", b"three"]
    mine.close()
    assert bodies(open_store(disk)) == [b"one", b"two", b"three"]


def test_opened_by_itself_a_replica_shows_all_it_has() -> None:
    disk = SimDisk()
    mine = follower(disk)
    piece = groups_for(mine).add(log_bytes(leader([[put(b"one")], [put(b"two")]])))
    assert piece is not None
    mine.append_raw(piece)
    mine.close()
    alone = open_store(disk)
    assert alone.positions.acknowledged is None
    assert bodies(alone) == [b"one", b"two"]
    alone.append([[put(b"three")]])
    alone.dispatch()
    assert bodies(alone) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("crash", ["close", "kill", "power"])
def test_a_confirm_offset_outlives_whatever_happens(crash: str) -> None:
    disk = SimDisk(seed=3)
    mine = follower(disk)
    data = log_bytes(leader(random_groups(5, 30)))
    groups = groups_for(mine)
    shown = 0
    for portion in portions(data, random.Random(1)):
        piece = groups.add(portion)
        if piece is not None:
            mine.append_raw(piece)
            mine.positions.acknowledged = piece.at
            mine.flush()
            mine.dispatch()
            shown = int(piece.at)
    if crash == "close":
        mine.close()
    elif crash == "kill":
        disk.kill()
    else:
        disk.crash()
    mine = follower(disk)
    # Less may be known than was acknowledged, and never more.
    assert mine.positions.acknowledged is not None
    assert mine.positions.dispatched <= mine.positions.acknowledged <= shown
    if crash != "power":
        assert mine.positions.written == len(data)
    if crash == "close":
        assert mine.positions.acknowledged == shown


def test_readers_of_files_see_what_was_acknowledged_though_nothing_is_flushed() -> None:
    disk, clock = SimDisk(), StepClock()
    mine = follower(disk, clock=clock)
    piece = groups_for(mine).add(log_bytes(leader([[put(b"one")], [put(b"two")]])))
    assert piece is not None
    mine.append_raw(piece)
    mine.flush()
    assert read_checkpoint(disk, ROOT / "checkpoint").confirmed == 0
    mine.positions.acknowledged = piece.end
    clock.leap(1000)
    mine.dispatch()
    assert read_checkpoint(disk, ROOT / "checkpoint").confirmed == piece.end


def test_an_acknowledgement_within_a_record_shows_the_records_before_it() -> None:
    led = leader(random_groups(7, 25))
    data = log_bytes(led)
    starts = []
    for at, record in led.commit_log.walk(LogOffset(0), led.positions.written):
        starts.append((int(at), int(at) + len(record)))
    mine = follower()
    piece = groups_for(mine).add(data)
    assert piece is not None
    mine.append_raw(piece)
    for place in sorted({*range(0, len(data), 29), *(end for _, end in starts), len(data)}):
        mine.positions.acknowledged = LogOffset(place)
        mine.dispatch()
        whole = [end for _, end in starts if end <= place]
        assert mine.positions.dispatched == max(whole, default=0)
    assert mine.positions.dispatched == led.positions.written


def test_a_leader_shows_what_is_acknowledged_of_its_own() -> None:
    store = follower()
    assert store.adopt_tail() == 0
    store.positions.begin_acknowledged(LogOffset(0))
    (first,), (second,) = store.append([[put(b"one")], [put(b"two")]])
    assert store.dispatch() == 0
    assert store.behind_bytes == 0
    # One append, and an acknowledgement in the midst of it.
    store.positions.acknowledged = LogOffset(second.log_offset + 5)
    assert store.dispatch() == 1
    assert bodies(store) == [b"one"]
    store.positions.acknowledged = store.positions.written
    assert store.dispatch() == 1
    assert (first.queue_offset, second.queue_offset) == (0, 1)
    store.positions.begin_acknowledged(None)
    store.append([[put(b"three")]])
    store.dispatch()
    assert bodies(store) == [b"one", b"two", b"three"]


def test_with_sync_flush_both_have_to_happen() -> None:
    store = follower(flush=FlushMode.SYNC)
    store.adopt_tail()
    store.append([[put(b"one")]])
    store.positions.acknowledged = store.positions.written
    assert store.dispatch() == 0
    store.flush()
    assert store.dispatch() == 1
    store.append([[put(b"two")]])
    store.flush()
    assert store.dispatch() == 0


def test_what_waits_for_acknowledgement_does_not_grow_in_memory() -> None:
    store = follower(segment_bytes=1 << 20)
    store.adopt_tail()
    body = bytes(300_000)
    for _ in range(60):
        store.append([[put(body)]])
    assert len(store.derived.dispatcher.fresh) < 40
    store.positions.acknowledged = store.positions.written
    assert store.dispatch() == 60
    assert store.max_offset("plain", 0) == 60


@pytest.mark.parametrize("seed", range(3))
def test_no_offset_is_given_twice_behind_a_tail_that_nobody_has_read(seed: int) -> None:
    groups = random_groups(seed, 40)
    disk = SimDisk()
    led = leader(groups)
    mine = follower(disk)
    piece = groups_for(mine).add(log_bytes(led))
    assert piece is not None
    mine.append_raw(piece)
    if seed:
        mine.close()
        mine = follower(disk)
    assert mine.positions.dispatched == 0
    with pytest.raises(StoreFollows):
        mine.append(groups[:1])
    assert mine.adopt_tail() == piece.records
    assert mine.adopt_tail() == piece.records
    expected = led.append(groups)
    for theirs, ours in zip(expected, mine.append(groups), strict=True):
        assert [each.queue_offset for each in ours] == [each.queue_offset for each in theirs]
    mine.positions.acknowledged = mine.positions.written
    mine.dispatch()
    led.dispatch()
    for topic, queue_id in led.queues():
        assert mine.max_offset(topic, queue_id) == led.max_offset(topic, queue_id)


def test_whoever_follows_again_adopts_again() -> None:
    mine = follower()
    mine.adopt_tail()
    mine.append([[put(b"mine")]])
    led = follower()
    piece = groups_for(led).add(log_bytes(mine))
    assert piece is not None
    led.append_raw(piece)
    led.adopt_tail()
    led.append([[put(b"theirs")]])
    taken = groups_for(mine).add(log_bytes(led, int(mine.positions.written)))
    assert taken is not None
    mine.append_raw(taken)
    with pytest.raises(StoreFollows, match="follows"):
        mine.append([[put()]])
    mine.adopt_tail()
    ((again,),) = mine.append([[put(b"mine again")]])
    assert again.queue_offset == 2


def test_the_tail_of_a_topic_can_be_read_before_it_is_shown() -> None:
    led = leader([[put(b"a"), put(b"other", topic="other")], [put(b"b")]])
    mine = follower()
    piece = groups_for(mine).add(log_bytes(led))
    assert piece is not None
    mine.append_raw(piece)
    assert [view.stored_body for _, view in mine.tail_records("plain")] == [b"a", b"b"]
    assert [view.stored_body for _, view in mine.tail_records("other")] == [b"other"]
    mine.positions.acknowledged = piece.end
    mine.dispatch()
    assert list(mine.tail_records("plain")) == []


def test_seals_of_a_follower() -> None:
    disk = SimDisk()
    mine = follower(disk)
    assert mine.commit_log.sealed_from == NEVER
    plain = leader([[put(b"no checksum")]], kind=KINDS["without checksum"])
    follow(mine, [log_bytes(plain)])
    assert mine.commit_log.sealed_from == NEVER
    begun = int(mine.positions.written)
    led = follower()
    follow(led, [log_bytes(plain)])
    led.adopt_tail()
    assert led.commit_log.sealed_from == begun  # a promotion starts it where its log ends
    led.append([[put(b"sealed")]])
    follow(mine, [log_bytes(led, begun)])
    assert mine.commit_log.sealed_from == begun
    disk.kill()
    mine = follower(disk)
    assert mine.commit_log.sealed_from == begun
    # Behind a leader of another kind nothing is said any more, durably before it is so.
    others = open_store(SimDisk(), KINDS["without checksum"], replicated=True)
    follow(others, [log_bytes(led)])
    others.adopt_tail()
    others.append([[put(b"no checksum again")]])
    end = int(mine.positions.written)
    follow(mine, [log_bytes(others, end)], ours=False)
    assert mine.commit_log.sealed_from == NEVER
    disk.crash("everything")
    mine = follower(disk)
    assert mine.positions.written == others.positions.written
    assert mine.commit_log.sealed_from == NEVER


def test_pieces_have_to_follow_each_other() -> None:
    led = leader([[put(b"one")], [put(b"two")]])
    mine = follower()
    piece = groups_for(mine).add(log_bytes(led))
    assert piece is not None
    mine.append_raw(piece)
    with pytest.raises(StoreError, match="where the log ends at"):
        mine.append_raw(piece)


def test_an_append_of_either_kind_is_told() -> None:
    led = follower()
    told: list[int] = []
    led.on_append = lambda: told.append(int(led.positions.written))
    led.adopt_tail()
    led.append([[put(b"one")]])
    mine = follower()
    mine.on_append = lambda: told.append(-int(mine.positions.written))
    piece = groups_for(mine).add(log_bytes(led))
    assert piece is not None
    mine.append_raw(piece)
    assert told == [piece.end, -piece.end]


def test_a_full_disk_refuses_a_piece_and_takes_it_later() -> None:
    disk = SimDisk(capacity=40 * 4096)
    led = leader(random_groups(3, 20))
    mine = follower(disk)
    disk.capacity = disk.capacity and disk.capacity - disk.free_bytes
    piece = groups_for(mine).add(log_bytes(led))
    assert piece is not None
    with pytest.raises(StoreFull):
        mine.append_raw(piece)
    assert mine.positions.written == 0
    disk.capacity = None
    mine.append_raw(piece)
    assert log_bytes(mine) == log_bytes(led)


def test_an_empty_log_begins_where_the_leaders_does() -> None:
    disk = SimDisk()
    led = leader(random_groups(11, 60))
    led.flush()
    led.delete_before(LogOffset(3 * SEGMENT_BYTES))
    assert led.first_offset == 3 * SEGMENT_BYTES
    mine = follower(disk)
    mine.begin_at(led.first_offset)
    assert mine.positions.written == mine.first_offset == led.first_offset
    disk.crash("nothing")
    mine = follower(disk)
    assert mine.positions.written == mine.positions.dispatched == led.first_offset
    mine.begin_at(led.first_offset)
    groups = groups_for(mine)
    data = log_bytes(led)
    piece = groups.add(data)
    assert piece is not None
    mine.append_raw(piece)
    mine.positions.acknowledged = piece.end
    mine.dispatch()
    assert log_bytes(mine) == data
    for topic, queue_id in mine.queues():
        assert mine.max_offset(topic, queue_id) == led.max_offset(topic, queue_id)
        assert mine.min_offset(topic, queue_id) == led.min_offset(topic, queue_id)
    with pytest.raises(StoreError, match="not empty"):
        mine.begin_at(LogOffset(0))


def test_a_log_begins_only_where_a_segment_can_and_may_do_so_again() -> None:
    disk = SimDisk()
    mine = follower(disk)
    with pytest.raises(StoreError, match="no segment of 4096 bytes begins at 5"):
        mine.begin_at(LogOffset(5))
    mine.begin_at(LogOffset(2 * SEGMENT_BYTES))
    mine.begin_at(LogOffset(5 * SEGMENT_BYTES))
    disk.kill()
    mine = follower(disk)
    assert mine.positions.written == 5 * SEGMENT_BYTES
    mine.close()
    assert follower(disk).positions.written == 5 * SEGMENT_BYTES


def test_raw_bytes_end_with_their_segment_and_with_the_log() -> None:
    led = leader(random_groups(4, 30))
    end = led.positions.written
    assert led.raw_at(end, 100) == b""
    assert led.raw_at(LogOffset(end + 100), 100) == b""
    whole = led.raw_at(LogOffset(0), 1 << 20)
    assert whole is not None
    assert len(whole) == SEGMENT_BYTES
    assert led.raw_at(LogOffset(SEGMENT_BYTES - 10), 100) == whole[-10:]
    assert led.raw_at(LogOffset(10), 7, cached_only=True) == whole[10:17]
    led.flush()
    led.delete_before(LogOffset(SEGMENT_BYTES))
    with pytest.raises(RecordMissing):
        led.raw_at(LogOffset(0), 10)


def test_any_thread_may_read_raw_bytes_of_real_files(tmp_path: Path) -> None:
    store = MessageStore.open(
        small_store(tmp_path / "store", FlushMode.ASYNC),
        disk=Disk(),
        clock=SystemClock(),
        store_host=HOST,
    )
    store.append(random_groups(6, 40))
    expected = log_bytes(store)
    cached = store.raw_at(LogOffset(0), 1000, cached_only=True)
    assert cached == expected[:1000]
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(log_bytes(store)))
    reader.start()
    reader.join()
    assert found == [expected]
    store.close()


def test_a_store_with_threads_begins_anew_behind_a_prepared_segment(tmp_path: Path) -> None:
    store = MessageStore.open(
        small_store(tmp_path / "store", FlushMode.ASYNC),
        disk=Disk(),
        clock=SystemClock(),
        store_host=HOST,
        replicated=True,
    )
    store.begin_at(LogOffset(7 * SEGMENT_BYTES))
    store.adopt_tail()
    ((first,),) = store.append([[put(b"one")]])
    assert first.log_offset == 7 * SEGMENT_BYTES
    store.positions.acknowledged = store.positions.written
    store.dispatch()
    assert store.max_offset("plain", 0) == QueueOffset(1)
    store.close()


def test_a_queue_whose_messages_have_expired_goes_on_at_a_follower_that_never_had_them() -> None:
    disk = SimDisk()
    led = follower()
    led.adopt_tail()
    led.append([[put(b"old", topic="spent")] for _ in range(13)])
    led.append([[put(b"x" * 900)] for _ in range(12)])
    led.append([[put(b"new", topic="live")]])
    led.positions.acknowledged = led.positions.written
    led.flush()
    led.dispatch()
    led.delete_before(LogOffset(2 * SEGMENT_BYTES))
    assert list(led.spent_queues()) == [("spent", 0, 13)]
    mine = follower(disk)
    mine.begin_at(led.first_offset)
    follow(mine, [log_bytes(led)])
    for topic, queue_id, offset in [*led.spent_queues(), ("live", 0, QueueOffset(7))]:
        mine.begin_queue(topic, queue_id, offset)
    with pytest.raises(InvalidName):
        mine.begin_queue("../spent", 0, QueueOffset(1))
    mine.close()
    for _ in range(2):
        mine = follower(disk)
        assert (mine.min_offset("spent", 0), mine.max_offset("spent", 0)) == (13, 13)
        assert list(mine.spent_queues()) == [("spent", 0, 13)]
        mine.adopt_tail()
        disk.kill()
    mine = follower(disk)
    mine.adopt_tail()
    ((spent,), (live,)) = mine.append([[put(b"next", topic="spent")], [put(topic="live")]])
    assert (spent.queue_offset, live.queue_offset) == (13, 1)
    mine.positions.acknowledged = mine.positions.written
    mine.dispatch()
    assert bodies(mine, "spent") == [b"next"]


def test_a_filler_that_comes_alone_is_written_and_not_the_end_of_a_log() -> None:
    disk = SimDisk()
    mine = follower(disk)
    head = log_bytes(leader([[put(b"one")]]))
    led = follower()
    led.begin_at(LogOffset(SEGMENT_BYTES))
    led.adopt_tail()
    led.append([[put(b"two")]])
    closed = (head + filler(SEGMENT_BYTES - len(head))).ljust(SEGMENT_BYTES, b"\0")
    data = closed + log_bytes(led)
    follow(mine, [data[:1000], data[1000:SEGMENT_BYTES]], most=100)
    assert (mine.positions.written, mine.positions.dispatched) == (SEGMENT_BYTES, len(head))
    mine.flush()
    disk.crash("everything")
    mine = follower(disk)
    assert mine.positions.written == len(head)
    follow(mine, [data[len(head) : 1000], data[1000:]], most=100)
    assert mine.positions.written == len(data)
    mine.close()
    assert log_bytes(follower(disk)) == data
