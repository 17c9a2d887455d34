"""What a broker writes down about popped messages, as records of the revive topic.

    tag ck     a check point: these messages of a queue were popped, and show again at so and so
    tag ack    one of them was acknowledged          tag bAck   several were

The bodies are RocketMQ's JSON, so that its brokers go on where we stop and we where they do. Its
brokers put them through their timer, and read them when they fall due; ours stand in the topic at
once, with the time in TIMER_DELIVER_MS, which is where RocketMQ's look for it.

A check point of no messages (``n`` is 0) is ours: what was popped in order, and what of it was
acknowledged. RocketMQ's brokers find nothing in it to show again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from rocketpipe.errors import BodyError
from rocketpipe.model import properties
from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol import fastjson
from rocketpipe.record.codec import RecordView
from rocketpipe.store.log.puts import Put

CHECK_POINT: Final = "ck"
ACK: Final = "ack"
BATCH_ACK: Final = "bAck"

#: A check point holds a bit for each of its messages, in 32 bits.
MAX_MESSAGES: Final = 32
#: RocketMQ has a check point delivered so long before its messages show again.
_EARLIER_MS: Final = 1000
_NO_OFFSET: Final = -1
_IN_ORDER: Final = -1

#: Topic, group, queue, start offset and time of a pop: what its acknowledgements name it by.
Key: TypeAlias = tuple[str, str, int, int, int]


class CheckPoint(Body, frozen=True, kw_only=True):
    """What one pop took from one queue."""

    start_offset: Int64 = msgspec.field(name="so")
    pop_ms: Int64 = msgspec.field(name="pt")
    invisible_ms: Int64 = msgspec.field(name="it")
    #: Bit i is set once message i was acknowledged; Java's int.
    bits: Int32 = msgspec.field(name="bm", default=0)
    count: Int32 = msgspec.field(name="n", default=0)
    queue_id: Int32 = msgspec.field(name="q", default=0)
    topic: str = msgspec.field(name="t")
    group: str = msgspec.field(name="c")
    #: Where it stands itself; set by readers, and 0 on disk.
    revive_offset: Int64 = msgspec.field(name="ro", default=0)
    #: How far each message is from the start; old brokers leave it out.
    diffs: tuple[Int32, ...] | None = msgspec.field(name="d", default=None)
    broker: str | None = msgspec.field(name="bn", default=None)
    re_puts: str | None = msgspec.field(name="rp", default=None)
    #: When single messages show again that were popped in order; ours, as such check points are.
    shows_ms: dict[Int64, Int64] | None = msgspec.field(name="ot", default=None)
    #: For those who look; nobody reads it back.
    revive_ms: Int64 | None = msgspec.field(name="reviveTime", default=None)

    @property
    def key(self) -> Key:
        return (self.topic, self.group, self.queue_id, self.start_offset, self.pop_ms)

    @property
    def order_key(self) -> Key:
        """The key of what is popped in order from a queue: one thing at a time."""
        return (self.topic, self.group, self.queue_id, _IN_ORDER, _IN_ORDER)

    @property
    def due_ms(self) -> int:
        """When the messages show again that were not acknowledged, the last of them."""
        usual = self.pop_ms + self.invisible_ms
        return max(usual, *self.shows_ms.values()) if self.shows_ms else usual

    @property
    def is_ordered(self) -> bool:
        """Whether it tells of messages popped in order, which are not revived."""
        return self.count == 0

    @property
    def offsets(self) -> tuple[QueueOffset, ...]:
        """The messages, by their place in the queue."""
        diffs = range(self.count) if self.diffs is None else self.diffs
        return tuple(QueueOffset(self.start_offset + diff) for diff in diffs)

    @property
    def end(self) -> QueueOffset:
        """The offset behind the last of them."""
        return QueueOffset(max(self.offsets, default=QueueOffset(self.start_offset - 1)) + 1)

    @property
    def acked(self) -> int:
        """The bits as a number that is not negative."""
        return self.bits & 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Doubt:
    """A check point that is in the log, or is not: one knows when all before ``end`` is shown."""

    key: Key
    queue_id: int
    start: QueueOffset
    next_offset: QueueOffset
    end: LogOffset


class Ack(Body, frozen=True, kw_only=True):
    """One message of a check point, or several, that were acknowledged."""

    offset: Int64 = msgspec.field(name="ao")
    start_offset: Int64 = msgspec.field(name="so")
    group: str = msgspec.field(name="c")
    topic: str = msgspec.field(name="t")
    queue_id: Int32 = msgspec.field(name="q", default=0)
    pop_ms: Int64 = msgspec.field(name="pt", default=0)
    broker: str | None = msgspec.field(name="bn", default=None)
    #: Only of several; ``offset`` is -1 then.
    several: tuple[Int64, ...] | None = msgspec.field(name="aol", default=None)

    @property
    def key(self) -> Key:
        return (self.topic, self.group, self.queue_id, self.start_offset, self.pop_ms)

    @property
    def offsets(self) -> tuple[QueueOffset, ...]:
        """What was acknowledged."""
        if self.several is None:
            return (QueueOffset(self.offset),)
        return tuple(QueueOffset(offset) for offset in self.several)


def check_point(
    *,
    topic: str,
    group: str,
    queue_id: int,
    start: QueueOffset,
    offsets: Sequence[QueueOffset],
    pop_ms: int,
    invisible_ms: int,
    broker: str,
    ordered: bool = False,
    acked: int = 0,
    shows_ms: dict[int, int] | None = None,
) -> CheckPoint:
    """Write down what a pop took; ``acked`` has a bit for each message acknowledged already."""
    assert 0 < len(offsets) <= MAX_MESSAGES
    return CheckPoint(
        start_offset=start,
        pop_ms=pop_ms,
        invisible_ms=invisible_ms,
        bits=java_int(acked),
        count=0 if ordered else len(offsets),
        queue_id=queue_id,
        topic=topic,
        group=group,
        diffs=tuple(offset - start for offset in offsets),
        broker=broker,
        shows_ms=shows_ms,
    )


def ack_of(point: CheckPoint, offsets: Sequence[QueueOffset]) -> Ack:
    """Write down that messages of a check point were acknowledged."""
    assert offsets
    one = len(offsets) == 1
    return Ack(
        offset=offsets[0] if one else _NO_OFFSET,
        start_offset=point.start_offset,
        group=point.group,
        topic=point.topic,
        queue_id=point.queue_id,
        pop_ms=point.pop_ms,
        broker=point.broker,
        several=None if one else tuple(offsets),
    )


def put_point(point: CheckPoint, topic: str, queue_id: int, host: bytes, now_ms: int) -> Put:
    """A check point as the record that keeps it."""
    name = (point.topic, point.queue_id, point.start_offset, point.group, point.pop_ms)
    key = "@".join(map(str, (*name, point.broker, CHECK_POINT)))
    deliver_ms = point.due_ms - _EARLIER_MS
    point = msgspec.structs.replace(point, revive_ms=point.due_ms)
    return _put(CHECK_POINT, key, deliver_ms, point, topic, queue_id, host, now_ms)


def put_ack(ack: Ack, due_ms: int, topic: str, queue_id: int, host: bytes, now_ms: int) -> Put:
    """An acknowledgement as the record that keeps it; ``due_ms`` is its check point's."""
    tag = ACK if ack.several is None else BATCH_ACK
    name = (ack.topic, ack.queue_id, ack.offset, ack.group, ack.pop_ms, ack.broker)
    key = "@".join(map(str, (*name, ACK)))
    return _put(tag, key, due_ms, ack, topic, queue_id, host, now_ms)


