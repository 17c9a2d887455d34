"""A replica as far as its tables go: a store, the tables, and the log that brings them there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rocketpipe.broker.replication.joined import JOINED_FILE, JoinedEpoch
from rocketpipe.broker.replication.tables.table_log import TableLog
from rocketpipe.broker.replication.tables.table_records import MAX_BODY_BYTES
from rocketpipe.broker.tables.lock_journal import LOCKS_FILE, LockJournal
from rocketpipe.broker.tables.queue_locks import QueueLocks
from rocketpipe.broker.tables.system_topics import system_topics
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.model.offsets import LogOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.log.puts import Put
from rocketpipe.store.log.raw_groups import RawGroups
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Pins
from rocketpipe.testing.clock import ManualClock

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


class Replica:
    """One life of it; another one in the same directory goes on from what this one left."""

    def __init__(
        self,
        root: Path,
        *,
        disk: Disk | None = None,
        clock: ManualClock | None = None,
        segment_bytes: int = 1 << 20,
        most: int = MAX_BODY_BYTES,
    ) -> None:
        self.clock = clock or ManualClock()
        self.disk = disk or Disk()
        config = StoreConfig(root=root, segment_bytes=segment_bytes)
        self.store = MessageStore.open(
            config,
            disk=self.disk,
            clock=self.clock,
            store_host=HOST,
            threads=False,
            replicated=True,
        )
        self.store.dispatch()
        directory = StoreLayout(root).config
        self.tables = Tables(self.disk, directory, self.clock, default_topic_queues=8)
        self.tables.load()
        self.tables.topics.establish(system_topics("c", "b", replicated=True), 0)
        self.locks = QueueLocks()
        self.owners = LockJournal(self.disk, directory / LOCKS_FILE, self.locks, self.clock)
        self.owners.load(fresh=not self.store.positions.written)
        self.joined = JoinedEpoch(self.disk, directory / JOINED_FILE)
        self.joined.load()
        self.pins = Pins()
        #: What this one appended as a leader, group by group.
        self.groups: list[Sequence[Put]] = []
        #: Where the log ended behind each.
        self.ends: list[LogOffset] = []
        #: Where its leader's log begins, once it was told.
        self.kept_from: LogOffset | None = None
        #: How those are answered who wait for replicas.
        self.code = 0
        #: How many wait for them now.
        self.waiting = 0
        self._acknowledgement = asyncio.Event()
        self.log = TableLog(
            self.store,
            self.tables,
            self.owners,
            self.clock,
            self.joined,
            self.append,
            acknowledged=self._acknowledged,
            pins=self.pins,
            keep_from=self.keep_from,
            host=HOST,
            most=most,
        )

    def keep_from(self, first_offset: LogOffset) -> None:
        self.kept_from = first_offset

    async def lead(self, *, alone: bool = True) -> None:
        """Take over; if not ``alone``, what is written shows once it is acknowledged."""
        await self.log.apply_tail()
        self.store.adopt_tail()
        positions = self.store.positions
        positions.begin_acknowledged(None if alone else positions.dispatched)
        self.groups.clear()
        self.ends.clear()
        self.log.write_snapshot()

    def append(self, puts: Sequence[Put]) -> LogOffset:
        self.store.append([puts])
        self.groups.append(puts)
        self.ends.append(self.store.positions.written)
        self.store.dispatch()
        return self.store.positions.written

    async def _acknowledged(self, end: LogOffset) -> int:
        self.waiting += 1
        try:
            while self.store.positions.confirmed < end and not self.code:
                await self._acknowledgement.wait()
        finally:
            self.waiting -= 1
        return self.code

    def acknowledge(self, code: int = 0) -> None:
        """Have replicas that have everything, or none that answers in time."""
        if not code:
            self.store.positions.acknowledged = self.store.positions.written
            self.store.dispatch()
        self.code = code
        self._acknowledgement.set()
        self._acknowledgement.clear()

    def follow(self, leader: Replica, *, to: int | None = None, dispatch: bool = True) -> None:
        """Take in a leader's log, all or up to ``to``; what is dispatched is acknowledged."""
        store, log = self.store, self.store.commit_log
        groups = RawGroups(store.positions.written, log.segment_bytes, sealed_from=log.sealed_from)
        end = leader.store.positions.written if to is None else to
        while (at := groups.at + groups.pending_bytes) < end:
            data = leader.store.raw_at(LogOffset(at), min(log.segment_bytes, end - at))
            piece = groups.add(data or b"")
            if piece is not None:
                store.append_raw(piece)
        if dispatch:
            store.positions.begin_acknowledged(store.positions.written)
            store.dispatch()

    def send(self, topic: str, queue_id: int = 0, body: bytes = b"m") -> LogOffset:
        """Append a message to a topic."""
        return self.append([Put(topic, queue_id, body, b"", 0, 0, 0, HOST)])

    def lock(self, client_id: str, queue_id: int, group: str = "g") -> bool:
        queue = MessageQueue(topic="t", broker_name="b", queue_id=queue_id)
        return queue in self.locks.lock(group, client_id, [queue], self.clock.monotonic_ms())

    @property
    def is_asleep(self) -> bool:
        """Whether its loop has done what it does in a second, and waits for the next."""
        return any(not wake.done() for _, _, wake in self.clock._sleepers)

    @property
    def state(self) -> dict[str, Any]:
        """All that a broker remembers outside of the log."""
        tables = self.tables
        return {
            "topics": tables.topics.all(),
            "deleted": tables.topics.deletions(),
            "topics_version": tables.topics.version,
            "groups": tables.groups.to_file(),
            "places": {tuple(place[:3]): place[3] for place in tables.offsets.all()},
            "resets": dict(tables.offsets.resets),
            "offsets_version": tables.offsets.version,
            "delays": tables.delays.all(),
            "delays_version": tables.delays.version,
            "orders": {key: tables.orders.get(*key) for key in tables.orders.keys()},  # noqa: SIM118
            "modes": tables.modes.to_file(),
            "owners": {each: self.owners.owner(each) for each in self.owners.owned()},
        }
