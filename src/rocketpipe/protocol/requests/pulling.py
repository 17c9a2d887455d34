"""Requests that read a queue from an offset on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.fields import I32, raw_body, reply_code, reply_remark, wire
from rocketpipe.protocol.request import Request, request


@dataclass(frozen=True, slots=True, kw_only=True)
class PullMessageReply:
    """Messages, or why there are none and where to go on. Peers read every offset in any case."""

    code: int = reply_code(
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    )
    # Java and Node.js clients receive nothing from an answer without it.
    suggest_which_broker_id: int = 0
    next_begin_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset
    offset_delta: int | None = None
    topic_sys_flag: I32 | None = None
    group_sys_flag: I32 | None = None
    forbidden_type: I32 | None = None
    #: Stored records, one after another.
    messages: bytes = raw_body(default=b"")
    #: What the store found, in RocketMQ's words: ``FOUND``, ``OFFSET_TOO_SMALL``, …
    remark: str | None = reply_remark()


class ForbiddenType(IntEnum):
    """What keeps a pull from being answered: the broker, the group, the topic, or two of them."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCASTING = 4
    SUBSCRIPTION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PullForbiddenReply:
    """A refusal that says by whom; offsets are not told."""

    code: int = reply_code(ResponseCode.NO_PERMISSION)
    forbidden_type: I32
    remark: str | None = reply_remark()


@request(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
@dataclass(frozen=True, slots=True, kw_only=True)
class PullMessage(Request[PullMessageReply]):
    """Read messages of one queue, waiting for them if asked to."""

    consumer_group: str
    topic: str
    queue_id: I32
    queue_offset: QueueOffset
    max_msg_nums: I32
    #: Bits of ``model.flags.PullFlag``.
    sys_flag: I32
    commit_offset: QueueOffset
    suspend_timeout_millis: int
    subscription: str | None = None
    sub_version: int
    expression_type: str | None = None
    max_msg_bytes: I32 | None = None
    request_source: I32 | None = None
    # Peers spell it so.
    proxy_forward_client_id: str | None = wire("proxyFrowardClientId", default=None)
    broker_name: str | None = wire("bname", default=None)
    #: Ours alone: more messages in one answer than RocketMQ's brokers give.
    bulk: bool | None = None

    @property
    def code(self) -> RequestCode:
        """The lite code when the lite flag is set, as Java peers send it."""
        if self.sys_flag & PullFlag.LITE_PULL:
            return RequestCode.LITE_PULL_MESSAGE
        return RequestCode.PULL_MESSAGE
