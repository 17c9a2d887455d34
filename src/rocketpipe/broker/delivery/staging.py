"""Messages that show all at once, or never: stages, commits, and the ledger of them.

All of it is in the log, in two queues of a topic that nobody else reads or writes:

    queue 0   a record for each part of a stage: its body is a batch, as a producer would send it
    queue 1   the ledger:  commit     application and batch, the stages named, how many parts each
                           delivered  so many parts of a commit were moved to their topics
                           summary    what was committed so far, what is open, where stages begin

A commit is one record. Before it is in the log nothing shows, after it everything will: its parts
are moved one by one, each as one group of records that the store keeps whole or not at all. The
messages of the part and the ledger's "delivered" are in the same group, so that whenever the broker
dies, the log says exactly how far the moving had come, and the next run goes on there. A commit
of a batch that the ledger knows changes nothing; it waits for the moving, and says so.

A stage that no commit names goes when it got no part for as long as the settings say, and with the
commit of its batch if it is not among those named: what a task left that was tried again.

What is staged keeps the log from being removed, and so does the last summary. A new one is written
when half a segment has come behind the last, so the ledger holds little back.

Each broker decides for itself. A writer that stages at several brokers names the whole in the
``plan`` of its first commit, always at the same broker; whoever commits that batch again is told
the plan, and completes that one at the others, not its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rocketpipe.broker.delivery.durability import Durability
from rocketpipe.broker.delivery.staged_records import (
    LEDGER_QUEUE,
    STAGES_QUEUE,
    Committed,
    Delivered,
    LedgerRecord,
    OpenCommit,
    Part,
    Summary,
    ledger_put,
    part_of,
    read_ledger,
)
from rocketpipe.broker.delivery.storing import UNSTORABLE, unavailable
from rocketpipe.broker.tables.ledger import Ledger
from rocketpipe.broker.tables.stages import Batch, Place, StageTable
from rocketpipe.clock import Clock
from rocketpipe.errors import RecordError, RequestRejected, StoreError
from rocketpipe.model.names import STAGING_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.store.message_store import Appended, MessageStore, Put
from rocketpipe.store.retention import Pin, Retention

log = logging.getLogger(__name__)

TICK_MS: Final = 10_000
_READ_BYTES: Final = 8 << 20
_READ_COUNT: Final = 1024
_OWNER: Final = "staged sends"


@dataclass(slots=True)
class _Commit:
    """A commit whose parts are being moved."""

    batch: Batch
    stages: Mapping[str, int]
    places: list[Place]
    moved: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a commit."""

    duplicate: bool
    plan: str | None = None


