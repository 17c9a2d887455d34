"""What a simulated file holds: what readers see, and what a power cut would leave of it.

Three layers, as on a real machine:

    cached    the page cache: every read sees it, and it dies with the machine
    dirty     the writes, in order and page by page, that no sync has covered yet
    durable   what is on the platter

A sync carries the dirty writes to the platter. A failed one does what Linux does: some pages are
written, the others are called clean all the same, so that the next sync succeeds without them and
the cache goes on showing bytes that are nowhere else.

At a power cut each dirty page goes its own way: it stays as it was, has seen some of its writes,
or was torn in the midst of one, with zeros or stale bytes where the file had none before. Bytes
that a sync covered stay as they are beside a write that tears, and are old or new under it: drives
keep to that, and without it no log could be appended to in place.
"""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketpipe.store.files.disk import DiskError, DiskFile

if TYPE_CHECKING:
    from rocketpipe.testing.simulation.disk import SimDisk

PAGE_BYTES: Final = 4096

#: How finely a page may tear: anything from a byte to the sector of a drive.
_TEAR_BYTES: Final = (1, 8, 64, 512)


class SimContent:
    """The bytes of one file, whatever its names."""

    def __init__(self, data: bytes = b"") -> None:
        self.cached = bytearray(data)
        self.durable = bytearray(data)
        #: For each durable byte, whether it was ever written: what was not may turn up as anything.
        self._written = bytearray(b"\1" * len(data))
        self.claimed: set[int] = set(range(_pages(len(data))))
        #: Who has locked it.
        self.holder: SimFile | None = None
        self._dirty: dict[int, list[tuple[int, bytes]]] = {}
        self._lengths: list[int] = []

    def copy(self) -> SimContent:
        """Give the same file once more, with its dirty writes."""
        twin = SimContent()
        twin.cached = bytearray(self.cached)
        twin.durable = bytearray(self.durable)
        twin._written = bytearray(self._written)
        twin.claimed = set(self.claimed)
        twin._dirty = {page: list(writes) for page, writes in self._dirty.items()}
        twin._lengths = list(self._lengths)
        return twin

    def write(self, data: bytes, at: int) -> None:
        """Put bytes into the cache; a gap before them reads as zeros."""
        if not data:
            return
        end = at + len(data)
        if end > len(self.cached):
            self.resize(end)
        self.cached[at:end] = data
        self._note(at, data)

    def resize(self, size: int) -> None:
        """Cut the file or extend it with zeros, in the cache."""
        old = len(self.cached)
        if size < old:
            # Extended again before a sync, the cut part must not come back from the platter.
            self._note(size, bytes(old - size))
            del self.cached[size:]
            self.claimed = {page for page in self.claimed if page < _pages(size)}
        else:
            self.cached.extend(bytes(size - old))
        self._lengths.append(size)

    def _note(self, at: int, data: bytes) -> None:
        first = 0
        while first < len(data):
            page = (at + first) // PAGE_BYTES
            last = min(len(data), (page + 1) * PAGE_BYTES - at)
            self._dirty.setdefault(page, []).append((at + first, data[first:last]))
            first = last

    def sync(self) -> None:
        """Carry what is dirty to the platter."""
        self._set_durable_length(len(self.cached))
        for writes in self._dirty.values():
            for at, data in writes:
                self._settle(at, data)
        self._clean()

    def _settle(self, at: int, data: bytes) -> None:
        _put(self.durable, at, data)
        _put(self._written, at, b"\1" * len(data))

    def _set_durable_length(self, size: int) -> None:
        _set_length(self.durable, size)
        _set_length(self._written, size)

    def fail_sync(self, chance: random.Random) -> None:
        """Carry some pages to the platter and forget that the others were dirty."""
        if self._lengths and chance.random() < 0.5:
            self._set_durable_length(len(self.cached))
        for writes in self._dirty.values():
            if chance.random() < 0.5:
                for at, data in writes:
                    self._settle(at, data)
        self._clean()

    def forget_cached(self) -> None:
        """Read the clean pages anew from the platter; the dirty ones cannot be dropped."""
        length = len(self.cached)
        self.cached = bytearray(self.durable)
        _set_length(self.cached, length if self._lengths else len(self.durable))
        for writes in self._dirty.values():
            for at, data in writes:
                _put(self.cached, at, data)

    def lose_power(self, chance: random.Random, keep: str | None = None) -> None:
        """Leave on the platter what a power cut might, and nothing else anywhere."""
        mood = keep or chance.choice(("nothing", "everything", "pages", "pages", "torn", "torn"))
        longest = max(len(self.cached), len(self.durable), *self._lengths, 0)
        length = len(self.durable)
        if self._lengths and mood != "nothing":
            latest = len(self.cached)
            length = latest if mood == "everything" else chance.choice([length, *self._lengths])
        self._set_durable_length(longest)
        for writes in self._dirty.values():
            self._lose_page(writes, mood, chance)
        self._set_durable_length(length)
        self.cached = bytearray(self.durable)
        self.claimed = set(range(_pages(len(self.durable))))
        self._clean()

    def _lose_page(self, writes: list[tuple[int, bytes]], mood: str, chance: random.Random) -> None:
        kept = len(writes)
        if mood == "nothing":
            kept = 0
        elif mood != "everything" and chance.random() < 0.7:
            kept = chance.randint(0, len(writes))
        for at, data in writes[:kept]:
            self._settle(at, data)
        if mood == "torn" and kept < len(writes):
            at, data = writes[kept]
            end = at + len(data)
            self._settle(at, _torn(data, self.durable[at:end], self._written[at:end], chance))

    def _clean(self) -> None:
        self._dirty.clear()
        self._lengths.clear()


