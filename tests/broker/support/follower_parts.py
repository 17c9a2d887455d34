"""A follower on a simulated disk, and a leader's log for it to take in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.replication.epochs import EpochEntry, EpochTable
from rocketpipe.broker.replication.following.following import Following
from rocketpipe.broker.replication.frames import Dialect
from rocketpipe.broker.replication.joined import JoinedEpoch
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.log.puts import Put
from rocketpipe.store.log.raw_groups import RawGroups
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
SEGMENT_BYTES = 4096


def put(body: bytes) -> Put:
    return Put(
        topic="t",
        queue_id=0,
        body=body,
        properties=b"",
        flag=0,
        sys_flag=0,
        born_ms=1,
        born_host=HOST,
    )


def open_store(disk: SimDisk, *, replicated: bool = True, **changes: Any) -> MessageStore:
    config = StoreConfig.embedded(ROOT, **{"segment_bytes": SEGMENT_BYTES, **changes})
    return MessageStore.open(
        config,
        disk=disk,
        clock=ManualClock(),
        store_host=HOST,
        threads=False,
        replicated=replicated,
    )


class LeaderLog:
    """What a leader's store wrote: its bytes, and where its groups end."""

    def __init__(self, *groups: int, body: int = 300, begin: int = 0) -> None:
        """Write groups of so many records each, numbered from ``begin`` on."""
        store = open_store(SimDisk(), replicated=False)
        self.ends = [0]
        number = begin
        for records in groups:
            puts = [put(b"%06d" % (number + at) + bytes(body)) for at in range(records)]
            number += records
            store.append([puts])
            self.ends.append(int(store.positions.written))
        self.records = number - begin
        self.end = self.ends[-1]
        parts, at = [], 0
        while data := store.raw_at(LogOffset(at), 1 << 20):
            parts.append(data)
            at += len(data)
        self.bytes = b"".join(parts)
        assert len(self.bytes) == self.end
        store.close()


class Follower:
    """One replica's parts; `life` is one run of its process."""

    def __init__(self, address: str, dialect: Dialect, disk: SimDisk | None = None) -> None:
        self.address = address
        self.dialect = dialect
        self.disk = disk or SimDisk()
        self.clock = ManualClock()
        self.moves = 0
        self.config = ReplicationConfig()
        self.elected = True
        self._opened = False
        self.store: MessageStore
        self.epochs: EpochTable
        self.joined: JoinedEpoch
        self.following: Following
        self.task: asyncio.Task[None]

    @asynccontextmanager
    async def life(self, **store_changes: Any) -> AsyncIterator[Follower]:
        if not self._opened:
            self.open(**store_changes)
        self.start()
        try:
            yield self
        finally:
            self._opened = False
            self.following.close()
            await asyncio.wait([self.task])
            if not self.task.cancelled():
                self.task.exception()

    def open(self, **store_changes: Any) -> None:
        self.store = open_store(self.disk, **store_changes)
        self.epochs = EpochTable(self.disk, ROOT / "epochFileCheckpoint")
        self.epochs.load()
        self.joined = JoinedEpoch(self.disk, ROOT / "config" / "replication.json")
        self.joined.load()
        self._opened = True

    def start(self) -> None:
        self.following = Following(
            self.store,
            self.epochs,
            self.joined,
            self.clock,
            self.config,
            me=7,
            leader_ha=self.address,
            dialect=self.dialect,
            moved=self.moved,
            elected=self.elected,
        )
        self.task = asyncio.create_task(self.following.run())

    def moved(self) -> None:
        self.moves += 1
        self.store.dispatch()

    def fill(self, log: LeaderLog, end: int, *epochs: tuple[int, int]) -> None:
        """Have the first bytes of a log, of these epochs, as a follower would."""
        groups = RawGroups(LogOffset(0), SEGMENT_BYTES, sealed_from=0)
        piece = groups.add(log.bytes[:end])
        assert piece is not None
        assert piece.end == end
        self.store.append_raw(piece)
        self.epochs.replace([EpochEntry(*entry) for entry in epochs])

    @property
    def end(self) -> int:
        return int(self.store.positions.written)

    @property
    def log(self) -> bytes:
        parts, at = [], int(self.store.first_offset)
        while data := self.store.raw_at(LogOffset(at), 1 << 20):
            parts.append(data)
            at += len(data)
        return b"".join(parts)

    @property
    def readable(self) -> int:
        return int(self.store.max_offset("t", 0))
