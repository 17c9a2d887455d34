"""The entries of consume queues, and the records that a reader wants by them.

An entry has 20 bytes:

     0  8  offset of the record in the commit log
     8  4  size of the record
    12  8  hash of its tag, or when it falls due

Bytes in, bytes out, no objects: this is done once per message. ``_entries.pyx`` is the compiled
twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final
from zlib import crc32

from rocketpipe import compiled
from rocketpipe.record.layout import (
    MIN_RECORD_BYTES,
    SEAL_BYTES,
)
from rocketpipe.record.seals import HIGH, LOW, MIDDLE, PIECE

QUEUE_ENTRY: Final = Struct(">qiq")
QUEUE_ENTRY_BYTES: Final = QUEUE_ENTRY.size
#: The size in an entry that stands for no message: a queue that does not start at its file's start
#: is filled up with these.
BLANK_SIZE: Final = 0x7FFFFFFF
BLANK_ENTRY: Final = QUEUE_ENTRY.pack(0, BLANK_SIZE, 0)
NO_ENTRY: Final = bytes(QUEUE_ENTRY_BYTES)
queue_entry: Final = QUEUE_ENTRY.pack
_unpack_place: Final = Struct(">ii20xq").unpack_from
_INT_MIN: Final = -(1 << 31)
_INT_MAX: Final = (1 << 31) - 1
#: Of an entry that a reader wants: where its record is, the size, and its number among those read.
Wanted = tuple[int, int, int]


class TagCodes:
    """Matches messages whose tag has one of these hashes."""

    __slots__ = ("codes",)

    def __init__(self, codes: frozenset[int]) -> None:
        self.codes = codes

    def __call__(self, tag_code: int) -> bool:
        if _INT_MIN <= tag_code <= _INT_MAX:
            return tag_code in self.codes
        # Of a longer one, as entries of delayed messages have, the low 32 bits count.
        return ((tag_code - _INT_MIN) & 0xFFFFFFFF) + _INT_MIN in self.codes


def whole_entries(entries: bytes, behind: int, log_end: int) -> tuple[int, int]:
    """Count the queue entries that can be right, and say where the last one's record ends.

    Records come one after the other: none starts before the one of the entry before it ended,
    which for the first is ``behind``, and none ends behind ``log_end``.
    """
    count = 0
    for offset, size, tag_code in QUEUE_ENTRY.iter_unpack(entries):
        if size == BLANK_SIZE:
            if tag_code or offset > log_end or (behind and offset != behind):
                break
            behind = offset
        else:
            end = offset + size
            if offset < behind or size < MIN_RECORD_BYTES or end > log_end:
                break
            behind = end
        count += 1
    return count, behind


def choose_entries(
    entries: bytes,
    first: int,
    max_count: int,
    max_bytes: int,
    matches: Callable[[int], bool] | None,
) -> tuple[list[Wanted], int, bool]:
    """Pick the queue entries to read; how many were looked at; whether a record of one is gone.

    Those below ``first`` are. Without ``matches``, which is asked about tag codes, all are wanted.
    """
    wanted: list[Wanted] = []
    removed = False
    room = max_bytes
    number = 0
    for log_offset, size, code in QUEUE_ENTRY.iter_unpack(entries):
        if size == BLANK_SIZE:
            pass  # no message ever was here, or it was lost
        elif log_offset < first:
            removed = True
        elif matches is None or matches(code):
            room -= size
            if wanted and room < 0:
                break
            wanted.append((log_offset, size, number))
            if len(wanted) >= max_count:
                number += 1
                break
        number += 1
    return wanted, number, removed


def window_end(wanted: Sequence[Wanted], first: int, limit: int, max_gap: int) -> int:
    """How far to read at once from the given record on: over gaps, but not beyond ``limit``."""
    start, size, _ = wanted[first]
    end = start + size
    for number in range(first + 1, len(wanted)):
        log_offset, size, _ = wanted[number]
        if not end <= log_offset <= end + max_gap or log_offset + size > limit:
            break
        end = log_offset + size
    return end


def sealed_records(
    data: bytes, start: int, wanted: Sequence[Wanted], first: int, verify: bool
) -> tuple[bytes, int]:
    """Join the wanted records that lie in ``data``, up to one to be looked at more closely.

    ``data`` begins at ``start`` of the log. With ``verify`` each must say that it is what was
    wanted, and end in a checksum that holds. Gives how many were joined, from the first on.
    """
    view = memoryview(data)
    end = start + len(data)
    parts: list[bytes] = []
    for log_offset, size, _ in wanted[first:] if first else wanted:
        place = log_offset - start
        close = place + size
        if place < 0 or log_offset + size > end or size < SEAL_BYTES:
            break
        if verify:
            upper, low = divmod(crc32(view[place : close - SEAL_BYTES]) & 0x7FFFFFFF, PIECE)
            seal = LOW[low] + MIDDLE[upper % PIECE] + HIGH[upper // PIECE]
            if data[close - SEAL_BYTES : close] != seal or size < MIN_RECORD_BYTES:
                break
            said, _, said_at = _unpack_place(data, place)
            if said != size or said_at != log_offset:
                break
        parts.append(data[place:close])
    return b"".join(parts), len(parts)


compiled.take_over(globals(), "rocketpipe.store.queues._entries")