def _torn(new: bytes, old: bytearray, written: bytearray, chance: random.Random) -> bytes:
    """Mix a write with what it was to replace, in pieces as they reached the platter."""
    unit = chance.choice(_TEAR_BYTES)
    pieces = range(0, len(new), unit)
    cut = chance.randint(0, len(pieces)) if chance.random() < 0.5 else len(pieces)
    torn = bytearray(old.ljust(len(new), b"\0"))
    for number, at in enumerate(pieces):
        piece = new[at : at + unit]
        luck = chance.random()
        if number >= cut or luck < 0.15:
            continue
        if luck < 0.25 and not any(written[at : at + unit]):
            piece = bytes(len(piece)) if luck < 0.2 else chance.randbytes(len(piece))
        torn[at : at + unit] = piece
    return bytes(torn)


def _put(into: bytearray, at: int, data: bytes) -> None:
    """Write what fits the length that the file has now."""
    data = data[: max(0, len(into) - at)]
    into[at : at + len(data)] = data


def _set_length(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


def _pages(size: int) -> int:
    return -(-size // PAGE_BYTES)


class SimFile(DiskFile):
    """An open file of a `SimDisk`; it can be used until its disk loses power."""

    def __init__(self, path: Path, disk: SimDisk, content: SimContent, *, writable: bool) -> None:
        super().__init__(path, -1)  # there is no descriptor, so nothing can go past the simulation
        self._disk = disk
        self._content = content
        self._writable = writable
        self._life = disk.life
        self._open = True

    def _check(self, operation: str, *, writing: bool = False) -> None:
        if not self.is_open:
            raise DiskError(operation, self.path, OSError(errno.EBADF, "the file is closed"))
        if writing and not self._writable:
            raise DiskError(operation, self.path, OSError(errno.EBADF, "opened for reading only"))

    def size(self) -> int:
        self._check("size of")
        self._disk.step("size of", self.path)
        return len(self._content.cached)

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        self._check("write", writing=True)
        taken = bytes(data)
        fault = self._disk.begin("write", self.path)
        if fault is not None:
            part = fault.share(len(taken))
            self._disk.claim(self._content, at, part)
            self._content.write(taken[:part], at)
            raise fault.error("write", self.path, part)
        room = self._disk.claim(self._content, at, len(taken))
        self._content.write(taken[:room], at)
        if room < len(taken):
            full = OSError(errno.ENOSPC, "No space left on the simulated disk")
            raise DiskError("write", self.path, full, room)

    def read(self, size: int, at: int) -> bytes:
        self._check("read")
        self._disk.step("read", self.path)
        return bytes(self._content.cached[at : at + size])

    def read_cached(self, size: int, at: int) -> bytes | None:
        return self.read(size, at)

    def preallocate(self, size: int) -> None:
        self._check("preallocate", writing=True)
        fault = self._disk.begin("preallocate", self.path)
        if fault is not None:
            part = fault.share(size)
            if part > len(self._content.cached):
                self._disk.claim(self._content, 0, part)
                self._content.resize(part)
            raise fault.error("preallocate", self.path)
        if self._disk.claim(self._content, 0, size) < size:
            full = OSError(errno.ENOSPC, "No space left on the simulated disk")
            raise DiskError("preallocate", self.path, full)
        if size > len(self._content.cached):
            self._content.resize(size)

    def truncate(self, size: int) -> None:
        self._check("truncate", writing=True)
        fault = self._disk.begin("truncate", self.path)
        if fault is None or fault.took_effect:
            self._content.resize(size)
        if fault is not None:
            raise fault.error("truncate", self.path)

    def sync_data(self) -> None:
        self._sync()

    def sync(self) -> None:
        self._sync()

    def _sync(self) -> None:
        self._check("sync")
        fault = self._disk.begin("sync", self.path)
        if fault is None:
            self._content.sync()
            return
        if fault.is_power_cut:
            if fault.took_effect:
                self._content.sync()
        else:
            self._content.fail_sync(self._disk.chance)
            self._disk.failed_syncs.append(self.path)
        raise fault.error("sync", self.path)

    def forget_cached(self) -> None:
        self._check("forget cached")
        self._disk.step("forget cached", self.path)
        self._content.forget_cached()

    def lock(self) -> bool:
        self._check("lock")
        self._disk.step("lock", self.path)
        holder = self._content.holder
        if holder is not None and holder is not self and holder.is_open:
            return False
        self._content.holder = self
        return True

    @property
    def is_open(self) -> bool:
        """Whether it was neither closed nor lost with its process."""
        return self._open and self._life == self._disk.life

    def close(self) -> None:
        was_open, self._open = self.is_open, False
        if was_open:
            self._disk.step("close", self.path)
