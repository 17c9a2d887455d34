"""What one connection to a leader does to the log, to the epochs and to what is shown."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from tests.broker.support.follower_parts import (
    HOST,
    SEGMENT_BYTES,
    Follower,
    LeaderLog,
    open_store,
    put,
)
from tests.broker.support.scripted_leader import LeaderEnd, ScriptedLeader, scripted_leader
from tests.waiting import until

from rocketpipe.broker.replication.following import incoming
from rocketpipe.broker.replication.following.agreement import BeginAt, CutNeeded, NothingInCommon
from rocketpipe.broker.replication.frames import Dialect, Handshake
from rocketpipe.broker.replication.joined import JoinedEpoch
from rocketpipe.clock import SystemClock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.errors import StoreFailed
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.raw_groups import RawGroups
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.simulation.disk import SimDisk

#: Three segments, with groups of one and of several records.
LOG = LeaderLog(1, 3, 1, 1, 4, 2, 1, 1, 5, 1, 1, 3, 1)
END = LOG.end
FIVE = LOG.ends[5]


@pytest.fixture
async def leader() -> AsyncIterator[ScriptedLeader]:
    async with scripted_leader() as leader:
        yield leader


async def followed(leader: ScriptedLeader, number: int = 0) -> LeaderEnd:
    """A connection whose follower was told of one epoch, and has reported."""
    end = await leader.connection(number)
    end.hello(END, 1, (1, 0))
    await until(lambda: end.reports)
    return end


# The log


@pytest.mark.parametrize("step", [97, 4096, 1 << 20])
async def test_the_log_is_the_leader_s(leader: ScriptedLeader, step: int) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await followed(leader)
        assert end.handshake == Handshake(7, False, False)
        assert end.reports == [0]
        await end.ship(LOG.bytes, 0, step, confirmed=END)
        await end.reported(END)
        assert follower.log == LOG.bytes
        assert set(end.reports) <= set(LOG.ends)  # nothing within a group
        assert end.reports == sorted(end.reports)
        assert follower.readable == LOG.records
        assert follower.epochs.entries == ((1, 0),)
        assert follower.joined.epoch == 1


@pytest.mark.parametrize("step", [97, 1 << 20])
async def test_so_it_is_behind_a_plain_master(leader: ScriptedLeader, step: int) -> None:
    async with Follower(leader.address, Dialect.PLAIN).life() as follower:
        end = await leader.connection(0)
        assert end.reports == [0]
        end.beat(0)
        await end.ship(LOG.bytes, 0, step)
        end.beat(END)
        await end.reported(END)
        assert follower.log == LOG.bytes
        assert follower.readable == LOG.records
        assert follower.epochs.entries == ()
        assert end.side.dialect is Dialect.PLAIN


async def test_a_plain_master_s_checksums_may_come_and_go(leader: ScriptedLeader) -> None:
    disk = SimDisk()
    for checksum in (False, True, False):
        store = open_store(disk, replicated=False, checksum=checksum)
        store.append([[put(b"body")]])
        store.close()
    log = open_store(disk).raw_at(LogOffset(0), SEGMENT_BYTES)
    assert log
    async with Follower(leader.address, Dialect.PLAIN).life():
        end = await leader.connection(0)
        end.transfer(0, log)
        await end.reported(len(log))


async def test_a_heartbeat_within_a_record_is_one(leader: ScriptedLeader) -> None:
    """RocketMQ's masters beat where their next frame begins, which may be anywhere."""
    async with Follower(leader.address, Dialect.PLAIN).life():
        end = await leader.connection(0)
        end.transfer(0, LOG.bytes[:100])
        end.beat(100)
        end.transfer(100, LOG.bytes[100:])
        await end.reported(END)


