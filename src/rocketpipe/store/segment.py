"""One file of a run of equally large files that together hold one sequence of bytes."""

from __future__ import annotations

import threading
from pathlib import Path

from rocketpipe.store.disk import Disk, DiskFile


class Segment:
    """The bytes from ``base`` on, ``size`` of them, in a file of their own.

    The file is opened when it is first used, by whichever thread that is, and kept open.
    """

    __slots__ = ("_disk", "_file", "_opening", "base", "end", "path", "size")

    def __init__(self, disk: Disk, path: Path, base: int, size: int) -> None:
        self._disk = disk
        self._file: DiskFile | None = None
        self._opening = threading.Lock()
        self.path = path
        self.base = base
        self.size = size
        self.end = base + size

    def opened(self) -> DiskFile:
        """The file itself, for who reads much of it; positions in it start at 0.

        Raises:
            DiskError: It cannot be opened.
        """
        with self._opening:
            if self._file is None:
                self._file = self._disk.open(self.path)
            return self._file

    def read(self, offset: int, size: int) -> bytes:
        """The ``size`` bytes at ``offset`` of the run, or fewer where the segment ends.

        Raises:
            DiskError: They cannot be read.
        """
        assert self.base <= offset <= self.end
        file = self._file or self.opened()
        return file.read(min(size, self.end - offset), offset - self.base)

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Put bytes where they belong; all of them are in this segment.

        Raises:
            DiskError: Not all of them could be written; ``written`` says how many were.
        """
        assert self.base <= offset
        assert offset + len(data) <= self.end
        file = self._file or self.opened()
        file.write(data, offset - self.base)

    def sync(self) -> None:
        """Return once all that was written survives a power cut.

        Raises:
            DiskError: It may not, and is not to be synced again.
        """
        (self._file or self.opened()).sync_data()

    def forget_cached(self) -> None:
        """Let the next reads come from the disk, if possible.

        Raises:
            DiskError: The system refused.
        """
        (self._file or self.opened()).forget_cached()

    def close(self) -> None:
        """Close the file, if it is open; it is opened again when it is used again.

        Raises:
            DiskError: The system reports a late error; the file is closed all the same.
        """
        file, self._file = self._file, None
        if file is not None:
            file.close()
