"""One file of the key index: a hash table whose chains run through a list of entries.

``index_layout`` has its bytes. Slots of the file that is written to are kept in memory, and written
with the rest when asked: an entry is one append to a buffer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.errors import IndexDamaged
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.index.entries import (
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_KEY,
    INDEX_KEY_BYTES,
    chain_entries,
)
from rocketpipe.store.index.layout import (
    BLOCK_ENTRIES,
    HEADER,
    SLOT_BYTES,
    SWAP,
    IndexSums,
    big_endian,
    file_bytes,
    runs,
)

_PAGE_SLOTS: Final = 1024
_BLOCK_BYTES: Final = BLOCK_ENTRIES * INDEX_ENTRY_BYTES
_MAX_LONG: Final = (1 << 63) - 1


class IndexFile:
    """One index file, written to or only read."""

    def __init__(self, files: OpenFiles, path: Path, slots: int, entries: int) -> None:
        assert slots >= 1
        assert entries >= 2
        self.path = path
        self._files = files
        self._slots = slots
        self._most = entries
        self.begin_ms = 0
        self.end_ms = 0
        self.begin_offset = 0
        self.end_offset = 0
        self._used_slots = 0
        self._count = 1
        #: The slots, while the file is written to; else they are read from the file.
        self._table: array[int] | None = None
        #: Which pages of slots have changed, a byte for each.
        self._dirty_pages = bytearray(-(-slots // _PAGE_SLOTS))
        self._pending = bytearray()
        self._written = 1
        #: Checksums of whole blocks of entries, and of the block that is being filled.
        self._block_sums: list[int] = []
        self._tail_crc = 0
        #: What blocks must be like when they are first read, and those that were.
        self._expected: IndexSums | None = None
        self._checked: set[tuple[str, int]] = set()

    @property
    def count(self) -> int:
        """The number that the next entry will have."""
        return self._count

    @property
    def room(self) -> int:
        """How many more entries it takes."""
        return max(self._most - self._count, 0)

    @property
    def full(self) -> bool:
        """Whether it takes no more."""
        return self._count >= self._most

    @property
    def dirty(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._pending) or 1 in self._dirty_pages

    def create(self, behind: IndexFile | None) -> None:
        """Make the file, sparse; it starts where the one before it ended.

        Raises:
            DiskError: It cannot be made.
        """
        if behind is not None:
            self.begin_offset = self.end_offset = max(behind.end_offset, 0)
            self.begin_ms = self.end_ms = max(behind.end_ms, 0)
        # After a kill, Apache's broker goes on behind the message that the last header names.
        head = self.header() if behind is not None else b""
        self._files.create(self.path, file_bytes(self._slots, self._most), head)
        self._table = array("i", bytes(self._slots * SLOT_BYTES))

    def put(self, key_hash: int, log_offset: int, stored_ms: int) -> None:
        """Add an entry; the file must not be full."""
        self.put_all(INDEX_KEY.pack(key_hash, log_offset, stored_ms))

    def put_all(self, keys: bytes) -> None:
        """Add an entry for each key, as ``entries`` has them; there must be ``room``."""
        table = self._table
        assert table is not None
        assert keys
        assert len(keys) <= self.room * INDEX_KEY_BYTES
        if self._count == 1 and len(keys) > INDEX_KEY_BYTES:
            # Times count from the first message of the file, its own from that of the file before.
            self.put_all(keys[:INDEX_KEY_BYTES])
            keys = keys[INDEX_KEY_BYTES:]
        entries, used = chain_entries(
            table, self._count, self.begin_ms, keys, _PAGE_SLOTS, self._dirty_pages
        )
        self._pending += entries
        self._used_slots += used
        _, self.end_offset, last_ms = INDEX_KEY.unpack_from(keys, len(keys) - INDEX_KEY_BYTES)
        if self._count == 1:
            self.begin_offset, self.begin_ms, self.end_ms = self.end_offset, last_ms, last_ms
        # A clock that was ahead and is right again stores at earlier times.
        self.end_ms = max(self.end_ms, last_ms)
        self._count += len(keys) // INDEX_KEY_BYTES

    def header(self) -> bytes:
        """The first 40 bytes as they are now."""
        return HEADER.pack(
            self.begin_ms,
            self.end_ms,
            self.begin_offset,
            self.end_offset,
            self._used_slots,
            self._count,
        )

    def write_entries(self) -> None:
        """Write the entries that wait; slots and header wait on.

        Raises:
            DiskError: Not all were written; they wait on.
        """
        if not self._pending:
            return
        data = bytes(self._pending)
        self._files.get(self.path).write(data, self._entry_at(self._written))
        self._sum(data)
        self._written = self._count
        self._pending.clear()

    def write(self) -> None:
        """Write everything that waits; it is in the page cache on return.

        Raises:
            DiskError: Not all of it was written; it waits on.
        """
        self.write_entries()
        pages = [page for page, changed in enumerate(self._dirty_pages) if changed]
        if pages:
            assert self._table is not None
            for first, last in runs(pages):
                part = self._table[first * _PAGE_SLOTS : (last + 1) * _PAGE_SLOTS]
                at = HEADER.size + first * _PAGE_SLOTS * SLOT_BYTES
                self._files.get(self.path).write(big_endian(part), at)
            self._files.get(self.path).write(self.header(), 0)
            self._dirty_pages = bytearray(len(self._dirty_pages))

    def sync(self) -> None:
        """Return once everything that was put survives a power cut.

        Raises:
            DiskError: It may not; the file is not to be synced again.
        """
        self.write()
        self._files.get(self.path).sync_data()

    def close_table(self) -> None:
        """Let go of the slots in memory: the file is full, and only read from now on.

        Raises:
            DiskError: What waits cannot be written.
        """
        self.write()
        self._expected = self.sums(slots=True)
        self._table = None

    def _sum(self, data: bytes) -> None:
        """Carry the checksums on over entries that were just written."""
        first = self._written
        at = 0
        while at < len(data):
            room = (BLOCK_ENTRIES - first % BLOCK_ENTRIES) * INDEX_ENTRY_BYTES
            piece = data[at : at + room]
            self._tail_crc = crc32(piece, self._tail_crc)
            first += len(piece) // INDEX_ENTRY_BYTES
            at += len(piece)
            if first % BLOCK_ENTRIES == 0:
                self._block_sums.append(self._tail_crc)
                self._tail_crc = 0

    def sums(self, *, slots: bool) -> IndexSums:
        """Header and checksums of what was written; of the slots too if nothing will be added."""
        if self._table is None:
            return self._expected or IndexSums(self.header(), [], [])
        slot_sums = []
        if slots:
            for at in range(0, self._slots, BLOCK_ENTRIES):
                slot_sums.append(crc32(big_endian(self._table[at : at + BLOCK_ENTRIES])))
        return IndexSums(self.header(), [*self._block_sums, self._tail_crc], slot_sums)

    def find(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[LogOffset]:
        """Give the log offsets that have this hash and were stored in this time, newest first.

        Times are kept in seconds, rounded down, and none is before the file's first: where that
        one was stored by a clock that was ahead, they are later than they should be. Other keys
        may have the same hash. The caller looks into the record.

        Raises:
            IndexDamaged: The file is not as it was written.
            DiskError: It cannot be read.
        """
        if self._count <= 1 or self.end_ms < begin_ms:
            return
        self.write_entries()
        slot = key_hash % self._slots
        number = self._slot(slot)
        if not 0 <= number < self._count:
            raise IndexDamaged(self.path, f"slot {slot} names entry {number} of {self._count}")
        behind = self.end_offset
        while number:
            entry_hash, offset, seconds, before = self._entry(number)
            if entry_hash < 0 or entry_hash % self._slots != slot:
                raise IndexDamaged(self.path, f"entry {number} is in another slot")
            if not 0 <= before < number or seconds < 0 or not 0 <= offset <= behind:
                raise IndexDamaged(self.path, f"entry {number} is out of order")
            behind = offset
            stored_ms = self.begin_ms + seconds * 1000
            in_time = begin_ms <= stored_ms + 999 and (stored_ms <= end_ms or not seconds)
            if entry_hash == key_hash and in_time:
                yield LogOffset(offset)
            number = before

    def _slot(self, slot: int) -> int:
        if self._table is not None:
            return self._table[slot]
        self._check("slots", slot // BLOCK_ENTRIES)
        data = self._files.get(self.path).read(SLOT_BYTES, HEADER.size + slot * SLOT_BYTES)
        if len(data) != SLOT_BYTES:
            raise IndexDamaged(self.path, "the file ends among its slots")
        return int.from_bytes(data, "big", signed=True)

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        self._check("entries", number // BLOCK_ENTRIES)
        data = self._files.get(self.path).read(INDEX_ENTRY_BYTES, self._entry_at(number))
        if len(data) != INDEX_ENTRY_BYTES:
            raise IndexDamaged(self.path, f"the file ends before entry {number}")
        entry: tuple[int, int, int, int] = INDEX_ENTRY.unpack(data)
        return entry

    def _entry_at(self, number: int) -> int:
        return HEADER.size + self._slots * SLOT_BYTES + number * INDEX_ENTRY_BYTES

    def keys_of_last(self) -> int:
        """How many entries at the end are of the last message.

        Raises:
            IndexDamaged: The file is not as it was written.
        """
        self.write_entries()
        number = self._count - 1
        while number >= 1 and self._entry(number)[1] == self.end_offset:
            number -= 1
        return self._count - 1 - number

    def _check(self, part: str, block: int) -> None:
        """Compare a block with its checksum, the first time that it is read."""
        if self._expected is None or (part, block) in self._checked:
            return
        if part == "slots":
            sums, at, size = self._expected.slots, HEADER.size, BLOCK_ENTRIES * SLOT_BYTES
            end = min((block + 1) * size, self._slots * SLOT_BYTES)
            start = block * size
        else:
            sums, at, size = self._expected.entries, self._entry_at(0), _BLOCK_BYTES
            count = HEADER.unpack(self._expected.header)[5]
            end = min((block + 1) * size, count * INDEX_ENTRY_BYTES)
            start = max(block * size, INDEX_ENTRY_BYTES)  # there is no entry 0
        if block < len(sums):
            data = self._files.get(self.path).read(end - start, at + start)
            if crc32(data) != sums[block]:
                raise IndexDamaged(self.path, f"block {block} of its {part} is not as written")
        self._checked.add((part, block))

    def load(self, sums: IndexSums | None, *, clean: bool, write: bool, log_end: int) -> None:
        """Take over a file that is there, to be read, or also to ``write`` on.

        With ``sums`` it must be as they say, and entries behind those they speak of are dropped;
        without them what the header says is believed, as far as it can be right. Entries of
        records at ``log_end`` or behind it are dropped.

        Raises:
            IndexDamaged: It has to be rebuilt from the log.
            DiskError: It cannot be read.
        """
        file = self._files.get(self.path)
        if file.size() != file_bytes(self._slots, self._most):
            raise IndexDamaged(self.path, f"a length of {file.size()}")
        header = file.read(HEADER.size, 0)
        if sums is not None and clean and sums.header != header:
            raise IndexDamaged(self.path, "the header is not as written")
        self._take_header(header if sums is None else sums.header)
        self._expected = sums
        if self.end_offset >= log_end or (sums is not None and write and not clean):
            self._rebuild(log_end)
        elif write:
            self.ready_to_write()

    def ready_to_write(self) -> None:
        """Have the slots in memory, so that entries can be added.

        Raises:
            IndexDamaged: They are not as they were written.
            DiskError: They cannot be read.
        """
        if self._table is None and not self.full:
            self._load_table()

    def _take_header(self, header: bytes) -> None:
        (
            self.begin_ms,
            self.end_ms,
            self.begin_offset,
            self.end_offset,
            self._used_slots,
            self._count,
        ) = HEADER.unpack(header)
        self._count = max(self._count, 1)
        self._written = self._count
        if (
            self._count > self._most
            or not 0 <= self._used_slots <= min(self._slots, self._count - 1)
            or not 0 <= self.begin_ms <= self.end_ms
            or not 0 <= self.begin_offset <= self.end_offset
        ):
            raise IndexDamaged(self.path, "no header says such things")

    def _load_table(self) -> None:
        data = self._files.get(self.path).read(self._slots * SLOT_BYTES, HEADER.size)
        table = array("i", data)
        if SWAP:
            table.byteswap()
        if self._expected is not None:
            size = BLOCK_ENTRIES * SLOT_BYTES
            found = [crc32(data[at : at + size]) for at in range(0, len(data), size)]
            if self._expected.slots != found:
                self._rebuild(_MAX_LONG)
                return
        elif min(table) < 0 or max(table) >= self._count:
            raise IndexDamaged(self.path, "a slot names an entry that is not there")
        self._table = table
        if self._expected is not None and self._expected.entries:
            *self._block_sums, self._tail_crc = self._expected.entries
            return
        self._block_sums, self._tail_crc = [], 0
        self._written, last = 1, self._count
        while self._written < last:
            many = min(BLOCK_ENTRIES - self._written % BLOCK_ENTRIES, last - self._written)
            self._sum(self._read_entries(self._written, many))
            self._written += many

    def _rebuild(self, log_end: int) -> None:
        """Make the slots anew of the entries, up to the first of a record at ``log_end``."""
        expected, last = self._expected, self._count
        self._table = array("i", bytes(self._slots * SLOT_BYTES))
        self._expected = None
        self._block_sums, self._tail_crc = [], 0
        self._used_slots = 0
        table, slots, number = self._table, self._slots, 1
        self._written = 1
        while number < last:
            block = number // BLOCK_ENTRIES
            many = min((block + 1) * BLOCK_ENTRIES, last) - number
            data = self._read_entries(number, many)
            wanted = expected.entries[block : block + 1] if expected is not None else []
            if wanted and crc32(data) != wanted[0]:
                raise IndexDamaged(self.path, f"block {block} of its entries is not as written")
            first = number
            for key_hash, offset, _, before in INDEX_ENTRY.iter_unpack(data):
                if offset >= log_end:
                    last = number
                    break
                slot = key_hash % slots
                if key_hash < 0 or before != table[slot]:
                    raise IndexDamaged(self.path, f"entry {number} is out of order")
                self._used_slots += not before
                table[slot] = number
                number += 1
            self._sum(data[: (number - first) * INDEX_ENTRY_BYTES])
            self._written = number
        if number < self._count:
            self._end_at(number)
        self._count = number
        self._dirty_pages = bytearray(b"\x01" * len(self._dirty_pages))
        file = self._files.get(self.path)
        file.truncate(self._entry_at(number))
        file.truncate(file_bytes(slots, self._most))

    def _end_at(self, number: int) -> None:
        """Have the header speak of the entries below ``number`` alone."""
        if number == 1:
            self.begin_ms = self.end_ms = self.begin_offset = self.end_offset = 0
            return
        _, offset, seconds, _ = INDEX_ENTRY.unpack(self._read_entries(number - 1, 1))
        # Milliseconds are not kept with entries; the last one is somewhere in this second.
        self.end_offset = offset
        self.end_ms = min(self.end_ms, self.begin_ms + seconds * 1000 + 999)

    def _read_entries(self, number: int, many: int) -> bytes:
        data = self._files.get(self.path).read(many * INDEX_ENTRY_BYTES, self._entry_at(number))
        if len(data) != many * INDEX_ENTRY_BYTES:
            raise IndexDamaged(self.path, "the file ends among its entries")
        return data
