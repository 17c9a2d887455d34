"""Records to messages and back; ``record.layout`` has the bytes.

There are three ways to read. ``decode_record`` gives all of a record, so that ``encode_record``
gives the same bytes again. ``RecordView`` looks at a field when it is asked for, which is what
consumers want of a pull body. ``walk`` only steps from record to record, along a commit log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final
from zlib import crc32

from rocketpipe.errors import PropertiesError, RecordError
from rocketpipe.model import flags, ids
from rocketpipe.model import properties as properties_text
from rocketpipe.model.host import Host
from rocketpipe.model.message import Readable, StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record import compression, hot
from rocketpipe.record.hot import Bytes
from rocketpipe.record.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    MAX_PROPERTIES_BYTES,
    MAX_TOPIC_BYTES,
    MAX_TOPIC_V1_BYTES,
    MIN_RECORD_BYTES,
    SHORT,
    SIZE_AND_MAGIC,
)

_INT32: Final = range(-(1 << 31), 1 << 31)
_INT64: Final = range(-(1 << 63), 1 << 63)


def encode_record(message: StoredMessage) -> bytes:
    """Write a message as its record; size and CRC are computed, host bits follow the hosts.

    Raises:
        PropertiesError: If the properties are longer than a record can hold.
        RecordError: If the topic is, or is not text; or a number does not fit its field.
    """
    try:
        topic = message.topic.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RecordError("a topic with half a surrogate pair", error.start) from None
    if len(topic) > MAX_TOPIC_BYTES:
        raise RecordError(f"a topic of {len(topic)} bytes, more than {MAX_TOPIC_BYTES}")
    long_topic = message.long_topic
    if long_topic is None:
        long_topic = len(topic) > MAX_TOPIC_V1_BYTES
    elif not long_topic and len(topic) > MAX_TOPIC_V1_BYTES:
        raise RecordError(f"a topic of {len(topic)} bytes, under a magic for {MAX_TOPIC_V1_BYTES}")
    if len(message.raw_properties) > MAX_PROPERTIES_BYTES:
        raise PropertiesError(
            f"properties of {len(message.raw_properties)} bytes, more than {MAX_PROPERTIES_BYTES}",
            MAX_PROPERTIES_BYTES,
        )
    sys_flag = message.sys_flag & ~(flags.BORN_HOST_V6 | flags.STORE_HOST_V6)
    if message.born_host.is_v6:
        sys_flag |= flags.BORN_HOST_V6
    if message.store_host.is_v6:
        sys_flag |= flags.STORE_HOST_V6
    _check_numbers(message)
    return hot.encode(
        MAGIC_V2 if long_topic else MAGIC_V1,
        message.queue_id,
        message.flag,
        message.queue_offset,
        message.log_offset,
        sys_flag,
        message.born_ms,
        message.born_host.pack(),
        message.stored_ms,
        message.store_host.pack(),
        message.reconsume_times,
        message.prepared_offset,
        message.body,
        SHORT.pack(len(topic)) + topic if long_topic else bytes((len(topic),)) + topic,
        message.raw_properties,
    )


def decode_record(buffer: Bytes, at: int = 0, *, verify: bool = True) -> StoredMessage:
    """Read the record at ``at``, exactly as stored: the body stays compressed if it is.

    Raises:
        RecordError: If there is no whole record, its lengths do not add up, or its body is not the
            one its CRC was computed of; the last is not looked at when ``verify`` is off.
    """
    return RecordView(buffer, at).message(verify=verify)


def view_records(buffer: Bytes) -> Iterator[RecordView]:
    """Look at records that follow each other, as in a pull body, until the buffer ends.

    Raises:
        RecordError: If one has lengths that do not add up, when it is reached.
    """
    at, end = 0, len(buffer)
    while at < end:
        view = RecordView(buffer, at, end)
        at += view.size
        yield view


def size_at(buffer: Bytes, at: int = 0, end: int | None = None) -> int:
    """Give the size of the record at ``at``, having looked at its size and magic only.

    Raises:
        RecordError: If no whole record is there.
    """
    end = len(buffer) if end is None else end
    if end - at < SIZE_AND_MAGIC.size:
        raise RecordError(f"{end - at} bytes are no record", at)
    size, magic = SIZE_AND_MAGIC.unpack_from(buffer, at)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise RecordError(f"{magic & 0xFFFFFFFF:#010x} is no magic", at + 4)
    if not MIN_RECORD_BYTES <= size <= end - at:
        raise RecordError(f"a size of {size}, with {end - at} bytes there", at)
    return int(size)


def walk(buffer: Bytes, at: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Step through a commit log segment: where each record starts, and its size.

    It ends where the segment does: at its last byte, at the filler in front of it, or where nothing
    has been written yet.

    Raises:
        RecordError: Where neither a record nor an end is.
    """
    end = len(buffer) if end is None else end
    while end - at >= SIZE_AND_MAGIC.size:
        size, magic = SIZE_AND_MAGIC.unpack_from(buffer, at)
        if magic == BLANK_MAGIC or (size == 0 and magic == 0):
            return
        size = size_at(buffer, at, end)
        yield at, size
        at += size
    if any(buffer[at:end]):
        raise RecordError(f"{end - at} bytes are no record", at)


