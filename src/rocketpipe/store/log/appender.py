"""Messages become records: each gets its offsets, its place and its checksum, in one pass.

Nothing is written here and nothing is counted: what comes out is what to write, and what is true
of the queues once it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol
from zlib import crc32

from rocketpipe import compiled
from rocketpipe.errors import PropertiesError
from rocketpipe.model.flags import BORN_HOST_V6, STORE_HOST_V6, Transaction
from rocketpipe.record import checksum
from rocketpipe.record.hot import topic_head
from rocketpipe.record.layout import (
    HEADS,
    HOST_BITS,
    MAX_PROPERTIES_BYTES,
    SEAL_BYTES,
    SHORT,
)
from rocketpipe.record.seals import HIGH, LOW, MIDDLE, PIECE
from rocketpipe.store.errors import RecordTooLarge
from rocketpipe.store.layout import check_queue
from rocketpipe.store.log.batch_mark import MARK_BYTES, strip_mark, write_mark
from rocketpipe.store.log.commit_log import FILLER_BYTES, filler
from rocketpipe.store.log.puts import Appended, Chunk, Encoded, Put

#: How many topics' encoded names are kept at hand.
_MAX_TOPICS: Final = 65_536
_NO_HOST_BITS: Final = ~HOST_BITS
#: Prepared messages and rollbacks have this bit, committed ones and all others have not.
_IN_NO_QUEUE: Final = Transaction.PREPARED & Transaction.ROLLED_BACK & ~Transaction.COMMITTED
_HEADS: Final = {bits: (head.pack, head.size) for bits, head in HEADS.items()}
#: Both names that only the store writes have one; to look for a byte is ten times as quick.
_HASH: Final = ord("#")
_pack_short: Final = SHORT.pack
_new_tuple: Final = tuple.__new__

#: Magic and encoded name of a topic, as of ``record.hot.topic_head``.
KnownTopic = tuple[int, bytes]


class Encodes(Protocol):
    """Whoever has messages, and makes records of them."""

    def encode(self, appender: Appender, start: int, stored_ms: int) -> Encoded:
        """Give the records of all, to be written to ``start`` and on; see `Appender.encode`."""


class Appender:
    """Encodes groups of messages for the end of one log."""

    def __init__(
        self,
        segment_bytes: int,
        store_host: bytes,
        next_offset: Callable[[str, int], int],
        *,
        seal: bool,
    ) -> None:
        """``next_offset`` is asked for each queue that an append writes to."""
        self.segment_bytes: Final = segment_bytes
        self.store_host: Final = store_host
        self.next_offset: Final = next_offset
        self.seal: Final = seal
        self._topics: dict[str, KnownTopic] = {}

    def encode(self, groups: Sequence[Sequence[Put]], start: int, stored_ms: int) -> Encoded:
        """Make the records of groups that go to ``start`` and on; no group may be empty.

        Raises:
            RecordTooLarge: A record fits into no segment.
            PropertiesError: Properties leave no room for what the store adds to them.
            InvalidName: A topic or queue id that no queue can have.
            RecordError: A number does not fit its field.
        """
        return encode_groups(
            groups,
            start,
            stored_ms,
            self.segment_bytes,
            self.store_host,
            self.seal,
            self._topics,
            self._remember,
            self.next_offset,
        )

    def head_of(self, topic: str) -> KnownTopic:
        """How records of a topic begin, and its name in them.

        Raises:
            InvalidName: No topic is called so.
        """
        return self._topics.get(topic) or self._remember(topic)

    def _remember(self, topic: str) -> KnownTopic:
        check_queue(topic, 0)
        if len(self._topics) >= _MAX_TOPICS:
            self._topics.clear()
        known = self._topics[topic] = topic_head(topic.encode())
        return known


def encode_groups(
    groups: Sequence[Sequence[Put]],
    start: int,
    stored_ms: int,
    segment: int,
    store_host: bytes,
    seal: bool,
    topics: dict[str, KnownTopic],
    remember: Callable[[str], KnownTopic],
    next_offset: Callable[[str, int], int],
) -> Encoded:
    """Do what `Appender.encode` promises, in segments of so many bytes.

    ``remember`` is called for a topic that is not among ``topics`` yet.
    """
    # This runs once per message: what is looked up often is looked up once.
    limit = start - start % segment + segment - FILLER_BYTES
    chunk_at = at = start
    last_record = -1
    chunks: list[Chunk] = []
    pieces: list[bytes] = []
    placed: list[list[Appended]] = []
    counted: dict[str, dict[int, int]] = {}
    host, host_bit = store_host, STORE_HOST_V6 if len(store_host) > 8 else 0
    join, pack_short = b"".join, _pack_short
    low_digits, digits, high_digits = LOW, MIDDLE, HIGH
    mark = b""
    added_bytes = SEAL_BYTES if seal else 0
    last_topic: str | None = None
    last_host: bytes | None = None
    last_flag = 0
    for group in groups:
        assert group
        if len(group) > 1:
            mark = _mark(group, at, limit, segment, host_bit, seal, topics, remember)
        elif mark:
            mark = b""
        appended: list[Appended] = []
        for put in group:
            (
                topic,
                queue_id,
                body,
                properties,
                flag,
                sys_flag,
                born_ms,
                born_host,
                reconsume_times,
                prepared_offset,
            ) = put
            if topic != last_topic:
                last_topic = topic
                magic, topic_bytes = topics.get(topic) or remember(topic)
                topic_length = len(topic_bytes) + SHORT.size
                counts = counted.setdefault(topic, {})
            # Only the store writes the mark and the checksum, and only at the end.
            if _HASH in properties:
                properties = strip_mark(checksum.strip(properties))
            if properties and properties[-1] != 2 and (seal or mark):
                properties += b"\x02"
            if mark:
                properties += mark
            if sys_flag & _IN_NO_QUEUE:
                queue_offset = 0
            else:
                if queue_id in counts:
                    queue_offset = counts[queue_id]
                else:
                    if queue_id < 0:
                        check_queue(topic, queue_id)
                    queue_offset = next_offset(topic, queue_id)
                counts[queue_id] = queue_offset + 1
            if sys_flag != last_flag or born_host is not last_host:
                last_flag, last_host = sys_flag, born_host
                flags = sys_flag & _NO_HOST_BITS | host_bit
                if len(born_host) != 8:
                    flags |= BORN_HOST_V6
                pack, head_bytes = _HEADS[flags & HOST_BITS]
            properties_bytes = len(properties) + added_bytes
            if properties_bytes > MAX_PROPERTIES_BYTES:
                raise _no_room(properties)
            body_bytes = len(body)
            size = head_bytes + body_bytes + topic_length + properties_bytes
            if at + size > limit:
                if size > segment - FILLER_BYTES:
                    raise RecordTooLarge(size, segment - FILLER_BYTES)
                pieces.append(filler(limit + FILLER_BYTES - at))
                chunks.append((chunk_at, b"".join(pieces)))
                pieces.clear()
                chunk_at = at = limit + FILLER_BYTES
                limit += segment
            record = join(
                (
                    pack(
                        size,
                        magic,
                        crc32(body) & 0x7FFFFFFF,
                        queue_id,
                        flag,
                        queue_offset,
                        at,
                        flags,
                        born_ms,
                        born_host,
                        stored_ms,
                        host,
                        reconsume_times,
                        prepared_offset,
                        body_bytes,
                    ),
                    body,
                    topic_bytes,
                    pack_short(properties_bytes),
                    properties,
                )
            )
            if seal:
                upper, low = divmod(crc32(record) & 0x7FFFFFFF, PIECE)
                pieces += (
                    record,
                    low_digits[low],
                    digits[upper % PIECE],
                    high_digits[upper // PIECE],
                )
            else:
                pieces.append(record)
            appended.append(
                _new_tuple(
                    Appended,
                    (
                        at,
                        size,
                        queue_offset,
                        stored_ms,
                        topic,
                        queue_id,
                        flags,
                        properties,
                    ),
                )
            )
            last_record = at
            at += size
        placed.append(appended)
    chunks.append((chunk_at, b"".join(pieces)))
    return Encoded(chunks, placed, at, last_record, counted)


def _mark(
    group: Sequence[Put],
    at: int,
    limit: int,
    segment: int,
    host_bit: int,
    seal: bool,
    topics: dict[str, KnownTopic],
    remember: Callable[[str], KnownTopic],
) -> bytes:
    """The property of a group's records, for which their places are found ahead."""
    start = -1
    added_bytes = MARK_BYTES + (SEAL_BYTES if seal else 0)
    for put in group:
        properties = put.properties
        if _HASH in properties:
            properties = strip_mark(checksum.strip(properties))
        known = topics.get(put.topic) or remember(put.topic)
        bits = host_bit | (BORN_HOST_V6 if len(put.born_host) > 8 else 0)
        size = HEADS[bits].size + len(put.body) + len(known[1]) + 2 + added_bytes
        size += len(properties) + (1 if properties and properties[-1] != 2 else 0)
        if at + size > limit:
            at = limit + FILLER_BYTES
            limit += segment
        if start < 0:
            start = at
        at += size
    return write_mark(start, at)


def _no_room(properties: bytes) -> PropertiesError:
    return PropertiesError(
        f"properties of {len(properties)} bytes leave no room for what the store adds",
        len(properties),
    )


compiled.take_over(globals(), "rocketpipe.store.log._appender")
