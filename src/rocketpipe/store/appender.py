"""Messages become records: each gets its offsets, its place and its checksum, in one pass.

Nothing is written here and nothing is counted: what comes out is what to write, and what is true
of the queues once it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from rocketpipe.errors import PropertiesError
from rocketpipe.model.flags import BORN_HOST_V6, STORE_HOST_V6, Transaction
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record import checksum
from rocketpipe.record.hot import topic_head
from rocketpipe.record.layout import (
    HEADS,
    HOST_BITS,
    MAX_PROPERTIES_BYTES,
    SEAL_BYTES,
    SHORT,
)
from rocketpipe.store.commit_log import FILLER_BYTES, Chunk, filler
from rocketpipe.store.errors import RecordTooLarge
from rocketpipe.store.group_mark import MARK_BYTES, strip_mark, write_mark
from rocketpipe.store.layout import check_queue
from rocketpipe.store.seals import HIGH, LOW, MIDDLE, PIECE

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


class Put(NamedTuple):
    """One message to append; hosts are 8 bytes (IPv4) or 20 (IPv6), as in the record.

    Properties are encoded. The topic was checked, and so was the length of everything. Where each
    microsecond counts, ``tuple.__new__(Put, (…))`` with all ten fields makes one in a quarter of
    the time.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int = 0
    prepared_offset: int = 0


class Appended(NamedTuple):
    """Where a message went, then what the dispatcher need not read again from the log.

    A tuple, as it is made once per message. Properties are those of the record, but for its
    checksum.
    """

    log_offset: LogOffset
    size: int
    queue_offset: QueueOffset
    stored_ms: int
    topic: str = ""
    queue_id: int = 0
    sys_flag: int = 0
    properties: bytes = b""


class Encoded(NamedTuple):
    """What to write for some groups, and what will be true once it is written."""

    chunks: list[Chunk]
    placed: list[list[Appended]]
    #: Where the log will end, and where its last record will start.
    end: int
    last_record: int
    #: The next offset of each queue that gets one of the messages, by topic and queue id.
    next_offsets: dict[str, dict[int, int]]


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
        self._segment_bytes = segment_bytes
        self._store_host = store_host
        self._host_bit = STORE_HOST_V6 if len(store_host) > 8 else 0
        self._next_offset = next_offset
        self._seal = seal
        self._topics: dict[str, tuple[int, bytes]] = {}

    def encode(self, groups: Sequence[Sequence[Put]], start: int, stored_ms: int) -> Encoded:
        """Make the records of groups that go to ``start`` and on; no group may be empty.

        Raises:
            RecordTooLarge: A record fits into no segment.
            PropertiesError: Properties leave no room for what the store adds to them.
            InvalidName: A topic or queue id that no queue can have.
            RecordError: A number does not fit its field.
        """
        # This runs once per message: what is looked up often is looked up once.
        segment = self._segment_bytes
        limit = start - start % segment + segment - FILLER_BYTES
        chunk_at = at = start
        last_record = -1
        chunks: list[Chunk] = []
        pieces: list[bytes] = []
        placed: list[list[Appended]] = []
        counted: dict[str, dict[int, int]] = {}
        host, host_bit = self._store_host, self._host_bit
        join, pack_short = b"".join, _pack_short
        low_digits, digits, high_digits = LOW, MIDDLE, HIGH
        seal, mark = self._seal, b""
        added_bytes = SEAL_BYTES if seal else 0
        last_topic: str | None = None
        last_host: bytes | None = None
        last_flag = 0
        for group in groups:
            assert group
            if len(group) > 1:
                mark = self._mark(group, at, limit)
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
                    magic, topic_bytes = self._topics.get(topic) or self._remember(topic)
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
                        queue_offset = self._next_offset(topic, queue_id)
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

    def _remember(self, topic: str) -> tuple[int, bytes]:
        check_queue(topic, 0)
        if len(self._topics) >= _MAX_TOPICS:
            self._topics.clear()
        known = self._topics[topic] = topic_head(topic.encode())
        return known

    def _mark(self, group: Sequence[Put], at: int, limit: int) -> bytes:
        """The property of a group's records, for which their places are found ahead."""
        start = -1
        added_bytes = MARK_BYTES + (SEAL_BYTES if self._seal else 0)
        for put in group:
            properties = put.properties
            if _HASH in properties:
                properties = strip_mark(checksum.strip(properties))
            known = self._topics.get(put.topic) or self._remember(put.topic)
            bits = self._host_bit | (BORN_HOST_V6 if len(put.born_host) > 8 else 0)
            size = HEADS[bits].size + len(put.body) + len(known[1]) + 2 + added_bytes
            size += len(properties) + (1 if properties and properties[-1] != 2 else 0)
            if at + size > limit:
                at = limit + FILLER_BYTES
                limit += self._segment_bytes
            if start < 0:
                start = at
            at += size
        return write_mark(start, at)


def _no_room(properties: bytes) -> PropertiesError:
    return PropertiesError(
        f"properties of {len(properties)} bytes leave no room for what the store adds",
        len(properties),
    )
