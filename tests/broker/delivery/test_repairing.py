"""Repairs beside a broker's work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from errno import EIO

import pytest

from rocketpipe.background import running
from rocketpipe.broker.delivery.repairing import AGAIN_MS, keep_repaired
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.errors import UnderRepair
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import ROOT, open_store, put


def damaged(disk: SimDisk) -> MessageStore:
    """A store with a queue of two files, of which the first is damaged."""
    store = open_store(disk)
    for _ in range(15):
        store.append([[put()]])
    store.dispatch()
    store.flush()
    store.sync_derived()
    store.derived.queues.look_again()
    disk.flip(ROOT / "consumequeue" / "plain" / "0" / f"{0:020d}", 8 * 45)
    return store


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0)


async def test_what_a_reader_finds_damaged_is_put_right_while_it_asks_again() -> None:
    store = damaged(SimDisk())
    async with running(keep_repaired(store, ManualClock()), "repairs"):
        await asyncio.sleep(0)
        with pytest.raises(UnderRepair):
            store.read("plain", 0, QueueOffset(0), max_count=1)
        await until(lambda: not store.derived.repairs.is_due)
        assert store.read("plain", 0, QueueOffset(0), max_count=32).count == 15


async def test_a_repair_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    disk, clock = SimDisk(), ManualClock()
    store = damaged(disk)
    async with running(keep_repaired(store, clock), "repairs"):
        await asyncio.sleep(0)
        with pytest.raises(UnderRepair):
            store.read("plain", 0, QueueOffset(0), max_count=1)
        disk.fail(at=1, errno=EIO, only=("write",))
        await until(lambda: "is tried again" in caplog.text)
        assert store.derived.repairs.is_due
        while store.derived.repairs.is_due:
            await clock.advance(AGAIN_MS)
            await asyncio.sleep(0)
        assert store.read("plain", 0, QueueOffset(0), max_count=32).count == 15


async def test_without_anybody_to_do_it_repairs_are_done_at_once_again() -> None:
    store = damaged(SimDisk())
    async with running(keep_repaired(store, ManualClock()), "repairs"):
        await asyncio.sleep(0)
    assert store.read("plain", 0, QueueOffset(0), max_count=32).count == 15
