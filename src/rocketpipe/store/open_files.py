"""Files kept open as long as there is room, so that many files do not cost as many descriptors."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from rocketpipe.store.disk import Disk, DiskFile


class OpenFiles:
    """Opens files on demand and closes the one that was not asked for longest.

    A file that it gave is good until the next call: whoever wants it again asks again.
    """

    def __init__(self, disk: Disk, limit: int) -> None:
        assert limit >= 1
        self._disk = disk
        self._limit = limit
        self._open: OrderedDict[Path, DiskFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: Path) -> DiskFile:
        """Give a file that is there, opened for reading and writing.

        Raises:
            DiskError: it is not there, or may not be opened so.
        """
        file = self._open.get(path)
        if file is None:
            self._make_room()
            file = self._open[path] = self._disk.open(path)
        else:
            self._open.move_to_end(path)
        return file

    def create(self, path: Path, size: int, head: bytes = b"") -> DiskFile:
        """Make a file of ``size`` zeros behind ``head``; zeros take no room yet.

        Neither its name nor its head is durable yet.

        Raises:
            DiskError: it cannot be made. Nothing is left of it, if that was possible.
        """
        self._make_room()
        file = self._disk.create(path)
        try:
            file.truncate(size)
            if head:
                file.write(head, 0)
        except BaseException:
            file.close()
            self._disk.remove(path)
            raise
        self._open[path] = file
        return file

    def forget(self, path: Path) -> None:
        """Close a file, if it is open: before it is removed or renamed."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close every file; nothing is synced."""
        while self._open:
            self._open.popitem()[1].close()

    def _make_room(self) -> None:
        while len(self._open) >= self._limit:
            _, longest_unused = self._open.popitem(last=False)
            longest_unused.close()