async def test_what_is_not_a_whole_group_is_neither_written_nor_reported(
    leader: ScriptedLeader,
) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await followed(leader)
        inside = LOG.ends[2] - 1  # the second group has three records
        end.transfer(0, LOG.bytes[:inside], confirmed=inside)
        await end.reported(LOG.ends[1])
        assert follower.end == LOG.ends[1]
        end.transfer(inside, LOG.bytes[inside : LOG.ends[2]], confirmed=inside)
        await end.reported(LOG.ends[2])
        assert follower.end == LOG.ends[2]


async def test_with_sync_flush_reports_say_what_is_synced(leader: ScriptedLeader) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life(flush=FlushMode.SYNC) as follower:
        end = await followed(leader)
        end.transfer(0, LOG.bytes[:FIVE], confirmed=FIVE)
        await until(lambda: len(end.reports) == 2)
        assert end.reports == [0, 0]
        assert follower.readable == 0
        await asyncio.to_thread(follower.store.flush)  # where the store's thread would
        await end.reported(FIVE)
        assert follower.readable == 10
        end.transfer(FIVE, LOG.bytes[FIVE:], confirmed=END)
        await until(lambda: follower.end == END)
        follower.store.flush()
        await end.reported(END)


async def test_a_sync_that_fails_ends_it(leader: ScriptedLeader) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life(flush=FlushMode.SYNC) as follower:
        end = await followed(leader)
        end.transfer(0, LOG.bytes[:FIVE])
        await until(lambda: follower.end == FIVE)
        follower.disk.fail(only={"sync"}, path="commitlog")
        follower.store.flush()
        with pytest.raises(StoreFailed):
            await follower.task
        await until(lambda: end.lost)
        assert set(end.reports) == {0}


# Epochs


async def test_an_epoch_is_noted_before_its_first_byte(leader: ScriptedLeader) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await leader.connection(0)
        end.hello(END, 4, (1, 0), (4, FIVE))
        end.transfer(0, LOG.bytes[:FIVE], epoch=1)
        await end.reported(FIVE)
        assert follower.epochs.entries == ((1, 0),)
        end.beat(FIVE, epoch=4, start=FIVE)
        await until(lambda: follower.epochs.entries == ((1, 0), (4, FIVE)))
        end.transfer(FIVE, LOG.bytes[FIVE:], epoch=4, start=FIVE)
        await end.reported(END)
        assert follower.epochs.entries == ((1, 0), (4, FIVE))
        assert follower.joined.epoch == 4


async def test_the_last_bytes_of_an_epoch_are_its_own_however_apaches_leaders_mark_them(
    leader: ScriptedLeader,
) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await leader.connection(0)
        end.hello(END, 4, (1, 0), (4, FIVE))
        end.transfer(0, LOG.bytes[:FIVE], epoch=4, start=FIVE)
        await end.reported(FIVE)
        assert follower.epochs.entries == ((1, 0),)
        end.transfer(FIVE, LOG.bytes[FIVE:], epoch=4, start=FIVE)
        await end.reported(END)
        assert follower.epochs.entries == ((1, 0), (4, FIVE))


async def test_where_the_epoch_cannot_be_saved_its_bytes_are_not_taken(
    leader: ScriptedLeader,
) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await leader.connection(0)
        end.hello(END, 4, (1, 0), (4, FIVE))
        end.transfer(0, LOG.bytes[:FIVE], epoch=1)
        await end.reported(FIVE)
        follower.disk.fail(errno=errno.ENOSPC, only={"create"}, path="epochFile")
        end.transfer(FIVE, LOG.bytes[FIVE:], epoch=4, start=FIVE)
        await until(lambda: end.lost)
        assert follower.end == FIVE
        await until(lambda: follower.following.status().refused)
        await follower.clock.advance(1000)
        again = await leader.connection(1)
        again.hello(END, 4, (1, 0), (4, FIVE))
        await again.reported(FIVE)
        again.transfer(FIVE, LOG.bytes[FIVE:], epoch=4, start=FIVE)
        await again.reported(END)


