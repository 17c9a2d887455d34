"""What the dispatcher does once per message: bytes in, bytes out, no objects.

A compiled twin can stand beside this module with the same signatures. An entry of a consume queue:

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

from functools import lru_cache
from struct import Struct
from typing import Final
from zlib import crc32

from rocketpipe.errors import RecordError
from rocketpipe.model.properties import read_text
from rocketpipe.record.hot import Split, base_31, java_hash, seal_holds, split
from rocketpipe.record.layout import MIN_RECORD_BYTES, SEAL_BYTES

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

queue_entry: Final = QUEUE_ENTRY.pack

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
