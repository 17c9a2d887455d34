"""Records of the commit log as bytes: whether they are whole, and what their properties say.

``_records.pyx`` is the compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final
from zlib import crc32

from rocketpipe import compiled
from rocketpipe.errors import RecordError
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.hot import Split, seal_holds, split
from rocketpipe.record.layout import (
    MAGIC_V1,
    MAGIC_V2,
    MAX_RECORD_BYTES,
    MIN_RECORD_BYTES,
    SEAL_BYTES,
)
from rocketpipe.record.seals import HIGH, LOW, MIDDLE, PIECE
from rocketpipe.store.log.puts import Appended

_SEAL_NAME: Final = b"__CRC32#\x01"
_unpack_place: Final = Struct(">ii20xq").unpack_from
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)


def check_record(record: bytes, at: int) -> Split:
    """Find the parts of one record of the log, and make sure that all of it is as it was written.

    A record with a checksum of its own is checked as a whole, any other by that of its body. The
    log knows which records must have one.

    Raises:
        RecordError: It is not a record, not the one that was written at ``at``, or has changed.
    """
    parts = split(record, 0, len(record))
    head = parts[0]
    if parts[5] != len(record):
        raise RecordError(f"a size of {head[0]}, where {len(record)} were expected")
    if head[6] != at:
        raise RecordError(f"it says that it is at {head[6]}", 28)
    if is_sealed(record):
        if not seal_holds(record):
            raise RecordError("its checksum is that of other bytes", len(record) - SEAL_BYTES)
    elif crc32(memoryview(record)[parts[1] : parts[1] + head[14]]) & 0x7FFFFFFF != head[2]:
        raise RecordError("its body has another checksum", 8)
    return parts


def is_sealed(record: bytes) -> bool:
    """Tell whether a record ends in a checksum of its own."""
    return record[-SEAL_BYTES:-11] == _SEAL_NAME


def value_of(properties: bytes, name: bytes) -> bytes:
    """Give the value of a property among encoded ones; empty if it is not there.

    ``name`` ends in 0x01. Of several with the same name the last counts.
    """
    at = properties.rfind(name)
    while at >= 0:
        if at == 0 or properties[at - 1] == 2:
            end = properties.find(2, at)
            value = properties[at + len(name) : end] if end >= 0 else properties[at + len(name) :]
            if value:
                return value
        at = properties.rfind(name, 0, at)
    return b""


def whole_records(data: bytes, at: int) -> Iterator[tuple[LogOffset, bytes]]:
    """Give the records of bytes that were just written to ``at`` of the log, and where each is."""
    place = 0
    while place < len(data):
        size: int = _unpack_place(data, place)[0]
        yield LogOffset(at + place), data[place : place + size]
        place += size


def sealed_run(data: bytes, at: int, place: int) -> tuple[int, int, int]:
    """Step over records of the log as long as each is where it says, and its checksum holds.

    ``data`` begins at ``at`` of the log. Gives the place behind the last of them and that of the
    last one, both ``place`` if there is none, and their count.
    """
    view = memoryview(data)
    length = len(data)
    last = place
    count = 0
    while length - place >= MIN_RECORD_BYTES:
        size, magic, log_offset = _unpack_place(data, place)
        close = place + size
        if (
            magic not in _MAGICS
            or not MIN_RECORD_BYTES <= size <= MAX_RECORD_BYTES
            or log_offset != at + place
            or close > length
        ):
            break
        upper, low = divmod(crc32(view[place : close - SEAL_BYTES]) & 0x7FFFFFFF, PIECE)
        seal = LOW[low] + MIDDLE[upper % PIECE] + HIGH[upper // PIECE]
        if data[close - SEAL_BYTES : close] != seal:
            break
        last = place
        count += 1
        place = close
    return place, last, count


def known_run(
    data: bytes, at: int, place: int, topics: Mapping[bytes, str]
) -> tuple[list[Appended], int]:
    """Tell of records that follow each other what the appender would have told.

    ``data`` begins at ``at`` of the log. It ends before the first that is not whole, has no
    checksum of its own, or is of another topic than these; gives the place of that too.
    """
    records = []
    while len(data) - place >= MIN_RECORD_BYTES:
        size = _unpack_place(data, place)[0]
        record = data[place : place + size] if size > 0 else b""
        try:
            head, _, topic_at, topic_end, properties_at, end = check_record(record, at + place)
        except RecordError:
            break
        topic = topics.get(record[topic_at:topic_end])
        if topic is None or head[3] < 0 or not is_sealed(record):
            break
        properties = record[properties_at : end - SEAL_BYTES]
        where = LogOffset(at + place), size, QueueOffset(head[5]), head[10]
        records.append(Appended(*where, topic, head[3], head[7], properties))
        place += size
    return records, place


compiled.take_over(globals(), "rocketpipe.store.log._records")
