"""Messages by queue and offset, and by time, with RocketMQ's rules for offsets that are not there.

the queue has no file, or no such queue      NO_MATCHED_LOGIC_QUEUE, read on at 0
it never had a message                       NO_MESSAGE_IN_QUEUE, at 0
before the first message that is left        OFFSET_TOO_SMALL, at that one
where the next message will be               OFFSET_OVERFLOW_ONE, at the same
behind that                                  OFFSET_OVERFLOW_BADLY, at the end
there should be an entry, and is none        OFFSET_FOUND_NULL, at the next
its record is gone from the log              MESSAGE_WAS_REMOVING, at the first that is left
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import msgspec

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.log.end import problem_of
from rocketpipe.store.log.segment import Segment
from rocketpipe.store.queues.entries import (
    BLANK_SIZE,
    QUEUE_ENTRY,
    Wanted,
    choose_entries,
    sealed_records,
    window_end,
)
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.store.queues.read_ahead import ReadAhead
from rocketpipe.store.queues.runs import (
    MAX_GAP_BYTES,
    MAX_WINDOW_BYTES,
    Readable,
    Span,
    find_run,
    read_run,
)
from rocketpipe.store.state.damage import DamagedRecords
from rocketpipe.store.state.positions import Positions

MAX_READ_COUNT: Final = 32
MAX_READ_BYTES: Final = 256 * 1024
MAX_SCAN_ENTRIES: Final = 800

#: Where a record has the time at which it was stored, if its born host is IPv4.
_STORED_AT: Final = 56
_HEAD_BYTES: Final = 76
_SYS_FLAG_AT: Final = 36


class ReadStatus(Enum):
    """What a read found, in RocketMQ's words: the names travel as remarks."""

    FOUND = auto()
    NO_MATCHED_MESSAGE = auto()
    MESSAGE_WAS_REMOVING = auto()
    OFFSET_FOUND_NULL = auto()
    OFFSET_OVERFLOW_BADLY = auto()
    OFFSET_OVERFLOW_ONE = auto()
    OFFSET_TOO_SMALL = auto()
    NO_MATCHED_LOGIC_QUEUE = auto()
    NO_MESSAGE_IN_QUEUE = auto()
    OFFSET_RESET = auto()


class Boundary(Enum):
    """Which of the messages around a time is meant."""

    #: The first that was stored at that time or later.
    LOWER = auto()
    #: The last that was stored at that time or earlier.
    UPPER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """Records back to back, and where to read on."""

    status: ReadStatus
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset
    records: bytes = b""
    count: int = 0


class FoundRun(msgspec.Struct, frozen=True, gc=False):
    """Records that can be read and checked as one, and where to read on behind them."""

    #: Where the log has the first of them, how many they are, and how many bytes they have.
    start: int
    count: int
    size: int
    next_offset: int
    min_offset: int
    max_offset: int
    _span: Span
    _file: Readable
    _at: int
    _entries: bytes
    _verify: bool

    def behind(self, head: bytes) -> bytes | None:
        """Read them, and give them behind ``head``; None if one has to be looked at more closely.

        Raises:
            DiskError: The log cannot be read.
        """
        return read_run(self._file, self._at, head, self._entries, self._span, self._verify)


def everything(tag_code: int) -> bool:
    """Match any message."""
    return True


