"""What a follower is sent, from where on, and how much of it at once."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest
from tests.broker.support.follower_parts import SEGMENT_BYTES as FOLLOWED_BYTES
from tests.broker.support.follower_parts import Follower
from tests.broker.support.leader_parts import (
    SEGMENT_BYTES,
    LeaderParts,
    elected,
    fixed,
    leading,
)
from tests.broker.support.scripted_follower import connected, following
from tests.waiting import until

from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.broker.replication.epochs import EpochEntry
from rocketpipe.broker.replication.frames import HANDSHAKE_MS, Dialect
from rocketpipe.broker.replication.leading import outgoing
from rocketpipe.broker.replication.leading.outgoing import (
    BEAT_MS,
    CHUNK_BYTES,
    CONFIRM_MS,
    WINDOW_BYTES,
)
from rocketpipe.clock import SystemClock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.errors import StoreError
from rocketpipe.testing.clock import ManualClock

ASYNC = {"role": BrokerRole.ASYNC_MASTER}


def log_of(parts: LeaderParts, start: int, end: int) -> bytes:
    found = b""
    while start + len(found) < end:
        found += parts.store.raw_at(LogOffset(start + len(found)), end - start) or b""
    return found[: end - start]


# Where it begins


@pytest.mark.parametrize("number", [None, 2])
async def test_it_goes_on_where_the_follower_is(tmp_path: Path, number: int | None) -> None:
    async with leading(tmp_path, fixed(**ASYNC)) as parts:
        middle = parts.append(50)
        end = parts.append(50)
        async with following(parts.address, number, middle) as follower:
            follower.reports = True
            await until(lambda: follower.end == end)
            assert follower.log == log_of(parts, middle, end)


async def test_an_empty_slave_of_apaches_gets_the_last_file(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed(**ASYNC)) as parts:
        parts.append(15, b"x" * (200 << 10))
        async with following(parts.address) as slave:
            slave.reports = True
            await until(lambda: slave.end == parts.end)
            assert slave.start == parts.end - parts.end % SEGMENT_BYTES > 0
            assert slave.log == log_of(parts, slave.start, parts.end)


async def test_an_empty_replica_gets_all_of_it_and_none_that_crosses_an_epoch(
    tmp_path: Path,
) -> None:
    async with leading(tmp_path, fixed(**ASYNC)) as parts:
        parts.append(15, b"x" * (200 << 10))
        second = parts.append()
        parts.epochs.append(2, second)
        parts.append(3)
        third = parts.end
        parts.epochs.append(5, third)
        parts.append(3)
        parts.followers.fail(14, "over")
        parts.lead(5)
        async with following(parts.address, 2) as replica:
            replica.reports = True
            await until(lambda: replica.end == parts.end)
            assert replica.hello is not None
            assert replica.hello.entries == (
                EpochEntry(1, 0),
                EpochEntry(2, second),
                EpochEntry(5, third),
            )
            assert (replica.hello.log_end, replica.hello.epoch) == (parts.end, 5)
            assert replica.log == log_of(parts, 0, parts.end)
            for frame in replica.frames:
                entry = parts.epochs.at(frame.offset)
                assert (frame.epoch, frame.epoch_start) == entry
                if frame.data:
                    assert parts.epochs.at(frame.offset + len(frame.data) - 1) == entry
            assert {frame.offset for frame in replica.frames} >= {second, third}


async def test_asked_for_what_retention_took_it_begins_at_its_first(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed(**ASYNC)) as parts:
        parts.append(15, b"x" * (200 << 10))
        parts.store.flush()
        parts.store.dispatch()
        parts.store.sync_derived()
        assert parts.store.delete_before(LogOffset(SEGMENT_BYTES)) == 1
        first = parts.store.first_offset
        assert first == SEGMENT_BYTES
        async with following(parts.address, 2, 100) as behind, following(parts.address, 3) as new:
            await until(lambda: behind.start == new.start == first)
        async with following(parts.address, end=100) as slave:
            await slave.is_closed()
            assert slave.frames == []


async def test_half_a_handshake_is_a_plain_report_after_a_second(tmp_path: Path) -> None:
    """The start of a segment at 4 GiB has the bytes that a handshake begins with."""
    clock = ManualClock()
    async with (
        leading(tmp_path, fixed(**ASYNC), clock) as parts,
        await connected(parts.address, Dialect.PLAIN) as slave,
    ):
        slave.say(struct.pack(">q", 1 << 32))
        await until(lambda: any(each._deciding for each in parts.followers._open))
        await asyncio.sleep(0)  # its second begins
        assert parts.followers.refusals == {}
        await clock.advance(HANDSHAKE_MS)
        await slave.is_closed()  # its offset is beyond the end here
        assert parts.followers.refusals == {"plain": 1}


# How much


async def test_frames_are_bounded_and_end_with_a_file(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed(**ASYNC, transfer_bytes=4096)) as parts:
        first = parts.append()
        parts.append(15, b"x" * (200 << 10))
        async with (
            following(parts.address, end=first) as slave,
            following(parts.address, 2) as replica,
        ):
            slave.reports = replica.reports = True
            await until(lambda: slave.end == replica.end == parts.end)
            assert max(len(frame.data) for frame in slave.frames) <= 4096
            assert max(len(frame.data) for frame in replica.frames) <= CHUNK_BYTES
            for frame in (*slave.frames, *replica.frames):
                last = frame.offset + max(0, len(frame.data) - 1)
                assert frame.offset // SEGMENT_BYTES == last // SEGMENT_BYTES


async def test_no_more_is_on_its_way_than_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = 8 << 20  # the real one has room for the longest group, which takes too long here
    monkeypatch.setattr(outgoing, "WINDOW_BYTES", window)
    config = fixed(**ASYNC, max_gap_bytes=1 << 30)
    async with leading(tmp_path, config) as parts:
        for _ in range(4):
            parts.append(15, b"x" * (200 << 10))
        assert parts.end > window + (2 << 20)
        async with following(parts.address, 2) as replica:
            await until(lambda: replica.end == window)
            for _ in range(20):
                await asyncio.sleep(0)
            assert parts.followers.status()[0].transfer_from == window
            replica.report(window)
            await until(lambda: replica.end == parts.end)


async def test_who_is_not_in_sync_is_sent_no_more_than_its_rate(tmp_path: Path) -> None:
    clock = ManualClock()
    config = fixed(**ASYNC, max_gap_bytes=1, catch_up_bytes=100_000)
    async with leading(tmp_path, config, clock) as parts:
        parts.append(5, b"x" * (200 << 10))
        async with following(parts.address, 2) as replica:
            replica.reports = True
            await until(lambda: replica.end == 10_000)
            assert parts.followers.status()[0].transfer_from == 10_000
            await clock.advance(100)
            await until(lambda: replica.end == 20_000)


async def test_a_follower_that_does_not_read_holds_up_nobody(tmp_path: Path) -> None:
    config = fixed(**ASYNC, max_gap_bytes=1 << 30)
    async with leading(tmp_path, config, SystemClock()) as parts:
        async with await connected(parts.address, Dialect.EPOCHS) as stuck:
            stuck.stop_reading()
            stuck.say(stuck.side.handshake(2) + stuck.side.report(0))
            for _ in range(4):
                parts.append(15, b"x" * (200 << 10))
            async with following(parts.address, 3) as other:
                other.reports = True
                await until(lambda: other.end == parts.end)
            behind = next(each for each in parts.followers.status() if each.id == 2)
            assert behind.transfer_from <= WINDOW_BYTES


async def test_what_is_not_in_memory_is_read_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leading(tmp_path, fixed(**ASYNC)) as parts:
        parts.append(5)
        read = parts.store.raw_at
        cold = 0

        def raw_at(offset: LogOffset, most: int, *, cached_only: bool = False) -> bytes | None:
            nonlocal cold
            cold += cached_only
            return None if cached_only else read(offset, most)

        monkeypatch.setattr(parts.store, "raw_at", raw_at)
        async with following(parts.address, 2) as replica:
            replica.reports = True
            await until(lambda: replica.end == parts.end)
            assert cold >= 1


async def test_a_log_that_cannot_be_read_closes_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> bytes:
        raise StoreError("Input/output error")

    async with leading(tmp_path, fixed(**ASYNC)) as parts:
        parts.append()
        monkeypatch.setattr(parts.store, "raw_at", broken)
        async with following(parts.address, 2) as replica:
            await replica.is_closed()
        assert "the log cannot be read: Input/output error" in caplog.text


# Time


async def test_what_is_confirmed_is_told_soon_though_nothing_else_is_sent(tmp_path: Path) -> None:
    clock = ManualClock()
    async with leading(tmp_path, fixed(), clock) as parts, following(parts.address, 2) as replica:
        await parts.heard(1)
        end = parts.append()
        await until(lambda: replica.end == end)
        assert replica.frames[-1].confirmed == 0
        replica.report(end)
        await parts.reached(end)
        await clock.advance(CONFIRM_MS)
        await until(lambda: replica.frames[-1].confirmed == end)
        assert (replica.frames[-1].offset, replica.frames[-1].data) == (end, b"")
        count = len(replica.frames)
        await clock.advance(BEAT_MS // 2)
        assert len(replica.frames) == count


async def test_while_the_log_goes_on_nothing_else_tells_what_is_confirmed(tmp_path: Path) -> None:
    clock = ManualClock()
    async with leading(tmp_path, fixed(), clock) as parts, following(parts.address, 2) as replica:
        await parts.heard(1)
        for _ in range(5):
            end = parts.append()
            await until(lambda end=end: replica.end == end)
            replica.report(end)
            await parts.reached(end)
            await clock.advance(CONFIRM_MS - 1)
        assert all(frame.data for frame in replica.frames[1:])
        await clock.advance(2 * CONFIRM_MS)
        await until(lambda: replica.frames[-1].confirmed == end)


async def test_frames_follow_each_other_slowly_where_nobody_waits_for_them(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed(**ASYNC)) as parts:
        async with following(parts.address, 2, parts.append()) as replica:
            await parts.heard(1)
            end = parts.append()
            await until(lambda: replica.end == end)
            count = len(replica.frames)
            for _ in range(100):
                end = parts.append()
                await asyncio.sleep(0)
            await until(lambda: replica.end == end)
            assert len(replica.frames) < count + 100


async def test_what_a_turn_has_appended_is_on_its_way_before_the_next_turn(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts, following(parts.address) as slave:
        await parts.heard(1)
        end = parts.append()
        (follower,) = parts.followers._open
        assert follower.sent < end
        parts.followers.when_acknowledged(end, lambda *_: None)
        assert follower.sent == end
        await until(lambda: slave.end == end)


@pytest.mark.parametrize(("number", "every_ms"), [(None, 5_000), (2, BEAT_MS)])
async def test_it_says_something_from_time_to_time(
    tmp_path: Path, number: int | None, every_ms: int
) -> None:
    clock = ManualClock()
    async with leading(tmp_path, fixed(**ASYNC), clock) as parts:
        end = parts.append()
        async with following(parts.address, number, end) as follower:
            await parts.heard(1)
            await clock.advance(every_ms + 100)
            await until(lambda: len(follower.frames) == 1)
            assert (follower.frames[0].offset, follower.frames[0].data) == (end, b"")


@pytest.mark.parametrize("said", [b"", b"\x00", struct.pack(">q", 0)])
async def test_who_is_silent_is_given_up(tmp_path: Path, said: bytes) -> None:
    clock = ManualClock()
    async with (
        leading(tmp_path, fixed(), clock) as parts,
        await connected(parts.address, Dialect.PLAIN) as slave,
    ):
        await until(lambda: len(parts.followers._open) == 1)
        (follower,) = parts.followers._open
        await clock.advance(1)
        slave.say(said)
        if said:
            await until(lambda: follower.heard_ms == clock.monotonic_ms())
        await clock.advance(parts.config.silence_ms - 200)
        assert not slave.closed
        await clock.advance(400)
        await slave.is_closed()
        assert sum(parts.followers.refusals.values()) == 1


# With a real follower


@pytest.mark.parametrize("dialect", Dialect)
async def test_a_real_follower_has_the_same_log_and_shows_what_is_confirmed(
    tmp_path: Path, dialect: Dialect
) -> None:
    given = {"store": {"segment_bytes": FOLLOWED_BYTES}}
    async with leading(tmp_path, fixed(), SystemClock(), **given) as parts:
        follower = Follower(parts.address, dialect)
        follower.elected = False
        async with follower.life():
            await parts.heard(1)
            for size in (10, 1000, 3000, 100, 2500, 1):
                end = parts.append(3, b"x" * size)
                assert await parts.followers.acknowledged(end) == 0
            assert follower.end == parts.end
            assert follower.log == log_of(parts, 0, parts.end)
            await until(lambda: follower.readable == 18)
            assert parts.store.max_offset("t", 0) == 18
        await parts.heard(0)
        follower.store.abandon()
        parts.append(3)
        async with follower.life():
            await parts.reached(parts.end)
            assert follower.log == log_of(parts, 0, parts.end)


async def test_a_real_follower_enters_the_set_and_takes_over_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    given = {"store": {"segment_bytes": FOLLOWED_BYTES}, "in_sync": {1}}
    async with leading(tmp_path, elected(), SystemClock(), **given) as parts:
        parts.append(20, b"x" * 300)
        follower = Follower(parts.address, Dialect.EPOCHS)
        async with follower.life():
            await until(lambda: parts.told.asked == [frozenset({1, 7})])
            assert await parts.followers.acknowledged(parts.append()) == 0
            assert parts.followers.caught_up({7}) == 7
            await until(lambda: follower.readable == 21)
            parts.followers.fail(14, "over")
            parts.epochs.append(2, parts.end)
            parts.lead(2)
            assert follower.end == parts.end