class RecordView(Readable):
    """A record of which each part is read when it is asked for.

    It keeps the whole buffer it was made from, and expects nobody to write to it: who holds on to a
    message for long takes ``message()`` of it.
    """

    __slots__ = (
        "_at",
        "_body",
        "_body_at",
        "_buffer",
        "_head",
        "_properties",
        "_properties_at",
        "_stop",
        "_topic_at",
        "_topic_end",
    )

    def __init__(self, buffer: Bytes, at: int = 0, end: int | None = None) -> None:
        """Look at the record at ``at``; its lengths are checked here, its body when it is read.

        Raises:
            RecordError: If there is no whole record, or its lengths do not add up.
        """
        self._head: tuple[Any, ...]
        (
            self._head,
            self._body_at,
            self._topic_at,
            self._topic_end,
            self._properties_at,
            self._stop,
        ) = hot.split(buffer, at, len(buffer) if end is None else end)
        self._at = at
        self._buffer = buffer
        self._body: bytes | None = None
        self._properties: Mapping[str, str] | None = None

    @property
    def size(self) -> int:
        """The bytes of the whole record."""
        return self._stop - self._at

    @property
    def raw(self) -> bytes:
        """The whole record."""
        return bytes(self._buffer[self._at : self._stop])

    @property
    def long_topic(self) -> bool:
        """Whether the topic's length takes two bytes."""
        return bool(self._head[1] == MAGIC_V2)

    @property
    def body_crc(self) -> int:
        """The CRC that was stored with the body."""
        return int(self._head[2])

    @property
    def queue_id(self) -> int:
        """The queue it is in."""
        return int(self._head[3])

    @property
    def flag(self) -> int:
        """The producer's own 32 bits."""
        return int(self._head[4])

    @property
    def queue_offset(self) -> QueueOffset:
        """Its place in its queue."""
        offset: QueueOffset = self._head[5]
        return offset

    @property
    def log_offset(self) -> LogOffset:
        """Its place in the commit log."""
        return LogOffset(self._head[6])

    @property
    def sys_flag(self) -> int:
        """RocketMQ's bits, as stored."""
        return int(self._head[7])

    @property
    def born_ms(self) -> int:
        """When it was sent."""
        return int(self._head[8])

    @property
    def born_host(self) -> Host:
        """Where it was sent from."""
        return Host.unpack(self._head[9])

    @property
    def stored_ms(self) -> int:
        """When it was stored."""
        return int(self._head[10])

    @property
    def store_host(self) -> Host:
        """Where it was stored."""
        return Host.unpack(self._head[11])

    @property
    def reconsume_times(self) -> int:
        """How often it was sent back."""
        return int(self._head[12])

    @property
    def prepared_offset(self) -> LogOffset:
        """Of a committed message: where its half message is."""
        return LogOffset(self._head[13])

    @property
    def topic(self) -> str:
        """Its topic.

        Raises:
            RecordError: If it is not UTF-8.
        """
        try:
            return str(self._buffer[self._topic_at : self._topic_end], "utf-8")
        except UnicodeDecodeError as error:
            raise RecordError("a topic that is not UTF-8", self._topic_at + error.start) from None

    @property
    def raw_properties(self) -> bytes:
        """The properties in their text form."""
        return bytes(self._buffer[self._properties_at : self._stop])

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, the user's and RocketMQ's."""
        found = self._properties
        if found is None:
            found = MappingProxyType(properties_text.decode_bytes(self.raw_properties))
            self._properties = found
        return found

    @property
    def offset_id(self) -> str:
        """Where the message is stored, as text: broker and place in its log."""
        return ids.offset_id(self._head[11], self._head[6])

    @property
    def stored_body(self) -> bytes:
        """The body as it is stored, unchecked, compressed if ``sys_flag`` says so."""
        return bytes(self._buffer[self._body_at : self._body_at + self._head[14]])

    @property
    def body(self) -> bytes:
        """The body as it was sent, checked and inflated within the usual limit.

        Raises:
            RecordError: If it is not the body its CRC was computed of.
            CompressionError: If it does not inflate, or beyond ``compression.DEFAULT_LIMIT``.
        """
        body = self._body
        if body is None:
            body = self._body = self.read_body()
        return body

    def read_body(self, *, verify: bool = True, limit: int = compression.DEFAULT_LIMIT) -> bytes:
        """Give the body as it was sent, inflated if need be, but to no more than ``limit``.

        Raises:
            RecordError: If it is not the body its CRC was computed of.
            CompressionError: If it does not inflate, or beyond the limit.
        """
        head, start = self._head, self._body_at
        if verify:
            stored = hot.checked_body(self._buffer, start, start + head[14], head[2])
            if stored is None:
                raise self._wrong_crc(self.stored_body)
        else:
            stored = self.stored_body
        if head[7] & flags.COMPRESSED:
            return compression.inflate(stored, head[7], limit, at=start)
        return stored

    def message(self, *, verify: bool = True) -> StoredMessage:
        """Give all of it as a value of its own, with the body as stored.

        Raises:
            RecordError: If the topic is not UTF-8, or the body is not the one its CRC was
                computed of; the last is not looked at when ``verify`` is off.
        """
        head = self._head
        body = self.stored_body
        if verify and crc32(body) & 0x7FFFFFFF != head[2]:
            raise self._wrong_crc(body)
        return StoredMessage(
            topic=self.topic,
            body=body,
            raw_properties=self.raw_properties,
            queue_id=head[3],
            queue_offset=head[5],
            log_offset=head[6],
            flag=head[4],
            sys_flag=head[7],
            born_ms=head[8],
            born_host=Host.unpack(head[9]),
            stored_ms=head[10],
            store_host=Host.unpack(head[11]),
            reconsume_times=head[12],
            prepared_offset=head[13],
            long_topic=head[1] == MAGIC_V2,
        )

    def _wrong_crc(self, body: bytes) -> RecordError:
        crc, stored = crc32(body) & 0x7FFFFFFF, self._head[2] & 0xFFFFFFFF
        return RecordError(
            f"a body whose CRC is {crc:#010x}, stored with {stored:#010x}", self._body_at
        )


def _check_numbers(message: StoredMessage) -> None:
    for name, fits in (
        ("queue_id", _INT32),
        ("flag", _INT32),
        ("queue_offset", _INT64),
        ("log_offset", _INT64),
        ("sys_flag", _INT32),
        ("born_ms", _INT64),
        ("stored_ms", _INT64),
        ("reconsume_times", _INT32),
        ("prepared_offset", _INT64),
    ):
        number = getattr(message, name)
        if number not in fits:
            raise RecordError(f"{name} {number} does not fit {32 if fits is _INT32 else 64} bits")
