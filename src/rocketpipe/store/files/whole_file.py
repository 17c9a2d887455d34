"""A small file that is written as a whole: at any moment all of it is old, or all of it is new."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

from rocketpipe.store.files.disk import Disk, DiskError, DiskFile


def write_whole(disk: Disk, path: Path, data: bytes, temporary: Path) -> None:
    """Put a file in the place of what is there; its name is durable with its directory.

    It is written and synced under ``temporary`` first: what a crash left there is overwritten.

    Raises:
        DiskError: It could not be written; what was there is there still.
    """
    try:
        with _created(disk, temporary) as file:
            file.write(data, at=0)
            file.sync()
    except DiskError:
        with suppress(DiskError):
            disk.remove(temporary)
        raise
    disk.rename(temporary, path)


def _created(disk: Disk, path: Path) -> DiskFile:
    try:
        return disk.create(path)
    except DiskError as error:
        if error.errno != errno.EEXIST:
            raise
    disk.remove(path)
    return disk.create(path)
