"""A disk that takes its time stops nobody: the thread that answers waits for no sync."""

from __future__ import annotations

import asyncio
import random
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S, until

from rocketpipe import Admin, ConsumeFromWhere, Producer, PushConsumer
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.files import disk as disks
from rocketpipe.testing.clock import ManualClock

pytestmark = pytest.mark.scenario

SLOW = (
    (disks.DiskFile, ("sync_data", "sync", "preallocate")),
    (disks.FileSystemSync, ("sync",)),
    (disks.Disk, ("sync_directory", "remove")),
)
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class SlowDisk:
    """Notes who waits for the disk on the thread that answers, and has the others wait longer."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._at_work = threading.Event()
        self._at_work.set()
        self.on = False
        #: What waited on the thread that answers, and where.
        self.seen: dict[str, str] = {}
        #: How many wait until the disk is released.
        self.waiting = 0

    def operation(self, name: str) -> None:
        if not self.on:
            return
        if threading.get_ident() == self._thread:
            where = [f"{Path(at.filename).name}:{at.lineno}" for at in traceback.extract_stack()]
            self.seen.setdefault(name, " > ".join(where[-8:-2]))
            return
        self.waiting += 1
        self._at_work.wait()
        self.waiting -= 1

    def hold(self) -> None:
        """Let nothing become durable until `release`."""
        self._at_work.clear()

    def release(self) -> None:
        self._at_work.set()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    disk = SlowDisk()
    for cls, names in SLOW:
        for name in names:
            real = getattr(cls, name)

            def operation(self: Any, *given: Any, _real: Any = real, _name: str = name) -> Any:
                disk.operation(_name)
                return _real(self, *given)

            monkeypatch.setattr(cls, name, operation)
    yield disk
    disk.on = False
    disk.release()


@pytest.mark.parametrize("flush", FlushMode)
async def test_no_sync_is_done_on_the_thread_that_answers(
    tmp_path: Path, slow: SlowDisk, flush: FlushMode
) -> None:
    clock, chance, got = ManualClock(), random.Random(1), []
    store = StoreConfig.embedded(
        tmp_path, segment_bytes=65_536, reserved_hours=0, delete_hours="", flush=flush
    )
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(data=tmp_path, name_servers=(names,), port=0, store=store)
        async with broker(config, clock=clock), Admin(names) as admin, Producer(names) as producer:
            slow.on = True
            await admin.topics.create("orders", queues=4)
            for number in range(20):
                await producer.send("orders", chance.randbytes(10_000), keys=[str(number)])
                await clock.advance(1000)  # rounds of syncs fall due meanwhile
            consumer = PushConsumer(names, group="g", start=FIRST)
            consumer.subscribe("orders", lambda message: got.append(message.body))
            async with consumer:
                await until(lambda: len(got) == 20)
            segments = tmp_path / "commitlog"
            before = min(path.name for path in segments.iterdir())
            async with asyncio.timeout(PATIENCE_S):
                while min(path.name for path in segments.iterdir()) == before:
                    await clock.advance(1000)  # what is not durable yet stays
                    await admin.brokers.delete_expired()
            await admin.topics.delete("orders")
            slow.on = False
    assert slow.seen == {}


async def test_while_the_disk_is_stuck_everybody_else_is_answered(
    tmp_path: Path, slow: SlowDisk
) -> None:
    clock = ManualClock()
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(
            data=tmp_path,
            name_servers=(names,),
            port=0,
            store=StoreConfig.embedded(tmp_path, flush=FlushMode.ASYNC),
        )
        async with broker(config, clock=clock), Admin(names) as admin, Producer(names) as producer:
            await admin.topics.create("orders", queues=4)
            await producer.send("orders", b"before")
            slow.on = True
            slow.hold()
            for number in range(4):
                await producer.send("orders", b"x", keys=[str(number)])
                await clock.advance(5000)
            await until(lambda: slow.waiting)
            for number in range(4):
                await producer.send("orders", b"y", keys=[str(number)])
                await clock.advance(5000)
            assert "orders" in await admin.topics.names()
            assert slow.waiting
            slow.release()
            await until(lambda: not slow.waiting)
            slow.on = False
    assert slow.seen == {}
