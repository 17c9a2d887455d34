"""What is done once per message on its way into queues and index, and out of the log again.

Bytes in, bytes out, no objects. ``_hot.pyx`` is the compiled twin, of this and of other modules of
the store; see ``rocketpipe.compiled``. An entry of a consume queue:

     0  8  offset of the record in the commit log
     8  4  size of the record
    12  8  hash of its tag, or when it falls due

An entry of a key index:

     0  4  hash of topic and key
     4  8  offset of the record in the commit log
    12  4  seconds between the first message of the file and this one
    16  4  number of the entry before it in the same slot, 0 for none
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final
from zlib import crc32

from rocketpipe import compiled
from rocketpipe.errors import RecordError
from rocketpipe.model.properties import read_text
from rocketpipe.record.hot import Split, base_31, java_hash, seal_holds, split, split_batch
from rocketpipe.record.layout import (
    MAGIC_V1,
    MAGIC_V2,
    MAX_RECORD_BYTES,
    MIN_RECORD_BYTES,
    SEAL_BYTES,
)
from rocketpipe.store.log.puts import Put
from rocketpipe.store.seals import HIGH, LOW, MIDDLE, PIECE

QUEUE_ENTRY: Final = Struct(">qiq")
QUEUE_ENTRY_BYTES: Final = QUEUE_ENTRY.size
INDEX_ENTRY: Final = Struct(">iqii")
INDEX_ENTRY_BYTES: Final = INDEX_ENTRY.size

#: The size in an entry that stands for no message: a queue that does not start at its file's start
#: is filled up with these.
BLANK_SIZE: Final = 0x7FFFFFFF
BLANK_ENTRY: Final = QUEUE_ENTRY.pack(0, BLANK_SIZE, 0)
NO_ENTRY: Final = bytes(QUEUE_ENTRY_BYTES)

_SEAL_NAME: Final = b"__CRC32#\x01"
_UNIQUE_NAME: Final = b"UNIQ_KEY\x01"
_UNIQUE_BYTES: Final = 32

queue_entry: Final = QUEUE_ENTRY.pack
_pack_key: Final = INDEX_ENTRY.pack
_MAX_SECONDS: Final = 0x7FFFFFFF
_unpack_place: Final = Struct(">ii20xq").unpack_from
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_new_tuple: Final = tuple.__new__

#: Of an entry that a reader wants: where its record is, the size, and its number among those read.
Wanted = tuple[int, int, int]

#: Longer keys are hashed with their topic as one text.
_MAX_POWER: Final = 255
_POWERS: Final = [pow(31, length, 1 << 32) for length in range(_MAX_POWER + 1)]
# Unique keys are hexadecimal: "0" to "F" are 31 digits or less apart, so that one reading in base
# 31 does where other texts take two; what all characters have in common is added afterwards.
_FROM_0: Final = bytes(
    b"0123456789abcdefghijklmnopqrstu"[unit - 48] if 48 <= unit < 79 else 0xFF
    for unit in range(256)
)
_OFFSETS: Final = [48 * (31**length - 1) // 30 % (1 << 32) for length in range(_MAX_POWER + 1)]


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


def key_hash(topic: str, key: str) -> int:
    """Give the number under which a key is indexed."""
    return _positive(java_hash(f"{topic}#{key}") & 0xFFFFFFFF)


def _positive(number: int) -> int:
    # Java's abs; it has no positive counterpart of its least number, and takes 0.
    return number if number < 0x80000000 else -number & 0x7FFFFFFF


def key_hashes(topic: str, properties: bytes, tags: bool = False) -> list[int]:
    """Give the numbers under which a message is indexed: its unique key, then each of its keys.

    RocketMQ has from 5.5 on its tag behind them, as the key ``T#tag``; with ``tags`` so have we.
    """
    hashes = []
    unique = value_of(properties, b"UNIQ_KEY\x01")
    length = len(unique)
    if length:
        try:
            total = _topic_hash(topic) * _POWERS[length] + _OFFSETS[length]
            total = (total + int(unique.translate(_FROM_0), 31)) & 0xFFFFFFFF
            hashes.append(total if total < 0x80000000 else -total & 0x7FFFFFFF)
        except (ValueError, IndexError):
            hashes.append(_hash_behind(topic, unique))
    if properties.rfind(b"KEYS\x01") >= 0:
        keys = value_of(properties, b"KEYS\x01")
        if keys.isascii():
            hashes.extend([_hash_behind(topic, key) for key in keys.split(b" ") if key])
        else:
            hashes.extend(key_hash(topic, key) for key in read_text(keys).split(" ") if key)
    if tags:
        tag = value_of(properties, b"TAGS\x01")
        if tag:
            hashes.append(_hash_behind(topic, b"T#" + tag))
    return hashes


def _hash_behind(topic: str, key: bytes) -> int:
    """Hash a key in the bytes of a record as if its topic stood before it, which is hashed once."""
    length = len(key)
    if length > _MAX_POWER or not key.isascii():
        return key_hash(topic, read_text(key))
    return _positive((_topic_hash(topic) * _POWERS[length] + base_31(key)) & 0xFFFFFFFF)


@lru_cache(maxsize=4096)
def _topic_hash(topic: str) -> int:
    return java_hash(f"{topic}#")


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


def chain_entries(
    table: array[int],
    count: int,
    begin_ms: int,
    keys: Sequence[tuple[int, int, int]],
    page_slots: int,
    dirty: set[int],
) -> tuple[bytes, int]:
    """Put keys into their slots; gives their index entries, and how many slots were not in use.

    Keys are hash, log offset and time, and get the numbers from ``count`` on. Times count from
    ``begin_ms``, in seconds. Pages of slots that have changed are noted in ``dirty``.
    """
    slots = len(table)
    used = 0
    at_ms, seconds = -1, 0
    entries = []
    for number, log_offset, stored_ms in keys:
        if stored_ms != at_ms:
            at_ms = stored_ms
            seconds = 0
            if begin_ms > 0 and stored_ms > begin_ms:
                seconds = min((stored_ms - begin_ms) // 1000, _MAX_SECONDS)
        slot = number % slots
        before = table[slot]
        table[slot] = count
        entries.append(_pack_key(number, log_offset, seconds, before))
        dirty.add(slot // page_slots)
        if not before:
            used += 1
        count += 1
    return b"".join(entries), used


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


def puts_of_batch(
    buffer: bytes,
    max_bytes: int,
    heads: set[bytes],
    topic: str,
    queue_id: int,
    sys_flag: int,
    born_ms: int,
    born_host: bytes,
    suffix: bytes,
) -> list[Put] | None:
    """Make messages to append of a batch whose properties are of a known kind, else give None.

    They end in a unique key of 32 letters and digits, and what stands before it is among
    ``heads``. Each gets ``suffix`` behind its properties.
    """
    messages = split_batch(buffer, max_bytes)
    if messages is None:
        return None
    puts = []
    for flag, body, raw in messages:
        head, _, key = raw.rpartition(_UNIQUE_NAME)
        if (
            len(key) != _UNIQUE_BYTES + 1
            or key[-1] != 2
            or not key[:-1].isalnum()
            or head not in heads
        ):
            return None
        put = (topic, queue_id, body, raw + suffix, flag, sys_flag, born_ms, born_host, 0, 0)
        puts.append(_new_tuple(Put, put))
    return puts


compiled.take_over(globals(), "rocketpipe.store._hot")