@pytest.mark.parametrize(
    ("epoch", "start"),
    [
        (5, FIVE),  # beyond the one it leads in
        (1, 0),  # older than what is here
        (3, LOG.ends[3]),  # from where an older one's bytes are
    ],
)
async def test_bytes_of_an_epoch_that_cannot_be_are_refused(
    leader: ScriptedLeader, epoch: int, start: int
) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await leader.connection(0)
        end.hello(END, 4, (2, 0), (4, FIVE))
        end.transfer(0, LOG.bytes[:FIVE], epoch=2)
        await end.reported(FIVE)
        end.transfer(FIVE, LOG.bytes[FIVE:], epoch=epoch, start=start)
        await until(lambda: end.lost)
        assert follower.end == FIVE
        assert follower.epochs.entries == ((2, 0),)


async def test_a_leader_of_a_lower_epoch_is_refused(leader: ScriptedLeader) -> None:
    follower = Follower(leader.address, Dialect.EPOCHS)
    follower.open()
    follower.joined.join(5)
    async with follower.life():
        end = await leader.connection(0)
        end.hello(END, 4, (4, 0))
        end.transfer(0, LOG.bytes, epoch=4)
        await until(lambda: end.lost)
        assert end.reports == []
        assert follower.end == 0
        await until(lambda: follower.following.status().refused)
        assert "epoch 4, where 5 was joined" in str(follower.following.status().refused)


async def test_what_was_led_here_counts_as_joined(leader: ScriptedLeader) -> None:
    follower = Follower(leader.address, Dialect.EPOCHS)
    follower.open()
    follower.fill(LOG, FIVE, (6, 0))
    async with follower.life():
        end = await leader.connection(0)
        end.hello(END, 5, (5, 0))
        await until(lambda: "where 6 was joined" in str(follower.following.status().refused))
        assert end.reports == []


async def test_the_epoch_is_on_disk_before_the_first_report(leader: ScriptedLeader) -> None:
    follower = Follower(leader.address, Dialect.EPOCHS)
    async with follower.life():
        end = await leader.connection(0)
        end.hello(END, 9, (9, 0))
        await until(lambda: end.reports)
        follower.disk.crash(keep="nothing")
        joined = JoinedEpoch(follower.disk, follower.joined._snapshot.path)
        joined.load()
        assert joined.epoch == 9


@pytest.mark.parametrize("at", range(1, 14))
async def test_a_power_cut_while_joining_reports_nothing(leader: ScriptedLeader, at: int) -> None:
    disk = SimDisk(seed=at)
    follower = Follower(leader.address, Dialect.EPOCHS, disk)
    async with follower.life():
        end = await leader.connection(0)
        disk.cut_power(at=at, only={"create", "write", "sync", "rename", "sync directory"})
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        end.hello(END, 9, (9, 0))
        await until(lambda: end.lost or end.reports)
        reports = list(end.reports)
    disk.heal()
    disk.crash(keep="nothing")
    again = Follower(leader.address, Dialect.EPOCHS, disk)
    again.open()
    assert again.joined.epoch == 9 if reports else again.joined.epoch in (0, 9)
    assert at < 8 or again.joined.epoch == 9
    assert not reports or at > 8


# Logs that are not the leader's


async def test_a_log_that_went_on_by_itself_has_to_be_cut(leader: ScriptedLeader) -> None:
    follower = Follower(leader.address, Dialect.EPOCHS)
    follower.open()
    follower.joined.join(1)
    follower.fill(LOG, END, (1, 0))
    async with follower.life():
        end = await leader.connection(0)
        end.hello(END + 100, 2, (1, 0), (2, FIVE))
        with pytest.raises(CutNeeded) as needed:
            await follower.task
        assert (needed.value.to, needed.value.below_confirmed) == (FIVE, False)
        await until(lambda: end.lost)
        assert end.reports == []
        assert follower.joined.epoch == 2  # it is cut on this leader's word, and no older one's


