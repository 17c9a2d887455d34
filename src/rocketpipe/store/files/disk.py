"""The file system, as the store uses it.

Everything the store does to files goes through a `Disk` and the `DiskFile`s it opens, so that a
test can hand in a disk that tears writes, loses what was not synced, or is full. The calls, and
what stands in where a platform lacks one:

    write          pwrite, repeated until every byte is taken
    read           pread, repeated until the file ends
    read_cached    preadv with RWF_NOWAIT; else everything counts as being in memory
    preallocate    posix_fallocate; else zeros are written, which claims the room just as well
    sync_data      fdatasync; on macOS F_FULLFSYNC, as fsync there stops at the drive's cache;
                   else fsync
    forget_cached  posix_fadvise; else nothing, as it is only a precaution
    lock           flock, and a record lock on byte 0, which is what Java's brokers take and see
    everything     syncfs, on Linux 5.8 and newer; older ones do not tell what failed
    usage          statvfs: what is taken, and what is left to those who are not root

No call is tried again after it failed: a second fsync may report success for pages that the
kernel dropped after the first one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import Final
from weakref import WeakSet

from rocketpipe.store.files.closing import Closing
from rocketpipe.store.files.disk_error import NO_DESCRIPTOR, DiskError
from rocketpipe.store.files.file_system_sync import FileSystemSync, tells_errors
from rocketpipe.store.files.keeper import Keeper

__all__ = ["Closing", "Disk", "DiskError", "DiskFile", "FileSystemSync", "tells_errors"]

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
ZEROS: Final = bytes(1 << 20)  # what preallocation writes at a time where it must write

_NOT_SUPPORTED: Final = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
#: Has a read fail where it would wait for the disk; 0 where there is no such flag.
_NO_WAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


class DiskFile(Closing):
    """An open file, read and written at explicit positions; close it, or use ``with``."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def fileno(self) -> int:
        """The descriptor, for a read-only mapping; −1 once closed."""
        return self._descriptor

    def size(self) -> int:
        """Length in bytes.

        Raises:
            DiskError: the file cannot be asked.
        """
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise DiskError("size of", self.path, error) from error

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """Put all of ``data`` at ``at``; it is in the page cache when this returns.

        Raises:
            DiskError: not all of it could be written; ``written`` says how much was.
        """
        rest = memoryview(data).cast("B")
        written = 0
        try:
            while rest:
                taken = os.pwrite(self._descriptor, rest, at + written)
                if taken == 0:  # would repeat for ever
                    raise OSError(errno.EIO, "the disk took no bytes")
                written += taken
                rest = rest[taken:]
        except OSError as error:
            raise DiskError("write", self.path, error, written) from error

    def read(self, size: int, at: int) -> bytes:
        """The ``size`` bytes at ``at``, or fewer where the file ends.

        Raises:
            DiskError: the bytes cannot be read.
        """
        try:
            data = os.pread(self._descriptor, size, at)
            if len(data) == size or not data:
                return data
            parts = [data]
            missing = size - len(data)
            while missing and (data := os.pread(self._descriptor, missing, at + size - missing)):
                parts.append(data)
                missing -= len(data)
        except OSError as error:
            raise DiskError("read", self.path, error) from error
        return b"".join(parts)

    def read_cached(self, size: int, at: int) -> bytes | None:
        """The same without waiting for the disk: fewer bytes, or ``None``, if it would have to.

        Where the system cannot tell, everything counts as being in memory.

        Raises:
            DiskError: the bytes cannot be read.
        """
        if _NO_WAIT:
            room = bytearray(size)
            try:
                taken = os.preadv(self._descriptor, [room], at, _NO_WAIT)
                return bytes(memoryview(room)[:taken])
            except BlockingIOError:
                return None
            except OSError as error:
                if error.errno not in _NOT_SUPPORTED:
                    raise DiskError("read", self.path, error) from error
        return self.read(size, at)

    def preallocate(self, size: int) -> None:
        """Make the file ``size`` bytes long with room on the disk for each of them.

        What it holds stays; what is new reads as zeros. A file that is longer keeps its length.
        After an error the file may have any length in between.

        Raises:
            DiskError: there is no room, or the file cannot be extended.
        """
        allocate = getattr(os, "posix_fallocate", None)
        try:
            if size > 0 and allocate is not None:
                try:
                    allocate(self._descriptor, 0, size)
                    return
                except OSError as error:
                    # musl's libc says so for file systems that cannot; glibc writes zeros itself.
                    if error.errno not in _NOT_SUPPORTED:
                        raise
            self._fill_with_zeros(size)
        except OSError as error:
            raise DiskError("preallocate", self.path, error) from error

    def _fill_with_zeros(self, size: int) -> None:
        at = os.fstat(self._descriptor).st_size
        while at < size:
            block = memoryview(ZEROS)[: min(len(ZEROS), size - at)]
            taken = os.pwrite(self._descriptor, block, at)
            if taken == 0:
                raise OSError(errno.EIO, "the disk took no bytes")
            at += taken

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it by a hole, to ``size`` bytes.

        Raises:
            DiskError: the length cannot be changed.
        """
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise DiskError("truncate", self.path, error) from error

    def sync_data(self) -> None:
        """Return once the bytes written so far survive a power cut.

        Raises:
            DiskError: they may not. The file is not to be trusted from here on, nor synced again.
        """
        try:
            if not self._full_sync():
                # Looked up at each call: macOS has no such function.
                getattr(os, "fdatasync", os.fsync)(self._descriptor)
        except OSError as error:
            raise DiskError("sync", self.path, error) from error

    def sync(self) -> None:
        """Like `sync_data`, and the file's length and times survive too.

        Raises:
            DiskError: as for `sync_data`.
        """
        try:
            if not self._full_sync():
                os.fsync(self._descriptor)
        except OSError as error:
            raise DiskError("sync", self.path, error) from error

    def _full_sync(self) -> bool:
        """Empty the drive's own cache too where that is a call apart; False where it is not."""
        if self._descriptor < 0:  # os.fsync would call that a ValueError
            raise OSError(errno.EBADF, "the file is closed")
        command = getattr(fcntl, "F_FULLFSYNC", None)
        if command is None:
            return False
        try:
            fcntl.fcntl(self._descriptor, command)
        except OSError as error:
            if error.errno in _NOT_SUPPORTED:  # network file systems; fsync is all they have
                return False
            raise
        return True

    def forget_cached(self) -> None:
        """Let the next reads come from the disk rather than from the page cache, if possible.

        Only what was synced is dropped. Used after a failed sync, when the cache may show bytes
        that never reached the disk.

        Raises:
            DiskError: the system refused.
        """
        if not hasattr(os, "posix_fadvise"):
            return
        try:
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            raise DiskError("forget cached", self.path, error) from error

    def lock(self) -> bool:
        """Take the file for whoever has it open here; False if somebody else has taken it.

        It is held until the file is closed, or the process ends.

        Raises:
            DiskError: the file cannot be locked at all.
        """
        try:
            # Record locks do not stop a second store in this process; flock does.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.EACCES:  # how some systems say that it is taken
                return False
            raise DiskError("lock", self.path, error) from error
        return True

    def close(self) -> None:
        """Let the file go; a second time does nothing. Closing syncs nothing.

        Raises:
            DiskError: the system reports a late error; the file is closed all the same.
        """
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            os.close(descriptor)
        except OSError as error:
            raise DiskError("close", self.path, error) from error


