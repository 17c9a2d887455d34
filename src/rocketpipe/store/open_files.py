"""Files kept open as long as there is room, so that many files do not cost as many descriptors."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from rocketpipe.store.disk import Disk, DiskFile, FileSystemSync


class OpenFiles:
    """Opens files on demand and closes the one that was not asked for longest.

    A file that it gave is good until the next call: whoever wants it again asks again.
    """

    def __init__(self, disk: Disk, limit: int) -> None:
        assert limit >= 1
        self._disk = disk
        self._limit = limit
        self._open: OrderedDict[Path, DiskFile] = OrderedDict()
        #: Where directories were made whose names a power cut would take.
        self._new_names: set[Path] = set()
        self._everything: FileSystemSync | None = None

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

    def make_directory(self, path: Path) -> None:
        """Make sure that a directory is there; it survives a power cut after `sync_directories`.

        Raises:
            DiskError: it cannot be made.
        """
        self._new_names.update(self._disk.make_directory(path, durable=False))

    def sync_directories(self) -> None:
        """Return once every directory that was made survives a power cut: a sync for each parent.

        Raises:
            DiskError: one of them may not.
        """
        while self._new_names:
            # The outermost first: a name in a directory that is lost is lost with it.
            parent = min(self._new_names)
            self._disk.sync_directory(parent)
            self._new_names.discard(parent)

    def watch(self, directory: Path) -> None:
        """Have `sync_everything` speak of all that is written from now on around a directory.

        Raises:
            DiskError: it cannot be opened.
        """
        if self._everything is None:
            self._everything = self._disk.everything(directory)

    def sync_everything(self) -> bool:
        """Return once all that was written survives a power cut; False if files must be synced.

        Raises:
            DiskError: some of it may not.
        """
        if self._everything is None or not self._everything.sync():
            return False
        self._new_names.clear()
        return True

    def forget(self, path: Path) -> None:
        """Close a file, if it is open: before it is removed or renamed."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close every file; nothing is synced."""
        if self._everything is not None:
            self._everything.close()
            self._everything = None
        while self._open:
            self._open.popitem()[1].close()

    def _make_room(self) -> None:
        while len(self._open) >= self._limit:
            _, longest_unused = self._open.popitem(last=False)
            longest_unused.close()
