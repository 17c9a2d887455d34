"""What can be read of a store: messages by queue and offset, by key, by time, by log offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketpipe.clock import Clock
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.layout import SIZE_AND_MAGIC
from rocketpipe.store.derived.careful_reader import CarefulReader
from rocketpipe.store.derived.derived_files import DerivedFiles
from rocketpipe.store.errors import RecordCorrupt, RecordMissing
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.log.end import problem_of
from rocketpipe.store.queues.reader import (
    MAX_READ_BYTES,
    MAX_SCAN_ENTRIES,
    Boundary,
    Reader,
    ReadResult,
    everything,
)
from rocketpipe.store.state.damage import DamagedRecords
from rocketpipe.store.state.positions import Positions


class StoreReading:
    """The half of a store that shows what is confirmed, and nothing behind it."""

    def __init__(
        self,
        commit_log: CommitLog,
        positions: Positions,
        derived: DerivedFiles,
        damaged: DamagedRecords,
        clock: Clock,
        *,
        verify: bool,
    ) -> None:
        """``verify`` has each record checked before it is shown."""
        self.commit_log = commit_log
        self.positions = positions
        self.derived = derived
        self.damaged = damaged
        queues = derived.queues
        reader = Reader(commit_log, queues, positions, verify=verify, damaged=damaged)
        #: Finds what `read` would give, if it lies close together: see `Reader.run`.
        self.run = reader.run
        self._reader = CarefulReader(
            reader,
            queues,
            derived.repairs,
            damaged,
            clock,
        )

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
