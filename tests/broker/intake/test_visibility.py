"""A sender hears when its message is as durable as promised."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
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
    assert await stored.visibility.settled(stored.append(), wait=True)
    assert stored.shown == 1


async def test_with_sync_it_is_settled_and_shown_after_the_flush(synced: Stored) -> None:
    waiting = asyncio.create_task(synced.visibility.settled(synced.append(), wait=True))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert synced.shown == 0
    await asyncio.to_thread(synced.store.flush)
    assert await waiting
    assert synced.shown == 1


async def test_who_does_not_wait_is_not_kept_but_the_message_is_shown_later(
    synced: Stored,
) -> None:
    assert await synced.visibility.settled(synced.append(), wait=False)
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
    assert await waiting is False
    assert synced.visibility.waiting == 0
    synced.store.flush()
    await asyncio.sleep(0)
    assert synced.shown == 1


async def test_without_time_to_wait_nothing_is_known() -> None:
    stored = Stored(FlushMode.SYNC, flush_timeout_ms=0)
    assert not await stored.visibility.settled(stored.append(), wait=True)
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
    assert await stored.visibility.settled(stored.append(), wait=True)
    assert await stored.visibility.settled(stored.append(), wait=True)
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
