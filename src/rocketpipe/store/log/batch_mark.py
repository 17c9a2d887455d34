"""The property that ties the records of one group together, so that a crash keeps all or none.

    __BATCH#  0x01  where the group starts, where it ends: 16 hexadecimal digits each  0x02

Every record of a group of two or more carries it, 42 bytes, as the last property but the checksum.
Both positions are offsets of the log; the end is that of the group's last record. Recovery that
finds no whole record at the end of a log, but the middle of a group, cuts at the group's start.
A broker that knows nothing of this sees one more property.
"""

from __future__ import annotations

import re
from typing import Final

from rocketpipe.record.layout import SEAL_BYTES

_NAME: Final = b"__BATCH#\x01"
_DIGITS: Final = 16
MARK_BYTES: Final = len(_NAME) + 2 * _DIGITS + 1
_MARK: Final = re.compile(rb"__BATCH#\x01([0-9a-f]{16})([0-9a-f]{16})\x02")

assert MARK_BYTES == 42


def write_mark(start: int, end: int) -> bytes:
    """The property of every record of the group that lies between these offsets."""
    return b"%b%016x%016x\x02" % (_NAME, start, end)


def read_mark(record: bytes, *, sealed: bool) -> tuple[int, int] | None:
    """Give the start and the end of the group that a record belongs to; ``None`` if to none."""
    end = len(record) - SEAL_BYTES if sealed else len(record)
    start = end - MARK_BYTES
    if start < 0 or record[start : start + len(_NAME)] != _NAME:
        return None
    found = _MARK.fullmatch(record, start, end)
    return (int(found[1], 16), int(found[2], 16)) if found else None


def strip_mark(properties: bytes) -> bytes:
    """Give encoded properties without any such property, as nobody else may write it."""
    if _NAME not in properties:
        return properties
    pieces = properties.split(b"\x02")
    return b"\x02".join(piece for piece in pieces if not piece.startswith(_NAME))
