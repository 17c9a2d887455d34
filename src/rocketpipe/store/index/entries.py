"""The entries of key indexes, and the hashes that messages are indexed under.

An entry has 20 bytes:

     0  4  hash of topic and key
     4  8  offset of the record in the commit log
    12  4  seconds between the first message of the file and this one
    16  4  number of the entry before it in the same slot, 0 for none

Keys that are to be indexed come as bytes too, 20 for each: its hash (4), the offset of its record
in the log (8) and when that was stored (8).

This is done once per key. ``_entries.pyx`` is the compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from struct import Struct
from typing import Final

from rocketpipe import compiled
from rocketpipe.model.properties import read_text
from rocketpipe.record.hot import base_31, java_hash
from rocketpipe.store.log.records import value_of

INDEX_ENTRY: Final = Struct(">iqii")
INDEX_ENTRY_BYTES: Final = INDEX_ENTRY.size
#: A key to be indexed: its hash, the offset of its record, when that was stored.
INDEX_KEY: Final = Struct(">iqq")
INDEX_KEY_BYTES: Final = INDEX_KEY.size
_pack_key: Final = INDEX_ENTRY.pack
_MAX_SECONDS: Final = 0x7FFFFFFF
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


def chain_entries(
    table: array[int],
    count: int,
    begin_ms: int,
    keys: bytes,
    page_slots: int,
    dirty: bytearray,
) -> tuple[bytes, int]:
    """Put keys into their slots; gives their index entries, and how many slots were not in use.

    Keys get the numbers from ``count`` on. Times count from ``begin_ms``, in seconds. Pages of
    slots that have changed are noted in ``dirty``, which has a byte for each.
    """
    slots = len(table)
    used = 0
    at_ms, seconds = -1, 0
    entries = []
    for number, log_offset, stored_ms in INDEX_KEY.iter_unpack(keys):
        if stored_ms != at_ms:
            at_ms = stored_ms
            seconds = 0
            if begin_ms > 0 and stored_ms > begin_ms:
                seconds = min((stored_ms - begin_ms) // 1000, _MAX_SECONDS)
        slot = number % slots
        before = table[slot]
        table[slot] = count
        entries.append(_pack_key(number, log_offset, seconds, before))
        dirty[slot // page_slots] = 1
        if not before:
            used += 1
        count += 1
    return b"".join(entries), used


compiled.take_over(globals(), "rocketpipe.store.index._entries")
