"""Equally large files in one directory that together hold one sequence of bytes.

Each is named for the position of its first byte, and each begins where the one before it ends. A
new one is made under another name and gets its own when it has its length, its room and its
zeros, so that no file of a wrong length is ever found under a right name:

    create …tmp → preallocate → sync → rename → sync the directory

With ``preallocate`` off, files are sparse and nothing is synced: that is for what can be made anew
from the log.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rocketpipe.descriptors import shares
from rocketpipe.store.errors import OddSegment
from rocketpipe.store.files.background_sync import PendingSync
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.layout import UNFINISHED, file_name, offset_of
from rocketpipe.store.log.segment import Segment

log = logging.getLogger(__name__)

_CHUNK: Final = 1 << 20


class SegmentRun:
    """Reads and writes at positions of the whole sequence, and makes and removes its files.

    One thread writes; another may make the next file ahead of need with `prepare_next`.
    """

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        size: int,
        *,
        preallocate: bool,
    ) -> None:
        """Open the files that are there; ``size`` is of new ones, if there are none yet.

        A last file without any bytes is what a crash may leave, and is removed.

        Raises:
            OddSegment: A file has another length than the rest, or there is a gap.
            DiskError: The directory cannot be used.
        """
        self._disk = disk
        self._directory = directory
        self._preallocate = preallocate
        self._making = threading.Lock()
        self._thread = threading.get_ident()
        self._most_open = shares().log_files
        #: Segments whose files were opened, those opened last at the end.
        self._opened: deque[Segment] = deque()
        self._prepared: Segment | None = None
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self.size = size
        disk.make_directory(directory)
        disk.keepers.add(self)
        self._open_existing()
        if self._segments and preallocate:
            # The run that named the last of them may have died before the name was durable.
            disk.sync_directory(directory)

    def _open_existing(self) -> None:
        found: list[tuple[int, Path, int]] = []
        for name in self._disk.names(self._directory):
            path = self._directory / name
            base = offset_of(name)
            if base is not None:
                # Not kept open: there may be more of them than descriptors.
                with self._disk.open(path, writable=False) as file:
                    found.append((base, path, file.size()))
            elif name.endswith(UNFINISHED):
                self._disk.remove(path)
        if found and found[-1][2] == 0:
            _, path, _ = found.pop()
            log.warning("empty segment removed path=%s", path)
            self._disk.remove(path)
        if found:
            self.size = found[0][2]
        for base, path, length in found:
            if length != self.size or length == 0:
                raise OddSegment(path, f"{length} bytes long where others have {self.size}")
            if self._bases and base != self._segments[-1].end:
                raise OddSegment(path, f"begins at {base}, not at {self._segments[-1].end}")
            if base % self.size:
                raise OddSegment(path, f"is not named for a multiple of its {self.size} bytes")
            self._add(Segment(self._disk, path, base, self.size, self._note_open))

    @property
    def segments(self) -> list[Segment]:
        """All segments, the oldest first."""
        return list(self._segments)

    @property
    def first(self) -> int:
        """The position of the first byte there is; 0 if there is none."""
        return self._bases[0] if self._bases else 0

    @property
    def end(self) -> int:
        """The position behind the last byte there is room for; 0 if there is none."""
        return self._segments[-1].end if self._segments else 0

    def find(self, offset: int) -> Segment | None:
        """The segment that holds a position, if there is one."""
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return None
        segment = self._segments[index]
        return segment if offset < segment.end else None

    def read(self, offset: int, size: int) -> bytes:
        """The ``size`` bytes at ``offset``, or fewer where its segment ends; none without one.

        Raises:
            DiskError: They cannot be read.
        """
        segment = self.find(offset)
        return b"" if segment is None else segment.read(offset, size)

    def read_apart(self, offset: int, size: int) -> bytes:
        """The same for any thread: what this one has open may be closed behind another's back.

        Raises:
            DiskError: They cannot be read.
        """
        if threading.get_ident() == self._thread:
            return self.read(offset, size)
        segment = self.find(offset)
        if segment is None:
            return b""
        with self._disk.open(segment.path, writable=False) as file:
            return file.read(min(size, segment.end - offset), offset - segment.base)

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Put bytes at ``offset``; one segment, which is there, holds them all.

        Raises:
            DiskError: Not all of them could be written; ``written`` says how many were.
        """
        segment = self.find(offset)
        assert segment is not None
        segment.write(offset, data)

    def open_all(self, offsets: Iterable[int]) -> None:
        """Make sure that what is written at several offsets cannot end for want of a descriptor.

        Raises:
            DiskError: Not all of their files can be open at once.
        """
        segments = [segment for offset in offsets if (segment := self.find(offset)) is not None]
        for segment in segments:
            segment.opened()
        for segment in segments:
            if not segment.is_open:  # it was spared for another
                cause = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                raise DiskError("open", segment.path, cause)

    def sync(self, start: int, end: int) -> None:
        """Return once the bytes from ``start`` to ``end`` survive a power cut.

        Raises:
            DiskError: They may not, and are not to be synced again.
        """
        for segment in self.segments:
            if segment.base < end and segment.end > start:
                segment.sync()

    def create_next(self, base: int | None = None) -> Segment:
        """Add a segment at the end; the first one begins at ``base``, a multiple of the size.

        Raises:
            DiskError: It cannot be made; nothing is left of it, and it may be tried again.
        """
        with self._making:
            at = self.end if self._segments else (base or 0)
            if self._prepared is not None and self._prepared.base != at:
                # It was made for a log that begins at 0, and this one does not.
                self._remove(self._prepared)
                self._prepared = None
            segment, self._prepared = self._prepared, None
            if segment is None:
                segment = self._make(at)
            self._add(segment)
        return segment

    def prepare_next(self) -> bool:
        """Make the next segment ahead of need; False if that was done already.

        Raises:
            DiskError: It cannot be made; nothing is left of it, and it may be tried again.
        """
        with self._making:
            if self._prepared is not None:
                return False
            self._prepared = self._make(self.end)
        return True

    def drop_prepared(self) -> None:
        """Remove the segment that was made ahead of need, if there is one.

        Raises:
            DiskError: It cannot be removed.
        """
        with self._making:
            segment, self._prepared = self._prepared, None
            if segment is not None:
                self._remove(segment)
                self._disk.sync_directory(self._directory)

    def _make(self, base: int) -> Segment:
        assert base % self.size == 0
        path = self._directory / file_name(base)
        unfinished = path.with_name(path.name + UNFINISHED)
        try:
            with self._disk.create(unfinished) as file:
                if self._preallocate:
                    file.preallocate(self.size)
                    file.sync()
                else:
                    file.truncate(self.size)
            self._disk.rename(unfinished, path)
        except BaseException:
            self._discard(unfinished)
            raise
        if self._preallocate:
            # Without its durable name the segment may not be used, nor lie in the way.
            try:
                self._disk.sync_directory(self._directory)
            except BaseException:
                self._discard(path)
                raise
        return Segment(self._disk, path, base, self.size, self._note_open)

    def _note_open(self, segment: Segment) -> None:
        self._opened.append(segment)
        if len(self._opened) > self._most_open and threading.get_ident() == self._thread:
            self._close_idle(len(self._opened) // 2)

    def spare(self) -> int:
        """Close what is idle, for somebody who needs a descriptor; gives how many that were."""
        if threading.get_ident() != self._thread:
            return 0  # what is given out on another thread may be in use at this moment
        return self._close_idle(len(self._opened) - 1)

    def _close_idle(self, most: int) -> int:
        """Close up to so many files, those first that were opened first; gives how many."""
        closed = 0
        for _ in range(most):
            segment = self._opened.popleft()
            if segment.is_idle:
                segment.close()
                closed += 1
            elif segment.is_open:
                self._opened.append(segment)
        return closed

    def _discard(self, path: Path) -> None:
        try:
            self._disk.remove(path)
        except DiskError:
            pass  # it was never made, or opening the run again removes it

    def _add(self, segment: Segment) -> None:
        # Readers on other threads look into both lists: the bases tell them what is there.
        self._segments.append(segment)
        self._bases.append(segment.base)

    def truncate(self, offset: int, dirty_end: int | None = None) -> None:
        """Let ``offset`` be the end: segments behind it go, and the rest of its own is zeros.

        The first segment stays, whatever the offset.

        Bytes at or behind ``dirty_end`` are known to be zeros and are not looked at. What was
        changed is durable when this returns, unless the run is sparse.

        Raises:
            DiskError: It may be half done; doing it again is safe.
        """
        self.drop_prepared()
        while len(self._segments) > 1 and self._segments[-1].base >= offset:
            number = len(self._segments) - 1
            segment = self._take(number)
            try:
                self._remove_durably(segment)
            except DiskError:
                self._put_back(number, segment)
                raise
        if not self._segments or self._segments[-1].end <= offset:
            return
        last = self._segments[-1]
        if _zero(last, max(offset, last.base), dirty_end) and self._preallocate:
            last.sync()

    def replace(self, segment: Segment, fresh: Path) -> None:
        """Let a file that is durable take a segment's place.

        Raises:
            DiskError: The segment is as it was, or is the fresh file already.
        """
        segment.close()
        self._disk.rename(fresh, segment.path)
        self._disk.sync_directory(self._directory)

    def delete_before(self, offset: int) -> int:
        """Remove the segments that end at or before ``offset``, but never the last; tell how many.

        Raises:
            DiskError: One cannot be removed; those before it are gone.
        """
        gone = 0
        while (portion := self.begin_delete(offset)) is not None:
            portion.now()
            gone += 1
        return gone

    def begin_delete(self, offset: int) -> PendingSync | None:
        """Do without the first segment, if it ends at or before ``offset`` and is not the last.

        The next is begun when this one is gone: a power cut might bring back any of several, with
        a gap. One that cannot be removed is kept, as its neighbour must not go before it.
        """
        if len(self._segments) <= 1 or self._segments[0].end > offset:
            return None
        segment = self._take(0)
        return PendingSync(
            lambda: self._remove_durably(segment), undo=lambda: self._put_back(0, segment)
        )

    def destroy(self) -> None:
        """Remove every segment.

        Raises:
            DiskError: One cannot be removed.
        """
        self.drop_prepared()
        while self._segments:
            self._bases.pop()
            self._remove(self._segments.pop())

    def _take(self, number: int) -> Segment:
        self._bases.pop(number)
        return self._segments.pop(number)

    def _put_back(self, number: int, segment: Segment) -> None:
        if segment.path.name in self._disk.names(self._directory):
            self._segments.insert(number, segment)
            self._bases.insert(number, segment.base)

    def _remove_durably(self, segment: Segment) -> None:
        self._remove(segment)
        if self._preallocate:
            self._disk.sync_directory(self._directory)

    def _remove(self, segment: Segment) -> None:
        segment.close()
        self._disk.remove(segment.path)

    def close(self) -> None:
        """Close the files; nothing is synced."""
        with ExitStack() as all_of_them:
            for segment in self._segments:
                all_of_them.callback(segment.close)


def _zero(segment: Segment, start: int, dirty_end: int | None) -> bool:
    """Write zeros where there are none from ``start`` on; True if that was anywhere."""
    end = segment.end if dirty_end is None else min(segment.end, dirty_end)
    changed = False
    at = start
    while at < end:
        data = segment.read(at, min(_CHUNK, end - at))
        if not data:
            break
        zeros = bytes(len(data))
        if data != zeros:
            segment.write(at, zeros)
            changed = True
        at += len(data)
    return changed
