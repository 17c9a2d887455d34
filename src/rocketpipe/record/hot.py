"""What runs once per message: bytes in, bytes out, no objects.

Arguments are positional, in the order of the record (see ``record.layout``), and already checked:
``record.codec`` is the same with names and errors. ``_hot.pyx`` is the compiled twin; see
``rocketpipe.compiled``.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from struct import Struct
from typing import Any, Final
from zlib import crc32

from rocketpipe import compiled
from rocketpipe.errors import RecordError
from rocketpipe.model.flags import BORN_HOST_V6, STORE_HOST_V6
from rocketpipe.model.properties import read_text
from rocketpipe.record.layout import (
    HEADS,
    HOST_BITS,
    MAGIC_V1,
    MAGIC_V2,
    MAX_TOPIC_V1_BYTES,
    MIN_RECORD_BYTES,
    SEAL_BYTES,
    SHORT,
)

Bytes = bytes | bytearray | memoryview

_CHUNK: Final = 128
_CHUNK_POWER: Final = pow(31, _CHUNK, 1 << 32)
# A hash is its text read as a number in base 31, which int() does in C. A unit has more values than
# base 31 has digits, so it is read twice: unit = 31 * high + low.
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstu"
_HIGH: Final = bytes(_DIGITS[unit // 31] for unit in range(256))
_LOW: Final = bytes(_DIGITS[unit % 31] for unit in range(256))

_pack_short: Final = SHORT.pack
_unpack_short: Final = SHORT.unpack_from
_unpack_head: Final = HEADS[0].unpack_from
_HEAD_BYTES: Final = HEADS[0].size
#: What an entry of a batch begins with: see ``record.batch``.
_ENTRY_HEAD: Final = Struct(">iiiii")
_unpack_entry: Final = _ENTRY_HEAD.unpack_from
_ENTRY_HEAD_BYTES: Final = _ENTRY_HEAD.size
_MIN_ENTRY_BYTES: Final = _ENTRY_HEAD.size + SHORT.size

#: The head of a record, from its size to the length of its body, then where its parts are: body,
#: topic, end of the topic, properties, end of the record.
Split = tuple[tuple[Any, ...], int, int, int, int, int]


def java_hash(text: str) -> int:
    """Give Java's ``String.hashCode``: over UTF-16 units, wrapped to a signed 32-bit number."""
    if text.isascii():
        total = base_31(text.encode("ascii"))
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        total = 256 * base_31(units[::2]) + base_31(units[1::2])
    return ((total + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def base_31(units: bytes) -> int:
    """Read bytes as the digits of a number in base 31: Java's hash of such a text, not wrapped."""
    if len(units) <= _CHUNK:
        if not units:
            return 0
        return 31 * int(units.translate(_HIGH), 31) + int(units.translate(_LOW), 31)
    # int() takes time in the square of the length: long texts go piece by piece, a short one first.
    start = len(units) % _CHUNK
    total = base_31(units[:start])
    for at in range(start, len(units), _CHUNK):
        total = (total * _CHUNK_POWER + base_31(units[at : at + _CHUNK])) & 0xFFFFFFFF
    return total


@lru_cache(maxsize=4096)
def _tag_hash(tag: bytes) -> int:
    return java_hash(read_text(tag))


def tag_code(properties: bytes) -> int:
    """Give the hash of the tag among encoded properties, as a consume queue keeps it; 0 if none."""
    at = properties.rfind(b"TAGS\x01")
    while at >= 0:
        # The name starts the text or follows a separator, and the value is not empty; of several
        # the last counts.
        if at == 0 or properties[at - 1] == 2:
            end = properties.find(2, at)
            tag = properties[at + 5 : end] if end >= 0 else properties[at + 5 :]
            if tag:
                # Only what real tags look like is remembered, so that the memory stays small.
                return _tag_hash(tag) if len(tag) <= 64 else java_hash(read_text(tag))
        at = properties.rfind(b"TAGS\x01", 0, at)
    return 0


def topic_head(topic: bytes) -> tuple[int, bytes]:
    """Give the magic and the length-prefixed topic, which ``encode`` takes for every record."""
    if len(topic) <= MAX_TOPIC_V1_BYTES:
        return MAGIC_V1, len(topic).to_bytes(1, "big") + topic
    return MAGIC_V2, _pack_short(len(topic)) + topic


def encode(
    magic: int,
    queue_id: int,
    flag: int,
    queue_offset: int,
    log_offset: int,
    sys_flag: int,
    born_ms: int,
    born_host: bytes,
    stored_ms: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_offset: int,
    body: Bytes,
    topic: bytes,
    properties: bytes,
) -> bytes:
    """Write one record; ``magic`` and ``topic`` are of ``topic_head``, hosts 8 or 20 bytes."""
    assert len(born_host) == (20 if sys_flag & BORN_HOST_V6 else 8)
    assert len(store_host) == (20 if sys_flag & STORE_HOST_V6 else 8)
    head = HEADS[sys_flag & HOST_BITS]
    body_bytes = len(body)
    return b"".join(
        (
            head.pack(
                head.size + body_bytes + len(topic) + 2 + len(properties),
                magic,
                crc32(body) & 0x7FFFFFFF,
                queue_id,
                flag,
                queue_offset,
                log_offset,
                sys_flag,
                born_ms,
                born_host,
                stored_ms,
                store_host,
                reconsume_times,
                prepared_offset,
                body_bytes,
            ),
            body,
            topic,
            _pack_short(len(properties)),
            properties,
        )
    )


def split(buffer: Bytes, at: int, end: int) -> Split:
    """Find the parts of the record at ``at``, without reading beyond ``end`` or its own size.

    Raises:
        RecordError: If there is no whole record, or its lengths do not add up.
    """
    if end - at < MIN_RECORD_BYTES:
        raise RecordError(f"{end - at} bytes are no record", at)
    head = _unpack_head(buffer, at)
    size = head[0]
    stop = at + size
    if size < MIN_RECORD_BYTES or stop > end:
        raise RecordError(f"a size of {size}, with {end - at} bytes there", at)
    body = at + _HEAD_BYTES
    if head[7] & HOST_BITS:
        wide = HEADS[head[7] & HOST_BITS]
        body = at + wide.size
        if body > stop:
            raise RecordError(f"a size of {size} has no room for IPv6 hosts", at)
        head = wide.unpack_from(buffer, at)
    topic = body + head[14]
    # One byte of topic length, or the first of two, and two for the properties' length.
    if head[14] < 0 or topic + 3 > stop:
        raise RecordError(f"a body of {head[14]} bytes in a record of {size}", body - 4)
    if head[1] == MAGIC_V1:
        topic_bytes = buffer[topic]
        topic += 1
        if topic_bytes > MAX_TOPIC_V1_BYTES:
            raise RecordError(f"a topic of {topic_bytes} bytes under the first magic", topic - 1)
    elif head[1] == MAGIC_V2:
        (topic_bytes,) = _unpack_short(buffer, topic)
        topic += 2
    else:
        raise RecordError(f"{head[1] & 0xFFFFFFFF:#010x} is no magic", at + 4)
    topic_end = topic + topic_bytes
    properties = topic_end + 2
    if topic_bytes < 0 or properties > stop:
        raise RecordError(f"a topic of {topic_bytes} bytes in a record of {size}", topic)
    (properties_bytes,) = _unpack_short(buffer, topic_end)
    if properties + properties_bytes != stop:
        raise RecordError(
            f"properties of {properties_bytes} bytes where {stop - properties} are left", topic_end
        )
    return head, body, topic, topic_end, properties, stop


def cut(buffer: Bytes, at: int, end: int) -> tuple[bytes, Split]:
    """Give the record at ``at`` as bytes of its own, and where its parts are in these.

    Raises:
        RecordError: As `split`.
    """
    head, body, topic, topic_end, properties, stop = split(buffer, at, end)
    parts = (head, body - at, topic - at, topic_end - at, properties - at, stop - at)
    return bytes(buffer[at:stop]), parts


def checked_body(buffer: Bytes, at: int, end: int, crc: int) -> bytes | None:
    """Give the body between two places, None unless it is the one of which that is the CRC."""
    body = bytes(buffer[at:end])
    return body if crc32(body) & 0x7FFFFFFF == crc else None


def checksums(buffer: Bytes, starts: Any, ends: Any, before: int = 0) -> bytes:
    """The CRC-32 of each of many runs of bytes: numbers of 32 bits, in this machine's order.

    ``starts`` and ``ends`` are arrays of 64 bits, of anything that shows its memory; ``before`` is
    the CRC-32 of what all of them are taken to follow.
    """
    view = memoryview(buffer)
    runs = zip(memoryview(starts), memoryview(ends), strict=True)
    return array("I", [crc32(view[start:end], before) for start, end in runs]).tobytes()


def queue_offsets(records: bytes) -> list[int]:
    """Give the places in their queue of records that follow each other.

    Raises:
        RecordError: If one is not whole, or its lengths do not add up.
    """
    offsets: list[int] = []
    at, end = 0, len(records)
    while at < end:
        head, _, _, _, _, at = split(records, at, end)
        offsets.append(head[5])
    return offsets


def seal(record: bytes) -> bytes:
    """Fill the room that ``checksum.reserve`` left at the record's end with its checksum."""
    digits = b"%010d" % (crc32(memoryview(record)[:-SEAL_BYTES]) & 0x7FFFFFFF)
    return b"%b__CRC32#\x01%b\x02" % (record[:-SEAL_BYTES], digits[::-1])


def seal_holds(record: bytes) -> bool:
    """Tell whether the record ends in a checksum, and the checksum is that of what precedes it."""
    if record[-SEAL_BYTES:-11] != b"__CRC32#\x01" or record[-1] != 2:
        return False
    digits = b"%010d" % (crc32(memoryview(record)[:-SEAL_BYTES]) & 0x7FFFFFFF)
    return record[-11:-1] == digits[::-1]


def split_batch(buffer: bytes, max_bytes: int) -> list[tuple[int, bytes, bytes]] | None:
    """Give flag, body and properties of each message of a batch; None if it is not a right one."""
    end = len(buffer)
    entries: list[tuple[int, bytes, bytes]] = []
    at = 0
    while end - at >= _MIN_ENTRY_BYTES and end <= max_bytes:
        size, _, _, flag, body_bytes = _unpack_entry(buffer, at)
        body = at + _ENTRY_HEAD_BYTES
        body_end = body + body_bytes
        at += size
        properties = body_end + 2
        # One comparison with the length that follows the body: it has to bring us to the end.
        if (
            body_bytes < 0
            or properties > at
            or at > end
            or properties + _unpack_short(buffer, body_end)[0] != at
        ):
            return None
        entries.append((flag, buffer[body:body_end], buffer[properties:at]))
        if at == end:
            return entries
    return None


compiled.take_over(globals(), "rocketpipe.record._hot")