async def test_another_log_is_refused(leader: ScriptedLeader) -> None:
    follower = Follower(leader.address, Dialect.EPOCHS)
    follower.open()
    follower.fill(LOG, END, (1, 0))
    async with follower.life():
        end = await leader.connection(0)
        end.hello(END, 2, (2, 0))
        with pytest.raises(NothingInCommon):
            await follower.task


async def test_an_empty_log_begins_where_the_leader_s_does(leader: ScriptedLeader) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await leader.connection(0)
        end.hello(END, 3, (2, 500), (3, 4000))
        await end.reported(0)
        end.transfer(SEGMENT_BYTES, LOG.bytes[SEGMENT_BYTES:], 3, 4000, END)
        await end.reported(END)
        assert follower.store.first_offset == SEGMENT_BYTES
        assert follower.log == LOG.bytes[SEGMENT_BYTES:]
        assert follower.epochs.entries == ((3, 4000),)
        assert follower.store.positions.confirmed == END


async def test_a_plain_master_gives_its_last_file(
    leader: ScriptedLeader, caplog: pytest.LogCaptureFixture
) -> None:
    last = END - END % SEGMENT_BYTES
    async with Follower(leader.address, Dialect.PLAIN).life() as follower:
        end = await leader.connection(0)
        end.transfer(last, LOG.bytes[last:])
        await end.reported(END)
        assert follower.log == LOG.bytes[last:]
    assert "its last file only" in caplog.text


@pytest.mark.parametrize("offset", [SEGMENT_BYTES + 1, 100 * SEGMENT_BYTES])
async def test_a_beginning_that_cannot_be_is_refused(leader: ScriptedLeader, offset: int) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await followed(leader)
        end.transfer(offset, b"x" * 100)
        await until(lambda: "no segment's start" in str(follower.following.status().refused))
        assert follower.end == 0
        assert not follower.task.done()


@pytest.mark.parametrize("entries", [[(1, 0)], [(3, SEGMENT_BYTES)]])
async def test_a_log_that_is_too_far_behind_begins_anew(
    leader: ScriptedLeader, entries: list[tuple[int, int]]
) -> None:
    follower = Follower(leader.address, Dialect.EPOCHS)
    follower.open()
    follower.joined.join(1)
    follower.fill(LOG, LOG.ends[2], (1, 0))
    async with follower.life():
        end = await leader.connection(0)
        end.hello(END, 3, *entries)
        await end.reported(LOG.ends[2])
        end.transfer(SEGMENT_BYTES, LOG.bytes[SEGMENT_BYTES:], 3, SEGMENT_BYTES)
        with pytest.raises(BeginAt) as begin:
            await follower.task
        assert begin.value.offset == SEGMENT_BYTES


async def test_a_log_without_a_common_epoch_does_not_just_go_on(leader: ScriptedLeader) -> None:
    follower = Follower(leader.address, Dialect.EPOCHS)
    follower.open()
    follower.fill(LOG, LOG.ends[2], (1, 0))
    async with follower.life():
        end = await leader.connection(0)
        end.hello(END, 3, (3, SEGMENT_BYTES))
        await end.reported(LOG.ends[2])
        end.transfer(LOG.ends[2], LOG.bytes[LOG.ends[2] :], 3)
        with pytest.raises(NothingInCommon):
            await follower.task
        assert follower.end == LOG.ends[2]


async def test_a_plain_master_has_nobody_s_log_dropped(leader: ScriptedLeader) -> None:
    follower = Follower(leader.address, Dialect.PLAIN)
    follower.open()
    follower.fill(LOG, FIVE)
    async with follower.life():
        end = await leader.connection(0)
        end.transfer(SEGMENT_BYTES * 2, LOG.bytes[SEGMENT_BYTES * 2 :])
        await until(lambda: end.lost)
        assert follower.log == LOG.bytes[:FIVE]
        assert not follower.task.done()


async def test_bytes_of_a_plain_master_are_of_no_epoch(leader: ScriptedLeader) -> None:
    follower = Follower(leader.address, Dialect.PLAIN)
    follower.open()
    follower.fill(LOG, FIVE, (3, 0))
    async with follower.life():
        end = await leader.connection(0)
        end.transfer(FIVE, LOG.bytes[FIVE:])
        await end.reported(END)
        assert follower.epochs.entries == ()


