"""What the operating system refuses to do for a store, and whether it may do it later."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from rocketpipe.errors import StoreError

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})


class DiskError(StoreError):
    """The operating system refused an operation on a file; ``errno`` is its reason."""

    def __init__(self, operation: str, path: Path, cause: OSError, written: int = 0) -> None:
        remedy = "; raise `ulimit -n`" if cause.errno in NO_DESCRIPTOR else ""
        super().__init__(f"{operation} {path}: {cause.strerror or cause}{remedy}")
        self.operation = operation
        self.path = path
        self.errno = cause.errno
        #: How many bytes of a write were taken before it failed.
        self.written = written

    @property
    def no_room(self) -> bool:
        """Whether the disk, the quota or the largest allowed file is full."""
        return self.errno in NO_ROOM

    @property
    def passing(self) -> bool:
        """Whether nothing is wrong with the disk: there is no room, or nothing to open it with."""
        return self.no_room or self.errno in NO_DESCRIPTOR
