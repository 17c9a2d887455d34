"""What a test can have go wrong between a broker and its clients, and on the broker's disk.

A broker of the kit answers through an `Outlet`, one for each of its lives, and writes to a
`KitDisk`; both ask the `Faults`, which outlive it.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final
from weakref import WeakSet

from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command, refusal
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.remoting.connection import Answer, PeerConnection
from rocketpipe.store.files.disk import Disk, DiskError, DiskFile, FileSystemSync
from rocketpipe.store.layout import StoreLayout

_SENDS: Final = frozenset(SendMessage.codes)


class Faults:
    """Faults on demand; each lasts as long as it says, or until ``heal``."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._acks_to_drop = 0
        #: How many sends are still refused; None for all of them.
        self._to_refuse: int | None = 0
        self._refusal = (int(ResponseCode.SYSTEM_BUSY), "")
        #: Whether the broker's disk has no room left.
        self.is_disk_full = False

    def drop_next_ack(self, times: int = 1) -> None:
        """Store what is sent next, but have the connection break before the sender hears of it.

        Raises:
            ValueError: If it is to happen less than once.
        """
        _check_times(times)
        with self._gate:
            self._acks_to_drop += times

    def refuse_sends(
        self,
        times: int | None = None,
        *,
        code: int = ResponseCode.SYSTEM_BUSY,
        remark: str = "refused by the test",
    ) -> None:
        """Store nothing and refuse the next sends, or all of them, with a RocketMQ response code.

        Producers try again after some codes, SYSTEM_BUSY among them: each attempt counts.

        Raises:
            ValueError: If it is to happen less than once.
        """
        if times is not None:
            _check_times(times)
        with self._gate:
            self._to_refuse = times
            self._refusal = (int(code), remark)

    def full_disk(self) -> None:
        """Leave the broker no room for another message, until ``heal``."""
        self.is_disk_full = True

    def heal(self) -> None:
        """End every fault: from here on all goes well."""
        with self._gate:
            self._acks_to_drop = 0
            self._to_refuse = 0
        self.is_disk_full = False

    def refused(self, request: Command) -> Command | None:
        """The refusal of a request, if that is its lot."""
        with self._gate:
            if request.code not in _SENDS or self._to_refuse == 0:
                return None
            if self._to_refuse is not None:
                self._to_refuse -= 1
            code, remark = self._refusal
        return refusal(request, code, remark)

    def loses_answer(self, request: Command) -> bool:
        """Whether the answer to this request is not to arrive."""
        with self._gate:
            if request.code not in _SENDS or not self._acks_to_drop:
                return False
            self._acks_to_drop -= 1
            return True


class Outlet:
    """What the answers of one life of a broker go through."""

    def __init__(self, faults: Faults, stir: Callable[[], None]) -> None:
        """``stir`` is called with each request, and again with each answer."""
        self._faults = faults
        self._stir = stir
        self._peers: WeakSet[PeerConnection] = WeakSet()
        self._is_cut = False

    def around(self, answer: Answer) -> Answer:
        """The same answers, but for the faults."""

        async def answered(request: Command, peer: PeerConnection) -> Command:
            self._peers.add(peer)
            self._stir()
            if self._is_cut:
                peer.abort()
            refused = self._faults.refused(request)
            if refused is not None:
                return refused
            loses = self._faults.loses_answer(request)
            given = await answer(request, peer)
            self._stir()
            if loses:
                peer.abort()
            return given

        return answered

    def cut(self) -> None:
        """End every connection with nothing more said, for good; on the broker's loop."""
        self._is_cut = True
        self.drop_connections()

    def drop_connections(self) -> None:
        """End every connection; clients may come again. On the broker's loop."""
        for peer in list(self._peers):
            peer.abort()


class KitDisk(Disk):
    """The machine's disk in one life of a broker: it can be full, and it can be too late.

    Nothing is synced: what a test writes outlives a killed broker, and need not outlive a power
    cut. That is most of what starting and stopping a broker would take.
    """

    def __init__(self, faults: Faults, data: Path) -> None:
        self._faults = faults
        self._log = StoreLayout(data).commit_log
        #: Nothing is changed any more: the process that would is dead.
        self.is_frozen = False

    def check(self, operation: str, path: Path, *, takes_room: bool) -> None:
        """Let a change happen.

        Raises:
            DiskError: It cannot.
        """
        if self.is_frozen:
            raise _refused(operation, path, errno.EIO)
        if takes_room and self._faults.is_disk_full:
            raise _refused(operation, path, errno.ENOSPC)

    def holds_log(self, path: Path) -> bool:
        """Whether a file has messages.

        Those are refused on a full disk although their files have room ahead: a test would have
        to fill it first. Small files that are written in place are not, as on any disk.
        """
        return path.parent == self._log

    def create(self, path: Path) -> DiskFile:
        self.check("create", path, takes_room=True)
        return super().create(path)

    def _open(self, operation: str, path: Path, flags: int) -> DiskFile:
        # The file that is opened here has no other owner: its descriptor changes hands.
        return _KitFile(path, super()._open(operation, path, flags).fileno(), self)

    def everything(self, directory: Path) -> FileSystemSync | None:
        return None

    def sync_directory(self, directory: Path) -> None:
        pass

    def rename(self, old: Path, new: Path) -> None:
        self.check("rename", old, takes_room=False)
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self.check("remove", path, takes_room=False)
        super().remove(path)


class _KitFile(DiskFile):
    def __init__(self, path: Path, descriptor: int, disk: KitDisk) -> None:
        super().__init__(path, descriptor)
        self._disk = disk

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        self._disk.check("write", self.path, takes_room=self._disk.holds_log(self.path))
        super().write(data, at)

    def preallocate(self, size: int) -> None:
        self._disk.check("preallocate", self.path, takes_room=True)
        super().preallocate(size)

    def sync_data(self) -> None:
        pass

    def sync(self) -> None:
        pass

    def truncate(self, size: int) -> None:
        self._disk.check("truncate", self.path, takes_room=False)
        super().truncate(size)


def _refused(operation: str, path: Path, number: int) -> DiskError:
    return DiskError(operation, path, OSError(number, os.strerror(number)))


def _check_times(times: int) -> None:
    if times < 1:
        raise ValueError(f"{times} times is never: leave the fault out, or heal it")
