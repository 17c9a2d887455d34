"""Three small files that say who has a store, and how the last run of it ended.

lock     held while a broker has the directory; Java's brokers see it and respect it
abort    there while a broker runs: found at the start, the last run did not end well
failed   why the last run stopped writing: what the page cache shows of its tail is not trusted
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rocketpipe.store.errors import StoreLocked
from rocketpipe.store.files.disk import Disk, DiskError, DiskFile
from rocketpipe.store.layout import StoreLayout

log = logging.getLogger(__name__)

_LOCK_TEXT: Final = b"lock"
#: More of a reason is not read back.
_REASON_BYTES: Final = 4096


class RunFiles:
    """The marks of one store."""

    def __init__(self, disk: Disk, layout: StoreLayout) -> None:
        self._disk = disk
        self._layout = layout
        self._lock: DiskFile | None = None

    def take_lock(self) -> None:
        """Have the directory until `release`, or the end of the process.

        Raises:
            StoreLocked: Somebody else has it.
            DiskError: It cannot be locked.
        """
        path = self._layout.lock
        file = self._disk.open(path) if self._is_there(path) else self._disk.create(path)
        try:
            if not file.lock():
                raise StoreLocked(path)
            file.write(_LOCK_TEXT, 0)
        except BaseException:
            file.close()
            raise
        self._lock = file

    def release(self) -> None:
        """Let others have the directory."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def aborted(self) -> bool:
        """Whether the last run ended without saying so.

        Raises:
            DiskError: The directory cannot be read.
        """
        return self._is_there(self._layout.abort)

    @property
    def aborted_pid(self) -> int | None:
        """The process whose run ended so, if that is known.

        Raises:
            DiskError: The mark is there and cannot be read.
        """
        if not self.aborted:
            return None
        with self._disk.open(self._layout.abort, writable=False) as file:
            text = file.read(20, 0)
        return int(text) if text.isdigit() else None

    def begin(self, pid: int) -> None:
        """Have the next start know that this run did not end well, unless `end` is called.

        Raises:
            DiskError: The mark cannot be made.
        """
        self._put(self._layout.abort, str(pid).encode())
        if self._is_there(self._layout.failed):
            self._disk.remove(self._layout.failed)
        self._disk.sync_directory(self._layout.root)

    def end(self) -> None:
        """Say that this run ended well.

        Raises:
            DiskError: The mark cannot be taken away.
        """
        self._disk.remove(self._layout.abort)
        self._disk.sync_directory(self._layout.root)

    @property
    def failure(self) -> str | None:
        """Why the last run stopped writing; ``None`` if it did not, or could not say so.

        Raises:
            DiskError: The mark is there and cannot be read.
        """
        if not self._is_there(self._layout.failed):
            return None
        with self._disk.open(self._layout.failed, writable=False) as file:
            return file.read(_REASON_BYTES, 0).decode(errors="replace")

    def fail(self, reason: str) -> None:
        """Leave the reason for the next start, if the disk still takes it."""
        try:
            self._put(self._layout.failed, reason.encode()[:_REASON_BYTES])
            self._disk.sync_directory(self._layout.root)
        except DiskError as error:
            log.warning("the reason of the failure cannot be kept: %s", error)

    def _put(self, path: Path, text: bytes) -> None:
        if self._is_there(path):
            self._disk.remove(path)
        with self._disk.create(path) as file:
            file.write(text, 0)
            file.sync()

    def _is_there(self, path: Path) -> bool:
        return path.name in self._disk.names(path.parent)


@contextmanager
def locked(disk: Disk, layout: StoreLayout) -> Iterator[RunFiles]:
    """Keep brokers away from a store inside the block.

    Raises:
        StoreLocked: One is using it.
    """
    marks = RunFiles(disk, layout)
    marks.take_lock()
    try:
        yield marks
    finally:
        marks.release()
