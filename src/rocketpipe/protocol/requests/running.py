"""Requests about clients that are connected, and those that a broker passes on to one of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)
from rocketpipe.protocol.codes import Language, RequestCode
from rocketpipe.protocol.fields import I32, json_body, raw_body, wire
from rocketpipe.protocol.request import Request, request

# Who is connected


class ClientConnection(Body, frozen=True, kw_only=True):
    """One client: who it says it is, from where, and what it is written in."""

    client_id: str
    client_addr: str | None = None
    language: Language | None = None
    version: Int32 = 0


class ConsumerConnections(Body, frozen=True, kw_only=True):
    """The members of a group, and what the group wants."""

    connections: tuple[ClientConnection, ...] = msgspec.field(name="connectionSet", default=())
    subscriptions: dict[str, Subscription] = msgspec.field(
        name="subscriptionTable", default_factory=dict
    )
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConnectionsReply:
    """Who consumes for the group now."""

    group: ConsumerConnections = json_body()


@request(RequestCode.GET_CONSUMER_CONNECTION_LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerConnections(Request[ConsumerConnectionsReply]):
    """Ask who consumes for a group, and what they subscribed to."""

    consumer_group: str
    broker_name: str | None = wire("bname", default=None)


class ProducerConnections(Body, frozen=True, kw_only=True):
    """The producers of a group."""

    connections: tuple[ClientConnection, ...] = msgspec.field(name="connectionSet", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConnectionsReply:
    """Who produces for the group now."""

    group: ProducerConnections = json_body()


@request(RequestCode.GET_PRODUCER_CONNECTION_LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetProducerConnections(Request[ProducerConnectionsReply]):
    """Ask who produces for a group."""

    producer_group: str
    broker_name: str | None = wire("bname", default=None)


class ProducerInfo(Body, frozen=True, kw_only=True):
    """One producer, and when it was last heard of."""

    client_id: str
    remote_address: str | None = msgspec.field(name="remoteIP", default=None)
    language: Language | None = None
    version: Int32 = 0
    last_update_timestamp: Int64 = 0


class ProducersByGroup(Body, frozen=True, kw_only=True):
    """Producers by their groups."""

    groups: dict[str, tuple[ProducerInfo, ...]] = msgspec.field(name="data", default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllProducersReply:
    """Every producer that is connected."""

    producers: ProducersByGroup = json_body()


@request(RequestCode.GET_ALL_PRODUCER_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllProducers(Request[AllProducersReply]):
    """Ask for every producer, by group."""


# What a client is asked through its broker


class ClientOffsets(Body, frozen=True, kw_only=True):
    """Where a client is in its queues; a broker gives those of several, by client id."""

    offsets: dict[MessageQueue, QueueOffset] = msgspec.field(
        name="messageQueueTable", default_factory=dict
    )
    by_client: dict[str, dict[MessageQueue, QueueOffset]] = msgspec.field(
        name="consumerTable", default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOffsetsReply:
    """Where the client, or each client, is."""

    place: ClientOffsets = json_body()


@request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetClientOffsets(Request[ClientOffsetsReply]):
    """Ask a consumer where it is in the queues that it holds."""

    topic: str
    group: str
    client_addr: str | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetOffsetsOfClients(Request[ClientOffsetsReply]):
    """Have a broker ask the consumers of a group where they are; all of them, or one."""

    topic: str
    group: str
    #: Its client id, whatever the name says.
    client_addr: str | None = None
    broker_name: str | None = wire("bname", default=None)


class HeldQueueInfo(Body, frozen=True, kw_only=True):
    """What a consumer has in hand of one queue."""

    commit_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_count: Int32 = 0
    cached_mib: Int32 = msgspec.field(name="cachedMsgSizeInMiB", default=0)
    transaction_msg_min_offset: Int64 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: Int64 = 0
    last_lock_timestamp: Int64 = 0
    # Peers spell it so.
    dropped: bool = msgspec.field(name="droped", default=False)
    last_pull_timestamp: Int64 = 0
    last_consume_timestamp: Int64 = 0


class PopQueueInfo(Body, frozen=True, kw_only=True):
    """What a consumer that pops has not acknowledged yet of one queue."""

    wait_ack_count: Int32 = 0
    dropped: bool = msgspec.field(name="droped", default=False)
    last_pop_timestamp: Int64 = 0


class ConsumeRates(Body, frozen=True, kw_only=True):
    """How fast a consumer pulls and handles a topic: times in ms, the rest a second."""

    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_failed_msgs: Int64 = 0


class RunningInfo(Body, frozen=True, kw_only=True):
    """A consumer as it runs: its settings, its queues, its rates, and its stacks if asked for."""

    properties: dict[str, str] = msgspec.field(default_factory=dict)
    subscriptions: tuple[Subscription, ...] = msgspec.field(name="subscriptionSet", default=())
    queues: dict[MessageQueue, HeldQueueInfo] = msgspec.field(name="mqTable", default_factory=dict)
    popped: dict[MessageQueue, PopQueueInfo] = msgspec.field(
        name="mqPopTable", default_factory=dict
    )
    rates: dict[str, ConsumeRates] = msgspec.field(name="statusTable", default_factory=dict)
    user_info: dict[str, str] = msgspec.field(name="userConsumerInfo", default_factory=dict)
    stacks: str | None = msgspec.field(name="jstack", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningInfoReply:
    """What the consumer says of itself."""

    info: RunningInfo = json_body()


@request(RequestCode.GET_CONSUMER_RUNNING_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetRunningInfo(Request[RunningInfoReply]):
    """Ask a consumer how it fares, by way of its broker."""

    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None
    broker_name: str | None = wire("bname", default=None)


class DirectOutcome(StrEnum):
    """How a handler took a message that it was given on demand."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class DirectResult(Body, frozen=True, kw_only=True):
    """What came of it."""

    ordered: bool = msgspec.field(name="order", default=False)
    auto_commit: bool = True
    outcome: DirectOutcome | None = msgspec.field(name="consumeResult", default=None)
    remark: str | None = None
    spent_ms: Int64 = msgspec.field(name="spentTimeMills", default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeDirectlyReply:
    """How the consumer took the message."""

    result: DirectResult = json_body()


@request(RequestCode.CONSUME_MESSAGE_DIRECTLY)
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeDirectly(Request[ConsumeDirectlyReply]):
    """Have one consumer handle one message now; the broker puts the message in and passes it on."""

    consumer_group: str
    client_id: str | None = None
    #: An offset id.
    msg_id: str | None = None
    # Not `broker_name`, which is another field on the wire.
    of_broker: str | None = wire("brokerName", default=None)
    topic: str | None = None
    topic_sys_flag: I32 | None = None
    group_sys_flag: I32 | None = None
    broker_name: str | None = wire("bname", default=None)
    #: The record, when it comes from the broker.
    message: bytes = raw_body(default=b"")
