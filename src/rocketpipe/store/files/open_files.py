"""Files kept open as long as there is room, so that many files do not cost as many descriptors.

One thread opens, closes and makes them. Another may sync those that were lent to it, and remove
those that are doomed.
"""

from __future__ import annotations

import errno
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable
from pathlib import Path

from rocketpipe.store.files.background_sync import PendingSync
from rocketpipe.store.files.disk import Disk, DiskError, DiskFile, FileSystemSync


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
        #: How often each file was lent: those are not closed.
        self._lent: Counter[DiskFile] = Counter()
        #: Files that nobody needs, and whose names still have to go.
        self._doomed: set[Path] = set()
        self._removing = threading.Lock()
        #: Whoever noted that a file was as it should be looks again once this has changed.
        self.age = 0
        self._thread = threading.get_ident()
        disk.keepers.add(self)

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
        if path in self._doomed:
            self._remove_doomed(path)
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

    def begin_sync_directories(self) -> PendingSync:
        """Have every directory that was made survive a power cut: a sync for each parent."""
        parents, self._new_names = self._new_names, set()

        def wait() -> None:
            # The outermost first: a name in a directory that is lost is lost with it.
            for parent in sorted(parents):
                self._disk.sync_directory(parent)

        return PendingSync(wait, undo=lambda: self._new_names.update(parents))

    def sync_directories(self) -> None:
        """Sync the parents of every directory that was made, and wait for it.

        Raises:
            DiskError: one of them may not survive.
        """
        self.begin_sync_directories().now()

    def begin_sync(self, paths: Iterable[Path]) -> PendingSync:
        """Have what was written to files survive a power cut; they may be written to meanwhile.

        Raises:
            DiskError: one of them cannot be opened.
        """
        lent: list[DiskFile] = []

        def give_back() -> None:
            for file in lent:
                self._give_back(file)

        def wait() -> None:
            for file in lent:
                file.sync_data()

        try:
            for path in paths:
                file = self.get(path)
                self._lent[file] += 1
                lent.append(file)
        except BaseException:
            give_back()
            raise
        return PendingSync(wait, note=give_back, undo=give_back)

    def _give_back(self, file: DiskFile) -> None:
        self._lent[file] -= 1
        if not self._lent[file]:
            del self._lent[file]
            if self._open.get(file.path) is not file:
                file.close()

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
            self._close(file)

    def doom(self, path: Path) -> None:
        """Close a file that `remove_doomed` removes, or `create` if it is made anew before."""
        self.forget(path)
        self._doomed.add(path)

    def remove_doomed(self) -> None:
        """Remove all files that are doomed; any thread may do that.

        Raises:
            DiskError: one cannot be removed. It is tried again the next time, like all the others.
        """
        for path in sorted(self._doomed.copy()):
            self._remove_doomed(path)

    def _remove_doomed(self, path: Path) -> None:
        with self._removing:
            if path not in self._doomed:
                return
            try:
                self._disk.remove(path)
            except DiskError as error:
                if error.errno != errno.ENOENT:
                    raise
            self._doomed.discard(path)

    def close(self) -> None:
        """Close every file; nothing is synced."""
        if self._everything is not None:
            self._everything.close()
            self._everything = None
        while self._open:
            self._close(self._open.popitem()[1])

    def spare(self) -> int:
        """Close what is idle, for somebody who needs a descriptor; gives how many that were."""
        if threading.get_ident() != self._thread:
            return 0  # what is given out on another thread may be in use at this moment
        before = len(self._open)
        while len(self._open) > 1:  # the last one was just asked for
            self._close(self._open.popitem(last=False)[1])
        return before - len(self._open)

    def _make_room(self) -> None:
        while len(self._open) >= self._limit:
            _, longest_unused = self._open.popitem(last=False)
            self._close(longest_unused)

    def _close(self, file: DiskFile) -> None:
        # What is being synced is closed when that is over: its number may then be another file's.
        if file not in self._lent:
            file.close()
