"""Requests about how far groups have come, and which topics they read."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import Subscription
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, json_body, wire
from rocketpipe.protocol.request import Request, request
from rocketpipe.protocol.requests.routes import TopicNamesReply


class QueueProgress(Body, frozen=True, kw_only=True):
    """A queue's end, and how far a group has come in it."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    #: How far it has read; it may not have committed that yet.
    pull_offset: Int64 = 0
    #: When the last message that it consumed was stored; 0 if that is not known.
    last_timestamp: Int64 = 0


class ConsumeStats(Body, frozen=True, kw_only=True):
    """A group's progress in some queues, and how many messages a second it was given."""

    consume_tps: float = 0.0
    queues: dict[MessageQueue, QueueProgress] = msgspec.field(
        name="offsetTable", default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatsReply:
    """How far the group has come."""

    stats: ConsumeStats = json_body()


@request(RequestCode.GET_CONSUME_STATS)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumeStats(Request[ConsumeStatsReply]):
    """Ask how far a group has come in a topic, in some, or in all that it has offsets of."""

    consumer_group: str
    topic: str | None = None
    #: Topics, with a semicolon between them.
    topic_list: str | None = None
    broker_name: str | None = wire("bname", default=None)


class QueueTimeSpan(Body, frozen=True, kw_only=True):
    """From when to when a queue has messages, and how old the next one is for a group."""

    message_queue: MessageQueue
    min_time_stamp: Int64 = 0
    max_time_stamp: Int64 = 0
    consume_time_stamp: Int64 = 0
    delay_time: Int64 = 0
    # The same as text, for those who look at the JSON; nobody reads them back.
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None


class TimeSpans(Body, frozen=True, kw_only=True):
    """The spans of a topic's queues."""

    spans: tuple[QueueTimeSpan, ...] = msgspec.field(name="consumeTimeSpanSet", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpansReply:
    """What was asked, a span for each queue."""

    times: TimeSpans = json_body()


@request(RequestCode.QUERY_CONSUME_TIME_SPAN)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeTimeSpan(Request[TimeSpansReply]):
    """Ask from when the messages are that a topic has, and those that a group is at."""

    topic: str
    group: str
    broker_name: str | None = wire("bname", default=None)


class GroupNames(Body, frozen=True, kw_only=True):
    """Names of groups."""

    groups: frozenset[str] = msgspec.field(name="groupList", default=frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNamesReply:
    """The groups that were asked for."""

    names: GroupNames = json_body()


@request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryGroupsOfTopic(Request[GroupNamesReply]):
    """Ask which groups consume a topic, now or before."""

    topic: str
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.QUERY_TOPICS_BY_CONSUMER)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTopicsOfGroup(Request[TopicNamesReply]):
    """Ask which topics a group has offsets of."""

    group: str
    broker_name: str | None = wire("bname", default=None)


class GroupSubscription(Body, frozen=True, kw_only=True):
    """What a group wants of a topic; nothing if it does not subscribe to it now."""

    group: str | None = None
    topic: str | None = None
    subscription: Subscription | None = msgspec.field(name="subscriptionData", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSubscriptionReply:
    """The subscription that was asked for."""

    found: GroupSubscription = json_body()


@request(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySubscriptionOfGroup(Request[GroupSubscriptionReply]):
    """Ask what a group wants of a topic."""

    group: str
    topic: str | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.CLONE_GROUP_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class CloneGroupOffset(Request[None]):
    """Give a group the offsets of another, in one topic or in all."""

    src_group: str
    dest_group: str
    topic: str | None = None
    #: Whether topics count that the first group does not subscribe to now.
    offline: bool = False
    broker_name: str | None = wire("bname", default=None)


class CorrectionOffsets(Body, frozen=True, kw_only=True):
    """The smallest committed offset by queue; the greatest number there is where none matters."""

    offsets: dict[Int32, Int64] = msgspec.field(name="correctionOffsets", default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionOffsetsReply:
    """Where the slowest group is in each queue."""

    correction: CorrectionOffsets = json_body()


@request(RequestCode.QUERY_CORRECTION_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCorrectionOffset(Request[CorrectionOffsetsReply]):
    """Ask for the smallest offsets of a topic's groups, as far as one group is not behind them."""

    topic: str
    compare_group: str
    #: Groups that do not count, with a comma between them.
    filter_groups: str | None = None
    broker_name: str | None = wire("bname", default=None)


class QueueEntry(Body, frozen=True, kw_only=True):
    """One entry of a queue: where the record is, its tag's hash, and what a filter makes of it."""

    log_offset: Int64 = msgspec.field(name="physicOffset", default=0)
    size: Int32 = msgspec.field(name="physicSize", default=0)
    tags_code: Int64 = 0
    extend_data: str | None = msgspec.field(name="extendDataJson", default=None)
    bit_map: str | None = None
    matches: bool = msgspec.field(name="eval", default=False)
    remark: str | None = msgspec.field(name="msg", default=None)


class QueueEntries(Body, frozen=True, kw_only=True):
    """Some entries of a queue, between its ends."""

    subscription: Subscription | None = msgspec.field(name="subscriptionData", default=None)
    filter_data: str | None = None
    entries: tuple[QueueEntry, ...] | None = msgspec.field(name="queueData", default=None)
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntriesReply:
    """The entries that were asked for."""

    found: QueueEntries = json_body()


@request(RequestCode.QUERY_CONSUME_QUEUE)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeQueue(Request[QueueEntriesReply]):
    """Ask for entries of a queue as they are stored, from one on."""

    topic: str | None = None
    queue_id: I32 = 0
    index: int = 0
    count: I32 = 0
    #: Whose subscription is held against them.
    consumer_group: str | None = None
    broker_name: str | None = wire("bname", default=None)