async def test_a_filler_is_not_reported_before_all_of_it_came(
    leader: ScriptedLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filler too long to wait for is written when its head is here."""
    monkeypatch.setattr(incoming, "RawGroups", partial(RawGroups, most=1000))
    log = LeaderLog(1, 1, body=2500)
    first = log.ends[1]
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await leader.connection(0)
        end.hello(log.end, 1, (1, 0))
        end.transfer(0, log.bytes[:first])
        await end.reported(first)
        end.transfer(first, log.bytes[first : first + 100])
        await until(lambda: follower.end == SEGMENT_BYTES)
        end.transfer(first + 100, log.bytes[first + 100 : SEGMENT_BYTES])
        await end.reported(SEGMENT_BYTES)
        end.transfer(SEGMENT_BYTES, log.bytes[SEGMENT_BYTES:])
        await end.reported(log.end)
        assert {0, first, SEGMENT_BYTES, log.end} >= set(end.reports)
        assert end.reports.count(first) >= 2
        assert follower.end == log.end


# What is shown


async def test_what_is_shown_is_what_the_leader_confirmed(leader: ScriptedLeader) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await followed(leader)
        end.transfer(0, LOG.bytes[: LOG.ends[3]], confirmed=0)
        end.transfer(LOG.ends[3], LOG.bytes[LOG.ends[3] : FIVE], confirmed=0)
        await end.reported(FIVE)
        assert follower.readable == 0
        assert follower.moves == 0
        end.beat(FIVE, confirmed=FIVE)
        await until(lambda: follower.readable == 10)
        reports = len(end.reports)
        end.beat(FIVE, confirmed=FIVE)
        await until(lambda: len(end.reports) > reports + 1)
        assert follower.moves == 1


async def test_a_confirm_offset_beyond_the_log_shows_what_is_here(
    leader: ScriptedLeader,
) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await followed(leader)
        end.transfer(0, LOG.bytes[:FIVE], confirmed=1 << 60)
        await end.reported(FIVE)
        assert follower.store.positions.acknowledged == FIVE
        assert follower.readable == 10


async def test_a_confirm_offset_within_a_record_shows_what_is_before_it(
    leader: ScriptedLeader,
) -> None:
    """RocketMQ's slaves report any offset, and its masters pass the least of them on."""
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await followed(leader)
        for start, stop in ((0, LOG.ends[3]), (LOG.ends[3], FIVE)):
            end.transfer(start, LOG.bytes[start:stop], confirmed=0)
            await end.reported(stop)
        end.beat(FIVE, confirmed=FIVE - 1)
        await until(lambda: follower.readable)
        assert follower.store.positions.acknowledged == LOG.ends[3]
        assert follower.readable == 5
        end.beat(FIVE, confirmed=LOG.ends[3] + 1)  # nor does it go back
        end.beat(FIVE, confirmed=FIVE)
        await until(lambda: follower.readable == 10)


async def test_a_tail_that_an_earlier_run_took_in_is_shown_when_it_is_confirmed(
    leader: ScriptedLeader,
) -> None:
    follower = Follower(leader.address, Dialect.EPOCHS)
    async with follower.life():
        end = await followed(leader)
        end.transfer(0, LOG.bytes[:FIVE], confirmed=0)
        await end.reported(FIVE)
        follower.store.close()
    async with follower.life():
        assert follower.readable == 0
        end = await followed(leader, 1)
        assert end.reports == [FIVE]
        end.beat(FIVE, confirmed=FIVE - 1)
        end.beat(FIVE, confirmed=FIVE)
        await until(lambda: follower.readable == 10)


async def test_a_real_store_reports_what_its_thread_has_synced(
    leader: ScriptedLeader, tmp_path: Path
) -> None:
    config = StoreConfig(root=tmp_path, segment_bytes=SEGMENT_BYTES, flush=FlushMode.SYNC)
    store = MessageStore.open(
        config, disk=Disk(), clock=SystemClock(), store_host=HOST, replicated=True
    )
    follower = Follower(leader.address, Dialect.EPOCHS)
    follower.open()
    follower.store = store
    async with follower.life():
        end = await leader.connection(0)
        end.hello(END, 1, (1, 0))
        await end.ship(LOG.bytes, SEGMENT_BYTES, 500, confirmed=END)  # its log begins there
        await end.reported(END)
        assert store.positions.durable == END
        assert follower.log == LOG.bytes[SEGMENT_BYTES:]
        await until(lambda: store.positions.dispatched == END)
    store.close()


# A disk without room


@pytest.mark.parametrize("dialect", list(Dialect))
async def test_a_full_disk_is_waited_for(
    leader: ScriptedLeader, dialect: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    follower = Follower(leader.address, dialect)
    async with follower.life():
        end = await leader.connection(0)
        if dialect is Dialect.EPOCHS:
            end.hello(END, 1, (1, 0))
        end.transfer(0, LOG.bytes[:FIVE], confirmed=FIVE)
        await end.reported(FIVE)
        follower.disk.fail(errno=errno.ENOSPC, only={"preallocate", "write"}, times=1000)
        end.transfer(FIVE, LOG.bytes[FIVE:], confirmed=END)
        await until(lambda: "No space" in str(follower.following.status().refused))
        before = len(end.reports)
        connection = follower.following._incoming
        assert connection is not None
        assert connection._transport is not None
        assert not connection._transport.is_reading()
        for _ in range(30):
            await follower.clock.advance(1000)
        await until(lambda: len(end.reports) >= before + 5)  # still there, for the leader
        assert set(end.reports) <= {0, FIVE}
        assert not end.lost
        follower.disk.heal()
        await follower.clock.advance(1000)
        await end.reported(END)
        assert follower.log == LOG.bytes
        assert follower.following.status().refused is None
    assert caplog.text.count("waits for room") == 1


async def test_a_store_that_failed_is_not_followed_into(leader: ScriptedLeader) -> None:
    follower = Follower(leader.address, Dialect.EPOCHS)
    async with follower.life():
        end = await followed(leader)
        follower.disk.fail(errno=errno.EIO, only={"preallocate", "write"}, path="commitlog")
        end.transfer(0, LOG.bytes[:FIVE])
        with pytest.raises(StoreFailed):
            await follower.task
        await until(lambda: end.lost)
        assert set(end.reports) == {0}


# A leader that does not listen


async def test_reports_that_nobody_takes_do_not_pile_up(leader: ScriptedLeader) -> None:
    follower = Follower(leader.address, Dialect.EPOCHS)
    async with follower.life():
        end = await followed(leader)
        connection = follower.following._incoming
        assert connection is not None
        connection.pause_writing()
        await follower.clock.advance(10)
        end.transfer(0, LOG.bytes[:FIVE])
        await until(lambda: follower.end == FIVE)
        assert connection.last_write_ms == follower.clock.now_ms() - 10
        connection.resume_writing()
        await end.reported(FIVE)


async def test_of_too_many_ends_of_groups_every_second_is_remembered(
    leader: ScriptedLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "_MOST_ENDS", 6)
    follower = Follower(leader.address, Dialect.EPOCHS)
    async with follower.life():
        end = await followed(leader)
        connection = follower.following._incoming
        assert connection is not None
        for at, stop in pairwise(LOG.ends):
            end.transfer(at, LOG.bytes[at:stop], confirmed=0)
            await end.reported(stop)
            assert len(connection._ends) <= 6
        end.beat(END, confirmed=LOG.ends[-2])
        await until(lambda: follower.readable)
        shown = follower.store.positions.acknowledged
        assert shown in LOG.ends
        assert LOG.ends[4] < shown <= LOG.ends[-2]
