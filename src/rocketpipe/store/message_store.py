"""Messages by topic, queue and offset, on one commit log.

Provisional: the queues are lists in memory, made as messages are appended and gone with the
process. The offset rules of ``read`` are RocketMQ's and stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from rocketpipe.model.flags import STORE_HOST_V6
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record import hot
from rocketpipe.store.commit_log import CommitLog

MAX_READ_COUNT: Final = 32
MAX_READ_BYTES: Final = 256 * 1024
MAX_SCAN_ENTRIES: Final = 800

Queue = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """One message to append; hosts are 8 bytes (IPv4) or 20 (IPv6), as in the record."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a message went."""

    log_offset: LogOffset
    queue_offset: QueueOffset


class ReadStatus(Enum):
    """What a read found, in RocketMQ's words: the names travel as remarks."""

    FOUND = auto()
    NO_MATCHED_MESSAGE = auto()
    NO_MATCHED_LOGIC_QUEUE = auto()
    NO_MESSAGE_IN_QUEUE = auto()
    OFFSET_OVERFLOW_ONE = auto()
    OFFSET_OVERFLOW_BADLY = auto()
    OFFSET_TOO_SMALL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """Records back to back, and where to read on."""

    status: ReadStatus
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset
    records: bytes = b""
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    log_offset: LogOffset
    size: int
    tag_code: int


class MessageStore:
    """Appends messages and reads them back by queue."""

    def __init__(
        self,
        directory: Path,
        store_host: bytes,
        now_ms: Callable[[], int],
        on_arrival: Callable[[str, int], None] = lambda topic, queue_id: None,
    ) -> None:
        self._log = CommitLog(directory)
        self._store_host = store_host
        self._host_bit = STORE_HOST_V6 if len(store_host) > 8 else 0
        self._now_ms = now_ms
        self._on_arrival = on_arrival
        self._queues: defaultdict[Queue, list[_Entry]] = defaultdict(list)

    def append(self, puts: Sequence[Put]) -> list[Appended]:
        """Append messages with one write: all of them, or none.

        Raises:
            StoreError: If the log could not take them.
        """
        now_ms = self._now_ms()
        at = self._log.end
        records: list[bytes] = []
        entries: defaultdict[Queue, list[_Entry]] = defaultdict(list)
        placed: list[Appended] = []
        for put in puts:
            queue = (put.topic, put.queue_id)
            magic, topic = hot.topic_head(put.topic.encode())
            queue_offset = QueueOffset(len(self._queues[queue]) + len(entries[queue]))
            record = hot.encode(
                magic,
                put.queue_id,
                put.flag,
                queue_offset,
                at,
                put.sys_flag | self._host_bit,
                put.born_ms,
                put.born_host,
                now_ms,
                self._store_host,
                put.reconsume_times,
                0,
                put.body,
                topic,
                put.properties,
            )
            records.append(record)
            entries[queue].append(_Entry(at, len(record), hot.tag_code(put.properties)))
            placed.append(Appended(at, queue_offset))
            at = LogOffset(at + len(record))
        self._log.append(b"".join(records))
        for queue, added in entries.items():
            self._queues[queue].extend(added)
            self._on_arrival(*queue)
        return placed

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: QueueOffset,
        *,
        max_count: int,
        matches: Callable[[int], bool] = lambda tag_code: True,
    ) -> ReadResult:
        """Read on from ``offset``; ``matches`` sees each tag code before its record is touched."""
        entries = self._queues.get((topic, queue_id))
        if entries is None:
            return _nothing(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0)
        end = len(entries)
        if end == 0:
            return _nothing(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0)
        if offset < 0:
            return _nothing(ReadStatus.OFFSET_TOO_SMALL, 0, end)
        if offset == end:
            return _nothing(ReadStatus.OFFSET_OVERFLOW_ONE, offset, end)
        if offset > end:
            return _nothing(ReadStatus.OFFSET_OVERFLOW_BADLY, end, end)
        found: list[bytes] = []
        size = 0
        at = int(offset)
        last = min(end, at + MAX_SCAN_ENTRIES)
        while at < last and len(found) < min(max_count, MAX_READ_COUNT):
            entry = entries[at]
            if matches(entry.tag_code):
                if found and size + entry.size > MAX_READ_BYTES:
                    break
                found.append(self._log.read(entry.log_offset, entry.size))
                size += entry.size
            at += 1
        return ReadResult(
            status=ReadStatus.FOUND if found else ReadStatus.NO_MATCHED_MESSAGE,
            next_offset=QueueOffset(at),
            min_offset=QueueOffset(0),
            max_offset=QueueOffset(end),
            records=b"".join(found),
            count=len(found),
        )

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The first offset that can still be read."""
        return QueueOffset(0)

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The offset that the queue's next message will get."""
        return QueueOffset(len(self._queues.get((topic, queue_id), ())))

    def close(self) -> None:
        self._log.close()


def _nothing(status: ReadStatus, next_offset: int, end: int) -> ReadResult:
    return ReadResult(
        status=status,
        next_offset=QueueOffset(next_offset),
        min_offset=QueueOffset(0),
        max_offset=QueueOffset(end),
    )
