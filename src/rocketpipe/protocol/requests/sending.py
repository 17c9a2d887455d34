"""Requests that store a message: sent, sent in a batch, sent back, sent as a reply, recalled.

A send travels under three codes and two spellings: 10 has long names, 310 and 320 (a batch) have
letters. Readers take either spelling under any of them, because real peers mix the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.fields import I32, raw_body, reply_code, wire
from rocketpipe.protocol.request import Request, request


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessageReply:
    """Where the message was stored. Codes other than SUCCESS say how durable it is by now."""

    code: int = reply_code(
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    )
    #: Broker address and log offset as hex; of a batch, all of them joined by commas.
    msg_id: str
    queue_id: I32
    #: Of a batch, the first.
    queue_offset: QueueOffset
    #: The message's unique key, which the producer gave it.
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    # Java producers read these two without asking whether they are there.
    region: str | None = wire("MSG_REGION", default=None)
    trace_on: bool | None = wire("TRACE_ON", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outgoing(Request[SendMessageReply]):
    producer_group: str = wire("producerGroup", short="a")
    topic: str = wire("topic", short="b")
    #: Whose settings an unknown topic is created with, normally TBW102.
    default_topic: str = wire("defaultTopic", short="c")
    default_topic_queue_nums: I32 = wire("defaultTopicQueueNums", short="d")
    #: Negative: the broker picks one.
    queue_id: I32 = wire("queueId", short="e")
    sys_flag: I32 = wire("sysFlag", short="f")
    born_timestamp: int = wire("bornTimestamp", short="g")
    flag: I32 = wire("flag", short="h")
    properties: str = wire("properties", short="i", default="")
    reconsume_times: I32 = wire("reconsumeTimes", short="j", default=0)
    unit_mode: bool = wire("unitMode", short="k", default=False)
    max_reconsume_times: I32 | None = wire("maxReconsumeTimes", short="l", default=None)
    batch: bool = wire("batch", short="m", default=False)
    broker_name: str | None = wire("bname", short="n", default=None)
    body: bytes = raw_body(default=b"")


@request(
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_BATCH_MESSAGE,
    short=(RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessage(_Outgoing):
    """Store one message, or a batch of them for one queue."""

    @property
    def code(self) -> RequestCode:
        """The batch code when the body is a batch, as Java peers send it."""
        return RequestCode.SEND_BATCH_MESSAGE if self.batch else RequestCode.SEND_MESSAGE_V2


@request(
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.SEND_REPLY_MESSAGE,
    short=(RequestCode.SEND_REPLY_MESSAGE_V2,),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class SendReply(_Outgoing):
    """Hand a reply to the producer that waits for it."""


@request(RequestCode.CONSUMER_SEND_MSG_BACK)
@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessageBack(Request[None]):
    """Have a message that could not be consumed delivered again later, or put away for good."""

    #: Where the message lies in the log of the broker that is asked.
    offset: LogOffset
    group: str
    #: 0: the broker chooses by attempt; negative: straight to the dead letters.
    delay_level: I32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: I32 | None = None
    broker_name: str | None = wire("bname", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMessageReply:
    """The unique key of the message that will not be delivered."""

    msg_id: str


@request(RequestCode.RECALL_MESSAGE)
@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMessage(Request[RecallMessageReply]):
    """Take back a delayed message before it falls due."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
    broker_name: str | None = wire("bname", default=None)