class Disk:
    """Opens, names and removes files. Hand it to whatever keeps something on disk."""

    @cached_property
    def keepers(self) -> WeakSet[Keeper]:
        """Those who keep files open, asked to close what is idle where no descriptor is left."""
        return WeakSet()

    def open(self, path: Path, *, writable: bool = True) -> DiskFile:
        """Open a file that is there.

        Raises:
            DiskError: it is not, or may not be opened so.
        """
        return self._open("open", path, os.O_RDWR if writable else os.O_RDONLY)

    def create(self, path: Path) -> DiskFile:
        """Open a new, empty file that only its owner may read; its name is not yet durable.

        Raises:
            DiskError: something of that name is there, or cannot be made.
        """
        return self._open("create", path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def _open(self, operation: str, path: Path, flags: int) -> DiskFile:
        try:
            return DiskFile(path, self._descriptor(path, flags))
        except OSError as error:
            raise DiskError(operation, path, error) from error

    def _descriptor(self, path: Path, flags: int) -> int:
        try:
            return os.open(path, flags, FILE_MODE)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR or not sum(
                keeper.spare() for keeper in list(self.keepers)
            ):
                raise
        return os.open(path, flags, FILE_MODE)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name at one stroke, in place of what had it.

        Durable after `sync_directory` of the new name's directory.

        Raises:
            DiskError: it keeps its old name.
        """
        try:
            old.replace(new)
        except OSError as error:
            raise DiskError("rename", old, error) from error

    def remove(self, path: Path) -> None:
        """Take a file's name away; durable after `sync_directory`.

        Raises:
            DiskError: it is not there, or may not be removed.
        """
        try:
            path.unlink()
        except OSError as error:
            raise DiskError("remove", path, error) from error

    def names(self, directory: Path) -> list[str]:
        """The names in a directory, sorted.

        Raises:
            DiskError: there is no such directory, or it cannot be read.
        """
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208 - names are asked for, not paths
        except OSError as error:
            raise DiskError("list", directory, error) from error

    def modified_ns(self, path: Path) -> int:
        """When a file was last written: of two files the one with less is older.

        Raises:
            DiskError: there is no such file.
        """
        try:
            return path.stat().st_mtime_ns
        except OSError as error:
            raise DiskError("look at", path, error) from error

    def make_directory(self, path: Path, *, durable: bool = True) -> list[Path]:
        """Make sure that a directory is there, its parents too, and will be after a power cut.

        Without ``durable`` that takes a `sync_directory` of each directory that is given back.

        Raises:
            DiskError: one of them cannot be made, or its name not be synced.
        """
        missing = []
        step = path
        while not step.is_dir() and step != step.parent:
            missing.append(step)
            step = step.parent
        for directory in reversed(missing):
            try:
                directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            except OSError as error:
                raise DiskError("make directory", directory, error) from error
            if durable:
                self.sync_directory(directory.parent)
        return [] if durable else [directory.parent for directory in missing]

    def everything(self, directory: Path) -> FileSystemSync | None:
        """What syncs all that is written from now on around a directory; None if nothing can.

        Raises:
            DiskError: the directory cannot be opened.
        """
        return FileSystemSync(directory)

    def usage(self, path: Path) -> tuple[int, int, int]:
        """The bytes of the file system around ``path``: all, taken, and free for such as us.

        The last two need not add up to the first: some room is kept for root.

        Raises:
            DiskError: nothing is there, or its file system does not tell.
        """
        try:
            total, used, free = shutil.disk_usage(path)
        except OSError as error:
            raise DiskError("usage of", path, error) from error
        return total, used, free

    def sync_directory(self, directory: Path) -> None:
        """Return once the names in a directory survive a power cut.

        Raises:
            DiskError: they may not.
        """
        try:
            descriptor = self._descriptor(directory, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            # Some file systems sync no directories and say so; there is nothing more to be done.
            if error.errno != errno.EINVAL:
                raise DiskError("sync directory", directory, error) from error
