"""Bytes that a log has lost, kept for people: nothing of the store ever reads them.

    <offset>              what a recovery cut off, or passed over
    truncated-<offset>    what was cut off for a leader, or by an operator
    mended-<offset>       what was there before another replica's bytes

There is a bound: where it is reached the oldest go, each with a line that names it. What is kept
now stays, however much it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rocketpipe.store.files.disk import Disk, DiskError

log = logging.getLogger(__name__)

_COPY_BYTES: Final = 1 << 20


class Quarantine:
    """The directory of one store; it is made when there is something to keep."""

    def __init__(self, disk: Disk, directory: Path, most_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._most_bytes = most_bytes

    def keep(self, name: str, size: int, read: Callable[[int, int], bytes]) -> Path:
        """Keep ``size`` bytes, which ``read`` gives by place and length; gives the file, synced.

        Where it has no more it gives none. The name gets a number if it is taken.

        Raises:
            DiskError: They cannot be read, or not be kept.
        """
        self._disk.make_directory(self._directory)
        self._make_room(size)
        taken = self._disk.names(self._directory)
        free, number = name, 1
        while free in taken:
            number += 1
            free = f"{name}-{number}"
        with self._disk.create(self._directory / free) as file:
            at = 0
            while at < size and (data := read(at, min(_COPY_BYTES, size - at))):
                file.write(data, at)
                at += len(data)
            file.sync()
        self._disk.sync_directory(self._directory)
        return self._directory / free

    def _make_room(self, size: int) -> None:
        paths = [self._directory / name for name in self._disk.names(self._directory)]
        paths.sort(key=self._disk.modified_ns)
        sizes = dict(zip(paths, map(self._size, paths), strict=True))
        total = size + sum(sizes.values())
        for path, bytes_kept in sizes.items():
            if total <= self._most_bytes:
                return
            log.warning(
                "quarantine is full, and its oldest file goes file=%s bytes=%d most=%d",
                path,
                bytes_kept,
                self._most_bytes,
            )
            try:
                self._disk.remove(path)
            except DiskError as error:
                log.warning("it stays: %s", error)  # a directory, of somebody else
            else:
                total -= bytes_kept

    def _size(self, path: Path) -> int:
        with self._disk.open(path, writable=False) as file:
            return file.size()
