"""Which leader wrote which part of the log: RocketMQ's ``epochFileCheckpoint``.

    2                   how many lines follow the next one
    -1373493431         their CRC-32, as a signed int
    1-0                 epoch 1 wrote from offset 0 on,
    3-41984             epoch 3 from there

An entry is on disk before the first byte of its epoch is in the log. Two logs are equal up to the
end of the newest entry that both have; what a replica has behind that was never acknowledged.
"""

from __future__ import annotations

import errno
import logging
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from rocketpipe.errors import StoreError
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.whole_file import write_whole

log = logging.getLogger(__name__)

#: As many as RocketMQ's replicas tell each other; of more, the oldest go.
MAX_ENTRIES: Final = 1_000

#: A line is at most 2**31 - 1, a dash and 2**63 - 1.
_MAX_FILE_BYTES: Final = (MAX_ENTRIES + 2) * 32
_ENTRY: Final = re.compile(rb"(\d{1,10})-(\d{1,19})")
_MAX_EPOCH: Final = 2**31 - 1
_MAX_OFFSET: Final = 2**63 - 1


class EpochEntry(NamedTuple):
    """One leader's part of the log: from ``start`` to where the next one begins."""

    epoch: int
    start: int


class EpochsDamaged(StoreError):
    """Neither the file of epochs nor the one before it can be read."""

    hint = (
        "restore it from a backup, or empty this replica's directory: it then takes the whole log"
    )

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}; {self.hint}")
        self.path = path
        self.reason = reason


class EpochTable:
    """The entries of one log, kept in a file that every change replaces and syncs."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path
        self.previous = path.with_name(path.name + ".bak")
        self._temporary = path.with_name(path.name + ".tmp")
        self.entries: tuple[EpochEntry, ...] = ()

    def load(self) -> None:
        """Read what was saved last, or, with a warning, what was saved before; else none.

        Raises:
            EpochsDamaged: Something is there that cannot be read.
            DiskError: The directory or a file in it cannot be read.
        """
        present = self._present()
        reason = "is not there"
        for path in (self.path, self.previous):
            if path.name not in present:
                continue
            try:
                self.entries = parsed(self._contents(path))
            except ValueError as error:
                reason = f"{path.name} {error}"
                log.warning("epochs cannot be read file=%s reason=%r", path, str(error))
            else:
                return
        if self.path.name in present or self.previous.name in present:
            raise EpochsDamaged(self.path, reason)
        self.entries = ()

    @property
    def last_epoch(self) -> int:
        """The newest entry's epoch; 0 if there is none."""
        return self.entries[-1].epoch if self.entries else 0

    def append(self, epoch: int, start: int) -> None:
        """Begin an epoch; on disk on return. An entry that has no byte yet gives way.

        Raises:
            ValueError: The last entry's epoch is not lower, or it starts behind.
            DiskError: It could not be saved, and is not there.
        """
        kept = self.entries
        if kept and epoch <= kept[-1].epoch:
            raise ValueError(f"epoch {epoch} behind epoch {kept[-1].epoch}")
        if kept and start < kept[-1].start:
            raise ValueError(f"epoch {epoch} from {start}, before {kept[-1].start}")
        if kept and start == kept[-1].start:
            kept = kept[:-1]
        self._change((*kept, EpochEntry(epoch, start))[-MAX_ENTRIES:])

    def cut(self, end: int) -> None:
        """Forget the entries that have no byte before ``end``, where the log now ends.

        Raises:
            DiskError: That could not be saved.
        """
        self._change(tuple(entry for entry in self.entries if entry.start < end))

    def drop_before(self, first: int) -> None:
        """Forget the entries that have no byte from ``first`` on, where the log now begins.

        Raises:
            DiskError: That could not be saved.
        """
        self._change(self.entries[max(0, self._index(first)) :])

    def replace(self, entries: Sequence[EpochEntry]) -> None:
        """Have these and no others.

        Raises:
            ValueError: They are not in order.
            DiskError: They could not be saved.
        """
        check_order(entries)
        self._change(tuple(entries)[-MAX_ENTRIES:])

    def at(self, offset: int) -> EpochEntry | None:
        """Who wrote the byte at an offset, or writes the next one; None before the first entry."""
        index = self._index(offset)
        return self.entries[index] if index >= 0 else None

    def end_of(self, epoch: int, log_end: int) -> int:
        """Where an epoch ends: where the next one starts, or the log ends.

        Raises:
            KeyError: There is no such epoch.
        """
        return _ends(self.entries, log_end)[epoch]

    def common_end(self, mine_end: int, theirs: Sequence[EpochEntry], their_end: int) -> int | None:
        """How far two logs are known to be equal; None if they have no epoch in common."""
        their_starts = dict(theirs)
        their_ends = _ends(theirs, their_end)
        my_ends = _ends(self.entries, mine_end)
        for epoch, start in reversed(self.entries):
            if their_starts.get(epoch) == start:
                # An entry may be ahead of its first byte, which a crash can take.
                return min(my_ends[epoch], their_ends[epoch], mine_end)
        return None

    def _index(self, offset: int) -> int:
        return bisect_right(self.entries, offset, key=lambda entry: entry.start) - 1

    def _change(self, entries: tuple[EpochEntry, ...]) -> None:
        if entries == self.entries:
            return
        self._save(entries)
        self.entries = entries

    def _save(self, entries: tuple[EpochEntry, ...]) -> None:
        self._disk.make_directory(self.path.parent)
        present = self._present()
        if entries:
            if self.path.name in present and self.entries:
                # A copy and not a rename, so that the file is there at every moment.
                write_whole(self._disk, self.previous, text_of(self.entries), self._temporary)
            write_whole(self._disk, self.path, text_of(entries), self._temporary)
        else:
            # RocketMQ reads no empty file; and the old one must not come back by the one before it.
            for path in (self.previous, self.path):
                if path.name in present:
                    self._disk.remove(path)
        self._disk.sync_directory(self.path.parent)

    def _contents(self, path: Path) -> bytes:
        with self._disk.open(path, writable=False) as file:
            size = file.size()
            if size > _MAX_FILE_BYTES:
                raise ValueError(f"has {size} bytes, more than {_MAX_FILE_BYTES}")
            return file.read(size, at=0)

    def _present(self) -> set[str]:
        try:
            return set(self._disk.names(self.path.parent))
        except DiskError as error:
            if error.errno == errno.ENOENT:
                return set()
            raise


