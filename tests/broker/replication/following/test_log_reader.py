"""A leader's log is read over its HA port by somebody who takes part in nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.broker.support.leader_parts import SEGMENT_BYTES, LeaderParts, elected, fixed, leading
from tests.waiting import until

from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.broker.replication.epochs import EpochEntry, EpochTable
from rocketpipe.broker.replication.following.log_reader import LeaderLog, LeaderUnread
from rocketpipe.broker.replication.leading import outgoing
from rocketpipe.clock import SystemClock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.files.disk import Disk

ASYNC = {"role": BrokerRole.ASYNC_MASTER}


def bytes_of(parts: LeaderParts, start: int, end: int) -> bytes:
    found = b""
    while start + len(found) < end:
        found += parts.store.raw_at(LogOffset(start + len(found)), end - start) or b""
    return found[: end - start]


@asynccontextmanager
async def reading(
    parts: LeaderParts, mine: EpochTable | None = None, end: int = 0
) -> AsyncIterator[LeaderLog]:
    log = await asyncio.to_thread(LeaderLog, parts.address, mine, end)
    try:
        yield log
    finally:
        log.close()


async def read(log: LeaderLog, at: int, end: int) -> bytes:
    found = b""
    while at + len(found) < end:
        data = await asyncio.to_thread(log.read, at + len(found), end - at - len(found))
        if not data:
            break
        found += data
    return found


async def test_ranges_in_any_order(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed(**ASYNC)) as parts:
        parts.append(15, b"x" * (200 << 10))
        end = parts.end
        async with reading(parts) as log:
            assert log.end == end
            assert await read(log, 0, end) == bytes_of(parts, 0, end)
            for at, to in ((700, 900), (SEGMENT_BYTES - 5, SEGMENT_BYTES + 5), (900, 1000)):
                assert await read(log, at, to) == bytes_of(parts, at, to)
            assert await read(log, end - 10, end + 10) == bytes_of(parts, end - 10, end)
            assert await read(log, end, end + 10) == b""


async def test_more_than_a_leader_sends_unreported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "WINDOW_BYTES", 5 << 20)
    async with leading(tmp_path, fixed(**ASYNC), SystemClock()) as parts:
        parts.append(60, b"x" * (200 << 10))
        async with reading(parts) as log:
            assert len(await read(log, 0, parts.end)) == parts.end > 10 << 20


async def test_what_retention_took_is_not_there(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed(**ASYNC)) as parts:
        parts.append(15, b"x" * (200 << 10))
        parts.store.flush()
        parts.store.dispatch()
        parts.store.sync_derived()
        assert parts.store.delete_before(LogOffset(SEGMENT_BYTES)) == 1
        async with reading(parts) as log:
            assert await read(log, 0, 10) == b""
            assert await read(log, 100, 110) == b""
            assert len(await read(log, SEGMENT_BYTES, parts.end)) == parts.end - SEGMENT_BYTES


async def test_nobody_waits_for_who_only_reads(tmp_path: Path) -> None:
    """A slave that had so little would be waited for."""
    async with leading(tmp_path, fixed(role=BrokerRole.SYNC_MASTER, min_in_sync=1)) as parts:
        parts.append(20)
        async with reading(parts) as log:
            await read(log, 0, 100)
            end = parts.append()
            assert await asyncio.wait_for(parts.followers.acknowledged(end), 5) == 11
            assert parts.followers.status() == []
            assert parts.followers.has_in_sync is False


async def test_an_elected_group_lets_it_read_and_no_more(tmp_path: Path) -> None:
    async with leading(tmp_path, elected(min_in_sync=1), in_sync={1}, members={1, 2, 3}) as parts:
        parts.append(20)
        async with reading(parts) as log:
            assert await read(log, 0, parts.end) == bytes_of(parts, 0, parts.end)
            assert parts.followers.refusals == {}
            assert parts.followers.caught_up(range(10)) is None
            assert parts.told.asked == []


async def test_up_to_where_the_logs_are_one(tmp_path: Path) -> None:
    async with leading(tmp_path / "led", fixed(**ASYNC)) as parts:
        middle = parts.append(20)
        parts.append(20)
        parts.epochs.append(3, middle)
        parts.followers.fail(14, "over")
        parts.lead(3)
        mine = EpochTable(Disk(), tmp_path / "mine")
        for entries, same_to in (
            ((), None),
            ((EpochEntry(1, 0),), middle),
            ((EpochEntry(1, 0), EpochEntry(2, middle - 100)), middle - 100),
            ((EpochEntry(1, 0), EpochEntry(3, middle)), parts.end),
            ((EpochEntry(7, 0),), 0),
        ):
            mine.replace(entries)
            async with reading(parts, mine, parts.end) as log:
                assert log.same_to == same_to


async def test_a_leader_that_does_not_answer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    with pytest.raises(LeaderUnread, match=f"127.0.0.1:{port} cannot be read"):
        LeaderLog(f"127.0.0.1:{port}", None, 0)


async def test_a_leader_that_steps_down_meanwhile(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed(**ASYNC)) as parts:
        parts.append(15, b"x" * (200 << 10))
        async with reading(parts) as log:
            await read(log, 0, 10)
            parts.followers.fail(14, "over")
            await until(lambda: not parts.followers.status())
            with pytest.raises(LeaderUnread, match="cannot be read"):
                await read(log, SEGMENT_BYTES + 50, parts.end)