class Reader:
    """Reads what was dispatched; nothing else is ever seen."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: QueueSet,
        positions: Positions,
        *,
        verify: bool,
        damaged: DamagedRecords | None = None,
    ) -> None:
        """Take what is read; records that ``damaged`` knows are passed over if it says so."""
        self._log = commit_log
        self._queues = queues
        self._positions = positions
        self._verify = verify
        self._damaged = damaged or DamagedRecords(skip=False)
        self._ahead = ReadAhead()

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

        One message is given even if it is longer than ``max_bytes``.

        Raises:
            RecordCorrupt: The first message is not what was written; those behind it can be read.
            DiskError: The log or the queue cannot be read.
        """
        if matches is everything:
            run = self.run(topic, queue_id, offset, max_count, max_bytes)
            records = None if run is None else run.behind(b"")
            if run is not None and records is not None:
                return ReadResult(
                    status=ReadStatus.FOUND,
                    next_offset=QueueOffset(run.next_offset),
                    min_offset=QueueOffset(run.min_offset),
                    max_offset=QueueOffset(run.max_offset),
                    records=records,
                    count=run.count,
                )
        if self._queues.queue(topic, queue_id) is None:
            return _nothing(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low = self._queues.min_offset(topic, queue_id)
        high = self._queues.max_offset(topic, queue_id)
        if high == 0:
            return _nothing(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return _nothing(ReadStatus.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return _nothing(ReadStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return _nothing(ReadStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
        # Without a filter each entry is wanted.
        scanned = max_count if matches is everything else max(max_scan, max_count)
        entries = self._queues.entries(topic, queue_id, offset, scanned)
        if not entries:
            return _nothing(ReadStatus.OFFSET_FOUND_NULL, offset + 1, low, high)
        wanted, passed, removed = choose_entries(
            entries,
            self._log.first_offset,
            max_count,
            max_bytes,
            None if matches is everything else matches,
        )
        records, count, corrupt_at = self._records(wanted)
        at = int(offset) + passed
        if corrupt_at is not None:
            at = int(offset) + corrupt_at
        status = ReadStatus.FOUND
        if not count:
            status = ReadStatus.MESSAGE_WAS_REMOVING if removed else ReadStatus.NO_MATCHED_MESSAGE
        return ReadResult(
            status=status,
            next_offset=QueueOffset(at),
            min_offset=low,
            max_offset=high,
            records=records,
            count=count,
        )

    def run(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int
    ) -> FoundRun | None:
        """Find what `read` would give, if it is all that follows and lies close together.

        None if it is not, or there is nothing: `read` says what there is.

        Raises:
            QueueDamaged: The queue's entries are not as they were written.
            DiskError: The queue cannot be read.
        """
        queue = self._queues.queue(topic, queue_id)
        if queue is None:
            return None
        low, high = queue.min_offset, queue.max_offset
        if not low <= offset < high:
            return None
        entries = self._ahead.entries(queue, offset, max_count)
        span = find_run(entries, self._log.first_offset, max_count, max_bytes)
        if span is None:
            return None
        start, end, count, size = span
        segment = self._log.run.find(start)
        if segment is None or end > segment.end or end > self._positions.confirmed:
            return None
        file = segment.opened()
        return FoundRun(
            start,
            count,
            size,
            offset + count,
            low,
            high,
            span,
            file,
            start - segment.base,
            entries,
            self._verify,
        )

    def _records(self, wanted: list[Wanted]) -> tuple[bytes, int, int | None]:
        """Read them, neighbours at once; how many there are, and which one is not as written."""
        segment: Segment | None = None
        parts: list[bytes] = []
        place = count = end = 0
        while place < len(wanted):
            start = wanted[place][0]
            if segment is None or not segment.base <= start < segment.end:
                segment = self._log.run.find(start)
                if segment is not None:
                    file = segment.opened()
            data = b""
            if segment is not None:
                limit = min(start + MAX_WINDOW_BYTES, segment.end)
                end = window_end(wanted, place, limit, MAX_GAP_BYTES)
                data = file.read(end - start, start - segment.base)
            if segment is None or len(data) != end - start or end > segment.end:
                if not self._passes_over(start, "the log does not have its bytes", count):
                    return b"".join(parts), count, wanted[place][2]
                place += 1
                continue
            while True:
                # Most have a checksum that holds, and are what they say they are.
                records, many = sealed_records(data, start, wanted, place, self._verify)
                parts.append(records)
                count += many
                place += many
                if place == len(wanted):
                    break
                log_offset, size, number = wanted[place]
                if log_offset < start or log_offset + size > end:
                    break
                record = data[log_offset - start : log_offset - start + size]
                sealed = self._log.must_be_sealed(log_offset)
                problem = problem_of(record, log_offset, sealed=sealed)
                if problem is None:
                    parts.append(record)
                    count += 1
                elif not self._passes_over(log_offset, problem, count):
                    return b"".join(parts), count, number
                place += 1
        assert not count or end <= self._positions.confirmed
        return parts[0] if len(parts) == 1 else b"".join(parts), count, None

    def _passes_over(self, log_offset: int, problem: str, count: int) -> bool:
        """Whether to go on behind a damaged record; False if those before it are given first."""
        if self._damaged.skips(log_offset):
            return True
        if not count:
            raise RecordCorrupt(log_offset, problem)
        return False

    def offset_at_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> QueueOffset:
        """Find the message of a queue that was stored around a time.

        Where all were stored before, LOWER gives the end of the queue; where all were stored
        later, UPPER gives 0. A queue that is not there, or is empty, has 0.

        Raises:
            RecordCorrupt: The log does not have what the queue says.
            DiskError: The log or the queue cannot be read.
        """
        low = first = int(self._queues.min_offset(topic, queue_id))
        high = int(self._queues.max_offset(topic, queue_id))
        if low >= high:
            return QueueOffset(0)
        later = boundary is Boundary.UPPER
        # The first message that was stored at that time or later; for UPPER, really later.
        while low < high:
            middle = (low + high) // 2
            stored_ms = self._stored_ms(topic, queue_id, middle)
            if stored_ms < timestamp_ms or (later and stored_ms == timestamp_ms):
                low = middle + 1
            else:
                high = middle
        if not later:
            return QueueOffset(low)
        return QueueOffset(low - 1 if low > first else 0)

    def earliest_stored_ms(self, topic: str, queue_id: int) -> int:
        """When the first message that is left in a queue was stored; −1 if there is none.

        Raises:
            RecordCorrupt: The log does not have what the queue says.
            DiskError: The log or the queue cannot be read.
        """
        low = int(self._queues.min_offset(topic, queue_id))
        if low >= self._queues.max_offset(topic, queue_id):
            return -1
        return self._stored_ms(topic, queue_id, low)

    def stored_ms(self, topic: str, queue_id: int, offset: QueueOffset) -> int:
        """When the message at an offset was stored; −1 if there is none.

        Raises:
            RecordCorrupt: The log does not have what the queue says.
            DiskError: The log or the queue cannot be read.
        """
        low = self._queues.min_offset(topic, queue_id)
        if not low <= offset < self._queues.max_offset(topic, queue_id):
            return -1
        return self._stored_ms(topic, queue_id, offset)

    def _stored_ms(self, topic: str, queue_id: int, offset: int) -> int:
        entry = self._queues.entries(topic, queue_id, QueueOffset(offset), 1)
        for log_offset, size, _ in QUEUE_ENTRY.iter_unpack(entry):
            if size != BLANK_SIZE and log_offset >= self._log.first_offset:
                return self.stored_ms_at(log_offset)
        return -1  # lost: it sorts before everything

    def stored_ms_at(self, log_offset: int) -> int:
        """When the record at an offset of the log was stored.

        Raises:
            RecordCorrupt: The log does not have it.
            DiskError: The log cannot be read.
        """
        head = self._log.read(LogOffset(log_offset), _HEAD_BYTES)
        born_v6 = head[_SYS_FLAG_AT + 3] & 0x10
        at = _STORED_AT + (12 if born_v6 else 0)
        return int.from_bytes(head[at : at + 8], "big", signed=True)


def _nothing(status: ReadStatus, next_offset: int, low: int, high: int) -> ReadResult:
    return ReadResult(
        status=status,
        next_offset=QueueOffset(next_offset),
        min_offset=QueueOffset(low),
        max_offset=QueueOffset(high),
    )