class EpochSpans:
    """Whose byte is at an offset, for one who asks for offsets that grow."""

    def __init__(self, epochs: EpochTable) -> None:
        self._epochs = epochs
        self._entries: tuple[EpochEntry, ...] = ()
        self._known: tuple[EpochEntry, int | None] | None = None

    def at(self, offset: int) -> tuple[EpochEntry, int | None]:
        """Whose it is, and where that epoch ends, if it has."""
        known, entries = self._known, self._epochs.entries
        if (
            known is None
            or self._entries is not entries
            or (known[1] is not None and offset >= known[1])
        ):
            self._entries = entries
            # What was there before the first epoch is nobody's.
            entry = self._epochs.at(offset) or EpochEntry(0, 0)
            end = next((each.start for each in entries if each.start > offset), None)
            known = self._known = (entry, end)
        return known


def _ends(entries: Sequence[EpochEntry], log_end: int) -> dict[int, int]:
    starts = [entry.start for entry in entries[1:]]
    return {entry.epoch: end for entry, end in zip(entries, (*starts, log_end), strict=False)}


def check_order(entries: Sequence[EpochEntry]) -> None:
    """See that each entry is of a higher epoch than the one before it, and starts behind it.

    Raises:
        ValueError: One does not, or is no epoch or offset at all.
    """
    before = EpochEntry(-1, -1)
    for entry in entries:
        if not before.epoch < entry.epoch <= _MAX_EPOCH:
            raise ValueError(f"epoch {entry.epoch} behind epoch {before.epoch}")
        if not before.start < entry.start <= _MAX_OFFSET:
            raise ValueError(f"epoch {entry.epoch} from {entry.start}, behind {before.start}")
        before = entry


def text_of(entries: Sequence[EpochEntry]) -> bytes:
    """The file's text, for one entry or more."""
    lines = b"".join(b"%d-%d\n" % entry for entry in entries)
    crc = crc32(lines)
    return b"%d\n%d\n%b" % (len(entries), crc - (crc >> 31 << 32), lines)


def parsed(text: bytes) -> tuple[EpochEntry, ...]:
    """The entries of such a text, whatever its line separator.

    Raises:
        ValueError: It is none, or not what its CRC was computed of.
    """
    lines = text.splitlines()
    if len(lines) < 2 or not text.endswith((b"\n", b"\r")):
        raise ValueError("ends in the middle")
    try:
        count, crc = int(lines[0]), int(lines[1])
    except ValueError as error:
        raise ValueError(f"has no count or no CRC: {error}") from None
    if count != len(lines) - 2 or count > MAX_ENTRIES:
        raise ValueError(f"has {len(lines) - 2} entries where it says {count}")
    separator = b"\r\n" if b"\r\n" in text else b"\n"
    found = crc32(b"".join(line + separator for line in lines[2:]))
    if found != crc & 0xFFFF_FFFF:
        raise ValueError("is not what its CRC was computed of")
    entries = []
    for line in lines[2:]:
        match = _ENTRY.fullmatch(line)
        if match is None:
            raise ValueError(f"has an entry {line!r}")
        entries.append(EpochEntry(int(match[1]), int(match[2])))
    check_order(entries)
    return tuple(entries)
