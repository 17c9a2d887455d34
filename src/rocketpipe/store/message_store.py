"""Messages by topic, queue and offset, on one log that outlives whatever happens to the process.

    append → records in the log → flusher: durable → dispatch: queues, index, timer → read, find

One thread appends, dispatches and reads. Another syncs the log, a third what follows from it, and
a fourth makes segments ahead of need; without ``threads`` there is only the first, and `flush` does
what the second would. What takes long for the disk's sake is there in steps too: between two of
them somebody else may use the store.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from rocketpipe.clock import Clock
from rocketpipe.errors import RecordError
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.layout import SIZE_AND_MAGIC
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.derived.careful_reader import CarefulReader
from rocketpipe.store.derived.derived_sync import DerivedSync
from rocketpipe.store.derived.dispatcher import OnArrival
from rocketpipe.store.errors import (
    RecordCorrupt,
    RecordMissing,
    StoreError,
    StoreFailed,
    StoreFull,
)
from rocketpipe.store.files.background_sync import WorkerThread, run_steps_blocking
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.log.appender import Appender
from rocketpipe.store.log.end import problem_of
from rocketpipe.store.log.flusher import Done, Flusher
from rocketpipe.store.log.preparer import Preparer
from rocketpipe.store.log.puts import Appended, Encoded, Put
from rocketpipe.store.log.store_times import StoreTimes
from rocketpipe.store.opening import Opened, open_directory
from rocketpipe.store.queues.reader import (
    MAX_READ_BYTES,
    MAX_SCAN_ENTRIES,
    Boundary,
    Reader,
    ReadResult,
    everything,
)
from rocketpipe.store.removal import Removal
from rocketpipe.store.state.health import Health, StoreState

log = logging.getLogger(__name__)


class MessageStore:
    """One store, from `open` to `close`.

    ``commit_log``, ``derived``, ``damaged``, ``rounds``, ``removal``, ``positions`` and ``health``
    are its parts, for those who watch it or take it step by step.
    """

    def __init__(
        self, config: StoreConfig, clock: Clock, store_host: bytes, opened: Opened
    ) -> None:
        """For `open`, which opens the files."""
        self.config = config
        self.commit_log = opened.commit_log
        self.positions = opened.positions
        self.derived = opened.derived
        self.damaged = opened.damaged
        self.health = Health()
        self._opened = opened
        self._flusher = Flusher(
            opened.commit_log,
            opened.positions,
            opened.checkpoint,
            self.health,
            config,
            clock,
            self._fail,
        )
        self.rounds = DerivedSync(
            opened.derived,
            opened.positions,
            opened.checkpoint,
            self._flusher,
            clock,
            self._fail,
        )
        self.removal = Removal(
            opened.commit_log, opened.derived, opened.positions, self.rounds, self.health
        )
        self._preparer = Preparer(opened.commit_log.run, self._fail)
        self._appender = Appender(
            opened.commit_log.segment_bytes,
            store_host,
            opened.derived.queues.next_offset,
            seal=config.checksum,
        )
        self._reader = CarefulReader(
            Reader(
                opened.commit_log,
                opened.derived.queues,
                opened.positions,
                verify=config.verify_reads,
                damaged=opened.damaged,
            ),
            opened.derived.queues,
            opened.derived.repairs,
            opened.damaged,
            clock,
        )
        end = opened.end
        self._flusher.begin(end.end, end.last_record, end.stored_ms)
        self.times = StoreTimes(clock, end.stored_ms)
        self._derived_full: StoreFull | None = None

    @classmethod
    def open(
        cls,
        config: StoreConfig,
        *,
        disk: Disk,
        clock: Clock,
        store_host: bytes,
        on_arrival: OnArrival | None = None,
        threads: bool = True,
    ) -> Self:
        """Open a store, or make one; whatever the last run left is recovered first.

        ``on_arrival`` is told by `dispatch` of the messages that can be read from then on.

        Raises:
            StoreLocked: Another broker has the directory.
            StoreDamaged: Records that were durable are not whole.
            OddSegment: A file in it cannot be part of a log.
            DiskError: The disk does not do what it has to.
        """
        store = cls(config, clock, store_host, open_directory(config, disk, clock, on_arrival))
        if threads:
            if not store.commit_log.run.segments:
                store._preparer.prepare()  # or the first append would wait for it
            store._flusher.start()
            store.rounds.worker = WorkerThread("store-syncer")
            store._preparer.start()
            store._preparer.wake()
        return store

    # Writing

    def append(self, groups: Sequence[Sequence[Put]]) -> list[list[Appended]]:
        """Append groups of messages with one write; each group is kept whole, or not at all.

        They are in the page cache on return, and readable after `dispatch`. Whoever promises more
        waits by `when_durable`. Many groups in one call cost less than many calls; so does a `Put`
        made as its docstring says.

        Raises:
            StoreFull: There is no room; nothing was written, and a later append may succeed.
            StoreFailed: The store has failed, now or before; whether these are kept is not known.
            StoreClosed: It was closed.
            StoreError: A message cannot be stored, and none of them was.
            RecordError: The same.
            InvalidName: The same.
        """
        self.health.check_append()
        if not groups:
            return []
        if self._derived_full is not None:
            self._retry_dispatch()
        stored_ms = self.times.next()
        try:
            encoded = self._appender.encode(groups, self.positions.written, stored_ms)
            self._write(encoded)
        except MemoryError as error:
            raise self._fail("out of memory") from error
        except struct.error as error:
            raise RecordError(f"a number does not fit its field: {error}") from error
        raise_next = self.derived.queues.raise_next
        for topic, offsets in encoded.next_offsets.items():
            for queue_id, offset in offsets.items():
                raise_next(topic, queue_id, QueueOffset(offset))
        self.times.stored(stored_ms)
        self.derived.dispatcher.fresh.add(self.positions.written, encoded.end, encoded.placed)
        self.positions.written = LogOffset(encoded.end)
        self.health.has_room()
        self._flusher.wrote(encoded.end, encoded.last_record, stored_ms)
        return encoded.placed

    def _write(self, encoded: Encoded) -> None:
        if encoded.end > self.commit_log.run.end:
            try:
                self.commit_log.make_room(self.positions.written, encoded.end)
            except DiskError as error:
                raise self._refusal(error, encoded) from error
            self._preparer.wake()
        try:
            self.commit_log.append(encoded.chunks)
        except DiskError as error:
            raise self._refusal(error, encoded) from error

    def _refusal(self, error: DiskError, encoded: Encoded) -> StoreError:
        """What a failed append means: no room for its first byte, or the end of this run."""
        if not error.passing or error.written:
            return self._fail(str(error))
        full = StoreFull(error.path, sum(len(data) for _, data in encoded.chunks), str(error))
        self.health.full(full)
        return full

    def _fail(self, reason: str) -> StoreFailed:
        """Stop writing until the store is opened again; any thread may find that out."""
        if self.health.fail(reason):
            log.error("store failed, and takes nothing until it is reopened reason=%s", reason)
            self._opened.marks.fail(reason)
        error = StoreFailed(reason)
        self._flusher.fail(error)
        return error

    def _retry_dispatch(self) -> None:
        self.dispatch()
        if self._derived_full is not None:
            raise self._derived_full

    def when_durable(self, offset: LogOffset, done: Done) -> None:
        """Call ``done`` once every byte before ``offset`` is durable, or cannot become so.

        That is at once, if it is so already, and else from the thread that syncs.
        """
        self._flusher.when_durable(offset, done)

    def flush(self) -> bool:
        """Make durable what was written so far; False if nothing was left, or the store failed."""
        return self._flusher.flush_once()

    def dispatch(self) -> int:
        """Make what was confirmed readable; gives the number of records.

        Raises:
            RecordCorrupt: A record in the log is not what was written.
            StoreFailed: Queues or index cannot be written.
        """
        try:
            count = self.derived.dispatcher.run()
            self._reader.tend()
            # What has failed once is never synced again.
            if self.health.failure is None:
                self.rounds.tend()
        except StoreFailed:
            # What was dispatched shows all the same; who waited for the sync was told.
            if self.health.failure is None:
                raise
        except DiskError as error:
            if not error.passing:
                raise self._fail(str(error)) from error
            # What waits in memory is readable, and written once there is room: until then
            # nothing more is taken.
            self._derived_full = StoreFull(error.path, self.derived.pending_bytes, str(error))
            self.health.full(self._derived_full)
            return 0
        if self.rounds.trouble is None:  # else the next round shows whether there is room
            self._derived_full = None
        return count

    def delete_before(self, offset: LogOffset) -> int:
        """Remove the segments before an offset, and what speaks of them; gives how many.

        What is not durable or not dispatched stays, and so does the last segment.

        Raises:
            StoreFailed: The store has failed, now or before.
            DiskError: A file cannot be removed; trying again is safe.
        """
        return run_steps_blocking(self.removal.before(offset))

    # Reading

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: QueueOffset,
        *,
        max_count: int,
        max_bytes: int = MAX_READ_BYTES,
        matches: Callable[[int], bool] = everything,
        max_scan: int = MAX_SCAN_ENTRIES,
    ) -> ReadResult:
        """Read on from ``offset``; ``matches`` sees each tag code before its record is touched.

        Raises:
            RecordCorrupt: The first message is damaged, and such are not passed over.
            UnderRepair: The queue is being put right; ask again.
            DiskError: The log or the queue cannot be read.
        """
        return self._reader.read(
            topic,
            queue_id,
            offset,
            max_count=max_count,
            max_bytes=max_bytes,
            matches=matches,
            max_scan=max_scan,
        )

    def find_by_key(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[LogOffset]:
        """Find the messages of a topic that have a key and were stored between two times.

        The newest comes first; there is no limit.

        Raises:
            RecordCorrupt: A record in question is not what was written.
            DiskError: The index or the log cannot be read.
        """
        return self.derived.find(topic, key, begin_ms, end_ms, self.record_at)

    def record_at(self, offset: LogOffset) -> bytes:
        """The record at an offset of the log, checked.

        Raises:
            RecordMissing: The log has, or shows, nothing there.
            RecordCorrupt: What is there is not a whole record.
            DiskError: It cannot be read.
        """
        first, end = self.commit_log.first_offset, self.positions.confirmed
        if not first <= offset <= end - SIZE_AND_MAGIC.size:
            raise RecordMissing(offset, first, end)
        size, _ = SIZE_AND_MAGIC.unpack(self.commit_log.read(offset, SIZE_AND_MAGIC.size))
        if not SIZE_AND_MAGIC.size < size <= end - offset:
            raise RecordCorrupt(offset, f"a size of {size}")
        record = self.commit_log.read(offset, size)
        problem = problem_of(record, offset, sealed=self.commit_log.must_be_sealed(offset))
        if problem is not None:
            raise RecordCorrupt(offset, problem)
        return record

    def offset_at_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> QueueOffset:
        """Find the message of a queue that was stored around a time; see `Reader`.

        Raises:
            RecordCorrupt: The log does not have what the queue says.
            DiskError: The log or the queue cannot be read.
        """
        return self._reader.offset_at_time(topic, queue_id, timestamp_ms, boundary)

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The first offset that can still be read."""
        return self.derived.queues.min_offset(topic, queue_id)

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """Where a reader that has read everything waits for the next message."""
        return self.derived.queues.max_offset(topic, queue_id)

    def earliest_stored_ms(self, topic: str, queue_id: int) -> int:
        """When the first message that is left in a queue was stored; −1 if there is none.

        Raises:
            DiskError: The log or the queue cannot be read.
        """
        return self._reader.earliest_stored_ms(topic, queue_id)

    def queues(self) -> Iterator[tuple[str, int]]:
        """Every queue that has, or had, a message."""
        return self.derived.queues.queues()

    @property
    def first_offset(self) -> LogOffset:
        """The oldest offset that the log has."""
        return self.commit_log.first_offset

    @property
    def state(self) -> StoreState:
        """Whether messages are taken."""
        return self.health.state

    @property
    def behind_bytes(self) -> int:
        """How much of the log is confirmed and not dispatched yet."""
        return self.positions.confirmed - self.positions.dispatched

    # The end

    def close(self) -> None:
        """Stop cleanly: everything is flushed and dispatched, and the next opening is quick.

        A store that had failed is only let go: the next opening finds out what it is worth.

        Raises:
            StoreFailed: Not everything could be made durable; the store is let go all the same.
            StoreError: The same, as what is left to do could not be done.
        """
        if self.health.state is StoreState.CLOSED:
            return
        had_failed = self.health.failure is not None
        self.health.close()
        try:
            self._preparer.stop()
            self.rounds.stop()
            self._flusher.stop()
            if self.health.failure is None:
                self.derived.dispatcher.run()
                if not self.behind_bytes and self.positions.durable == self.positions.written:
                    self._finish()
        finally:
            self.abandon()
        if self.health.failure is not None and not had_failed:
            raise StoreFailed(self.health.failure.reason)

    def sync_derived(self) -> None:
        """Make queues and index durable as they are: an opening goes on behind what they know.

        Raises:
            StoreFailed: That cannot be done, now or any more.
        """
        self.rounds.sync()

    def _finish(self) -> None:
        self.sync_derived()
        try:
            self.derived.hand_over_timer(self.sync_derived)
        except DiskError as error:
            raise self._fail(str(error)) from error
        self.commit_log.run.drop_prepared()
        self._opened.checkpoint.finish()
        self._opened.marks.end()

    def abandon(self) -> None:
        """Let the directory go as a killed process would: nothing more is written."""
        self.health.close()
        self._preparer.stop()
        self.rounds.abandon()
        self._flusher.halt()
        self._opened.close()
