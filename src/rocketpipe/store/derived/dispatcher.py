"""Follows the log and tells the parts that derive from it what is there, in log order.

What was appended by this process comes from memory, all else from the log, where each record is
checked; ``derivation`` says what follows from either. It can start again anywhere: each part skips
what it already has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Protocol

from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.model.properties import read_text
from rocketpipe.record.layout import SIZE_AND_MAGIC
from rocketpipe.store.derived.derivation import (
    Arrival,
    Derivation,
    QueueRun,
    derive,
    derive_bytes,
    is_indexed,
    is_queued,
    known_record,
    queue_code,
)
from rocketpipe.store.derived.prepared import Prepared
from rocketpipe.store.derived.undispatched import UndispatchedRecords
from rocketpipe.store.errors import QueueDamaged, RecordCorrupt
from rocketpipe.store.index.entries import key_hashes
from rocketpipe.store.index.key_index import KeyIndex
from rocketpipe.store.log.commit_log import WALK_BYTES, CommitLog
from rocketpipe.store.log.end import next_whole
from rocketpipe.store.log.puts import Appended
from rocketpipe.store.log.records import is_sealed, known_run, whole_records
from rocketpipe.store.queues.entries import queue_entry
from rocketpipe.store.queues.queue_repair import Queued, walk_past_damage
from rocketpipe.store.queues.queue_set import QueueSet, check_name
from rocketpipe.store.queues.queue_sums import Queue
from rocketpipe.store.state.damage import DamagedRecords
from rocketpipe.store.state.positions import Positions
from rocketpipe.store.timers.wheel import TimerWheel

log = logging.getLogger(__name__)

#: So much waits in memory before it is written to the queue files, some of them at a time; and so
#: much before all of it is.
PENDING_BYTES: Final = 4 << 20
MOST_PENDING_BYTES: Final = 16 << 20

#: So many records are read from the log before what follows from them is noted.
_MANY: Final = 512
_MAX_TOPICS: Final = 65536


def _as_it_is(queue: Queue, damage: QueueDamaged) -> None:
    raise damage


class OnArrival(Protocol):
    """Whoever wants to know which messages became readable."""

    @property
    def wanted(self) -> Collection[str] | None:
        """The topics that somebody waits for now; None for all. Of others nobody need be told."""

    def tell(self, arrivals: Sequence[Arrival]) -> None:
        """Take note of messages that became readable together, in log order; it must be quick."""


class Dispatcher:
    """Brings queues, index and timer up to the confirmed end of the log."""

    def __init__(
        self,
        commit_log: CommitLog,
        positions: Positions,
        queues: QueueSet,
        index: KeyIndex,
        timer: TimerWheel | None = None,
        *,
        level_delays_ms: Sequence[int] = (),
        on_arrival: OnArrival | None = None,
        deferred: bool = True,
        index_tags: bool = False,
        damaged: DamagedRecords | None = None,
    ) -> None:
        """Read ``commit_log`` from ``positions`` on, and write to ``queues``, ``index``, ``timer``.

        ``damaged`` says whether damaged records are skipped, and keeps account of them.
        ``deferred`` leaves queue entries in memory, where readers see them, until there are many;
        otherwise they are in their files when `run` returns. ``index_tags`` has tags indexed as
        RocketMQ does from 5.5 on.
        """
        self._log = commit_log
        self._positions = positions
        self._queues = queues
        self._index = index
        self._timer = timer
        self._delays_ms = level_delays_ms
        self._on_arrival = on_arrival
        self._deferred = deferred
        self._index_tags = index_tags
        self._topics: dict[bytes, str] = {}
        #: Those of them that queues may be called.
        self._named: dict[bytes, str] = {}
        #: What was appended, for `run`: the log is read for all else.
        self.fresh = UndispatchedRecords()
        #: What stopped it, if something did. `skip_to` lets it go on behind.
        self.damage: RecordCorrupt | None = None
        self.damaged = damaged or DamagedRecords(skip=False)
        #: Puts a damaged queue right, or raises what was found.
        self.mend_queue: Callable[[Queue, QueueDamaged], None] = _as_it_is

    @property
    def behind_bytes(self) -> int:
        """How much of the log readers could see if it were dispatched."""
        return self._positions.confirmed - self._positions.dispatched

    def took_in(self, data: bytes, at: int) -> None:
        """Know what another store's log has from ``at`` on, which was checked and written here.

        What is unusual is left to be read from the log, as all else.
        """
        place, length = 0, len(data)
        while not self.fresh.is_full:
            records, behind = known_run(data, at, place, self._named)
            if records:
                self.fresh.add(at + place, at + behind, [records])
            if length - behind < SIZE_AND_MAGIC.size:
                return
            size, _ = SIZE_AND_MAGIC.unpack_from(data, behind)
            record = data[behind : behind + size] if size > 0 else b""
            try:
                if not is_sealed(record):
                    return
                known = self._known(record, LogOffset(at + behind))
            except RecordCorrupt:
                return
            place = behind + size
            self.fresh.add(at + behind, at + place, [[known]])

    def run(self, limit_bytes: int | None = None) -> int:
        """Dispatch up to the confirmed end, or about ``limit_bytes``; gives the count of records.

        Whatever it raises, it goes on at the same record when it is run again.

        Raises:
            RecordCorrupt: A record is not as it was written, and such are not passed over, or no
                whole one is behind it. Nothing is dispatched beyond it.
            DiskError: The log cannot be read, or the derived files not be written.
        """
        positions = self._positions
        start, end = positions.dispatched, positions.confirmed
        if start >= end:
            return 0
        stop = end if limit_bytes is None else min(end, start + limit_bytes)
        count = 0
        try:
            while True:
                try:
                    for upto, records in self._following(positions.dispatched, end, stop):
                        derived = self._derived(records, positions.dispatched)
                        self._dispatch(derived, upto)
                        count += derived.records
                    break
                except RecordCorrupt as damage:
                    self._pass_over(damage, end)
            self.damage = None
        finally:
            # At once: as long as much is kept, nothing new is.
            self.fresh.passed(positions.dispatched)
            self._reached(positions.dispatched)
        if not self._deferred:
            self._queues.flush_pending()
            self._index.flush_pending()
        return count

    def take(self, prepared: Prepared) -> bool:
        """Dispatch what was derived beforehand; False if it is not what comes next.

        Raises:
            DiskError: The derived files cannot be written.
        """
        positions = self._positions
        if prepared.start != positions.dispatched or prepared.end > positions.confirmed:
            return False
        self._dispatch(prepared.derived, prepared.end)
        self._reached(positions.dispatched)
        return True

    def _dispatch(self, derived: Derivation, upto: int) -> None:
        self._note(derived)
        self._positions.dispatched = LogOffset(upto)
        if self._queues.pending_bytes >= MOST_PENDING_BYTES:
            self._queues.flush_pending()
        elif self._queues.pending_bytes >= PENDING_BYTES:
            self._queues.flush_some()

    def _following(
        self, at: int, end: int, stop: int
    ) -> Iterator[tuple[int, list[Appended] | bytes]]:
        """Give the records from ``at`` on, many at a time, and where the last of them ends."""
        while at < stop:
            fresh = self.fresh.take(at, stop)
            if fresh is not None:
                at = fresh[0]
                yield fresh
                continue
            before = at
            for upto, records in self._read(at, self.fresh.next_start(at, end), end, stop):
                at = upto
                yield upto, records
            if at == before:
                return  # a record is acknowledged in part

    def _read(
        self, at: int, upto: int, end: int, stop: int
    ) -> Iterator[tuple[int, list[Appended]]]:
        """The same from the log, ``upto`` that place or not much behind ``stop``."""
        records: list[Appended] = []
        # What slaves acknowledge need not be whole records.
        partly = upto == end and self._positions.acknowledged is not None
        try:
            for place, record in self._log.walk(LogOffset(at), LogOffset(upto), partly=partly):
                if place >= stop:
                    upto, partly = max(at, place), False
                    break
                records.append(self._known(record, place))
                at = place + len(record)
                if len(records) >= _MANY:
                    yield at, records
                    records = []
        except StoreError:
            # What lies before it is not worse for it.
            if records:
                yield at, records
            raise
        # A filler may lie behind the last of them.
        yield at if partly else upto, records

    def _pass_over(self, damage: RecordCorrupt, end: LogOffset) -> None:
        """Go on behind a damaged record, if that is wanted and something is known to be there."""
        self.damage = damage
        behind = next_whole(self._log, damage.at + 1, end)
        if behind is None:
            raise damage  # it may still be seen what it was
        self.damaged.note(damage.at, damage.reason, f"before={behind}")
        if not self.damaged.skips(damage.at):
            raise damage
        self.skip_to(LogOffset(behind))

    def begin_at(self, offset: LogOffset) -> None:
        """Start with a log that begins there: nothing before it is known, nor will be."""
        self._reached(offset)

    def skip_to(self, offset: LogOffset) -> None:
        """Go on at ``offset``: what lies before it and was not dispatched never will be."""
        log.warning("dispatch skips damage from=%d to=%d", self._positions.dispatched, offset)
        self._positions.dispatched = offset
        self._reached(offset)
        self.damage = None

    def queued(self, record: bytes, at: LogOffset) -> Queued | None:
        """Where a record of the log is in its queue, and by which entry; None if it is in none.

        Raises:
            RecordCorrupt: It is not as it was written.
        """
        known = self._known(record, at)
        if not is_queued(known.sys_flag):
            return None
        code = queue_code(known.topic, known.properties, known.stored_ms, self._delays_ms)
        entry = queue_entry(at, known.size, code)
        return Queued(known.topic, known.queue_id, known.queue_offset, entry)

    def index_again(self, limit_bytes: int = WALK_BYTES) -> bool:
        """Index about so much behind what the index holds; True once it holds everything.

        Raises:
            DiskError: The log cannot be read, or the files not be written.
        """
        start, end = self._index.holds_to, self._positions.dispatched
        for at, record in walk_past_damage(self._log, max(start, self._log.first_offset), end):
            if at >= start + limit_bytes:
                self._index.holds_to = at
                return False
            try:
                known = self._known(record, at)
            except RecordCorrupt as damage:
                self.damaged.note(damage.at, damage.reason, "in the log")
                continue
            if is_indexed(known.sys_flag):
                hashes = key_hashes(known.topic, known.properties, self._index_tags)
                self._index.put(at, known.stored_ms, hashes)
        self._index.holds_to = end
        return True

    def _reached(self, offset: LogOffset) -> None:
        self._queues.holds_to = max(self._queues.holds_to, offset)
        if not self._index.rebuilding:
            self._index.holds_to = max(self._index.holds_to, offset)
        if self._timer is not None:
            self._timer.holds_to = max(self._timer.holds_to, offset)

    def _known(self, record: bytes, at: LogOffset) -> Appended:
        """Check a record of the log, and give of it what the appender would have told."""
        return known_record(record, at, self._topic, self._check_queue)

    def _check_queue(self, topic: str, queue_id: int) -> None:
        if self._queues.queue(topic, queue_id) is None:
            check_name(topic, queue_id)
        self._named[topic.encode()] = topic

    def _derived(self, records: Sequence[Appended] | bytes, at: int) -> Derivation:
        """What follows from records, or from their bytes, which lie at ``at`` of the log."""
        if isinstance(records, bytes):
            wanted = self._on_arrival.wanted if self._on_arrival is not None else ()
            how = (self._named, self._delays_ms, self._index_tags, wanted)
            derived = derive_bytes(records, at, *how)
            if derived is not None:
                return derived
            records = [self._known(record, place) for place, record in whole_records(records, at)]
        return derive(records, self._delays_ms, self._index_tags)

    def _note(self, derived: Derivation) -> None:
        """Bring what follows from records to queues, index and timer, and tell of the arrivals.

        If it fails half way it can be done again.
        """
        for run in derived.runs:
            self._append(run)
        if not self._index.rebuilding:
            self._index.put_all(derived.keys)
        if self._timer is not None:
            for at, size, offset, stored_ms, topic, _, _, properties in derived.timed:
                self._timer.observe(topic, properties, at, size, offset, stored_ms)
        if self._on_arrival is not None and derived.arrivals:
            try:
                self._on_arrival.tell(derived.arrivals)
            except Exception:
                # Who waits for messages must not stop them from being dispatched.
                log.exception("arrival callback failed messages=%d", len(derived.arrivals))

    def _append(self, run: QueueRun) -> None:
        entries = bytes(run.entries)
        try:
            self._queues.append(run.topic, run.queue_id, entries, run.first)
        except QueueDamaged as damage:
            self.mend_queue((run.topic, run.queue_id), damage)
            self._queues.append(run.topic, run.queue_id, entries, run.first)

    def _topic(self, raw: bytes) -> str:
        topic = self._topics.get(raw)
        if topic is None:
            if len(self._topics) >= _MAX_TOPICS:
                self._topics.clear()
                self._named.clear()
            topic = self._topics[raw] = read_text(raw)
        return topic
