"""Requests about positions in queues: a group's, the queue's own, and by time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from rocketpipe.model.body import Body
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, json_body, wire
from rocketpipe.protocol.request import Request, request


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReply:
    """One position in the queue that was asked about."""

    offset: QueueOffset


@request(RequestCode.QUERY_CONSUMER_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumerOffset(Request[OffsetReply]):
    """Ask how far a group has come in one queue."""

    consumer_group: str
    topic: str
    queue_id: I32
    set_zero_if_not_found: bool | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.UPDATE_CONSUMER_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConsumerOffset(Request[None]):
    """Record how far a group has come in one queue."""

    consumer_group: str
    topic: str
    queue_id: I32
    # Node.js clients send -1 for queues they never consumed: that is no position.
    commit_offset: QueueOffset
    broker_name: str | None = wire("bname", default=None)


class BoundaryType(StrEnum):
    """Which of the messages around a moment is meant: the first after, or the last before."""

    LOWER = "LOWER"
    UPPER = "UPPER"


@request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOffsetByTimestamp(Request[OffsetReply]):
    """Ask for the position of the message stored at, or nearest to, a moment."""

    topic: str
    queue_id: I32
    timestamp: int
    boundary_type: BoundaryType = BoundaryType.LOWER
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.GET_MAX_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetMaxOffset(Request[OffsetReply]):
    """Ask for the position that the next message of a queue will get."""

    topic: str
    queue_id: I32
    #: Whether messages that replicas have not confirmed are left out.
    committed: bool = True
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.GET_MIN_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetMinOffset(Request[OffsetReply]):
    """Ask for the position of the oldest message that a queue still has."""

    topic: str
    queue_id: I32
    broker_name: str | None = wire("bname", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarliestStoreTimeReply:
    """When the oldest message was stored, in milliseconds; -1 if there is none."""

    timestamp: int


@request(RequestCode.GET_EARLIEST_MSG_STORETIME)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetEarliestStoreTime(Request[EarliestStoreTimeReply]):
    """Ask when the oldest message that a queue still has was stored."""

    topic: str
    queue_id: I32
    broker_name: str | None = wire("bname", default=None)


class QueueOffsets(Body, frozen=True, kw_only=True):
    """A position in each of several queues."""

    offsets: dict[MessageQueue, QueueOffset] = msgspec.field(
        name="offsetTable", default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsetReply:
    """Where the group goes on in each queue that was reset."""

    reset: QueueOffsets = json_body()


@request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeBrokerToResetOffset(Request[ResetOffsetReply]):
    """Move a group to another position in a topic, by time or by offset."""

    topic: str
    group: str
    #: Milliseconds; negative: to the end.
    timestamp: int
    is_force: bool
    #: -1: every queue.
    queue_id: I32 = -1
    #: Instead of a moment, for one queue.
    offset: QueueOffset | None = None
    broker_name: str | None = wire("bname", default=None)
