"""All records in the order they came: one file that is only ever appended to.

Provisional: the file grows without preallocation or segments, and a log that is already there is
refused, since nothing yet can tell how much of it is whole. The record bytes are final.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset

_FIRST_FILE: Final = f"{0:020d}"


class CommitLog:
    """One append-only file; its offsets are byte positions."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "commitlog" / _FIRST_FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            raise StoreError(
                f"{self.path} is there already, and this version cannot open a log again: "
                "give an empty directory"
            ) from None
        self._end = 0

    @property
    def end(self) -> LogOffset:
        """Where the next record will start."""
        return LogOffset(self._end)

    def append(self, data: bytes) -> None:
        """Write records that were encoded to start at ``end``; they are in the file on return.

        Raises:
            StoreError: If the file could not take them; the log ends where it ended before.
        """
        at = 0
        try:
            while at < len(data):
                at += os.pwrite(self._file, data[at:], self._end + at)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from error
        self._end += len(data)

    def read(self, offset: LogOffset, size: int) -> bytes:
        """The bytes of one record whose place and size are known."""
        assert offset >= 0
        assert offset + size <= self._end
        return os.pread(self._file, size, offset)

    def close(self) -> None:
        os.close(self._file)
