"""The bytes of an index file.

     0   8  when its first message was stored, ms
     8   8  when its last message was stored, ms
    16   8  log offset of its first message
    24   8  log offset of its last message
    32   4  how many slots are in use
    36   4  number of the next entry; the first entry has number 1
    40      slots: 4 bytes each, the number of the newest entry of the slot, 0 for none
            entries: 20 bytes each, see ``hot``; number 0 is unused

The slot of an entry is its hash modulo the number of slots.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from rocketpipe.store.index.entries import INDEX_ENTRY_BYTES

HEADER: Final = Struct(">qqqqii")
SLOT_BYTES: Final = 4
#: Entries are checked and summed in blocks of so many.
BLOCK_ENTRIES: Final = 65536
SWAP: Final = sys.byteorder == "little"

assert array("i").itemsize == SLOT_BYTES


@dataclass(frozen=True, slots=True)
class IndexSums:
    """What a file was like when it was synced: its header, and a checksum for each block."""

    header: bytes
    entries: list[int]
    slots: list[int]


def file_bytes(slots: int, entries: int) -> int:
    """How long an index file is."""
    return HEADER.size + slots * SLOT_BYTES + entries * INDEX_ENTRY_BYTES


def big_endian(part: array[int]) -> bytes:
    """Give slots as they are in the file; the array is not to be used any more."""
    if SWAP:
        part.byteswap()
    return part.tobytes()


def runs(pages: list[int]) -> Iterator[tuple[int, int]]:
    """Give the first and last of each stretch of pages that follow each other."""
    first = last = pages[0]
    for page in pages[1:]:
        if page != last + 1:
            yield first, last
            first = page
        last = page
    yield first, last
