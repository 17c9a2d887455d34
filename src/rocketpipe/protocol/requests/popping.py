"""Requests that pop messages: fetched for a while, then acknowledged or shown again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from rocketpipe.errors import LocalProtocolError
from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.fields import I32, json_body, raw_body, reply_code, reply_remark, wire
from rocketpipe.protocol.request import Request, request

ANY_QUEUE: Final = -1
FROM_MIN: Final = 0
#: Where a group begins that has no offset yet: at the queue's oldest message, or after all.
FROM_MAX: Final = 1

#: The revive queue that ordered pops name: they have no check point to revive.
ORDER_REVIVE_QUEUE: Final = 999

#: How far beyond its start one batch acknowledgement may reach.
MAX_MARKED: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PopMessageReply:
    """Messages and what their receipt handles are made of, or why there are none.

    The three texts are read and written by ``pop_offsets``.
    """

    code: int = reply_code(
        ResponseCode.SUCCESS, ResponseCode.POLLING_FULL, ResponseCode.POLLING_TIMEOUT
    )
    pop_time: int
    invisible_time: int
    revive_qid: I32
    #: How many more there were.
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None
    #: Stored records, one after another.
    messages: bytes = raw_body(default=b"")
    #: Why there are none.
    remark: str | None = reply_remark()


@request(RequestCode.POP_MESSAGE)
@dataclass(frozen=True, slots=True, kw_only=True)
class PopMessage(Request[PopMessageReply]):
    """Fetch messages that nobody else gets until they are acknowledged or their time is over."""

    consumer_group: str
    topic: str
    #: ANY_QUEUE, or one.
    queue_id: I32
    max_msg_nums: I32
    #: How long the messages stay hidden from others, in milliseconds.
    invisible_time: int
    #: How long to wait for a message, counted from ``born_time``.
    poll_time: int
    born_time: int
    #: FROM_MIN or FROM_MAX.
    init_mode: I32
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.ACK_MESSAGE)
@dataclass(frozen=True, slots=True, kw_only=True)
class AckMessage(Request[None]):
    """Say that one popped message was consumed."""

    consumer_group: str
    topic: str
    queue_id: I32
    #: The message's receipt handle.
    extra_info: str
    offset: QueueOffset
    broker_name: str | None = wire("bname", default=None)


class BatchAck(Body, frozen=True, kw_only=True):
    """Messages of one pop from one queue that were consumed."""

    consumer_group: str = msgspec.field(name="c")
    topic: str = msgspec.field(name="t")
    #: 0 when popped from the topic, 1 or 2 from its retry topic of that form.
    retry: str = msgspec.field(name="r")
    start_offset: QueueOffset = msgspec.field(name="so")
    queue_id: Int32 = msgspec.field(name="q")
    revive_queue_id: Int32 = msgspec.field(name="rq")
    pop_time: Int64 = msgspec.field(name="pt")
    invisible_time: Int64 = msgspec.field(name="it")
    #: Bit 0 of byte 0 is ``start_offset``, bit 1 the next, as java.util.BitSet lays them out.
    marks: Annotated[bytes, msgspec.Meta(max_length=MAX_MARKED // 8)] = msgspec.field(name="b")

    def offsets(self) -> Iterator[QueueOffset]:
        """The queue offsets that are acknowledged, in order."""
        for index, byte in enumerate(self.marks):
            for bit in range(8):
                if byte >> bit & 1:
                    yield QueueOffset(self.start_offset + 8 * index + bit)


def marks_of(start: QueueOffset, offsets: Iterable[QueueOffset]) -> bytes:
    """The bits of a batch acknowledgement that begins at ``start``.

    Raises:
        LocalProtocolError: If an offset is before ``start`` or too far beyond it.
    """
    bits = 0
    for offset in offsets:
        if not 0 <= offset - start < MAX_MARKED:
            raise LocalProtocolError(f"offset {offset} is out of reach from {start}")
        bits |= 1 << offset - start
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


class BatchAcks(Body, frozen=True, kw_only=True):
    """What was consumed, of several pops from one broker."""

    broker_name: str | None = None
    acks: tuple[BatchAck, ...] = ()


@request(RequestCode.BATCH_ACK_MESSAGE)
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAckMessage(Request[None]):
    """Say that many popped messages were consumed."""

    broker_name: str | None = wire("bname", default=None)
    batch: BatchAcks = json_body()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeInvisibleTimeReply:
    """What the message's new receipt handle is made of."""

    pop_time: int
    invisible_time: int
    revive_qid: I32


@request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeInvisibleTime(Request[ChangeInvisibleTimeReply]):
    """Hide a popped message for longer, or show it again sooner."""

    consumer_group: str
    topic: str
    queue_id: I32
    #: The message's receipt handle, which is void afterwards.
    extra_info: str
    offset: QueueOffset
    #: From now on, in milliseconds.
    invisible_time: int
    broker_name: str | None = wire("bname", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationReply:
    """Whether there is something to pop."""

    has_msg: bool
    polling_full: bool = False


@request(RequestCode.NOTIFICATION)
@dataclass(frozen=True, slots=True, kw_only=True)
class Notification(Request[NotificationReply]):
    """Wait until there is something to pop, without popping it."""

    consumer_group: str
    topic: str
    queue_id: I32
    poll_time: int
    born_time: int
    order: bool = False
    attempt_id: str | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.PEEK_MESSAGE)
@dataclass(frozen=True, slots=True, kw_only=True)
class PeekMessage(Request[PopMessageReply]):
    """Look at messages that a pop would give, without popping them."""

    consumer_group: str
    topic: str
    queue_id: I32
    max_msg_nums: I32
    broker_name: str | None = wire("bname", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingInfoReply:
    """How many pops wait."""

    polling_num: I32


@request(RequestCode.POLLING_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class PollingInfo(Request[PollingInfoReply]):
    """Ask how many pops of a group wait for messages of a queue, or of ANY_QUEUE."""

    consumer_group: str
    topic: str
    queue_id: I32
    broker_name: str | None = wire("bname", default=None)
