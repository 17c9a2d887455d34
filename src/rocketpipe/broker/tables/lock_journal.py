"""Who owns which queue, on disk before its owner is told, so that a restart makes no second owner.

Kept as ``config/queueLocks.journal``, a line for each change, a checksum in front of its JSON:

    5cf1a1c5 ["rocketpipe.locks",1]
    8e6f0d5a ["billing","orders","broker-a",3,"10.0.0.7@4711"]
    0b7ad0f3 ["billing","orders","broker-a",3,null]

The last line about a queue counts; ``null`` means that it was given back. Renewals are not written:
whoever owned a queue when the broker stopped has it for a lock's life after the start, by the
monotonic clock, and renews it as if nothing had been. A line that was torn by a kill was told
nobody. Where the file is missing though the store has messages, or a line of it is damaged, nobody
knows who owned what else: such queues are given to nobody for as long.

When there are many more lines than owners the file is written anew.

A broker that follows another writes down what that one's owners are, and lets none of them go by
its own clock: when it takes over, each has its queues for a lock's life from then on.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Container, Iterable
from pathlib import Path
from typing import Final, TypeAlias
from zlib import crc32

import msgspec

from rocketpipe.broker.tables.queue_locks import LOCK_MS, QueueLocks
from rocketpipe.broker.tables.watched import Watched
from rocketpipe.clock import Clock
from rocketpipe.model.route import MessageQueue
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.whole_file import write_whole

log = logging.getLogger(__name__)

LOCKS_FILE: Final = "queueLocks.journal"
TIDY_EVERY_MS: Final = 10_000
MAX_BYTES: Final = 256 * 1024 * 1024
#: So many lines more than twice the owners make it worth writing all anew.
_SLACK: Final = 1000

#: A group, and a queue that one of its members owns.
Owned: TypeAlias = tuple[str, MessageQueue]


_Line: TypeAlias = tuple[str, str, str, int, str | None]


class LockJournal(Watched[Owned]):
    """Writes down every change of `QueueLocks`; one write, and one sync, for all who wait."""

    def __init__(self, disk: Disk, path: Path, locks: QueueLocks, clock: Clock) -> None:
        """Be told by ``locks`` from now on."""
        super().__init__()
        self.path = path
        self._disk = disk
        self._locks = locks
        self._clock = clock
        self._temporary = path.with_name(path.name + ".tmp")
        #: The line of every owner, and those that are not written yet.
        self._owners: dict[Owned, bytes] = {}
        self._pending: list[bytes] = []
        #: Of those the owners whose lines are not known to be on disk.
        self._unsaved: dict[Owned, bytes] = {}
        #: How many lines and bytes the file has; None if it is to be written anew.
        self._written: tuple[int, int] | None = None
        #: Before this nothing is written: a file would say that all else has no owner.
        self._silent_until_ms = clock.monotonic_ms()
        self._writing = asyncio.Lock()
        #: Whether there may be owners that nobody here knows, and owners are another broker's.
        self._unsure = self._follows = False
        #: What else is waited for before an owner is told, where there are replicas.
        self.also_kept: Callable[[Iterable[Owned] | None], Awaitable[None]] | None = None
        locks.listen(self._changed)

    def load(self, *, fresh: bool) -> None:
        """Give queues back to those who owned them; in a ``fresh`` store nobody did.

        Raises:
            DiskError: The file cannot be read.
        """
        now_ms = self._clock.monotonic_ms()
        lines = self._read()
        held, is_whole = ({}, fresh) if lines is None else _held(lines)
        self._owners = {at: _line_of(*at, owner) for at, owner in held.items()}
        self._locks.restore(held, now_ms, unsure=not is_whole)
        self._unsure = not is_whole
        if is_whole:
            self._try(self._rewrite, self._everything())
            return
        self._silent_until_ms = now_ms + LOCK_MS + 1
        log.warning(
            "nobody knows who owned all queues before this start, so others than the owners "
            "known get none for now seconds=%d file=%s",
            LOCK_MS // 1000,
            self.path,
        )

    def _read(self) -> list[bytes] | None:
        try:
            with self._disk.open(self.path, writable=False) as file:
                size = file.size()
                return file.read(size, at=0).split(b"\n") if size <= MAX_BYTES else []
        except DiskError as error:
            if error.errno == errno.ENOENT:
                return None
            if error.errno == errno.EIO:
                return []  # what cannot be read is as good as damaged
            raise

    def _changed(self, group: str, queue: MessageQueue, owner: str | None) -> None:
        line = _line_of(group, queue, owner)
        if owner is None:
            self._owners.pop((group, queue), None)
            self._unsaved.pop((group, queue), None)
        else:
            self._owners[group, queue] = self._unsaved[group, queue] = line
        self._pending.append(line)
        self._note((group, queue))

    # Replicas

    def owner(self, owned: Owned) -> str | None:
        """Who has a queue, as it is written down."""
        line = self._owners.get(owned)
        return None if line is None else _parsed(line.rstrip(b"\n"))[1]

    def owned(self) -> list[Owned]:
        """Every queue that has an owner."""
        return list(self._owners)

    def follow(self) -> None:
        """Have another broker say who owns what, from now on."""
        self._follows = True

    def replicate(self, owned: Owned, owner: str | None) -> None:
        """Take over from the leader who has a queue now."""
        if self.owner(owned) != owner:
            self._changed(*owned, owner)

    def keep_only(self, owned: Container[Owned]) -> None:
        """Take over from the leader that nobody has any other queue."""
        for each in [each for each in self._owners if each not in owned]:
            self._changed(*each, None)
        self._unsure = False
        self._silent_until_ms = self._clock.monotonic_ms()

    def take_over(self) -> None:
        """Be the one who says who owns what: each has its queues for a lock's life from now on."""
        self._follows = False
        now_ms = self._clock.monotonic_ms()
        held = {each: owner for each in self._owners if (owner := self.owner(each)) is not None}
        self._locks.restore(held, now_ms, unsure=self._unsure)
        if self._unsure:
            self._silent_until_ms = now_ms + LOCK_MS + 1
            self._unsure = False

    # The file

    async def kept(self, owned: Iterable[Owned] | None = None) -> None:
        """Wait until the owners of these queues, or of all, are on disk, and at the replicas.

        Whoever only renews has been there for long, and does not depend on the disk.

        Raises:
            DiskError: They are not; the next one who waits tries again.
            RequestRejected: It is not known whether the replicas have them.
        """
        owned = None if owned is None else list(owned)
        if owned is None or any(each in self._unsaved for each in owned):
            await self.saved()
        if self.also_kept is not None:
            await self.also_kept(owned)

    async def saved(self) -> None:
        """Wait until the owners of this moment are on disk.

        Raises:
            DiskError: They are not; the next one who waits tries again.
        """
        if self._is_due() or self._writing.locked():
            async with self._writing:
                await self._write_beside()

    async def keep_tidy(self) -> None:
        """Forget locks that are over, for as long as the broker runs, and write that down too."""
        try:
            while True:
                await self._clock.sleep(TIDY_EVERY_MS)
                self._expire()
                async with self._writing:
                    try:
                        await self._write_beside()
                    except DiskError as error:
                        _complain(error)
        finally:
            self._expire()
            if self._is_due():
                self._try(*self._next())

    def _expire(self) -> None:
        if not self._follows:
            self._locks.expire(self._clock.monotonic_ms())

    def _is_due(self) -> bool:
        if self._follows and self._unsure:
            return False
        wanted = bool(self._pending) or self._written is None
        return wanted and self._clock.monotonic_ms() >= self._silent_until_ms

    async def _write_beside(self) -> None:
        if not self._is_due():
            return
        saving = dict(self._unsaved)
        write, lines = self._next()
        writing = asyncio.ensure_future(asyncio.to_thread(write, lines))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing])  # or the next could be before it
            if writing.exception() is None:
                self._saved(saving)
            raise
        self._saved(saving)

    def _saved(self, lines: dict[Owned, bytes]) -> None:
        for each, line in lines.items():
            if self._unsaved.get(each) is line:  # and it has not changed hands since
                del self._unsaved[each]

    def _next(self) -> tuple[Callable[[list[bytes]], None], list[bytes]]:
        """What to do, and with which lines: they are fixed when this returns."""
        pending, self._pending = self._pending, []
        lines = 0 if self._written is None else self._written[0] + len(pending)
        if self._written is None or lines > 2 * len(self._owners) + _SLACK:
            return self._rewrite, self._everything()
        return self._append, pending

    def _everything(self) -> list[bytes]:
        return [_HEAD, *self._owners.values()]

    def _append(self, lines: list[bytes]) -> None:
        assert self._written is not None
        count, size = self._written
        # If it fails, what is in the file is not known, and all of it is written anew.
        self._written = None
        data = b"".join(lines)
        with self._disk.open(self.path) as file:
            file.write(data, at=size)
            file.sync_data()
        self._written = (count + len(lines), size + len(data))

    def _rewrite(self, lines: list[bytes]) -> None:
        self._written = None
        directory = self.path.parent
        self._disk.make_directory(directory)
        data = b"".join(lines)
        write_whole(self._disk, self.path, data, self._temporary)
        self._disk.sync_directory(directory)
        self._written = (len(lines), len(data))

    def _try(self, write: Callable[[list[bytes]], None], lines: list[bytes]) -> None:
        try:
            write(lines)
        except DiskError as error:
            _complain(error)


