"""One sync for all files of a file system, where the system can tell what failed."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from typing import Final

from rocketpipe.store.files.closing import Closing
from rocketpipe.store.files.disk_error import DiskError

#: From this version of Linux on a sync of everything tells what failed.
_TELLS_ERRORS: Final = (5, 8)


def tells_errors(system: str, release: str) -> bool:
    """Whether ``syncfs`` can be relied on, by the names that a system gives to itself."""
    version = re.match(r"(\d+)\.(\d+)", release)
    if not system.startswith("linux") or version is None:
        return False
    return (int(version[1]), int(version[2])) >= _TELLS_ERRORS


class FileSystemSync(Closing):
    """Syncs all that was written on one file system since it was made; close it.

    ``syncfs`` tells of every write that failed since its descriptor was opened, so it is opened
    before the first of them. Where there is no such call, each file is to be synced.
    """

    def __init__(self, directory: Path) -> None:
        """Begin to watch the file system that has a directory.

        Raises:
            DiskError: The directory cannot be opened.
        """
        self._directory = directory
        self._call = None
        self._descriptor = -1
        if tells_errors(sys.platform, os.uname().release):
            self._call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if self._call is not None:
            try:
                self._descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                raise DiskError("open", directory, error) from error

    def sync(self) -> bool:
        """Return once all that was written survives a power cut; False where nothing can tell.

        Raises:
            DiskError: Some of it may not.
        """
        if self._call is None or self._descriptor < 0:
            return False
        if self._call(self._descriptor) != 0:
            number = ctypes.get_errno()
            cause = OSError(number, os.strerror(number))
            raise DiskError("sync everything around", self._directory, cause)
        return True

    def close(self) -> None:
        """Let the descriptor go; a second time does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
