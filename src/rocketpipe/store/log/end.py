"""Where a log ends: the walk over its records that recovery does, checking each.

A record is whole when its size, its magic and its own offset fit its place, and all of it is what
its checksum was computed of; a record without one is checked as far as its lengths and the CRC of
its body go.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from rocketpipe.errors import RecordError
from rocketpipe.record.hot import seal_holds, split
from rocketpipe.record.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    MAX_RECORD_BYTES,
    MIN_RECORD_BYTES,
    SEAL_BYTES,
    SIZE_AND_MAGIC,
)
from rocketpipe.store.log.batch_mark import read_mark
from rocketpipe.store.log.commit_log import WALK_BYTES, CommitLog
from rocketpipe.store.log.records import sealed_run

#: Size, magic and log offset: the rest is covered by the checksum.
_PLACE: Final = struct.Struct(">ii20xq")
_SEAL_NAME: Final = b"__CRC32#\x01"
_MAGIC_START: Final = MAGIC_V1.to_bytes(4, "big", signed=True)[:3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """How far whole records go, and why they go no further."""

    #: Behind the last whole record, or where the walk began.
    end: int
    #: Where the next record should be and is not: the same, or behind the filler that follows.
    stopped_at: int
    #: Where the last whole record starts; −1 if there was none.
    last_record: int
    #: How many there were.
    records: int
    #: Where the last record without a checksum starts; −1 if all have one.
    unsealed: int
    #: The group that the last record belongs to, if it does.
    group: tuple[int, int] | None
    #: What is wrong with what follows, or would be if something did.
    reason: str


def problem_of(record: bytes, at: int, *, sealed: bool = False) -> str | None:
    """Say what is wrong with bytes that should be the record at ``at``; ``None`` if nothing is.

    ``sealed`` says that it was written with a checksum, and so must have one.
    """
    size = len(record)
    if size < MIN_RECORD_BYTES:
        return f"{size} bytes are no record"
    written, magic, log_offset = _PLACE.unpack_from(record)
    if written != size:
        return f"a size of {written} in {size} bytes"
    if magic not in (MAGIC_V1, MAGIC_V2):
        return f"{magic & 0xFFFFFFFF:#010x} is no magic"
    if log_offset != at:
        return f"it says that it is at {log_offset}"
    if record[-SEAL_BYTES:-11] == _SEAL_NAME and record[-1] == 2:
        if seal_holds(record):
            return None  # it covers the body, and all lengths
        return "it is not what its checksum was computed of"
    if sealed or _is_nearly_sealed(record):
        return "its checksum is gone"
    try:
        head, body, _, _, _, _ = split(record, 0, size)
    except RecordError as error:
        return error.reason
    if crc32(memoryview(record)[body : body + head[14]]) & 0x7FFFFFFF != head[2]:
        return "its body is not what its CRC was computed of"
    return None


def _is_nearly_sealed(record: bytes) -> bool:
    """Whether a checksum was at the end before a few bits of its name turned.

    That tells even where nothing is known of the log, and no broker writes such a name by itself.
    """
    end = record[-SEAL_BYTES:-11] + record[-1:]
    same = sum(one == other for one, other in zip(end, _SEAL_NAME + b"\x02", strict=False))
    return same > len(end) // 2


def stored_ms_of(record: bytes) -> int:
    """When a whole record was stored."""
    head, *_ = split(record, 0, len(record))
    return int(head[10])


def record_at(log: CommitLog, at: int) -> bytes | None:
    """The whole record at an offset; ``None`` if there is none.

    Raises:
        DiskError: The log cannot be read.
    """
    head = log.run.read(at, SIZE_AND_MAGIC.size)
    if len(head) < SIZE_AND_MAGIC.size:
        return None
    size, _ = SIZE_AND_MAGIC.unpack(head)
    if not MIN_RECORD_BYTES <= size <= MAX_RECORD_BYTES:
        return None
    record = log.run.read(at, size)
    if len(record) != size:
        return None
    return record if problem_of(record, at, sealed=log.must_be_sealed(at)) is None else None


def walk_to_end(log: CommitLog, start: int, stop: int | None = None) -> Walked:
    """Check record after record from ``start``, where one starts, as far as they are whole.

    With ``stop`` the walk ends there at the latest. A filler counts only with a record behind it.

    Raises:
        DiskError: The log cannot be read.
    """
    unpack = _PLACE.unpack_from
    first_magic, second_magic, least, most = MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, MAX_RECORD_BYTES
    last = -1
    unsealed = -1
    count = 0
    last_bytes = b""
    end = at = start
    limit = log.run.end if stop is None else min(stop, log.run.end)
    asked = WALK_BYTES
    reason = "the log has no more segments"
    while at < limit:
        data = log.run.read(at, min(asked, limit - at))
        length = len(data)
        place, before, many = sealed_run(data, at, 0)
        count += many
        wanted = 0
        # What has no checksum is looked at one by one.
        while length - place >= least:
            size, magic, log_offset = unpack(data, place)
            if magic != first_magic and magic != second_magic:
                break
            if size < least or size > most or log_offset != at + place:
                break
            close = place + size
            if close > length:
                wanted = size
                break
            sealed = log.must_be_sealed(log_offset)
            if problem_of(data[place:close], log_offset, sealed=sealed) is not None:
                break
            unsealed = log_offset
            before = place
            place, last_sealed, many = sealed_run(data, at, close)
            if many:
                before = last_sealed
            count += 1 + many
        if place:
            # Read on from the record that was not wholly there, or was not whole.
            last, last_bytes = at + before, data[before:place]
            at += place
            end = at
            asked = WALK_BYTES
        elif wanted > asked:
            asked = wanted
        else:
            following = _behind_filler(log, at)
            if following is None:
                reason = reason_at(log, at)
                break
            at = following
            asked = WALK_BYTES
    return Walked(
        end=end,
        stopped_at=at,
        last_record=last,
        records=count,
        unsealed=unsealed,
        group=_group_of(last_bytes),
        reason=reason,
    )


def unfinished_group(log: CommitLog, walked: Walked) -> int | None:
    """Where the group starts that a walk ended within; ``None`` if it did not.

    What clients of other brokers call so is none: in a group the first record says the same.

    Raises:
        DiskError: The log cannot be read.
    """
    group = walked.group
    if group is None or group[1] <= walked.end:
        return None
    start = max(group[0], log.run.first)
    if start != group[0]:
        return start  # the segment that it started in is gone
    first = record_at(log, start)
    return start if first is not None and _group_of(first) == group else None


def _group_of(record: bytes) -> tuple[int, int] | None:
    return read_mark(record, sealed=record[-SEAL_BYTES:-11] == _SEAL_NAME)


def _behind_filler(log: CommitLog, at: int) -> int | None:
    head = log.run.read(at, SIZE_AND_MAGIC.size)
    if len(head) < SIZE_AND_MAGIC.size:
        return None
    remaining, magic = SIZE_AND_MAGIC.unpack(head)
    if magic != BLANK_MAGIC or remaining != log.run.size - at % log.run.size:
        return None
    return at + int(remaining)


def reason_at(log: CommitLog, at: int) -> str:
    """Say why no whole record is at an offset.

    Raises:
        DiskError: The log cannot be read.
    """
    head = log.run.read(at, MIN_RECORD_BYTES)
    if len(head) < MIN_RECORD_BYTES:
        return "the log has no more segments"
    if not head.strip(b"\x00"):
        return "nothing is written there"
    size = int.from_bytes(head[:4], "big", signed=True)
    if not MIN_RECORD_BYTES <= size <= MAX_RECORD_BYTES:
        return f"a size of {size}"
    record = log.run.read(at, size)
    if len(record) < size:
        return f"a size of {size} goes beyond the segment"
    return problem_of(record, at, sealed=log.must_be_sealed(at)) or "a whole record"


def next_whole(log: CommitLog, start: int, stop: int) -> int | None:
    """Find the first whole record between two offsets that lies where it says it does.

    Raises:
        DiskError: The log cannot be read.
    """
    at = start
    while at < stop:
        # The magic of a record that starts before the end may lie behind it.
        data = log.run.read(at, min(WALK_BYTES, stop - at + 3 + len(_MAGIC_START)))
        if not data:
            return None
        found = data.find(_MAGIC_START)
        while found >= 0:
            place = at + found - 4
            in_range = start <= place < stop
            if in_range and _says_it_is_at(log, place) and record_at(log, place) is not None:
                return place
            found = data.find(_MAGIC_START, found + 1)
        segment_end = at - at % log.run.size + log.run.size
        # A magic may lie across the end of what was read, but not across that of a segment.
        step = at + len(data)
        at = step if step >= segment_end or len(data) < 4 else step - len(_MAGIC_START) + 1
    return None


def _says_it_is_at(log: CommitLog, place: int) -> bool:
    # Bodies may be full of magics; this tells nearly all of them apart without their bytes.
    if place < log.run.first:
        return False
    return log.run.read(place + 28, 8) == place.to_bytes(8, "big")


def end_of_data(log: CommitLog, start: int, stop: int) -> int:
    """Where the zeros begin that go on from there up to ``stop``.

    Raises:
        DiskError: The log cannot be read.
    """
    end = at = start
    while at < stop:
        data = log.run.read(at, min(WALK_BYTES, stop - at))
        if not data:
            break
        written = data.rstrip(b"\x00")
        if written:
            end = at + len(written)
        at += len(data)
    return end
