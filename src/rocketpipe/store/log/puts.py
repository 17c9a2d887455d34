"""What is appended and where it went, as tuples: they are made once per message."""

from __future__ import annotations

from typing import NamedTuple, Self

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView

#: Where in the log bytes go, and the bytes; all in one segment.
Chunk = tuple[int, bytes]


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

    @classmethod
    def copy_of(
        cls,
        record: RecordView,
        *,
        topic: str,
        queue_id: int,
        properties: bytes,
        reconsume_times: int | None = None,
    ) -> Self:
        """Return a stored message as it is to be appended again, with these properties.

        ``reconsume_times`` is the record's if it is not given.
        """
        return cls(
            topic=topic,
            queue_id=queue_id,
            body=record.stored_body,
            properties=properties,
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_ms=record.born_ms,
            born_host=record.born_host.pack(),
            reconsume_times=(
                record.reconsume_times if reconsume_times is None else reconsume_times
            ),
        )


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

    @property
    def end(self) -> LogOffset:
        """Where the log goes on behind it."""
        return LogOffset(self.log_offset + self.size)


class Encoded(NamedTuple):
    """What to write for some groups, and what will be true once it is written."""

    chunks: list[Chunk]
    #: None where whoever encoded it knows itself: then each chunk but the last ends in a filler,
    #: and there is no other.
    placed: list[list[Appended]] | None
    #: Where the log will end, and where its last record will start.
    end: int
    last_record: int
    #: The next offset of each queue that gets one of the messages, by topic and queue id.
    next_offsets: dict[str, dict[int, int]]