def _put(
    tag: str,
    key: str,
    deliver_ms: int,
    body: Body,
    topic: str,
    queue_id: int,
    host: bytes,
    now_ms: int,
) -> Put:
    given = {
        properties.TAGS: tag,
        properties.UNIQ_KEY: key,
        properties.TIMER_DELIVER_MS: str(deliver_ms),
    }
    return Put(
        topic=topic,
        queue_id=queue_id,
        body=fastjson.write(body),
        properties=properties.encode_bytes(given),
        flag=0,
        sys_flag=0,
        born_ms=now_ms,
        born_host=host,
    )


def read_note(record: RecordView) -> CheckPoint | Ack | None:
    """Read a record of the revive topic; None if it is none of the three.

    Raises:
        BodyError: If its body is not what its tag says.
    """
    tag = record.properties.get(properties.TAGS)
    if tag == CHECK_POINT:
        point = fastjson.read(record.body, CheckPoint)
        if point.diffs is not None and not point.count <= len(point.diffs) <= MAX_MESSAGES:
            raise BodyError(f"a check point of {point.count} and {len(point.diffs)} messages")
        if not 0 <= point.count <= MAX_MESSAGES:
            raise BodyError(f"a check point of {point.count} messages")
        return point
    if tag in (ACK, BATCH_ACK):
        return fastjson.read(record.body, Ack)
    return None


def was_timed(record: RecordView) -> bool:
    """Whether a record came through the timer of RocketMQ's broker, late as it is meant to."""
    return properties.TIMER_DEQUEUE_MS in record.properties


def java_int(bits: int) -> int:
    """32 bits as Java's int has them."""
    return bits - (1 << 32) if bits & 1 << 31 else bits
