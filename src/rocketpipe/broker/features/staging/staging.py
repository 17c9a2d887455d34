"""Messages that show all at once, or never: stages, commits, and the ledger of them.

All of it is in the log, in two queues of a topic that nobody else reads or writes:

    queue 0   a record for each part of a stage: its body is a batch, as a producer would send it
    queue 1   the ledger:  commit     application and batch, the stages named, how many parts each
                           delivered  so many parts of a commit were moved to their topics
                           dropped    stages that expired
                           prepared   stages that are kept until their home has decided
                           settled    what is left of a commit's plan
                           lapsed     preparations that no commit may go by any more
                           summary    what was committed so far, what is open, where stages begin

A commit is one record. Before it is in the log nothing shows, after it everything will: its parts
are moved one by one, each as one group of records that the store keeps whole or not at all. The
messages of the part and the ledger's "delivered" are in the same group, so that whenever the broker
dies, the log says exactly how far the moving had come, and the next run goes on there. A commit
of a batch that the ledger knows changes nothing; it waits for the moving, and says so.

A stage that no commit names goes when it got no part for as long as the settings say, and with the
commit of its batch if it is not among those named: what a task left that was tried again. Only the
time counts in which this run saw it; a broker that was away makes nothing older.

What is staged keeps the log from being removed, and so does the last summary. A new one is written
when half a segment has come behind the last, so the ledger holds little back. Nothing is let go of
before whatever says so is on the disk.

Where a batch lies at several brokers, the application's home decides: its commit is that of all,
and it keeps the ``plan`` of who else has what until that is done. The others have prepared before,
and keep what they have until they know: from the writer, or by asking (``delivery.stage_asking``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from rocketpipe.broker.delivery.destinations import Destinations
from rocketpipe.broker.features.staging.book import Commit, StageBook
from rocketpipe.broker.features.staging.messages import StagedMessages
from rocketpipe.broker.features.staging.records import (
    STAGES_QUEUE,
    Committed,
    Delivered,
    Dropped,
    Lapsed,
    LedgerRecord,
    Part,
    Prepared,
    Settled,
    ledger_put,
    part_of,
)
from rocketpipe.broker.features.staging.replay import replay
from rocketpipe.broker.features.staging.stages import Batch, Place, StageTable
from rocketpipe.broker.intake.intake import UNSTORABLE, is_safe, unavailable, unsettled
from rocketpipe.broker.intake.plain_batch import PlainBatch, PutGroup
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.clock import Clock
from rocketpipe.errors import RecordError, RequestRejected, StoreError
from rocketpipe.model.names import STAGING_TOPIC
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.staging import StageList, read_plan, write_plan
from rocketpipe.record.codec import RecordView
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Pin, Retention

log = logging.getLogger(__name__)

TICK_MS: Final = 10_000
#: A quiet broker writes the ledger down so often, or it would not know how old its entries are.
SUMMARY_EVERY_MS: Final = 3_600_000
#: How many names go into one record.
_NAMES: Final = 4096
_OWNER: Final = "staged sends"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a commit, and what the first of its batch said."""

    duplicate: bool
    plan: str | None = None
    content: str | None = None


