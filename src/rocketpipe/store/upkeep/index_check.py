"""The key index held against the log, without opening either for writing.

Entries were made in the order of the log, so both are walked side by side. A crash may have left
entries that are there twice: those are held against the record they name. RocketMQ 5.5 also makes
one for the tag, as if ``T#`` and the tag were a key: it may be there, and need not.

    an index file:   0  8  store time of the first message, ms      16  8  log offset of the first
                     8  8  store time of the last                   24  8  log offset of the last
                    32  4  slots in use     36  4  entries, the unused one at 0 included
                    40     slots, 4 bytes each, then entries, 20 bytes each (see ``hot``)
"""

from __future__ import annotations

import errno
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from rocketpipe.errors import RecordError
from rocketpipe.model.flags import Transaction, transaction_of
from rocketpipe.record.codec import RecordView
from rocketpipe.store.files.disk import Disk, DiskError, DiskFile
from rocketpipe.store.index.entries import INDEX_ENTRY, INDEX_ENTRY_BYTES, key_hash, key_hashes
from rocketpipe.store.state.checkpoint import NEVER
from rocketpipe.store.upkeep.findings import Kind, Report
from rocketpipe.store.upkeep.log_scan import LogFiles

HEAD: Final = Struct(">qqqqii")
_SLOT_BYTES: Final = 4
#: RocketMQ makes four entries for each slot, and so do we; a file's length tells both.
_ENTRIES_A_SLOT: Final = 4
_CHUNK_BYTES: Final = INDEX_ENTRY_BYTES * 50_000
_MOST_SECONDS: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One entry, and where it is."""

    file: Path
    number: int
    key_hash: int
    log_offset: int
    seconds: int
    begin_ms: int


class IndexCheck:
    """Compares what the key index says with what it should."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        files: LogFiles,
        report: Report,
        slots: int | None = None,
        redone_from: int = NEVER,
        last_synced: str = "",
        entries: Iterable[IndexEntry] | None = None,
    ) -> None:
        """Take the index; ``slots`` is how many its files have, if not a quarter of the entries.

        Keys of records from ``redone_from`` on are indexed anew by a start. The slots of the file
        that was ``last_synced`` are made anew of its entries, and files behind it go. ``entries``
        are those that count, if they are not all that the files have.
        """
        self._redone_from = redone_from
        self._last_synced = last_synced
        self._disk = disk
        self._directory = directory
        self._log = files
        self._report = report
        self._slots = slots
        self._walk = self._entries() if entries is None else iter(entries)
        self._next = next(self._walk, None)

    def expect(self, at: int, stored_ms: int, hashes: Sequence[int]) -> None:
        """Hold the entries of the record at ``at`` against the hashes of its keys."""
        while self._next is not None and self._next.log_offset < at:
            self._check_repeated(self._next)
            self._advance()
        missing = list(hashes)
        while self._next is not None and self._next.log_offset == at:
            entry = self._next
            if entry.key_hash in missing:
                missing.remove(entry.key_hash)
                self._check_time(entry, stored_ms)
            else:
                # Its tag, or a record that was dispatched again after all or some of its keys.
                self._check_repeated(entry)
            self._advance()
        for key in missing:
            self._report.add(
                Kind.INDEX_ENTRY_MISSING,
                self._directory,
                at,
                f"key hash {key}",
                left_over=at >= self._redone_from,
            )

    def finish(self) -> None:
        """Look for entries behind the end of the log."""
        while self._next is not None:
            self._check_repeated(self._next)
            self._advance()

    def look_at(self, entries: Iterable[IndexEntry]) -> None:
        """Hold entries against the records that they name."""
        for entry in entries:
            self._check_repeated(entry)

    def _advance(self) -> None:
        self._report.index_entries += 1
        self._next = next(self._walk, None)

    def _check_repeated(self, entry: IndexEntry) -> None:
        if entry.log_offset < self._log.first_offset:
            return  # its record has expired
        try:
            view = RecordView(self._log.record_at(entry.log_offset))
        except RecordError as error:
            self._wrong(entry, error.reason)
            return
        if transaction_of(view.sys_flag) is Transaction.ROLLED_BACK:
            self._wrong(entry, "a message that was rolled back")
        elif entry.key_hash not in _possible_hashes(view):
            self._wrong(entry, "no key of its message has this hash")
        else:
            self._check_time(entry, view.stored_ms)

    def _check_time(self, entry: IndexEntry, stored_ms: int) -> None:
        # Java's division rounds toward zero, and the sum is never negative.
        seconds = min(max(stored_ms - entry.begin_ms, 0) // 1000, _MOST_SECONDS)
        if entry.seconds != seconds:
            self._wrong(entry, f"{entry.seconds} s after its file began, not {seconds}")

    def _wrong(self, entry: IndexEntry, detail: str) -> None:
        left_over = self._goes(entry.file) or entry.log_offset >= self._redone_from
        self._report.add(
            Kind.INDEX_ENTRY_WRONG, entry.file, entry.number, detail, left_over=left_over
        )

    def _goes(self, file: Path) -> bool:
        """Whether a start makes a file anew."""
        return file.name >= self._last_synced and self._redone_from != NEVER

    def _entries(self) -> Iterator[IndexEntry]:
        for path in index_files(self._disk, self._directory):
            yield from self.entries_of(path)

    def entries_of(self, path: Path) -> Iterator[IndexEntry]:
        """The entries of one file; what is wrong with how they hang together is reported."""
        if not (path.name.isascii() and path.name.isdecimal()):
            self._report.add(Kind.ODD_FILE, path, 0, "is no index file's name")
            return
        with self._disk.open(path, writable=False) as file:
            yield from self._entries_of(path, file)

    def _entries_of(self, path: Path, file: DiskFile) -> Iterator[IndexEntry]:
        size = file.size()
        slots = self._slots or (size - HEAD.size) // (
            _SLOT_BYTES + _ENTRIES_A_SLOT * INDEX_ENTRY_BYTES
        )
        first_at = HEAD.size + slots * _SLOT_BYTES
        room = (size - first_at) // INDEX_ENTRY_BYTES
        if slots < 1 or room < 1 or first_at + room * INDEX_ENTRY_BYTES != size:
            self._report.add(
                Kind.ODD_FILE,
                path,
                size,
                "is no index file's length",
                left_over=self._goes(path),
            )
            return
        begin_ms, _, _, _, _, count = HEAD.unpack(file.read(HEAD.size, at=0))
        if not 0 <= count <= room:
            detail = f"{count} entries in room for {room}"
            self._report.add(Kind.ODD_FILE, path, 36, detail, left_over=self._goes(path))
            return
        latest = array("i", bytes(_SLOT_BYTES * slots))
        for start in range(1, count, _CHUNK_BYTES // INDEX_ENTRY_BYTES):
            many = min(_CHUNK_BYTES // INDEX_ENTRY_BYTES, count - start)
            data = file.read(many * INDEX_ENTRY_BYTES, at=first_at + start * INDEX_ENTRY_BYTES)
            for number, entry in enumerate(INDEX_ENTRY.iter_unpack(data), start):
                hashed, log_offset, seconds, before = entry
                slot = hashed % slots
                if before != latest[slot]:
                    self._broken(path, number, f"leads to {before}, not {latest[slot]}")
                latest[slot] = number
                yield IndexEntry(path, number, hashed, log_offset, seconds, begin_ms)
        self._check_slots(path, file, latest)

    def _check_slots(self, path: Path, file: DiskFile, latest: array[int]) -> None:
        found = array("i", file.read(_SLOT_BYTES * len(latest), at=HEAD.size))
        if found.itemsize == _SLOT_BYTES and memoryview(b"\1\0").cast("H")[0] == 1:
            found.byteswap()  # the file is big-endian
        if found != latest:
            for slot, (number, expected) in enumerate(zip(found, latest, strict=True)):
                if number != expected:
                    self._broken(path, expected, f"slot {slot} leads to {number}")

    def _broken(self, path: Path, number: int, detail: str) -> None:
        self._report.add(Kind.INDEX_CHAIN_BROKEN, path, number, detail, left_over=self._goes(path))


def index_files(disk: Disk, directory: Path) -> list[Path]:
    """The files of an index, in order; none if there is no index."""
    try:
        return [directory / name for name in disk.names(directory)]
    except DiskError as error:
        if error.errno == errno.ENOENT:
            return []
        raise


def _possible_hashes(view: RecordView) -> list[int]:
    hashes = key_hashes(view.topic, view.raw_properties)
    if view.tags:
        hashes.append(key_hash(view.topic, f"T#{view.tags}"))
    return hashes
