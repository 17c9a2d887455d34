"""A sender hears when its message is as durable as promised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.leader_parts import LeaderParts, fixed, leading
from tests.broker.support.scripted_follower import following
from tests.waiting import until

from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.broker.replication.standing import Standing
from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


class Stored:
    def __init__(self, flush: FlushMode, **changes: Any) -> None:
        self.disk = SimDisk()
        self.clock = ManualClock()
        config = StoreConfig.embedded(ROOT, flush=flush, segment_bytes=65536, **changes)
        self.store = MessageStore.open(
            config, disk=self.disk, clock=self.clock, store_host=HOST, threads=False
        )
        self.visibility = Visibility(self.store, self.clock)

    def append(self) -> LogOffset:
        put = Put(
            topic="t",
            queue_id=0,
            body=b"x",
            properties=b"",
            flag=0,
            sys_flag=0,
            born_ms=1,
            born_host=HOST,
        )
        ((placed,),) = self.store.append([[put]])
        return LogOffset(placed.log_offset + placed.size)

    @property
    def shown(self) -> int:
        return self.store.max_offset("t", 0)


@pytest.fixture
def synced() -> Iterator[Stored]:
    stored = Stored(FlushMode.SYNC)
    yield stored
    stored.store.abandon()


async def test_without_sync_a_message_is_settled_and_shown_at_once() -> None:
    stored = Stored(FlushMode.ASYNC)
    assert await stored.visibility.settled(stored.append(), wait=True) == ResponseCode.SUCCESS
    assert stored.shown == 1


async def test_with_sync_it_is_settled_and_shown_after_the_flush(synced: Stored) -> None:
    waiting = asyncio.create_task(synced.visibility.settled(synced.append(), wait=True))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert synced.shown == 0
    await asyncio.to_thread(synced.store.flush)
    assert await waiting == ResponseCode.SUCCESS
    assert synced.shown == 1


async def test_who_does_not_wait_is_not_kept_but_the_message_is_shown_later(
    synced: Stored,
) -> None:
    assert await synced.visibility.settled(synced.append(), wait=False) == ResponseCode.SUCCESS
    assert synced.shown == 0
    await asyncio.to_thread(synced.store.flush)
    await asyncio.sleep(0)
    assert synced.shown == 1


async def test_a_flush_that_takes_too_long_is_not_known(synced: Stored) -> None:
    waiting = asyncio.create_task(synced.visibility.settled(synced.append(), wait=True))
    await synced.clock.advance(0)
    await synced.clock.advance(synced.store.config.flush_timeout_ms - 1)
    assert not waiting.done()
    assert synced.visibility.waiting == 1
    await synced.clock.advance(1)
    assert await waiting == ResponseCode.FLUSH_DISK_TIMEOUT
    assert synced.visibility.waiting == 0
    synced.store.flush()
    await asyncio.sleep(0)
    assert synced.shown == 1


async def test_without_time_to_wait_nothing_is_known() -> None:
    stored = Stored(FlushMode.SYNC, flush_timeout_ms=0)
    code = await stored.visibility.settled(stored.append(), wait=True)
    assert code == ResponseCode.FLUSH_DISK_TIMEOUT
    stored.store.abandon()


async def test_a_flush_that_fails_is_an_error(synced: Stored) -> None:
    waiting = asyncio.create_task(synced.visibility.settled(synced.append(), wait=True))
    await asyncio.sleep(0)
    synced.disk.fail(at=1, only=("sync",))
    synced.store.flush()
    with pytest.raises(StoreError, match="Input/output error"):
        await waiting


async def test_what_cannot_be_shown_is_logged_and_not_the_senders_fault(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Stored(FlushMode.ASYNC)

    def damaged() -> int:
        raise RecordCorrupt(7, "torn")

    monkeypatch.setattr(stored.store, "dispatch", damaged)
    assert await stored.visibility.settled(stored.append(), wait=True) == ResponseCode.SUCCESS
    assert await stored.visibility.settled(stored.append(), wait=True) == ResponseCode.SUCCESS
    assert caplog.text.count("cannot be shown reason=record at 7: torn") == 1


async def test_dispatch_goes_on_from_time_to_time() -> None:
    stored = Stored(FlushMode.ASYNC)
    work = asyncio.create_task(stored.visibility.keep_dispatched(every_ms=1000))
    await asyncio.sleep(0)
    stored.append()
    assert stored.shown == 0
    await stored.clock.advance(1000)
    assert stored.shown == 1
    work.cancel()


# With replicas


@asynccontextmanager
async def led(
    root: Path, config: ReplicationConfig, clock: ManualClock, flush: FlushMode, **given: Any
) -> AsyncIterator[tuple[LeaderParts, Visibility]]:
    async with leading(root, config, clock, store={"flush": flush}, **given) as parts:
        standing = Standing()
        standing.followers = parts.followers
        yield parts, Visibility(parts.store, clock, standing)


async def test_with_replicas_it_is_settled_and_shown_when_they_have_it(tmp_path: Path) -> None:
    async with (
        led(tmp_path, fixed(), ManualClock(), FlushMode.ASYNC) as (parts, visibility),
        following(parts.address, 2) as slave,
    ):
        await parts.heard(1)
        assert await visibility.settled(parts.append(), wait=False) == ResponseCode.SUCCESS
        waiting = asyncio.create_task(visibility.settled(parts.append(), wait=True))
        await until(lambda: slave.end == parts.end)
        assert not waiting.done()
        assert parts.store.max_offset("t", 0) == 0
        slave.report(parts.end)
        assert await waiting == ResponseCode.SUCCESS
        assert parts.store.max_offset("t", 0) == 2


async def test_what_replicas_and_the_disk_say_counts_together(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        led(tmp_path, fixed(), clock, FlushMode.SYNC) as (parts, visibility),
        following(parts.address, 2) as slave,
    ):
        await parts.heard(1)

        def settling() -> asyncio.Task[int]:
            return asyncio.create_task(visibility.settled(parts.append(), wait=True))

        # Replicas are quick, the disk is not.
        waiting = settling()
        await until(lambda: slave.end == parts.end)
        slave.report(parts.end)
        await parts.reached(parts.end)
        await clock.advance(0)
        assert not waiting.done()
        assert parts.store.max_offset("t", 0) == 0
        await clock.advance(parts.store.config.flush_timeout_ms)
        assert await waiting == ResponseCode.FLUSH_DISK_TIMEOUT
        # Both in the end.
        waiting = settling()
        await until(lambda: slave.end == parts.end)
        parts.store.flush()
        await clock.advance(0)
        assert not waiting.done()
        slave.report(parts.end)
        assert await waiting == ResponseCode.SUCCESS
        assert parts.store.max_offset("t", 0) == 2
        # The disk is quick, replicas are not; what they say weighs more.
        waiting = settling()
        await clock.advance(0)
        parts.store.flush()
        await clock.advance(parts.config.slave_timeout_ms + 10)
        assert await waiting == ResponseCode.FLUSH_SLAVE_TIMEOUT


async def test_who_waits_for_the_disk_when_the_leadership_is_lost_is_told(tmp_path: Path) -> None:
    stored = Stored(FlushMode.SYNC)
    waiting = asyncio.create_task(stored.visibility.settled(stored.append(), wait=True))
    await stored.clock.advance(0)
    stored.visibility.standing.refusal = (14, "leads no longer")
    stored.store.flush()
    with pytest.raises(RequestRejected, match="leads no longer"):
        await waiting
    stored.store.abandon()
