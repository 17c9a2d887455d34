"""One file of a run of equally large files that together hold one sequence of bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from rocketpipe.store.files.disk import Disk, DiskFile


class Segment:
    """The bytes from ``base`` on, ``size`` of them, in a file of their own.

    The file is opened when it is first used, by whichever thread that is, and kept open as long as
    there is room; ``on_open`` is told.
    """

    __slots__ = (
        "_disk",
        "_file",
        "_on_open",
        "_opening",
        "_syncs",
        "_writes",
        "base",
        "end",
        "path",
        "size",
    )

    def __init__(
        self,
        disk: Disk,
        path: Path,
        base: int,
        size: int,
        on_open: Callable[[Segment], None] = lambda _: None,
    ) -> None:
        self._disk = disk
        self._on_open = on_open
        #: How often it was written to, and how often when it was last synced.
        self._writes = self._syncs = 0
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
        file = self._file
        if file is not None:
            return file
        with self._opening:
            file = self._file
            if file is not None:
                return file
            file = self._file = self._disk.open(self.path)
        self._on_open(self)
        return file

    @property
    def is_open(self) -> bool:
        """Whether its file is open."""
        return self._file is not None

    @property
    def is_idle(self) -> bool:
        """Whether its file is open, and has nothing in it that is not synced."""
        return self._file is not None and self._writes == self._syncs

    def read(self, offset: int, size: int) -> bytes:
        """The ``size`` bytes at ``offset`` of the run, or fewer where the segment ends.

        Raises:
            DiskError: They cannot be read.
        """
        assert self.base <= offset <= self.end
        file = self._file or self.opened()
        return file.read(min(size, self.end - offset), offset - self.base)

    def read_cached(self, offset: int, size: int) -> bytes | None:
        """The same without waiting for the disk: fewer, or ``None``, if it would have to.

        Raises:
            DiskError: They cannot be read.
        """
        file = self._file or self.opened()
        return file.read_cached(min(size, self.end - offset), offset - self.base)

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Put bytes where they belong; all of them are in this segment.

        Raises:
            DiskError: Not all of them could be written; ``written`` says how many were.
        """
        assert self.base <= offset
        assert offset + len(data) <= self.end
        file = self._file or self.opened()
        self._writes += 1
        file.write(data, offset - self.base)

    def sync(self) -> None:
        """Return once all that was written survives a power cut.

        Raises:
            DiskError: It may not, and is not to be synced again.
        """
        writes = self._writes
        (self._file or self.opened()).sync_data()
        self._syncs = writes

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
