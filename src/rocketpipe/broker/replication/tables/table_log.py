"""The broker's tables in its replicated log, as records of ``rmq_sys_TABLES``.

    leader      topics, groups, request modes,     at once, and answered when acknowledged
                users and rights, sealed
                owners of queues                   at once, and told when acknowledged
                places of groups, delay levels,    each second; at once and answered when
                pops in order                      acknowledged with ``offsetCommit=sync``
                where the log begins               each second
                a snapshot of everything           first of all, and every half segment
    follower    applies records as they are dispatched, saves its tables as ever, and remembers in
                `JoinedEpoch` up to where that was saved: after a kill it applies from there again
    promotion   applies what is written and not dispatched too, and then writes a snapshot

What a record says is absolute, so that to apply the same ones again, in the log's order, ends where
it ended before. A place of a group goes back at a follower where it did at the leader, or where a
new leader has less, and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, NoReturn

from rocketpipe.broker.replication.joined import JoinedEpoch
from rocketpipe.broker.replication.tables.sealed_users import SealedUsers
from rocketpipe.broker.replication.tables.table_applying import TableApplier
from rocketpipe.broker.replication.tables.table_records import MAX_BODY_BYTES, TableScribe
from rocketpipe.broker.store_steps import run_steps
from rocketpipe.broker.tables.deletions import cut_off, queues_in_use
from rocketpipe.broker.tables.lock_journal import LockJournal, Owned
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.model.names import TABLES_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Pin, Pins

log = logging.getLogger(__name__)

WRITE_EVERY_MS: Final = 1000
#: A follower takes in whole groups, and no longer ones than it has memory for.
MAX_GROUP_BYTES: Final = 16 << 20
#: So much is applied before others have their turn.
_APPLY_BYTES: Final = 256 << 10
_READ_COUNT: Final = 32
#: Answers of those who acknowledge by which a change counts: 11 where no slave is asked for.
_ACKNOWLEDGED: Final = frozenset({ResponseCode.SUCCESS, ResponseCode.SLAVE_NOT_AVAILABLE})


class TableLog:
    """Brings tables into the log while this broker leads, and out of it while it follows.

    It follows from the beginning; `write_snapshot` has it lead, `step_down` follow again.
    """

    def __init__(
        self,
        store: MessageStore,
        tables: Tables,
        owners: LockJournal,
        clock: Clock,
        joined: JoinedEpoch,
        append: Callable[[Sequence[Put]], LogOffset],
        *,
        acknowledged: Callable[[LogOffset], Awaitable[int]],
        pins: Pins,
        keep_from: Callable[[LogOffset], None],
        host: bytes,
        most: int = MAX_BODY_BYTES,
        users: SealedUsers | None = None,
    ) -> None:
        """Take over where the last run was; nothing may have been followed in this one yet.

        ``append`` stores messages as one group, and gives the log's end behind them;
        ``acknowledged`` waits until everything before an end is, and gives the answer's code;
        ``keep_from`` is told where the leader's log begins.
        """
        self._store = store
        self._tables = tables
        self._owners = owners
        self._clock = clock
        self._joined = joined
        self._append = append
        self._acknowledged = acknowledged
        self._pins = pins
        self._host = host
        segment = store.commit_log.segment_bytes
        self._half_segment = segment // 2
        self._scribe = TableScribe(
            tables,
            owners,
            most=min(most, segment // 4),
            spent=store.spent_queues,
            first_offset=lambda: store.first_offset,
            users=users,
        )
        self._users = users
        self._applier = TableApplier(tables, owners, store.begin_queue, keep_from, users)
        #: Where the queue is applied up to. What lies behind its end was cut off, and comes anew.
        self._at = QueueOffset(min(joined.tables_applied, store.max_offset(TABLES_TOPIC, 0)))
        joined.save(tables_applied=self._at)
        self._scheduled = False
        self._leads = False
        self._writing = asyncio.Lock()
        self._budget = LogBudget(lines=1)
        #: Where in the log the newest snapshot begins; None if one is due. And where in its queue.
        self._snapshot_at: LogOffset | None = None
        self._snapshot_queued = QueueOffset(0)
        self._snapshots = 0
        self._pin: Pin | None = None
        #: Behind what this leader began with, and behind the last settings and places.
        self._first_end = self._settings_end = self._places_end = LogOffset(0)
        #: Behind the records of owners that may not be acknowledged yet.
        self._owner_ends: dict[Owned, LogOffset] = {}
        self._cuts_unsynced = False
        #: Up to where the log was when this broker took over, until that is dispatched.
        self._tail_end: LogOffset | None = None
        owners.follow()

    # Leader

    def write_snapshot(self) -> LogOffset:
        """Begin to lead with everything that the tables have; gives the log's end behind it.

        Raises:
            StoreError: The store does not take it; this broker does not lead then.
        """
        self._leads = True
        try:
            self._begin_snapshot()
            group: list[bytes] = []
            for bodies in self._scribe.snapshot(self._snapshots):
                group = self._add_to(group, bodies)
            end = self._first_end = self._end_snapshot(group)
        except BaseException:
            self.step_down()
            raise
        self._tables.replicas = self
        self._owners.also_kept = self._owners_settled
        return end

    def step_down(self) -> None:
        """Write nothing any more, at once; from now on records are applied again."""
        if self._leads:
            # What it wrote itself its tables have.
            self._at = QueueOffset(max(self._at, self._store.max_offset(TABLES_TOPIC, 0)))
        self._leads = False
        self._tables.replicas = self._owners.also_kept = None
        self._scribe.watch(False)
        self._owners.follow()
        self._owner_ends.clear()
        self._snapshot_at = None
        if self._pin is not None:
            self._pin.release()
            self._pin = None

    async def settled(self) -> None:
        """Wait until topics, groups, request modes and users of this moment are acknowledged.

        Raises:
            RequestRejected: It is not known whether they are, or this broker leads no longer.
        """
        if self._scribe.has_settings or self._snapshot_at is None:
            await self._write_now()
        await self._wait_for(self._settings_end)

    async def offsets_settled(self) -> None:
        """Wait until the places of groups of this moment are acknowledged.

        Raises:
            RequestRejected: It is not known whether they are, or this broker leads no longer.
        """
        if self._tables.offsets.has_news or self._snapshot_at is None:
            await self._write_now()
        await self._wait_for(self._places_end)

    async def _owners_settled(self, owned: Iterable[Owned] | None) -> None:
        wanted = self._owners.owned() if owned is None else list(owned)
        if self._snapshot_at is None or any(map(self._owners.is_news, wanted)):
            await self._write_now()
        ends = (self._owner_ends[each] for each in wanted if each in self._owner_ends)
        await self._wait_for(max(ends, default=self._first_end))

    async def keep_written(self) -> NoReturn:
        """Write what changed, each second, for as long as this broker leads."""
        while True:
            await self._clock.sleep(WRITE_EVERY_MS)
            try:
                if self._store.positions.written - (self._snapshot_at or 0) > self._half_segment:
                    self._snapshot_at = None
                await self._write_changes()
                await self._tend()
            except (StoreError, RequestRejected) as error:
                if self._budget.allows():
                    log.warning(
                        "tables could not be brought to the replicas, and are tried again: %s%s",
                        error,
                        self._budget.suppressed(),
                    )

    async def _write_now(self) -> None:
        try:
            await self._write_changes()
        except StoreError as error:
            raise RequestRejected(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"the change could not be brought to the replicas: {error}",
            ) from error

    async def _wait_for(self, end: LogOffset) -> None:
        if self._store.positions.confirmed >= end:
            return
        self._check_leads()
        try:
            code = await self._acknowledged(end)
        except StoreError as error:
            raise RequestRejected(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from error
        if code not in _ACKNOWLEDGED:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"the replicas did not acknowledge the change in time (code {code}): it may be "
                "lost with this broker; see to the replicas, and ask again",
            )

    def _check_leads(self) -> None:
        if not self._leads:
            raise RequestRejected(
                ResponseCode.SERVICE_NOT_AVAILABLE, "this broker is no longer the master"
            )

    async def _write_changes(self) -> None:
        async with self._writing:
            if self._snapshot_at is None:
                await self._write_snapshot_in_steps()
            # What changes while this is written is left to the next, or it might never end.
            for _ in range(self._scribe.rounds):
                self._check_leads()
                changed = self._scribe.changes()
                if changed.bodies:
                    try:
                        self._note(self._put(changed.bodies), changed.topics, changed.owned)
                    except BaseException:
                        changed.put_back()
                        raise
                await asyncio.sleep(0)

    def _note(self, end: LogOffset, topics: Iterable[str], owned: Iterable[Owned]) -> None:
        """Know behind which record everything is that was just written."""
        self._settings_end = self._places_end = end
        self._owner_ends.update(dict.fromkeys(owned, end))
        for name in topics:
            # Once that is acknowledged: a leader that is none may not cut off what lives on.
            if self._tables.topics.deleted_to(name):
                self._applier.to_cut[name] = end

    def _put(self, bodies: Sequence[bytes]) -> LogOffset:
        now_ms = self._clock.now_ms()
        return self._append(
            [Put(TABLES_TOPIC, 0, body, b"", 0, 0, now_ms, self._host) for body in bodies]
        )

    # Snapshots

    async def _write_snapshot_in_steps(self) -> None:
        self._begin_snapshot()
        group: list[bytes] = []
        for bodies in self._scribe.snapshot(self._snapshots):
            self._check_leads()
            group = self._add_to(group, bodies)
            await asyncio.sleep(0)
        self._check_leads()
        self._end_snapshot(group)

    def _begin_snapshot(self) -> None:
        self._snapshot_at = None
        self._snapshots += 1
        self._began_at = self._store.positions.written
        self._began_queued = self._store.derived.queues.next_offset(TABLES_TOPIC, 0)

    def _add_to(self, group: list[bytes], bodies: list[bytes]) -> list[bytes]:
        """Have one group of it, or several if it is very long."""
        if group and sum(map(len, group)) + sum(map(len, bodies)) > MAX_GROUP_BYTES:
            self._put(group)
            group = []
        return group + bodies

    def _end_snapshot(self, group: list[bytes]) -> LogOffset:
        end = self._put(group)
        self._snapshot_at, self._snapshot_queued = self._began_at, self._began_queued
        self._settings_end = self._places_end = end
        before, self._pin = self._pin, self._pins.hold(self._began_at, "tables of the replicas")
        if before is not None:
            before.release()
        return end

    async def _tend(self) -> None:
        confirmed = self._store.positions.confirmed
        done = [each for each, end in self._owner_ends.items() if end <= confirmed]
        for each in done:
            del self._owner_ends[each]
        await self._cut_off()
        if self._tail_end is not None and self._tail_end <= self._store.positions.dispatched:
            self._tail_end = None
            gone = set(self._tables.topics.deleted())
            self._tables.adopt(each for each in queues_in_use(self._store) if each[0] not in gone)
        # What this broker wrote itself it need not apply: its tables have it.
        if (
            self._joined.tables_applied
            < self._snapshot_queued
            < self._store.max_offset(TABLES_TOPIC, 0)
        ):
            await self._keep(self._snapshot_queued)

    # Follower

    def arrived(self, *_: object) -> None:
        """Be told that the table log goes on: it is applied when the loop comes to it."""
        if not self._scheduled and not self._leads:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.catch_up)

    def catch_up(self) -> None:
        """Apply what was dispatched, or so much of it as takes no time; the rest comes by itself.

        What cannot be read now is read when this is called again.
        """
        self._scheduled = False
        if not self._leads and self._apply_some():
            self.arrived()

    async def keep_applied(self) -> NoReturn:
        """Keep, each second, up to where tables were applied and saved, while this broker follows.

        It also applies what nobody told of, as at a start.
        """
        while True:
            await self._clock.sleep(WRITE_EVERY_MS)
            try:
                self.catch_up()
                unfinished = self._applier.unfinished_from
                await self._keep(self._at if unfinished is None else unfinished)
            except StoreError as error:
                if self._budget.allows():
                    log.warning("tables of the leader are not saved, and tried again: %s", error)

    def cut_topic(self, name: str, end: LogOffset) -> None:
        """Do without the queues of a deleted topic, once everything before ``end`` is in them."""
        self._applier.to_cut[name] = end

    async def apply_tail(self) -> None:
        """Apply what is written and not dispatched too, and have tables fit to lead by.

        Locks last for their whole life from now on, whoever gave them.

        Raises:
            StoreError: The log cannot be read.
        """
        there_is_more = True
        while there_is_more:
            there_is_more = self._apply_some()
            await asyncio.sleep(0)
        for _, record in self._store.tail_records(TABLES_TOPIC):
            self._apply(record)
            await asyncio.sleep(0)
        self._applier.drop_unfinished()
        self._owners.take_over()
        self._tables.reconcile(self._store)
        # What of them is not dispatched yet is in their queues only later.
        dispatched = self._store.positions.dispatched
        for name, at in self._tables.topics.deletions().items():
            if at > dispatched:
                self._applier.to_cut[name] = at
        self._tail_end = self._store.positions.written

    def _apply_some(self) -> bool:
        """Whether there is more."""
        store, size = self._store, 0
        self._at = QueueOffset(max(self._at, store.min_offset(TABLES_TOPIC, 0)))
        while self._at < store.max_offset(TABLES_TOPIC, 0):
            if size >= _APPLY_BYTES:
                return True
            try:
                found = store.read(
                    TABLES_TOPIC, 0, self._at, max_count=_READ_COUNT, max_bytes=_APPLY_BYTES
                )
            except RecordCorrupt as error:
                log.error("a table record is damaged, and passed over: %s", error)
                self._at = QueueOffset(self._at + 1)
                continue
            except StoreError as error:
                if self._budget.allows():
                    log.warning("the table log cannot be read, and is tried again: %s", error)
                return False
            for record in view_records(found.records):
                size += self._apply(record)
            if found.next_offset <= self._at and not found.count:
                return False
            self._at = QueueOffset(max(self._at, found.next_offset))
        return False

    def _apply(self, record: RecordView) -> int:
        """Take over a record, if it is the next or behind it; gives its length."""
        if record.queue_offset >= self._at:
            try:
                self._applier.apply(record.stored_body, record.queue_offset)
            except Exception:
                # One record that nobody thought of must not keep all that follow from being seen.
                log.exception("a table record is passed over offset=%d", record.queue_offset)
            self._at = QueueOffset(record.queue_offset + 1)
        return record.size

    async def _cut_off(self) -> None:
        """Do without queues of deleted topics, once everything before the deletion is in them."""
        to_cut, dispatched = self._applier.to_cut, self._store.positions.dispatched
        due = {name for name, end in to_cut.items() if end <= dispatched}
        if due:
            cut_off(self._store, self._tables.topics, due)
            for name in due:
                del to_cut[name]
            self._cuts_unsynced = True
        if self._cuts_unsynced or self._applier.has_begun_queues:
            self._cuts_unsynced = self._applier.has_begun_queues = False
            try:
                await run_steps(self._store.rounds.syncing())
            except BaseException:
                self._cuts_unsynced = True
                raise

    async def _keep(self, applied: QueueOffset) -> None:
        """Save what was applied before this, and then that it was."""
        await self._cut_off()
        if applied == self._joined.tables_applied:
            return
        await self._tables.all_saved()
        await self._owners.saved()
        if self._users is not None:
            await asyncio.to_thread(self._users.save)
        await asyncio.to_thread(partial(self._joined.save, tables_applied=applied))
