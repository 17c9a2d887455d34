"""One damaged file of a queue, put right from the log while everything else goes on.

Each entry is held against its record. One that its record does not bear out is looked for in the
log between its neighbours' records, and nowhere else. So a wrong bit costs a look at the records of
one file, and a walk over what lies between three of them.

    a record says that it is this entry's      the entry is right, or is made right
    none does, and its record is gone          retention took it: the entry is let be
    none does, and it could be what it says    its record is damaged: the entry is let be
    none does                                  a blank entry, as for what was lost

It goes in steps. What a step needs of the log is read while others use the store; then the step is
short. The file may be appended to meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple
from zlib import crc32

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.layout import MAX_RECORD_BYTES, MIN_RECORD_BYTES
from rocketpipe.store.errors import QueueDamaged, RecordCorrupt
from rocketpipe.store.files.background_sync import Steps
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.log.commit_log import WALK_BYTES, CommitLog
from rocketpipe.store.log.end import next_whole
from rocketpipe.store.queues.consume_queue import ConsumeQueue
from rocketpipe.store.queues.entries import BLANK_SIZE, QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from rocketpipe.store.queues.queue_files import FileSum
from rocketpipe.store.state.positions import Positions

log = logging.getLogger(__name__)

#: So many entries are held against the log in one step, with so many bytes of records.
_STEP_ENTRIES: Final = 200
_STEP_BYTES: Final = 1 << 20


class Queued(NamedTuple):
    """Which queue a record is in, at which offset, and by which entry."""

    topic: str
    queue_id: int
    offset: int
    entry: bytes


#: Gives that of a record at an offset of the log; None if it is in no queue.
EntryOf = Callable[[bytes, LogOffset], Queued | None]


def walk_past_damage(
    commit_log: CommitLog, start: LogOffset, end: LogOffset
) -> Iterator[tuple[LogOffset, bytes]]:
    """Step from record to record as `CommitLog.walk` does, and over what is none.

    Raises:
        DiskError: The log cannot be read.
    """
    at: int | None = start
    while at is not None and at < end:
        try:
            for place, record in commit_log.walk(LogOffset(at), end):
                yield place, record
                at = place + len(record)
            return
        except RecordCorrupt as damage:
            at = next_whole(commit_log, damage.at + 1, end)
            log.error("the log is damaged at=%d reason=%s next=%s", damage.at, damage.reason, at)


class FileRepair:
    """Puts one file of a queue right."""

    def __init__(
        self,
        commit_log: CommitLog,
        positions: Positions,
        entry_of: EntryOf,
        queue: tuple[str, int],
        entries: ConsumeQueue,
        file: FileSum,
    ) -> None:
        """Take a file as `QueueFiles.damaged` gives it."""
        self._log = commit_log
        self._positions = positions
        self._entry_of = entry_of
        self._queue = queue
        self._entries = entries
        self._file = file
        self._first = file.base // QUEUE_ENTRY_BYTES
        self._changes: list[tuple[int, bytes]] = []
        #: The checksum of what is right, as far as that is known, and what is not known behind it.
        self._crc = 0
        self._doubtful: list[bytes] = []

    def steps(self) -> Steps[int]:
        """Put the file right; gives the number of entries that were not.

        Raises:
            DiskError: The log or the file cannot be read, or the file not be written.
        """
        number, end = self._first, self._first + self._file.count
        behind = self._end_before()
        while number < end:
            raw = self._entries.files.as_it_is(
                number * QUEUE_ENTRY_BYTES,
                min(_STEP_ENTRIES, end - number) * QUEUE_ENTRY_BYTES,
            )
            records: list[bytes] = []
            step = _fitting(raw, self._log.first_offset, self._positions.dispatched)
            yield partial(self._read, step, records)
            for (offset, size, _), record in zip(step, records, strict=True):
                entry = raw[:QUEUE_ENTRY_BYTES]
                raw = raw[QUEUE_ENTRY_BYTES:]
                if not self._is_right(entry, number, offset, record):
                    self._doubtful.append(entry)
                else:
                    if self._doubtful:
                        yield from self._look(number, behind, offset)
                    self._crc = crc32(entry, self._crc)
                    if record:
                        behind = offset + size
                number += 1
        if self._doubtful:
            yield from self._look(end, behind, self._start_behind(end))
        self._entries.mend(self._file, self._crc, self._changes)
        return sum(len(data) // QUEUE_ENTRY_BYTES for _, data in self._changes)

    def _read(self, step: list[tuple[int, int, int]], records: list[bytes]) -> None:
        """Read the records of some entries, of which some may be nowhere, on any thread."""
        first, end = self._log.first_offset, self._positions.dispatched
        for offset, size, _ in step:
            record = b""
            if first <= offset <= end - size and MIN_RECORD_BYTES <= size <= MAX_RECORD_BYTES:
                try:
                    record = self._log.run.read(offset, size)
                except DiskError:
                    if offset >= self._log.first_offset:
                        raise  # else retention has just taken it
            records.append(record)

    def _is_right(self, entry: bytes, number: int, offset: int, record: bytes) -> bool:
        if number < self._entries.min_offset:
            return True  # nobody is given it any more, and nothing in the log tells of it
        if not record:
            return False
        found = self._queued(record, LogOffset(offset))
        return found == (*self._queue, number, entry)

    def _queued(self, record: bytes, at: LogOffset) -> Queued | None:
        try:
            return self._entry_of(record, at)
        except RecordCorrupt:
            return None

    def _look(self, end: int, start: int, stop: int) -> Steps[None]:
        """Find the doubtful entries, the last of which is before ``end``, between two records."""
        first = end - len(self._doubtful)
        found: dict[int, bytes] = {}
        at = max(start, self._log.first_offset)
        while at < stop and len(found) < len(self._doubtful):
            yield partial(self._bring, at, stop)
            at = self._walk(at, stop, found)
        for number, entry in enumerate(self._doubtful, first):
            right = found.get(number) or _as_good_as_can_be(entry, start, stop)
            if right != entry:
                self._changes.append((number * QUEUE_ENTRY_BYTES, right))
            self._crc = crc32(right, self._crc)
            offset, size, _ = QUEUE_ENTRY.unpack(right)
            start = max(start, offset if size == BLANK_SIZE else offset + size)
        self._doubtful.clear()

    def _walk(self, start: int, stop: int, found: dict[int, bytes]) -> int:
        """Take in the queue's entries from a part of the log; gives where the next part begins."""
        for at, record in walk_past_damage(self._log, LogOffset(start), LogOffset(stop)):
            # Most records are of other queues, which their heads tell.
            if int.from_bytes(record[12:16], "big") == self._queue[1]:
                queued = self._queued(record, at)
                if queued is not None and queued[:2] == self._queue:
                    found[queued.offset] = queued.entry
            if at + len(record) >= start + WALK_BYTES:
                return at + len(record)
        return stop

    def _bring(self, at: int, stop: int) -> None:
        """Have a part of the log in memory; that it may be gone is found out by who needs it."""
        try:
            self._log.run.read(at, min(WALK_BYTES, stop - at))
        except DiskError:
            pass

    def _end_before(self) -> int:
        """Where the record of the entry before the file ends, as far as that is known."""
        if self._first > self._entries.first_offset:
            try:
                entry = self._entries.entries(QueueOffset(self._first - 1), 1)
                offset, size, _ = QUEUE_ENTRY.unpack(entry)
                return int(offset if size == BLANK_SIZE else offset + size)
            except QueueDamaged:
                pass
        return self._log.first_offset

    def _start_behind(self, end: int) -> int:
        """Where the record of the entry behind the file starts, as far as that is known."""
        if end < self._entries.max_offset:
            try:
                entry = self._entries.entries(QueueOffset(end), 1)
                offset, size, _ = QUEUE_ENTRY.unpack(entry)
                if size != BLANK_SIZE:
                    return int(offset)
            except QueueDamaged:
                pass
        return self._positions.dispatched


def _fitting(raw: bytes, first: int, end: int) -> list[tuple[int, int, int]]:
    """As many of the entries, one at least, as have records that are not too long together."""
    step: list[tuple[int, int, int]] = []
    room = _STEP_BYTES
    for entry in QUEUE_ENTRY.iter_unpack(raw):
        if first <= entry[0] <= end - entry[1]:
            room -= entry[1]
        if step and room < 0:
            break
        step.append(entry)
    return step


def _as_good_as_can_be(entry: bytes, start: int, stop: int) -> bytes:
    """What to have for an entry of which the log does not tell."""
    offset, size, code = QUEUE_ENTRY.unpack(entry)
    if size == BLANK_SIZE and not code and offset <= stop:
        return entry
    if size != BLANK_SIZE and size >= MIN_RECORD_BYTES and start <= offset <= stop - size:
        return entry
    return QUEUE_ENTRY.pack(start, BLANK_SIZE, 0)