def _line(*values: str | int | None) -> bytes:
    text = msgspec.json.encode(values)
    return b"%08x %b\n" % (crc32(text), text)


def _line_of(group: str, queue: MessageQueue, owner: str | None) -> bytes:
    return _line(group, queue.topic, queue.broker_name, queue.queue_id, owner)


_HEAD: Final = _line("rocketpipe.locks", 1)


def _held(lines: list[bytes]) -> tuple[dict[Owned, str], bool]:
    """Who owned what, and whether all that was written could be read."""
    held: dict[Owned, str] = {}
    is_whole = lines[:1] == [_HEAD.rstrip(b"\n")]
    for line in lines[1:-1]:  # behind the last end of a line there is nothing, or what is torn
        try:
            at, owner = _parsed(line)
        except (ValueError, msgspec.MsgspecError):
            is_whole = False
            continue
        if owner is None:
            held.pop(at, None)
        else:
            held[at] = owner
    return held, is_whole


def _parsed(line: bytes) -> tuple[Owned, str | None]:
    text = line[9:]
    if line[:9] != b"%08x " % crc32(text):
        raise ValueError("another checksum")
    group, topic, broker, queue_id, owner = msgspec.json.decode(text, type=_Line)
    return (group, MessageQueue(topic=topic, broker_name=broker, queue_id=queue_id)), owner


def _complain(error: DiskError) -> None:
    log.warning("owners of queues could not be saved, and are tried again: %s", error)
