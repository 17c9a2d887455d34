"""Messages by topic, queue and offset, on one log that outlives whatever happens to the process.

    append → records in the log → flusher: durable → dispatch: queues, index, timer → read, find
    append_raw → the same from the log of a leader; raw_at → for the logs of followers

One thread appends, dispatches and reads. Another syncs the log, a third what follows from it, and
a fourth makes segments ahead of need; without ``threads`` there is only the first, and `flush` does
what the second would. What takes long for the disk's sake is there in steps too: between two of
them somebody else may use the store.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Self

from rocketpipe.clock import Clock
from rocketpipe.errors import RecordError
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.derived.derived_sync import DerivedSync
from rocketpipe.store.derived.dispatcher import OnArrival
from rocketpipe.store.derived.prepared import Prepared
from rocketpipe.store.errors import StoreFailed, StoreFull
from rocketpipe.store.files.background_sync import WorkerThread, run_steps_blocking
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.log.appender import Appender, Encodes
from rocketpipe.store.log.commit_log import FILLER_BYTES
from rocketpipe.store.log.flusher import Done, Flusher
from rocketpipe.store.log.preparer import Preparer
from rocketpipe.store.log.puts import Appended, Encoded, Put
from rocketpipe.store.log.raw_groups import RawPiece
from rocketpipe.store.log.store_times import StoreTimes
from rocketpipe.store.log.writer import LogWriter
from rocketpipe.store.opening import Opened, open_directory
from rocketpipe.store.reading import StoreReading
from rocketpipe.store.removal import Removal
from rocketpipe.store.replica import Replica
from rocketpipe.store.state.health import Health, StoreState

log = logging.getLogger(__name__)


class MessageStore(StoreReading):
    """One store, from `open` to `close`.

    ``commit_log``, ``derived``, ``damaged``, ``rounds``, ``removal``, ``positions`` and ``health``
    are its parts, for those who watch it or take it step by step.
    """

    def __init__(
        self, config: StoreConfig, clock: Clock, store_host: bytes, opened: Opened
    ) -> None:
        """For `open`, which opens the files."""
        self.config = config
        super().__init__(
            opened.commit_log,
            opened.positions,
            opened.derived,
            opened.damaged,
            clock,
            verify=config.verify_reads,
        )
        self.health = Health()
        self._opened = opened
        #: Whether the run before this one stopped in good order.
        self.ended_well = opened.ended_well
        #: Whether it had stopped writing, so that some of what it had taken may be gone.
        self.had_failed = opened.had_failed
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
        self._writer = LogWriter(
            opened.commit_log, opened.positions, self.health, self._preparer, self._fail
        )
        self._appender = Appender(
            opened.commit_log.segment_bytes,
            store_host,
            opened.derived.queues.next_offset,
            seal=config.checksum,
        )
        end = opened.end
        self._flusher.begin(end.end, end.last_record, end.stored_ms)
        self.times = StoreTimes(clock, end.stored_ms)
        self._replica = Replica(
            opened.commit_log,
            opened.positions,
            opened.derived,
            opened.checkpoint,
            self._flusher,
            self._writer,
            self.health,
            self.times,
            checksum=config.checksum,
        )
        self._derived_full: StoreFull | None = None
        #: Called at the end of each append, whoever wrote what was appended; it is quick, and
        #: raises nothing.
        self.on_append: Callable[[], None] | None = None

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
        replicated: bool = False,
        prepared: Iterable[Prepared] = (),
    ) -> Self:
        """Open a store, or make one; whatever the last run left is recovered first.

        ``on_arrival`` is told by `dispatch` of the messages that can be read from then on. One that
        is ``replicated`` follows a leader until `adopt_tail`: what lies behind its confirm offset
        stays, and is not shown. ``prepared`` is for who has worked out beforehand what follows from
        the log.

        Raises:
            StoreLocked: Another broker has the directory.
            StoreDamaged: Records that were durable are not whole.
            OddSegment: A file in it cannot be part of a log.
            DiskError: The disk does not do what it has to.
        """
        opened = open_directory(
            config, disk, clock, on_arrival, replicated=replicated, prepared=prepared
        )
        store = cls(config, clock, store_host, opened)
        store.health.follows = replicated
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
            StoreFollows: It follows another's log.
            StoreError: A message cannot be stored, and none of them was.
            RecordError: The same.
            InvalidName: The same.
        """
        if not groups:
            self.health.check_append()
            return []
        placed = self._append(partial(self._appender.encode, groups)).placed
        assert placed is not None
        return placed

    def append_from(self, source: Encodes) -> LogOffset:
        """Append what somebody else makes records of; gives where the log ends then.

        Raises:
            StoreError: As for `append`.
            RecordError: The same.
            InvalidName: The same.
        """
        encoded = self._append(partial(source.encode, self._appender))
        return LogOffset(encoded.end)

    def _append(self, encode: Callable[[int, int], Encoded]) -> Encoded:
        self.health.check_append()
        if self._derived_full is not None:
            self._retry_dispatch()
        stored_ms = self.times.next()
        try:
            encoded = encode(self.positions.written, stored_ms)
            self._writer.write(encoded.chunks, encoded.end)
        except MemoryError as error:
            raise self._fail("out of memory") from error
        except struct.error as error:
            raise RecordError(f"a number does not fit its field: {error}") from error
        raise_next = self.derived.queues.raise_next
        for topic, offsets in encoded.next_offsets.items():
            for queue_id, offset in offsets.items():
                raise_next(topic, queue_id, QueueOffset(offset))
        self.times.stored(stored_ms)
        fresh = self.derived.dispatcher.fresh
        if encoded.placed is not None:
            fresh.add(self.positions.written, encoded.end, encoded.placed)
        else:
            for (start, data), (behind, _) in pairwise(encoded.chunks):
                fresh.add_bytes(start, data[:-FILLER_BYTES], behind)
            start, data = encoded.chunks[-1]
            fresh.add_bytes(start, data, encoded.end)
        self.positions.written = LogOffset(encoded.end)
        self.health.has_room()
        self._flusher.wrote(encoded.end, encoded.last_record, stored_ms)
        if self.on_append is not None:
            self.on_append()
        return encoded

    def append_raw(self, piece: RawPiece) -> None:
        """Write whole groups of a leader's log where this one ends; they are checked already.

        Raises:
            StoreError: As for `append`; or they begin elsewhere.
        """
        if self._derived_full is not None:
            self._retry_dispatch()
        self._replica.take_in(piece)
        if self.on_append is not None:
            self.on_append()

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

    def dispatch(self, limit_bytes: int | None = None) -> int:
        """Make what was confirmed readable, or about so much of it; gives the number of records.

        Raises:
            RecordCorrupt: A record in the log is not what was written.
            StoreFailed: Queues or index cannot be written.
        """
        try:
            count = self.derived.dispatcher.run(limit_bytes)
            self._reader.tend()
            # What has failed once is never synced again.
            if self.health.failure is None:
                self.rounds.tend()
                if self.positions.acknowledged is not None:
                    self._flusher.publish()
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

    # Replicas

    def raw_at(self, offset: LogOffset, most: int, *, cached_only: bool = False) -> bytes | None:
        """Bytes of the log, confirmed or not, up to the end of a segment; none at the log's end.

        With ``cached_only`` it does not wait for the disk: ``None`` if it would have to. Without,
        any thread may ask.

        Raises:
            RecordMissing: The log begins behind the offset.
            DiskError: They cannot be read.
        """
        return self._replica.read(offset, most, cached_only=cached_only)

    def begin_at(self, offset: LogOffset) -> None:
        """Have a log that is empty begin at a multiple of its segments' length.

        Raises:
            StoreError: It is not empty, or no segment can begin there.
        """
        self._replica.begin_at(offset)

    def spent_queues(self) -> Iterator[tuple[str, int, QueueOffset]]:
        """Queues of which the log has no message left, and the offset that the next one gets.

        A follower that has not had those messages knows of it only if it is told; `begin_queue`.
        """
        return self._replica.spent_queues()

    def begin_queue(self, topic: str, queue_id: int, at: QueueOffset) -> None:
        """Have a queue of which this store knows nothing begin at an offset; any other stays.

        Raises:
            InvalidName: No queue can be called so.
        """
        self._replica.begin_queue(topic, queue_id, at)

    def tail_records(self, topic: str) -> Iterator[tuple[LogOffset, RecordView]]:
        """The records of a topic that are in the log and not dispatched, checked.

        Raises:
            RecordCorrupt: One of them is not what was written.
            DiskError: The log cannot be read.
        """
        return self._replica.tail_of(topic)

    def adopt_tail(self) -> int:
        """Take messages from now on, behind what a leader wrote; gives how many are not dispatched.

        The next offset of each queue is behind theirs.

        Raises:
            RecordCorrupt: One of them is not what was written.
            StoreFailed: The store has failed.
            DiskError: The log cannot be read.
        """
        return self._replica.adopt_tail()

    # What there is

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
                if self.positions.durable == self.positions.written:
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
        self._opened.checkpoint.publish(self.positions.published)
        self._opened.checkpoint.finish()
        self._opened.marks.end()

    def abandon(self) -> None:
        """Let the directory go as a killed process would: nothing more is written."""
        self.health.close()
        self._preparer.stop()
        self.rounds.abandon()
        self._flusher.halt()
        self._opened.close()