class Staging:
    """Keeps what is staged, and shows what is committed."""

    def __init__(
        self,
        store: MessageStore,
        durability: Durability,
        retention: Retention,
        clock: Clock,
        stages: StageTable,
        *,
        expiry_ms: int,
        ledger_ms: int,
        messages_of: Callable[[Part], Sequence[Put]],
        own: Callable[[bytes], Put],
    ) -> None:
        """Find out from the log what the last run left.

        ``messages_of`` gives the messages of a part as they are stored in their topics; ``own``
        makes a record of the ledger.

        Raises:
            DiskError: The log cannot be read.
        """
        self._store = store
        self._durability = durability
        self._retention = retention
        self._clock = clock
        self._stages = stages
        self._expiry_ms = expiry_ms
        self._ledger_ms = ledger_ms
        self._messages_of = messages_of
        self._own = own
        self._ledger = Ledger()
        self._commits: dict[Batch, _Commit] = {}
        #: From where on the log has all of the ledger, if there is any of it.
        self._ledger_from: LogOffset | None = None
        self._pin: Pin | None = None
        self._trouble: str | None = None
        self._rebuild()
        self._hold()

    # Staging

    async def stage(self, part: Part, put: Put) -> bool:
        """Keep a part until its batch is committed; False if that has been done already.

        Raises:
            RequestRejected: There is no room, the stage is of another batch, or the store takes
                nothing now.
        """
        if self._ledger.has(*part.batch):
            return False
        place = self._known(part)
        if place is None:
            refusal = self._stages.refusal(part.stage, len(put.body))
            if refusal is not None:
                raise RequestRejected(
                    ResponseCode.SYSTEM_BUSY, f"no room to stage more: {refusal}; commit some first"
                )
            place, stored_ms = self._append(put)
            self._stages.add(part.stage, part.batch, part.number, place, stored_ms)
            if self._pin is None:
                self._hold()
        await self._settled(place.end)
        return True

    def _known(self, part: Part) -> Place | None:
        stage = self._stages.get(part.stage)
        if stage is None:
            return None
        if stage.batch != part.batch:
            app, batch = stage.batch
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"stage {part.stage!r} is of batch {batch} of {app!r}: name a new one",
            )
        return stage.parts.get(part.number)

    # Committing

    async def commit(
        self, batch: Batch, named: Mapping[str, int], plan: str | None = None
    ) -> Outcome:
        """Show the stages named, unless this batch has been committed; returns when all shows.

        Raises:
            RequestRejected: A stage is not here, or not whole, and nothing was committed; or the
                store takes nothing now, and the same commit again completes what was begun.
        """
        duplicate = self._ledger.has(*batch)
        if not duplicate:
            self._record(batch, named, plan)
        commit = self._commits.get(batch)
        if commit is not None:
            await self._finish(commit)
        return Outcome(duplicate, self._ledger.plan(*batch))

    def _record(self, batch: Batch, named: Mapping[str, int], plan: str | None) -> None:
        """The commit itself; nothing is awaited, so no other comes between check and record."""
        app, number = batch
        missing = self._stages.missing(batch, named)
        if missing is not None:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"batch {number} of {app!r} is not committed: {missing}; stage all of it again",
            )
        refusal = self._ledger.refusal(app, plan)
        if refusal is not None:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, refusal)
        places = self._stages.places(named)
        record = Committed(app=app, batch=number, stages=dict(named), plan=plan)
        place, stored_ms = self._append(ledger_put(self._own, record))
        self._ledger.note(app, number, stored_ms, plan)
        if self._ledger_from is None:
            self._ledger_from = place.log_offset
        self._commits[batch] = _Commit(batch, dict(named), places)
        if not places:
            self._over(self._commits[batch])
        if self._pin is None:
            self._hold()

    async def _finish(self, commit: _Commit) -> None:
        """Move what is left of a commit; one at a time does it, and others wait."""
        async with commit.lock:
            while commit.moved < len(commit.places):
                end = self._move(commit)
                last = commit.moved == len(commit.places)
                await self._settled(end, wait=last)
                await asyncio.sleep(0)  # others have messages too

    def _move(self, commit: _Commit) -> LogOffset:
        """Append the next part's messages, and that they are there, as one group."""
        place = commit.places[commit.moved]
        app, number = commit.batch
        try:
            part = part_of(RecordView(self._store.record_at(place.log_offset)))
            noted = Delivered(app=app, batch=number, parts=commit.moved + 1)
            group = [*self._messages_of(part), ledger_put(self._own, noted)]
            (placed,) = self._store.append([group])
        except StoreError as error:
            raise unavailable(error) from error
        except UNSTORABLE as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        commit.moved += 1
        if commit.moved == len(commit.places):
            self._over(commit)
        last = placed[-1]
        return LogOffset(last.log_offset + last.size)

    def _over(self, commit: _Commit) -> None:
        self._commits.pop(commit.batch, None)
        self._stages.drop_batch(commit.batch)

    # What is done from time to time

    async def keep_going(self) -> None:
        """Complete what an earlier run, or a full disk, left; let go of what expired."""
        while True:
            await self.tend()
            await self._clock.sleep(TICK_MS)

    async def tend(self) -> None:
        """Do all of it once."""
        for commit in tuple(self._commits.values()):
            try:
                await self._finish(commit)
            except RequestRejected as error:
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    log.error("committed messages cannot be shown yet reason=%s", error)
        if not self._commits:
            self._trouble = None
        self._expire()
        self._summarize()
        self._hold()

    def _expire(self) -> None:
        under_way = set(self._commits)
        for name in self._stages.unused_since(self._clock.now_ms() - self._expiry_ms):
            stage = self._stages.get(name)
            assert stage is not None
            if stage.batch not in under_way:
                app, batch = stage.batch
                log.info("stage expired application=%s batch=%d stage=%s", app, batch, name)
                self._stages.drop(name)

    def _summarize(self) -> None:
        """Write the ledger down anew, once much of the log has come behind it."""
        if self._ledger_from is None:
            return
        written = self._store.positions.written
        if written - self._ledger_from < self._store.commit_log.segment_bytes // 2:
            return
        for app in self._ledger.forget_unused(self._clock.now_ms() - self._ledger_ms):
            log.info("application forgotten, it committed nothing for long application=%s", app)
        queue_end = self._store.max_offset(STAGING_TOPIC, STAGES_QUEUE)
        first = min((place.queue_offset for place in self._stages.all_places()), default=queue_end)
        record = Summary(
            apps=tuple(self._ledger.entries()),
            open=tuple(
                OpenCommit(app=app, batch=batch, stages=dict(each.stages), moved=each.moved)
                for (app, batch), each in self._commits.items()
            ),
            stages_from=first,
        )
        try:
            place, _ = self._append(ledger_put(self._own, record))
        except RequestRejected as error:
            log.warning("ledger not written down anew reason=%s", error)
            return
        self._ledger_from = place.log_offset
        self._durability.dispatch()

    def _hold(self) -> None:
        """Keep of the log what is needed, and no more."""
        needed = [place.log_offset for place in self._stages.all_places()]
        needed += [place.log_offset for each in self._commits.values() for place in each.places]
        if self._ledger_from is not None:
            needed.append(self._ledger_from)
        if not needed:
            if self._pin is not None:
                self._pin.release()
                self._pin = None
        elif self._pin is None:
            self._pin = self._retention.hold(min(needed), _OWNER)
        else:
            self._pin.move(max(self._pin.offset, min(needed)))

    # The log

    def _append(self, put: Put) -> tuple[Place, int]:
        try:
            ((placed,),) = self._store.append([[put]])
        except UNSTORABLE as error:
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from error
        except StoreError as error:
            raise unavailable(error) from error
        return _place(placed), placed.stored_ms

    async def _settled(self, end: LogOffset, *, wait: bool = True) -> None:
        try:
            synced = await self._durability.settled(end, wait=wait)
        except StoreError as error:
            raise unavailable(error) from error
        if not synced:
            raise RequestRejected(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "service not available now: stored, but not synced in time; ask again",
            )

    def _rebuild(self) -> None:
        """Read ledger and stages from the log, as far as they are alive."""
        moved: dict[Batch, int] = {}
        named: dict[Batch, Mapping[str, int]] = {}
        stages_from = QueueOffset(0)
        for view in _records(self._store, LEDGER_QUEUE, QueueOffset(0)):
            record = _ledger_of(view)
            if isinstance(record, Summary):
                self._ledger.load(record.apps)
                self._ledger_from = view.log_offset
                stages_from = QueueOffset(record.stages_from)
                named = {(each.app, each.batch): each.stages for each in record.open}
                moved = {(each.app, each.batch): each.moved for each in record.open}
            elif isinstance(record, Committed):
                batch = (record.app, record.batch)
                self._ledger.note(record.app, record.batch, view.stored_ms, record.plan)
                named[batch] = record.stages
                moved[batch] = 0
                if self._ledger_from is None:
                    self._ledger_from = view.log_offset
            elif isinstance(record, Delivered):
                moved[record.app, record.batch] = record.parts
        open_ = {
            batch: stages for batch, stages in named.items() if moved[batch] < sum(stages.values())
        }
        self._find_stages(stages_from, open_)
        for batch, stages in open_.items():
            missing = self._stages.missing(batch, stages)
            if missing is not None:
                log.error(
                    "committed messages are not in the log application=%s batch=%d reason=%s",
                    *batch,
                    missing,
                )
                continue
            places = self._stages.places(stages)
            self._commits[batch] = _Commit(batch, stages, places, moved[batch])
        self._expire()

    def _find_stages(self, start: QueueOffset, open_: Mapping[Batch, object]) -> None:
        for view in _records(self._store, STAGES_QUEUE, start):
            try:
                part = part_of(view)
            except RecordError as error:
                log.warning("a staged part cannot be read at=%d: %s", view.log_offset, error)
                continue
            if part.batch in open_ or not self._ledger.has(*part.batch):
                place = Place(view.log_offset, view.size, view.queue_offset)
                self._stages.add(part.stage, part.batch, part.number, place, view.stored_ms)


def _records(store: MessageStore, queue_id: int, start: QueueOffset) -> Iterator[RecordView]:
    at = max(start, store.min_offset(STAGING_TOPIC, queue_id))
    end = store.max_offset(STAGING_TOPIC, queue_id)
    while at < end:
        found = store.read(
            STAGING_TOPIC, queue_id, at, max_count=_READ_COUNT, max_bytes=_READ_BYTES
        )
        yield from view_records(found.records)
        if found.next_offset <= at:
            break
        at = found.next_offset


def _ledger_of(view: RecordView) -> LedgerRecord | None:
    try:
        return read_ledger(view.stored_body)
    except msgspec.MsgspecError as error:
        log.warning("a record of the ledger cannot be read at=%d: %s", view.log_offset, error)
        return None


def _place(placed: Appended) -> Place:
    return Place(placed.log_offset, placed.size, placed.queue_offset)
