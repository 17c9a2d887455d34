"""What a broker registers: its topics, in either of the two forms a NameServer is sent.

Plain, it is one JSON object. Compressed, it is a zlib stream of

    4 + n  version of the topic table, JSON
    4      number of topics, then for each
    4 + n    ``name readQueues writeQueues perm filterType attributes``, attributes as JSON
    4 + n  filter servers, JSON
    4      number of queue mappings, then for each (from RocketMQ 5.0 on; before, nothing)
    4 + n    mapping, JSON

where lengths and counts are big-endian. The compressed form loses ``order`` and ``topicSysFlag``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from rocketpipe.errors import BodyError
from rocketpipe.model.body import Body
from rocketpipe.model.route import QueueMapping
from rocketpipe.model.topic import MAX_QUEUES, DataVersion, TopicFilterType, TopicSettings
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import PeerVersion

#: A stream that inflates further is refused; half a million topics take less.
MAX_INFLATED_BYTES: Final = 64 << 20

_LENGTH: Final = struct.Struct(">i")
_BEST_COMPRESSION: Final = 9

T = TypeVar("T")


class TopicTableData(Body, frozen=True, kw_only=True):
    """A broker's topics and which state of its table they are."""

    topics: dict[str, TopicSettings] = msgspec.field(name="topicConfigTable", default_factory=dict)
    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    mappings: dict[str, QueueMapping] = msgspec.field(
        name="topicQueueMappingInfoMap", default_factory=dict
    )
    mapping_version: DataVersion | None = msgspec.field(name="mappingDataVersion", default=None)


class Registration(Body, frozen=True, kw_only=True):
    """What a broker tells a NameServer about itself beside its name and address."""

    topic_table: TopicTableData = msgspec.field(
        name="topicConfigSerializeWrapper", default_factory=TopicTableData
    )
    filter_servers: tuple[str, ...] = msgspec.field(name="filterServerList", default=())


def registration_crc(body: bytes) -> int:
    """The checksum that ``body_crc32`` of the request is compared with."""
    return zlib.crc32(body) & 0x7FFFFFFF


def write_registration(
    registration: Registration,
    *,
    compressed: bool = False,
    version: int = PeerVersion.V5_3_1,
) -> bytes:
    """Write the body of a registration; ``version`` is the sender's, as its frame will say."""
    if not compressed:
        return fastjson.write(registration)
    table = registration.topic_table
    parts = [_sized(fastjson.write(table.version)), _LENGTH.pack(len(table.topics))]
    parts += [_sized(_topic_line(topic)) for topic in table.topics.values()]
    parts.append(_sized(fastjson.write(list(registration.filter_servers))))
    if version >= PeerVersion.V5_0_0:
        parts.append(_LENGTH.pack(len(table.mappings)))
        parts += [_sized(fastjson.write(mapping)) for mapping in table.mappings.values()]
    return zlib.compress(b"".join(parts), _BEST_COMPRESSION)


def read_registration(
    body: bytes,
    *,
    compressed: bool = False,
    version: int = PeerVersion.V5_3_1,
    max_bytes: int = MAX_INFLATED_BYTES,
) -> Registration:
    """Read the body of a registration that a broker of ``version`` sent.

    Raises:
        BodyError: If it is not one, or would inflate beyond ``max_bytes``.
    """
    if not compressed:
        return _read_plain(body)
    reader = _Reader(_inflated(body, max_bytes))
    table_version = reader.json(DataVersion)
    topics = {topic.name: topic for topic in reader.topics()}
    filter_servers = reader.json(tuple[str, ...])
    mappings: dict[str, QueueMapping] = {}
    if version >= PeerVersion.V5_0_0:
        for _ in range(reader.count()):
            mapping = reader.json(QueueMapping)
            if mapping.topic is None:
                raise BodyError("a queue mapping names no topic", reader.at)
            mappings[mapping.topic] = mapping
    return Registration(
        topic_table=TopicTableData(version=table_version, topics=topics, mappings=mappings),
        filter_servers=filter_servers,
    )


_PLAIN: Final = msgspec.json.Decoder(Registration)


def _read_plain(body: bytes) -> Registration:
    # A broker may have more topics than any other body has values; a frame's length is a bound too.
    if b"$ref" not in body:
        try:
            return _PLAIN.decode(body)
        except (ValueError, RecursionError):
            pass  # perhaps the dialect, which the other reader knows
    return fastjson.read(body, Registration)


def _sized(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _topic_line(topic: TopicSettings) -> bytes:
    attributes = fastjson.write(topic.attributes).decode()
    words = (topic.name, topic.read_queues, topic.write_queues, topic.perm, topic.filter_type.name)
    return " ".join([*map(str, words), attributes]).encode()


def _inflated(body: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(body, max_bytes)
    except zlib.error as error:
        raise BodyError(f"a registration does not inflate: {error}") from error
    if not stream.eof:
        if stream.unconsumed_tail or len(data) >= max_bytes:
            raise BodyError(f"a registration inflates beyond {max_bytes} bytes", len(data))
        raise BodyError("a compressed registration ends early", len(body))
    return data


class _Reader:
    """Walks the inflated form; ``at`` is where the part last read began."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = 0
        self.at = 0

    def count(self) -> int:
        self.at = self._next
        if len(self._data) - self.at < _LENGTH.size:
            raise BodyError("a registration ends within a length", self.at)
        (count,) = _LENGTH.unpack_from(self._data, self.at)
        # Whatever is counted takes four bytes at least, a byte takes one.
        self._next += _LENGTH.size
        if not 0 <= count <= len(self._data) - self._next:
            raise BodyError(f"a registration cannot hold {count} more", self.at)
        return int(count)

    def piece(self) -> bytes:
        size = self.count()
        piece = self._data[self._next : self._next + size]
        self._next += size
        return piece

    def json(self, kind: type[T]) -> T:
        piece = self.piece()
        try:
            return fastjson.read(piece, kind)
        except BodyError as error:
            raise BodyError(error.reason, self.at) from error

    def topics(self) -> Iterator[TopicSettings]:
        for _ in range(self.count()):
            piece = self.piece()
            try:
                yield _read_topic_line(piece.decode())
            except (ValueError, KeyError) as error:
                raise BodyError(f"a topic cannot be read: {error}", self.at) from error


def _read_topic_line(line: str) -> TopicSettings:
    name, read_queues, write_queues, perm, filter_type, *rest = line.split(" ", 5)
    return TopicSettings(
        name=name,
        read_queues=_small_number(read_queues, MAX_QUEUES),
        write_queues=_small_number(write_queues, MAX_QUEUES),
        perm=_small_number(perm, 15),
        filter_type=TopicFilterType[filter_type],
        # RocketMQ 4.9 has none.
        attributes=fastjson.read(rest[0].encode(), dict[str, str]) if rest and rest[0] else {},
    )


def _small_number(text: str, limit: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) > limit:
        raise ValueError(f"{text[:40]!r} is not within 0 to {limit}")
    return int(text)
