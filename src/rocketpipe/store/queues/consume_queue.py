"""One queue's view of the commit log.

A run of 20-byte entries, written in order and never changed; ``hot`` has their bytes. Entry *n* is
at byte 20 × n of the queue; ``queue_files`` has the files.

A queue whose first entry does not begin its file is filled up from the start of that file with
blank entries (0, 0x7FFFFFFF, 0). A gap, left by records that were lost, is filled the same way,
with the offset at which the record before it ended.

What disagrees with its checksum is put right from the log, file by file; see ``queue_repair``. What
disagrees with the log is cut and written again from there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.errors import QueueDamaged
from rocketpipe.store.files.background_sync import PendingSync
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.queues.entries import BLANK_ENTRY, BLANK_SIZE, QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from rocketpipe.store.queues.queue_files import FileSum, QueueFiles

log = logging.getLogger(__name__)


class ConsumeQueue:
    """The entries of one queue. What is appended is read at once, and written when asked."""

    __slots__ = ("_files", "_log_end", "_max", "_min", "_min_at", "_pending", "rewrites")

    def __init__(self, disk: Disk, files: OpenFiles, directory: Path, file_bytes: int) -> None:
        self._files = QueueFiles(disk, files, directory, file_bytes)
        #: What waits to be written, behind what the files have.
        self._pending = bytearray()
        self._min = 0
        #: Where the record of the first message is, if that is known: nothing before it is left.
        self._min_at = -1
        self._max = 0
        self._log_end = 0
        #: How often entries went that were there, or were put right: who kept some reads again.
        self.rewrites = 0

    @property
    def min_offset(self) -> QueueOffset:
        """The first message that is still in the log; ``max_offset`` if none is."""
        return QueueOffset(self._min)

    @property
    def max_offset(self) -> QueueOffset:
        """The offset that the next entry will have."""
        return QueueOffset(self._max)

    @property
    def first_offset(self) -> QueueOffset:
        """The first entry that the files have, blank ones included."""
        return QueueOffset(self._files.first // QUEUE_ENTRY_BYTES)

    @property
    def log_end(self) -> LogOffset:
        """Where the record of the last entry ends."""
        return LogOffset(self._log_end)

    @property
    def pending_bytes(self) -> int:
        """How much waits to be written."""
        return len(self._pending)

    @property
    def unsynced(self) -> bool:
        """Whether something was written, or waits to be, that a power cut would take."""
        return bool(self._pending) or self._files.unsynced

    @property
    def is_new(self) -> bool:
        """Whether its first file is still to be made."""
        return bool(self._pending) and self._files.first == self._files.end

    @property
    def files(self) -> QueueFiles:
        """Its files, for who puts them right."""
        return self._files

    def check_again(self, offset: QueueOffset, count: int) -> None:
        """Compare the files that have entries with their checksums, whenever that was last done.

        Raises:
            QueueDamaged: One is not as it was written.
            DiskError: One cannot be read.
        """
        start, end = offset * QUEUE_ENTRY_BYTES, (offset + count) * QUEUE_ENTRY_BYTES
        self._files.check_again(max(start, self._files.first), min(end, self._files.end))

    def mend(self, found: FileSum, crc: int, changes: Sequence[tuple[int, bytes]]) -> None:
        """Write what was found to be right where it is not; see `QueueFiles.mend`.

        Raises:
            DiskError: It cannot be written.
        """
        self.rewrites += 1
        self._files.mend(found, crc, changes)

    def append(self, entries: bytes, first_offset: QueueOffset) -> int:
        """Add entries, the first at ``first_offset``. To add again what is there is no harm.

        Entries that are there with other bytes are replaced, and everything behind them goes.
        Gives by how much that changed what waits to be written.

        Raises:
            QueueDamaged: What is there cannot be compared.
            DiskError: As before.
        """
        before = len(self._pending)
        if first_offset != self._max:
            entries = self._fit(entries, first_offset)
        if entries:
            self._pending += entries
            self._max += len(entries) // QUEUE_ENTRY_BYTES
            offset, size, _ = QUEUE_ENTRY.unpack_from(entries, len(entries) - QUEUE_ENTRY_BYTES)
            if size != BLANK_SIZE:
                self._log_end = offset + size
        return len(self._pending) - before

    def _fit(self, entries: bytes, first_offset: QueueOffset) -> bytes:
        """Give those of the entries that are new, and have the queue end where they start."""
        if first_offset > self._max:
            self._fill_up_to(first_offset)
            return entries
        first = self.first_offset
        if first_offset < first:
            # Retention removed the file they were in.
            entries = entries[(first - first_offset) * QUEUE_ENTRY_BYTES :]
            first_offset = first
        there = self.entries(first_offset, len(entries) // QUEUE_ENTRY_BYTES)
        if there != entries[: len(there)]:
            log.warning(
                "queue entries differ from the log directory=%s offset=%d",
                self._files.directory,
                first_offset,
            )
            self.cut(first_offset)
            return entries
        return entries[len(there) :]

    def _fill_up_to(self, offset: int) -> None:
        if self._max == 0:
            start = self._files.start_of_file(offset * QUEUE_ENTRY_BYTES)
            self._files.start_at(start)
            self._max = start // QUEUE_ENTRY_BYTES
            self._min, self._min_at = offset, -1
            blank = BLANK_ENTRY
        else:
            log.warning(
                "queue has a gap directory=%s from=%d to=%d",
                self._files.directory,
                self._max,
                offset,
            )
            blank = QUEUE_ENTRY.pack(self._log_end, BLANK_SIZE, 0)
            if self._min == self._max:
                self._min, self._min_at = offset, -1  # nothing before the gap is left in the log
        self._pending += blank * (offset - self._max)
        self._max = offset

    def start_at(self, offset: QueueOffset) -> None:
        """Give the first entry of a queue that has none yet an offset other than 0."""
        assert self._max == 0
        if offset:
            self._fill_up_to(offset)

    def entries(self, offset: QueueOffset, count: int) -> bytes:
        """Give up to ``count`` entries from ``offset`` on; fewer only where the queue ends.

        Raises:
            QueueDamaged: They are not as they were written.
            DiskError: They cannot be read.
        """
        assert offset >= self.first_offset
        at = offset * QUEUE_ENTRY_BYTES
        end = min(offset + count, self._max) * QUEUE_ENTRY_BYTES
        written = self._files.end
        if at >= end:
            return b""
        if at >= written:
            return bytes(self._pending[at - written : end - written])
        data = self._files.read(at, min(end, written) - at)
        return data + self._pending[: end - written] if end > written else data

    def _entry(self, offset: int) -> tuple[int, int, int]:
        """One entry, to find out where another is."""
        at = offset * QUEUE_ENTRY_BYTES
        entry: tuple[int, int, int]
        if at >= self._files.end:
            entry = QUEUE_ENTRY.unpack_from(self._pending, at - self._files.end)
        else:
            entry = QUEUE_ENTRY.unpack(self._files.glance(at))
        return entry

    def write_pending(self) -> None:
        """Write what was appended; it is in the page cache on return.

        Raises:
            DiskError: Not all of it was; what was not waits on, and is readable as before.
        """
        if self._pending:
            before = self._files.end
            try:
                self._files.append(bytes(self._pending))
            finally:
                del self._pending[: self._files.end - before]

    def sync(self) -> None:
        """Return once everything that was appended survives a power cut.

        Raises:
            DiskError: It may not; the files are not to be synced again.
        """
        self.begin_sync().now()

    def begin_sync(self) -> PendingSync:
        """Write what was appended, and have it survive a power cut.

        Raises:
            DiskError: It cannot be written.
        """
        self.write_pending()
        return self._files.begin_sync()

    def was_synced(self) -> None:
        """Take note that everything which was written survives a power cut; nothing waits."""
        assert not self._pending
        self._files.was_synced()

    def sums(self) -> list[FileSum]:
        """The checksums of what was synced last, of the files that have one."""
        return self._files.sums()

    def find(self, log_offset: LogOffset) -> QueueOffset:
        """The first entry whose record is at ``log_offset`` or behind it; the end if none is.

        Raises:
            QueueDamaged: An entry is not as it was written.
            DiskError: The entries cannot be read.
        """
        low, high = int(self.first_offset), self._max
        while low < high:
            middle = (low + high) // 2
            offset, size, _ = self._entry(middle)
            if offset < log_offset or (size == BLANK_SIZE and offset == 0):
                low = middle + 1
            else:
                high = middle
        return QueueOffset(low)

    def set_min(self, log_first: LogOffset) -> None:
        """Have ``min_offset`` be that of the first message which is still in the log.

        Raises:
            QueueDamaged: An entry is not as it was written.
            DiskError: The entries cannot be read.
        """
        at = int(self.find(log_first))
        self._min_at = -1
        while at < self._max:
            offset, size, _ = self._entry(at)
            if size != BLANK_SIZE:
                self._min_at = offset
                break
            at += 1
        self._min = at

    def truncate(self, log_end: LogOffset) -> None:
        """Drop the entries of records that are not before ``log_end``.

        Raises:
            QueueDamaged: An entry is not as it was written.
            DiskError: The files cannot be cut.
        """
        if self._log_end > log_end:
            self.cut(self.find(log_end))

    def cut(self, offset: QueueOffset) -> None:
        """Drop the entry at ``offset`` and everything behind it.

        Raises:
            QueueDamaged: The entry before it is not as it was written.
            DiskError: The files cannot be cut.
        """
        if offset >= self._max:
            return
        self.rewrites += 1
        at = offset * QUEUE_ENTRY_BYTES
        del self._pending[max(0, at - self._files.end) :]
        if at < self._files.end:
            self._files.cut(at)
        self._max = int(offset)
        if self._min >= self._max:
            self._min, self._min_at = self._max, -1
        self._log_end = self._end_of_last()

    def _end_of_last(self) -> int:
        for at in range(self._max - 1, self.first_offset - 1, -1):
            offset, size, _ = self._entry(at)
            if size != BLANK_SIZE:
                return offset + size
            if offset:
                return offset
        return 0

    def delete_before(self, log_first: LogOffset) -> int:
        """Do without the files all of whose records are gone from the log, but never the last one.

        Gives the number of files, which `OpenFiles.remove_doomed` removes.

        Raises:
            QueueDamaged: An entry is not as it was written.
            DiskError: An entry cannot be read.
        """
        removed = 0
        if self._min_at >= log_first:
            return removed
        for end in self._files.ends_of_full_files():
            offset, size, _ = self._entry(end // QUEUE_ENTRY_BYTES - 1)
            if offset >= log_first and size != BLANK_SIZE:
                break
            self._files.remove_first()
            removed += 1
        self.set_min(log_first)
        return removed

    def doom(self) -> None:
        """Start anew; `OpenFiles.remove_doomed` removes the files."""
        self._files.doom()
        self._start_anew()

    def destroy(self) -> None:
        """Remove every file; the queue starts anew.

        Raises:
            DiskError: A file cannot be removed.
        """
        self._files.destroy()
        self._start_anew()

    def _start_anew(self) -> None:
        self.rewrites += 1
        self._pending.clear()
        self._min = self._max = self._log_end = 0
        self._min_at = -1

    def recover(
        self,
        log_first: LogOffset,
        log_end: LogOffset,
        sums: Sequence[FileSum] | None = None,
        *,
        clean: bool = False,
    ) -> bool:
        """Take over the files that are there, as far as they are right; False if not all were.

        ``sums`` are those of the last sync: what they speak of must be there, and what lies behind
        it is dropped. Without them everything is kept that can be right, by the look of it. In
        either case nothing is kept of records behind ``log_end``. What is missing is then to be
        appended again, from the record at ``self.log_end`` on. ``clean`` says that nothing was
        written since ``sums`` were.

        Raises:
            DiskError: The files cannot be read, or not be cut.
        """
        try:
            whole = self._files.recover(log_end, sums, clean=clean)
            self._max = self._files.end // QUEUE_ENTRY_BYTES
            self._log_end = self._end_of_last()
            self.truncate(log_end)
            self.set_min(log_first)
        except QueueDamaged as damage:
            log.warning("queue is written again from the log reason=%s", damage)
            self.destroy()
            return False
        return whole