class Staging:
    """Keeps what is staged, and shows what is committed."""

    def __init__(
        self,
        store: MessageStore,
        visibility: Visibility,
        retention: Retention,
        clock: Clock,
        stages: StageTable,
        *,
        expiry_ms: int,
        ledger_ms: int,
        messages: StagedMessages,
        own: Callable[[bytes], Put],
        destinations: Destinations,
    ) -> None:
        """Find out from the log what the last run left.

        ``messages`` gives those of a part as they are stored in their topics; ``own`` makes a
        record of the ledger. What goes to a topic that was deleted is not shown.

        Raises:
            DiskError: The log cannot be read.
        """
        self._store = store
        self._visibility = visibility
        self._retention = retention
        self._clock = clock
        self._expiry_ms = expiry_ms
        self._ledger_ms = ledger_ms
        self._messages = messages
        self._own = own
        self._destinations = destinations
        self._pin: Pin | None = None
        #: Where the pin may go once the log is durable up to there.
        self._letting_go: tuple[LogOffset, LogOffset] | None = None
        self._trouble: str | None = None
        self._summarized_ms = clock.monotonic_ms()
        self.book = StageBook(stages)
        replay(store, self.book, clock.monotonic_ms())
        self._hold()

    # Staging

    async def stage(self, part: Part, put: Put, *, is_plain: bool) -> bool:
        """Keep a part until its batch is committed; False if that has been done already.

        Raises:
            RequestRejected: There is no room, the stage is of another batch, or the store takes
                nothing now.
        """
        if self.book.ledger.has(*part.batch):
            return False
        place = self._known(part)
        if place is None:
            stages = self.book.stages
            refusal = stages.refusal(part.stage, len(put.body))
            if refusal is not None:
                raise RequestRejected(
                    ResponseCode.SYSTEM_BUSY, f"no room to stage more: {refusal}; commit some first"
                )
            place = self._append(put)._replace(is_plain=is_plain)
            now_ms = self._clock.monotonic_ms()
            stages.add(part.stage, part.batch, part.number, place, now_ms, part.topic)
            if self._pin is None:
                self._hold()
        await self._settled(place.end)
        return True

    def _known(self, part: Part) -> Place | None:
        stage = self.book.stages.get(part.stage)
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

    async def prepare(self, batch: Batch, named: Mapping[str, int], home: str, token: str) -> bool:
        """Keep stages until home has decided; False if the batch is committed here already.

        Raises:
            RequestRejected: A stage is not here, or not whole; or there is no room now.
        """
        if self.book.ledger.has(*batch):
            return False
        self._check_whole(batch, named, "prepared")
        prepared, (app, number) = self.book.prepared, batch
        if not prepared.has(batch, token):
            prepared.check_room(len(named))
            self._write(Prepared(app=app, batch=number, stages=dict(named), home=home, token=token))
        await self._settled(self._store.positions.written)
        return True

    async def commit(self, batch: Batch, named: StageList) -> Outcome:
        """Show the stages named, unless this batch has been committed; returns when all shows.

        Raises:
            RequestRejected: A stage is not here, or not whole, and nothing was committed; or the
                store takes nothing now, and the same commit again completes what was begun.
        """
        duplicate = self.book.ledger.has(*batch)
        if not duplicate:
            self._record(batch, named)
        commit = self.book.commits.get(batch)
        if commit is not None:
            await self._finish(commit)
        await self._settled(self._store.positions.written)
        ledger = self.book.ledger
        return Outcome(duplicate, ledger.plan(*batch), ledger.content(*batch))

    def _record(self, batch: Batch, named: StageList) -> None:
        """The commit itself; nothing is awaited, so no other comes between check and record."""
        app, number = batch
        # What is prepared may be decided, and has to go through.
        is_decided = bool(self.book.prepared.of(batch))
        self._check_whole(batch, named.stages, "committed", is_decided=is_decided)
        if named.token is not None and named.token in self.book.lapsed:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"batch {number} of {app!r} is not committed: it took so long that another broker "
                "has let go of its share; stage all of it again",
            )
        refusal = self.book.ledger.refusal(app, named.plan, named.content)
        if refusal is not None:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, refusal)
        self._write(
            Committed(
                app=app,
                batch=number,
                stages=dict(named.stages),
                plan=named.plan,
                content=named.content,
            )
        )

    def _check_whole(
        self, batch: Batch, named: Mapping[str, int], done: str, *, is_decided: bool = False
    ) -> None:
        missing = self.book.stages.missing(batch, named)
        if missing is None and not is_decided:
            topic = self._destinations.first_gone(self.book.stages.topics(named))
            missing = f"topic {topic!r} was deleted after some was staged for it" if topic else None
        if missing is not None:
            app, number = batch
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"batch {number} of {app!r} is not {done}: {missing}; stage all of it again",
            )

    async def _finish(self, commit: Commit) -> None:
        """Move what is left of a commit; one at a time does it, and others wait."""
        async with commit.lock:
            while not commit.is_over:
                place, part = self._next(commit)
                await self._destinations.make_topic_known(
                    part.topic, part.queue_id, place.log_offset
                )
                end = self._move(commit, place, part)
                await self._settled(end, wait=commit.is_over)
                await asyncio.sleep(0)  # others have messages too

    def _next(self, commit: Commit) -> tuple[Place, Part]:
        assert commit.places is not None, "what is not whole is not committed"
        place = commit.places[commit.moved]
        try:
            return place, part_of(RecordView(self._store.record_at(place.log_offset)))
        except StoreError as error:
            raise unavailable(error) from error
        except RecordError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error

    def _move(self, commit: Commit, place: Place, part: Part) -> LogOffset:
        """Append the next part's messages, unless they went with their topic, and say so."""
        app, number = commit.batch
        self._visibility.check_leads()
        try:
            noted = Delivered(app=app, batch=number, parts=commit.moved + 1)
            last = ledger_put(self._own, noted)
            group: PlainBatch | PutGroup = PutGroup([last])
            if not self._destinations.is_gone(part.topic, place.log_offset):
                group = self._messages.group(part, last, is_plain=place.is_plain)
            end = self._store.append_from(group)
        except UNSTORABLE as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        except StoreError as error:
            raise unavailable(error) from error
        self.book.apply(noted, LogOffset(group.last_record), self._clock.monotonic_ms())
        return end

    # What brokers tell each other

    async def outcome(self, batch: Batch, given_up: Sequence[str]) -> tuple[bool, str | None]:
        """Whether a batch is decided here, and its plan; if not, no commit goes by what is given.

        Raises:
            RequestRejected: The store takes nothing now.
        """
        ledger = self.book.ledger
        if not ledger.has(*batch):
            tokens = tuple(each for each in given_up if each not in self.book.lapsed)
            if tokens:
                self._write(Lapsed(tokens=tokens))
        decided, plan = ledger.has(*batch), ledger.plan(*batch)
        # Nobody may go by what a power cut could take back.
        await self._settled(self._store.positions.written)
        return decided, plan

    def settle(self, batch: Batch, share: str | None) -> None:
        """Let go of a plan, or of one broker's share in it, that is known to show.

        Raises:
            RequestRejected: The store takes nothing now.
        """
        text = self.book.ledger.plan(*batch)
        if text is None:
            return
        app, number = batch
        left = None
        if share is not None:
            try:
                plan = read_plan(text)
            except msgspec.MsgspecError:
                return  # not of our writers: only whoever wrote it knows what is left of it
            if plan.pop(share, None) is None:
                return
            left = write_plan(plan) if plan else None
        self._write(Settled(app=app, batch=number, plan=left))

    def let_go(self, batch: Batch, tokens: Sequence[str]) -> None:
        """Drop what was prepared for a batch, that is now known never to be asked for.

        Raises:
            RequestRejected: The store takes nothing now.
        """
        names: dict[str, None] = {}
        for each in self.book.prepared.of(batch):
            if each.token not in tokens:
                return  # somebody has prepared it anew
            names.update(dict.fromkeys(each.stages))
        self._drop(list(names))

    # What is done from time to time

    async def keep_going(self) -> None:
        """Complete what an earlier run, or a full disk, left; let go of what expired."""
        while True:
            await self.tend()
            await self._clock.sleep(TICK_MS)

    async def tend(self) -> None:
        """Do all of it once."""
        for commit in tuple(self.book.commits.values()):
            try:
                await self._finish(commit)
            except RequestRejected as error:
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    log.error("committed messages cannot be shown yet reason=%s", error)
        if not self.book.commits:
            self._trouble = None
        try:
            self._expire()
            self._summarize()
        except RequestRejected as error:
            log.warning("ledger not written reason=%s", error)
        self._hold()

    def _expire(self) -> None:
        before_ms = self._clock.monotonic_ms() - self._expiry_ms
        expired = self.book.unused_since(before_ms)
        for name in expired:
            stage = self.book.stages.get(name)
            assert stage is not None, "it was just found"
            log.info("stage expired application=%s batch=%d stage=%s", *stage.batch, name)
        self._drop(expired)

    def _drop(self, names: Sequence[str]) -> None:
        for start in range(0, len(names), _NAMES):
            self._write(Dropped(stages=tuple(names[start : start + _NAMES])))

    def _summarize(self) -> None:
        """Write the ledger down anew, once much of the log has come behind it."""
        if self.book.ledger_from is None:
            return
        now_ms = self._clock.monotonic_ms()
        behind = self._store.positions.written - self.book.ledger_from
        is_due = now_ms - self._summarized_ms >= SUMMARY_EVERY_MS
        if behind < self._store.commit_log.segment_bytes // 2 and not is_due:
            return
        for app in self.book.ledger.forget_unused(now_ms - self._ledger_ms):
            log.info("application forgotten, it committed nothing for long application=%s", app)
        queue_end = self._store.max_offset(STAGING_TOPIC, STAGES_QUEUE)
        place = self._append(ledger_put(self._own, self.book.summary(queue_end, now_ms)))
        self.book.ledger_from = place.log_offset
        self._summarized_ms = now_ms
        self._visibility.dispatch()

    def _hold(self) -> None:
        """Keep of the log what is needed, and no more.

        What is not needed any more stays until the log is durable up to here: a power cut may take
        back whatever made it so.
        """
        needed = self.book.needed()
        positions = self._store.positions
        if self._pin is None:
            if needed is not None:
                self._pin = self._retention.hold(needed, _OWNER)
            return
        if self._letting_go is not None and self._letting_go[1] <= positions.durable:
            self._pin.move(max(self._pin.offset, self._letting_go[0]))
            self._letting_go = None
        if needed is None and positions.written <= positions.durable:
            self._pin.release()
            self._pin = self._letting_go = None
        elif self._letting_go is None:
            upto = positions.written
            self._letting_go = (upto if needed is None else needed, upto)

    # The log

    def _write(self, record: LedgerRecord) -> None:
        """Append to the ledger, and go by it."""
        place = self._append(ledger_put(self._own, record))
        self.book.apply(record, place.log_offset, self._clock.monotonic_ms())
        self._visibility.dispatch()
        if self._pin is None:
            self._hold()

    def _append(self, put: Put) -> Place:
        self._visibility.check_leads()
        try:
            ((placed,),) = self._store.append([[put]])
        except UNSTORABLE as error:
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from error
        except StoreError as error:
            raise unavailable(error) from error
        return _place(placed)

    async def _settled(self, end: LogOffset, *, wait: bool = True) -> None:
        try:
            code = await self._visibility.settled(end, wait=wait)
        except StoreError as error:
            raise unavailable(error) from error
        if not is_safe(code):
            raise unsettled(code)


def _place(placed: Appended) -> Place:
    return Place(placed.log_offset, placed.size, placed.queue_offset)
