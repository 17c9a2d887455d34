"""Requests that a broker sends to its clients, on the connection they opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from rocketpipe.errors import BodyError
from rocketpipe.model.body import Body, Int32
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, raw_body, wire
from rocketpipe.protocol.request import Request, request
from rocketpipe.protocol.requests.offsets import QueueOffsets


@request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyConsumerIdsChanged(Request[None]):
    """Tell a member that its group gained or lost one, so that it rebalances. Sent one way."""

    consumer_group: str
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.CHECK_TRANSACTION_STATE)
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTransactionState(Request[None]):
    """Ask a producer how its transaction ended; EndTransaction is the answer. Sent one way."""

    tran_state_table_offset: QueueOffset
    commit_log_offset: LogOffset
    topic: str | None = None
    #: The message's unique key.
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = wire("bname", default=None)
    #: The half message as a record, with the topic and queue it will have.
    message: bytes = raw_body(default=b"")


@request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class PushReplyMessage(Request[None]):
    """Hand a producer the reply to a message that it sent as a question."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: I32
    queue_id: I32
    sys_flag: I32
    born_timestamp: int
    flag: I32
    properties: str = ""
    reconsume_times: I32 = 0
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: int
    broker_name: str | None = wire("bname", default=None)
    body: bytes = raw_body(default=b"")


@request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class ResetConsumerClientOffset(Request[None]):
    """Have a consumer go on from other offsets; see ``read_reset``. Sent one way."""

    topic: str
    group: str
    timestamp: int
    is_force: bool = False
    queue_id: I32 = -1
    offset: QueueOffset | None = None
    broker_name: str | None = wire("bname", default=None)
    body: bytes = raw_body(default=b"")


class _ListedOffset(Body, frozen=True, kw_only=True):
    topic: str
    broker_name: str
    queue_id: Int32
    offset: QueueOffset


class _ListedOffsets(Body, frozen=True, kw_only=True):
    offsets: tuple[_ListedOffset, ...] = msgspec.field(name="offsetTable", default=())


def write_reset(offsets: Mapping[MessageQueue, QueueOffset], *, as_list: bool = False) -> bytes:
    """Write the body of a reset: a map keyed by queue, or the list that C++ clients read."""
    if not as_list:
        return fastjson.write(QueueOffsets(offsets=dict(offsets)))
    listed = tuple(
        _ListedOffset(
            topic=queue.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            offset=offset,
        )
        for queue, offset in offsets.items()
    )
    return fastjson.write(_ListedOffsets(offsets=listed))


def read_reset(body: bytes) -> dict[MessageQueue, QueueOffset]:
    """Read the body of a reset in either form.

    Raises:
        BodyError: If it is neither.
    """
    try:
        return fastjson.read(body, QueueOffsets).offsets
    except BodyError as not_a_map:
        try:
            listed = fastjson.read(body, _ListedOffsets).offsets
        except BodyError:
            raise not_a_map from None
    return {
        MessageQueue(
            topic=one.topic, broker_name=one.broker_name, queue_id=one.queue_id
        ): one.offset
        for one in listed
    }
