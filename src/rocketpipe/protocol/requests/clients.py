"""Requests by which a client says who it is, and shares queues with others of its group."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rocketpipe.model.body import Body, Int32
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    MessageRequestMode,
    Subscription,
)
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import json_body, wire
from rocketpipe.protocol.request import Request, request


class ProducerData(Body, frozen=True, kw_only=True):
    """One producer group that a client serves."""

    group_name: str


class ConsumerData(Body, frozen=True, kw_only=True):
    """One consumer group that a client is a member of, and what it wants."""

    group_name: str
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    subscriptions: tuple[Subscription, ...] = msgspec.field(name="subscriptionDataSet", default=())
    unit_mode: bool = False


class HeartbeatData(Body, frozen=True, kw_only=True):
    """Everything a client does. C++ clients leave out what they do not do."""

    client_id: str = msgspec.field(name="clientID")
    producers: tuple[ProducerData, ...] = msgspec.field(name="producerDataSet", default=())
    consumers: tuple[ConsumerData, ...] = msgspec.field(name="consumerDataSet", default=())
    #: Not 0 when the client may leave out subscriptions that did not change.
    heartbeat_fingerprint: Int32 = 0
    without_sub: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """Whether the broker keeps fingerprints, and whether the subscriptions are new to it."""

    supports_v2: bool | None = wire("IS_SUPPORT_HEART_BEAT_V2", default=None)
    sub_changed: bool | None = wire("IS_SUB_CHANGE", default=None)


@request(RequestCode.HEART_BEAT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Request[HeartbeatReply]):
    """Say that a client is alive, and what it produces and consumes."""

    broker_name: str | None = wire("bname", default=None)
    data: HeartbeatData = json_body()


@request(RequestCode.UNREGISTER_CLIENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterClient(Request[None]):
    """Take a client out of a producer group, a consumer group or both."""

    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None
    broker_name: str | None = wire("bname", default=None)


class ConsumerIds(Body, frozen=True, kw_only=True):
    """The client ids of a group's members."""

    consumer_ids: tuple[str, ...] = msgspec.field(name="consumerIdList", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerListReply:
    """Who is in the group at the broker that was asked."""

    members: ConsumerIds = json_body(default=ConsumerIds())


@request(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerListByGroup(Request[ConsumerListReply]):
    """Ask who is in a consumer group."""

    consumer_group: str
    broker_name: str | None = wire("bname", default=None)


class SubscriptionCheck(Body, frozen=True, kw_only=True):
    """One subscription that a client is about to use."""

    client_id: str
    group: str
    namespace: str | None = None
    subscription: Subscription = msgspec.field(name="subscriptionData")


@request(RequestCode.CHECK_CLIENT_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckClientConfig(Request[None]):
    """Ask whether the broker can evaluate a subscription's expression."""

    check: SubscriptionCheck = json_body()


class QueueClaim(Body, frozen=True, kw_only=True):
    """Queues that one member of a group wants to own, or gives back."""

    consumer_group: str
    client_id: str
    #: Whether the answer of this broker's replicas does not matter.
    only_this_broker: bool = False
    queues: tuple[MessageQueue, ...] = msgspec.field(name="mqSet", default=())


class LockedQueues(Body, frozen=True, kw_only=True):
    """Those of the claimed queues that the claimant owns now."""

    queues: tuple[MessageQueue, ...] = msgspec.field(name="lockOKMQSet", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBatchReply:
    """Which of the queues were locked; those owned by others are missing."""

    locked: LockedQueues = json_body(default=LockedQueues())


@request(RequestCode.LOCK_BATCH_MQ)
@dataclass(frozen=True, slots=True, kw_only=True)
class LockBatch(Request[LockBatchReply]):
    """Claim queues for one ordered consumer, or renew its claim."""

    broker_name: str | None = wire("bname", default=None)
    claim: QueueClaim = json_body()


@request(RequestCode.UNLOCK_BATCH_MQ)
@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockBatch(Request[None]):
    """Give claimed queues back."""

    broker_name: str | None = wire("bname", default=None)
    claim: QueueClaim = json_body()


class AssignmentQuestion(Body, frozen=True, kw_only=True):
    """Which member asks for its queues, and by which strategy they are shared out."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str | None = None
    message_model: MessageModel = MessageModel.CLUSTERING


class QueueAssignment(Body, frozen=True, kw_only=True):
    """One queue of a member and how it fetches; number -1 is any queue of the broker."""

    message_queue: MessageQueue
    mode: MessageRequestMode = MessageRequestMode.PULL
    attachments: dict[str, str] | None = None


class QueueAssignments(Body, frozen=True, kw_only=True):
    """A member's queues; None when the broker does not know the strategy."""

    assignments: tuple[QueueAssignment, ...] | None = msgspec.field(
        name="messageQueueAssignments", default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentReply:
    """The queues of the member that asked."""

    assigned: QueueAssignments = json_body()


@request(RequestCode.QUERY_ASSIGNMENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAssignment(Request[AssignmentReply]):
    """Ask the broker to share out a topic's queues, instead of doing it in the client."""

    question: AssignmentQuestion = json_body()


class RequestMode(Body, frozen=True, kw_only=True):
    """How members of a group fetch a topic, where an operator decides that."""

    topic: str
    consumer_group: str
    mode: MessageRequestMode = MessageRequestMode.PULL
    #: With how many members behind it one shares its queues; none and fewer: with all.
    pop_share_queue_num: Int32 = 0


@request(RequestCode.SET_MESSAGE_REQUEST_MODE)
@dataclass(frozen=True, slots=True, kw_only=True)
class SetMessageRequestMode(Request[None]):
    """Decide how members of a group fetch a topic, if they ask the broker."""

    mode: RequestMode = json_body()


class RequestModes(Body, frozen=True, kw_only=True):
    """Every such decision, by topic and then by group."""

    modes: dict[str, dict[str, RequestMode]] = msgspec.field(
        name="messageRequestModeMap", default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllRequestModesReply:
    """What operators decided on this broker."""

    table: RequestModes = json_body()


@request(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllRequestModes(Request[AllRequestModesReply]):
    """Ask how groups fetch topics, wherever an operator decided that."""
