"""The files of one consume queue, as one run of entries that is only appended to and cut.

A file is named for its first byte, and all are of one size. They are made sparse: what is not
written takes no room and reads as zeros, which is where the queue ends.

Nothing in the files is checksummed. Their checksums are kept beside them: here in memory, and by
whoever saves what ``sums`` gives. A file is compared with its checksum when it is first read, and a
small one again from time to time. One that differs is read no more until ``queue_repair`` has put
it right.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.errors import QueueDamaged
from rocketpipe.store.files.background_sync import PendingSync
from rocketpipe.store.files.disk import Disk, DiskFile
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.layout import file_name, offset_of
from rocketpipe.store.queues.entries import NO_ENTRY, QUEUE_ENTRY_BYTES
from rocketpipe.store.queues.queue_look import look_through

log = logging.getLogger(__name__)

#: A file with no more than this is compared with its checksum whenever something is read from it,
#: any other when its entries are given to somebody.
CHECKED_AT_ONCE_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class FileSum:
    """The checksum of a file's first ``count`` entries; ``base`` is the file's first byte."""

    base: int
    count: int
    crc: int

    @property
    def end(self) -> int:
        """The byte of the queue behind the last of these entries."""
        return self.base + self.count * QUEUE_ENTRY_BYTES


class QueueFiles:
    """Entries on disk, by their place in bytes, from ``first`` to ``end``."""

    __slots__ = (
        "_bad",
        "_bases",
        "_checked",
        "_dirty",
        "_disk",
        "_file_bytes",
        "_files",
        "_new_names",
        "_paths",
        "_sums",
        "_synced_sums",
        "directory",
        "end",
    )

    def __init__(self, disk: Disk, files: OpenFiles, directory: Path, file_bytes: int) -> None:
        assert file_bytes > 0
        assert file_bytes % QUEUE_ENTRY_BYTES == 0
        self.directory = directory
        #: Where the next entry will be written.
        self.end = 0
        self._disk = disk
        self._files = files
        self._file_bytes = file_bytes
        #: First bytes of the files, each right behind the one before it.
        self._bases: list[int] = []
        self._paths: dict[int, Path] = {}
        #: Files written to since they were synced, and whether names came or went.
        self._dirty: set[int] = set()
        self._new_names = False
        #: Count of entries and checksum by file, and the files that were found to have them.
        self._sums: dict[int, tuple[int, int]] = {}
        self._synced_sums: list[FileSum] = []
        #: When each file was last found to be as it was written, and those that were found not to.
        self._checked: dict[int, int] = {}
        self._bad: set[int] = set()

    @property
    def first(self) -> int:
        """Where the first file begins, or will."""
        return self._bases[0] if self._bases else self.end

    @property
    def unsynced(self) -> bool:
        """Whether something was written that a power cut would take."""
        return bool(self._dirty or self._new_names)

    def start_of_file(self, at: int) -> int:
        """Where the file begins that has, or would have, this byte."""
        return at - at % self._file_bytes

    def ends_of_full_files(self) -> list[int]:
        """Where each file ends but the last."""
        return self._bases[1:]

    def read(self, at: int, size: int) -> bytes:
        """Give entries that were written.

        Raises:
            QueueDamaged: They are not as they were written.
            DiskError: They cannot be read.
        """
        assert self.first <= at
        assert at + size <= self.end
        parts = []
        while size > 0:
            base = self.start_of_file(at)
            part = min(size, base + self._file_bytes - at)
            if self._checked.get(base) != self._files.age:
                self._check(base)
            parts.append(self._read(base, at, part))
            at += part
            size -= part
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def glance(self, at: int) -> bytes:
        """Give one entry without checking a large file for it.

        Raises:
            QueueDamaged: It is not there, or not as it was written.
            DiskError: It cannot be read.
        """
        base = self.start_of_file(at)
        if self._checked.get(base) != self._files.age and self._is_small(base):
            self._check(base)
        return self._read(base, at, QUEUE_ENTRY_BYTES)

    def check_again(self, start: int, end: int) -> None:
        """Compare the files between two bytes with their checksums, whenever that was last done.

        Raises:
            QueueDamaged: One is not as it was written.
            DiskError: One cannot be read.
        """
        for base in range(self.start_of_file(start), end, self._file_bytes):
            self._checked.pop(base, None)
            self._check(base)

    @property
    def damaged(self) -> list[FileSum]:
        """The files that are to be put right, with the checksums that they should have."""
        return [FileSum(base, *self._sums[base]) for base in sorted(self._bad)]

    def as_it_is(self, at: int, size: int) -> bytes:
        """Give bytes of one file whatever they are worth, and zeros where it ends too early.

        Raises:
            DiskError: They cannot be read.
        """
        base = self.start_of_file(at)
        return self._files.get(self._path(base)).read(size, at - base).ljust(size, b"\0")

    def mend(self, found: FileSum, crc: int, changes: Sequence[tuple[int, bytes]]) -> None:
        """Write what was found to be right where it is not; ``found`` is as `damaged` gave it.

        ``crc`` is the checksum of those entries as they are to be. A file that went, or was cut,
        in the meantime is let be.

        Raises:
            DiskError: It cannot be written.
        """
        known = self._sums.get(found.base)
        if found.base not in self._bad or known is None or known[0] < found.count:
            self._bad.discard(found.base)
            return
        file = self._files.get(self._path(found.base))
        if file.size() != self._file_bytes:
            file.truncate(self._file_bytes)
        for at, data in changes:
            file.write(data, at - found.base)
        self._dirty.add(found.base)
        if crc != found.crc:
            # Something in it cannot be told from the log any more: it is what it is from now on.
            whole = file.read(known[0] * QUEUE_ENTRY_BYTES, 0)
            self._sums[found.base] = (known[0], crc32(whole))
        self._bad.discard(found.base)
        self._checked[found.base] = self._files.age

    def _read(self, base: int, at: int, size: int) -> bytes:
        path = self._path(base)
        data = self._files.get(path).read(size, at - base)
        if len(data) != size:
            raise QueueDamaged(path, at - base, "the file ends before its entries do")
        return data

    def _is_small(self, base: int) -> bool:
        return self._sums.get(base, (0, 0))[0] * QUEUE_ENTRY_BYTES <= CHECKED_AT_ONCE_BYTES

    def _check(self, base: int) -> None:
        known = self._sums.get(base)
        if known is not None and (base not in self._checked or self._is_small(base)):
            count, crc = known
            path = self._path(base)
            if base not in self._bad:
                data = self._files.get(path).read(count * QUEUE_ENTRY_BYTES, 0)
                if crc32(data) != crc or len(data) != count * QUEUE_ENTRY_BYTES:
                    self._bad.add(base)
            if base in self._bad:
                raise QueueDamaged(path, 0, "the entries are not those that were written")
        self._checked[base] = self._files.age

    def start_at(self, at: int) -> None:
        """Have the first file begin at ``at``; there are no files yet."""
        assert not self._bases
        assert at % self._file_bytes == 0
        self.end = at

    def append(self, entries: bytes) -> None:
        """Write entries at the end; they are in the page cache on return.

        Raises:
            DiskError: Not all were written; ``end`` is behind those that were.
        """
        rest = memoryview(entries)
        while rest:
            base = self.start_of_file(self.end)
            part = rest[: base + self._file_bytes - self.end]
            count, crc = self._sums.get(base, (0, 0))
            assert count * QUEUE_ENTRY_BYTES == self.end - base
            self._file_to_write(base).write(part, self.end - base)
            self._dirty.add(base)
            self._sums[base] = (count + len(part) // QUEUE_ENTRY_BYTES, crc32(part, crc))
            self.end += len(part)
            rest = rest[len(part) :]

    def _file_to_write(self, base: int) -> DiskFile:
        path = self._path(base)
        if self._bases and base <= self._bases[-1]:
            return self._files.get(path)
        if not self._bases:
            self._files.make_directory(self.directory)
        file = self._files.create(path, self._file_bytes)
        self._bases.append(base)
        self._checked[base] = self._files.age
        self._new_names = True
        return file

    def sync(self) -> None:
        """Return once everything that was written survives a power cut.

        That the directory itself does is for `OpenFiles.sync_directories`.

        Raises:
            DiskError: It may not; the files are not to be synced again.
        """
        self.begin_sync().now()

    def begin_sync(self) -> PendingSync:
        """Have everything that was written so far survive a power cut, as `sync` does.

        Raises:
            DiskError: A file cannot be opened.
        """
        files = self._files.begin_sync([self._path(base) for base in sorted(self._dirty)])
        dirty, new_names = self._dirty, self._new_names
        self._dirty, self._new_names = set(), False
        sums = self._written_sums()

        def wait() -> None:
            files.wait()
            if new_names:
                self._disk.sync_directory(self.directory)

        def note() -> None:
            files.note()
            # What was cut or removed to be written again must be missed after a crash, or
            # nobody would; what retention took must not.
            self._synced_sums = [known for known in sums if known.base >= self.first]

        def undo() -> None:
            files.undo()
            self._dirty |= dirty & self._paths.keys()
            self._new_names |= new_names

        return PendingSync(wait, note, undo)

    def was_synced(self) -> None:
        """Take note that everything which was written survives a power cut."""
        self._dirty.clear()
        self._new_names = False
        self._synced_sums = self._written_sums()

    def _written_sums(self) -> list[FileSum]:
        return [FileSum(base, *self._sums[base]) for base in self._bases if base in self._sums]

    def sums(self) -> list[FileSum]:
        """The checksums of what was synced last, of the files that have one."""
        return self._synced_sums

    def cut(self, end: int) -> None:
        """Drop what is at ``end`` and behind it: it reads as zeros, and takes no room.

        Raises:
            DiskError: The files cannot be cut.
        """
        while self._bases and self._bases[-1] >= end:
            self._remove(self._bases.pop())
        base = self.start_of_file(end)
        count = (end - base) // QUEUE_ENTRY_BYTES
        if base in self._paths and self._sums.get(base, (-1, 0))[0] != count:
            kept = self._files.get(self._paths[base]).read(end - base, 0)
            self._sums[base] = (count, crc32(kept))
            self._zero(base, end)
        self.end = end

    def _zero(self, base: int, end: int) -> None:
        file = self._files.get(self._paths[base])
        file.truncate(end - base)
        file.truncate(self._file_bytes)
        self._dirty.add(base)

    def remove_first(self) -> None:
        """Do without the first file; `OpenFiles.remove_doomed` removes it."""
        base = self._bases.pop(0)
        self._files.doom(self._path(base))
        self._forget(base)
        self._synced_sums = [known for known in self._synced_sums if known.base != base]

    def doom(self) -> None:
        """Do without any file; `OpenFiles.remove_doomed` removes them."""
        while self._bases:
            base = self._bases.pop()
            self._files.doom(self._path(base))
            self._forget(base)
        self.end = 0

    def destroy(self) -> None:
        """Remove every file.

        Raises:
            DiskError: One cannot be removed.
        """
        while self._bases:
            self._remove(self._bases.pop())
        self.end = 0

    def _remove(self, base: int) -> None:
        path = self._path(base)
        self._files.forget(path)
        self._disk.remove(path)
        self._forget(base)

    def _forget(self, base: int) -> None:
        self._paths.pop(base, None)
        self._dirty.discard(base)
        self._sums.pop(base, None)
        self._checked.pop(base, None)
        self._bad.discard(base)
        self._new_names = True

    def _path(self, base: int) -> Path:
        path = self._paths.get(base)
        if path is None:
            path = self._paths[base] = self.directory / file_name(base)
        return path

    def recover(self, log_end: LogOffset, sums: Sequence[FileSum] | None, *, clean: bool) -> bool:
        """Take over the files that are there, as far as they are right; False if not all were.

        ``sums`` are those of the last sync: what they speak of must be there, and what lies behind
        it is dropped. Without them everything is kept that can be right, by the look of it, and
        belongs to a record before ``log_end``. ``clean`` says that nothing was written since.

        Raises:
            QueueDamaged: Nothing of them can be used.
            DiskError: The files cannot be read, or not be cut.
        """
        whole = self._take_files(sums[0].base if sums else 0)
        held = self._bases[-1] + self._file_bytes if self._bases else 0
        if sums is None:
            found = look_through(self._files, list(self._paths.items()), self._file_bytes, log_end)
            end, self._sums = found.end, found.sums
            whole = whole and found.only_zeros
            # Nobody has noted what they are like: the next sync does.
            self._dirty.update(self._sums)
        else:
            self._synced_sums = list(sums)
            self._sums = {
                known.base: (known.count, known.crc) for known in sums if known.base in self._paths
            }
            if sums and sums[0].base not in self._paths:
                raise QueueDamaged(self.directory, sums[0].base, "its first file is not there")
            # What was made after the last sync may be in any state; it goes.
            end = max((known.end for known in sums), default=0)
            whole = end <= held
            end = min(end, held)
            if self._bases and self._is_small(self._bases[-1]):
                self._check(self._bases[-1])
        if not self._bases or end <= self._bases[0]:
            whole = whole and not sums
            self.destroy()
        else:
            self._end_at(end, clean=clean)
        return whole

    def _end_at(self, end: int, *, clean: bool) -> None:
        """Have the queue end at ``end``, with nothing but zeros behind it."""
        self.cut(end)
        base = self.start_of_file(end)
        if base in self._paths:
            file = self._files.get(self._paths[base])
            if not clean or file.read(QUEUE_ENTRY_BYTES, end - base) != NO_ENTRY:
                self._zero(base, end)

    def _take_files(self, first: int) -> bool:
        """Find files that follow each other, from ``first`` on; all others are removed."""
        whole = True
        for name in self._disk.names(self.directory):
            base = offset_of(name)
            if base is None:
                continue
            path = self.directory / name
            follows = not self._bases or base == self._bases[-1] + self._file_bytes
            if base < first:
                # Retention had removed it, and a power cut brought it back.
                self._disk.remove(path)
                self._new_names = True
                continue
            if base % self._file_bytes or not follows:
                log.warning("queue file is out of place, and removed file=%s", path)
                self._disk.remove(path)
                self._new_names = True
                whole = False
                continue
            file = self._files.get(path)
            if file.size() != self._file_bytes:
                log.warning("queue file has an odd length file=%s bytes=%d", path, file.size())
                file.truncate(self._file_bytes)
                self._dirty.add(base)
                whole = False
            self._bases.append(base)
            self._paths[base] = path
        return whole
