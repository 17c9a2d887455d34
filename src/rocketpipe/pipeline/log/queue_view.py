"""The entries of one consume queue, read from its files while another process writes them.

``store.queues.entries`` has the bytes of an entry. Files are sparse: where nothing was written yet
they read as zeros. What the files do not have any more, or never had, reads as blank entries.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from rocketpipe.pipeline.columns.byte_runs import Ints, Mask
from rocketpipe.store.files.disk import Closing, Disk, DiskError, DiskFile
from rocketpipe.store.layout import file_name, offset_of
from rocketpipe.store.queues.entries import BLANK_SIZE, QUEUE_ENTRY, QUEUE_ENTRY_BYTES

ENTRY: Final = np.dtype([("at", ">i8"), ("size", ">i4"), ("tag", ">i8")])
#: An array of `ENTRY`.
Entries = npt.NDArray[Any]

#: As bytes without a meaning they are copied at once, and not field by field.
_RAW: Final = np.dtype((np.void, ENTRY.itemsize))

#: The entry that a search led to is most often the one; who looks on, looks at many.
_FIRST_LOOK: Final = 16
_FURTHER_LOOKS: Final = 4096

#: Queues of a topic are often about as long: so far from the end of another one is looked next.
_FIRST_STEP: Final = 64

#: How much of a file a search reads at once: whole entries, about a page.
_BLOCK_BYTES: Final = 200 * QUEUE_ENTRY_BYTES

#: The tag code of an entry that was not read but concluded: nobody has hashed its tag.
NO_TAG_CODE: Final = -(1 << 63)


class QueueView:
    """From the first entry that files have to the last that may be shown."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        confirmed: int | None,
        tail: tuple[Ints, Entries] | None = None,
        near: int = -1,
    ) -> None:
        """Look at a queue; ``tail`` are entries that the files may lack, and their offsets.

        Its end is looked for ``near`` that of another one, if that is given.
        """
        self._disk = disk
        self._directory = directory
        self._bases: list[int] = []
        self._file_bytes = 0
        self._held: tuple[int, DiskFile] | None = None
        #: What a search read last of that file, and where it begins.
        self._block: tuple[int, bytes] = (0, b"")
        self._is_searching = False
        self._tail_offsets: Ints = np.empty(0, np.int64)
        self._tail: Entries = np.empty(0, ENTRY)
        with self._searching():
            self._look(confirmed, tail, near)

    def _look(self, confirmed: int | None, tail: tuple[Ints, Entries] | None, near: int) -> None:
        self._list_files()
        self.first = self._bases[0] // QUEUE_ENTRY_BYTES if self._bases else 0
        # Until their end is found, every file counts as full.
        full = self._bases[-1] + self._file_bytes if self._bases else 0
        self._written = full // QUEUE_ENTRY_BYTES
        self._written = self._end_of_files(near)
        if confirmed is not None:
            self._written = self._bisect(lambda at, size: at + size > confirmed)
        self.end = self._written
        #: The entry that ``first`` is, if files have it.
        self._oldest = self._entry(self.first) if self.first < self._written else None
        if tail is not None and tail[0].size and int(tail[0][-1]) >= self.end:
            new = tail[0] >= self.end
            self._tail_offsets, self._tail = tail[0][new], tail[1][new]
            self.end = int(self._tail_offsets[-1]) + 1
            if not self._bases:
                self.first = int(self._tail_offsets[0])

    @property
    def has_files(self) -> bool:
        """Whether there is any file of this queue, or anything in the log that belongs into one."""
        return bool(self._bases) or self._tail_offsets.size > 0

    def _list_files(self) -> None:
        try:
            names = self._disk.names(self._directory)
        except DiskError as error:
            if error.errno == errno.ENOENT:
                return
            raise
        self._bases = sorted(base for name in names if (base := offset_of(name)) is not None)
        while self._bases:
            path = self._directory / file_name(self._bases[0])
            try:
                file = self._disk.open(path, writable=False)
                self._held = (self._bases[0], file)  # it is looked at next
                self._file_bytes = file.size()
                return
            except DiskError as error:
                if error.errno != errno.ENOENT:
                    raise
                del self._bases[0]  # the oldest go while this looks

    @property
    def written(self) -> int:
        """Where what may be shown of the files ends."""
        return self._written

    def _end_of_files(self, near: int) -> int:
        """Where zeros begin: entries are written in order, and none has a size of 0."""
        low, high = self.first, self.first
        for base in reversed(self._bases):
            if self._entry(base // QUEUE_ENTRY_BYTES)[1]:
                low = base // QUEUE_ENTRY_BYTES
                high = (base + self._file_bytes) // QUEUE_ENTRY_BYTES
                break
        step = _FIRST_STEP
        while low <= near < high:
            if self._entry(near)[1]:
                low, near = near + 1, near + step
            else:
                high, near = near, near - step
            step *= _FIRST_STEP
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[1]:
                low = middle + 1
            else:
                high = middle
        return low

    def _bisect(self, beyond: Callable[[int, int], bool]) -> int:
        """The first entry of the files that is beyond a place of the log, as all behind it are."""
        low, high = self.first, self._written

        def is_beyond(offset: int) -> bool:
            at, size, _ = self._entry(offset)
            return beyond(at, 0 if size == BLANK_SIZE else size)

        # Mostly it is one of the two ends.
        if low < high and not is_beyond(high - 1):
            return high
        if low < high and is_beyond(low):
            return low
        while low < high:
            middle = (low + high) // 2
            if is_beyond(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def cut_where(self, is_torn: Callable[[int], bool]) -> None:
        """Drop the entries at the end whose records are not there as a whole."""
        with self._searching():
            if self.end <= self.first or not self._torn(self.end - 1, is_torn):
                return
            low, high = self.first, self.end - 1
            while low < high:
                middle = (low + high) // 2
                if self._torn(middle, is_torn):
                    high = middle
                else:
                    low = middle + 1
            self.end = self._written = low

    def _torn(self, offset: int, is_torn: Callable[[int], bool]) -> bool:
        at, size, _ = self._entry(offset)
        return size != BLANK_SIZE and is_torn(at)

    def first_behind(self, log_offset: int) -> int:
        """The first entry of a record at ``log_offset`` or behind it; the end if there is none."""
        if self._oldest is not None and self.first < self.end:
            place, size, _ = self._oldest
            if size not in (0, BLANK_SIZE) and place >= log_offset:
                return self.first
        with self._searching():
            at = self._bisect(lambda place, size: place >= log_offset and (size > 0 or place > 0))
        count = _FIRST_LOOK
        while at < self.end:
            entries = self.entries(at, min(at + count, self.end))
            there = np.flatnonzero((entries["size"] != BLANK_SIZE) & (entries["at"] >= log_offset))
            if there.size:
                return at + int(there[0])
            at += entries.size
            count = _FURTHER_LOOKS
        return self.end

    def entries(self, start: int, end: int) -> Entries:
        """The entries of these offsets, blank ones where there are none."""
        if self.first <= start < end <= self._written:
            data = self._read(start, end - start)
            if data.size == end - start:
                return data
        found = _blanks(max(0, end - start))
        at = max(start, self.first)
        while at < min(end, self._written):
            data = self._read(at, min(end, self._written) - at)
            if not data.size:
                break
            found.view(_RAW)[at - start : at - start + data.size] = data.view(_RAW)
            at += data.size
        if self._tail_offsets.size and end > self._written:
            low, high = np.searchsorted(self._tail_offsets, [start, end])
            found[self._tail_offsets[low:high] - start] = self._tail[low:high]
        return found

    def bytes_of(self, start: int, end: int) -> int:
        """How long the records of these offsets are together."""
        total = 0
        for at in range(start, end, 100_000):
            sizes = self.entries(at, min(at + 100_000, end))["size"]
            total += int(sizes[sizes != BLANK_SIZE].sum(dtype=np.int64))
        return total

    @contextmanager
    def _searching(self) -> Iterator[None]:
        """Entries are looked up one by one within the block: their file stays open."""
        self._is_searching = True
        try:
            yield
        finally:
            self._is_searching = False
            self._let_go()

    @contextmanager
    def _opened(self, base: int) -> Iterator[DiskFile]:
        if self._held is None or self._held[0] != base:
            self._let_go()
            path = self._directory / file_name(base)
            self._held = (base, self._disk.open(path, writable=False))
        try:
            yield self._held[1]
        finally:
            if not self._is_searching:
                self._let_go()

    def _let_go(self) -> None:
        if self._held is not None:
            self._held[1].close()
            self._held = None
            self._block = (0, b"")

    def _read(self, offset: int, count: int) -> Entries:
        """Entries of one file, up to its end; those of one that is gone are blank."""
        place = offset * QUEUE_ENTRY_BYTES
        base = self._bases[bisect_right(self._bases, place) - 1]
        size = min(count * QUEUE_ENTRY_BYTES, base + self._file_bytes - place)
        if size <= 0:
            return _blanks(count)  # a file is missing between two others
        try:
            with self._opened(base) as file:
                data = file.read(size, place - base)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            return _blanks(size // QUEUE_ENTRY_BYTES)
        return np.frombuffer(data, ENTRY, len(data) // QUEUE_ENTRY_BYTES)

    def _searched(self, base: int, file: DiskFile, place: int) -> bytes:
        """An entry of the file that is open; what is near it is asked for next."""
        begin, block = self._block
        if not 0 <= place - begin <= len(block) - QUEUE_ENTRY_BYTES:
            begin = base + (place - base) // _BLOCK_BYTES * _BLOCK_BYTES
            block = file.read(min(_BLOCK_BYTES, base + self._file_bytes - begin), begin - base)
            self._block = (begin, block)
        return block[place - begin : place - begin + QUEUE_ENTRY_BYTES]

    def _entry(self, offset: int) -> tuple[int, int, int]:
        if offset >= self._written:
            entry = self.entries(offset, offset + 1)[0]
            return int(entry["at"]), int(entry["size"]), int(entry["tag"])
        place = offset * QUEUE_ENTRY_BYTES
        data = b""
        # A search asks for one after the other, mostly of the same file.
        if self._held is not None and 0 <= place - self._held[0] < self._file_bytes:
            data = self._searched(*self._held, place)
        if len(data) != QUEUE_ENTRY_BYTES:
            data = self._read(offset, 1).tobytes()
        if not data:
            return 0, 0, 0
        at, size, tag = QUEUE_ENTRY.unpack(data)
        return at, size, tag


class PlannedQueue(Closing):
    """Entries of ranges that somebody has found a queue to have: nothing is looked for.

    So this costs a small part of a view. The file that was read last stays open.
    """

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._held: tuple[int, DiskFile] | None = None

    def close(self) -> None:
        """Close the file."""
        if self._held is not None:
            self._held[1].close()
            self._held = None

    def entries(self, start: int, end: int) -> Entries | None:
        """The entries of a range, if one file has them all.

        Raises:
            DiskError: If the file cannot be read.
        """
        found = self._read(start, end) if self._held is not None else None
        if found is None:
            try:
                self._open(start)
                found = self._read(start, end)
            except DiskError as error:
                if error.errno != errno.ENOENT:
                    raise
        return found

    def _open(self, start: int) -> None:
        """Open the file that an entry is in, if there is one."""
        self.close()
        place = start * QUEUE_ENTRY_BYTES
        names = self._disk.names(self._directory)
        bases = [base for name in names if (base := offset_of(name)) is not None and base <= place]
        if bases:
            path = self._directory / file_name(max(bases))
            self._held = (max(bases), self._disk.open(path, writable=False))

    def _read(self, start: int, end: int) -> Entries | None:
        place, size = start * QUEUE_ENTRY_BYTES, (end - start) * QUEUE_ENTRY_BYTES
        if self._held is None or place < self._held[0]:
            return None
        base, file = self._held
        data = file.read(size, place - base)
        found: Entries = np.frombuffer(data, ENTRY, len(data) // QUEUE_ENTRY_BYTES)
        return found if found.size == end - start and found["size"].all() else None


def chosen(entries: Entries, kept: Mask) -> Entries:
    """Those of the entries that are marked."""
    return entries if kept.all() else entries.view(_RAW)[kept].view(ENTRY)


def joined(pieces: Sequence[Entries]) -> Entries:
    """Entries behind each other, which numpy would turn into this machine's order of bytes."""
    return np.concatenate([piece.view(_RAW) for piece in pieces]).view(ENTRY)


def in_order(entries: Entries, order: Ints) -> Entries:
    """The entries in another order."""
    return entries.view(_RAW)[order].view(ENTRY)


def _blanks(count: int) -> Entries:
    blank = np.zeros(count, ENTRY)
    blank["size"] = BLANK_SIZE
    return blank
