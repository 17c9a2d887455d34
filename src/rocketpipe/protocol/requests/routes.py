"""Requests to a NameServer about routes: brokers tell what they have, clients ask where it is."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rocketpipe.model.body import Body
from rocketpipe.model.route import ClusterBrokers, TopicRoute
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, json_body, raw_body, wire
from rocketpipe.protocol.request import Request, request


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteReply:
    """Where the topic lives; every key quoted, which all peers read."""

    route: TopicRoute = json_body(strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BareKeyRouteReply(RouteReply):
    """Where the topic lives, with broker ids as bare keys: what RocketMQ before 4.9.4 wrote."""

    route: TopicRoute = json_body(strict=False)


@request(RequestCode.GET_ROUTEINFO_BY_TOPIC)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetRouteInfoByTopic(Request[RouteReply]):
    """Ask where a topic lives."""

    topic: str
    accept_standard_json_only: bool | None = None
    broker_name: str | None = wire("bname", default=None)


class KeyValues(Body, frozen=True, kw_only=True):
    """Settings by name."""

    table: dict[str, str] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerReply:
    """Who leads the registered broker's name, and the order settings of all topics."""

    ha_server_addr: str | None = None
    master_addr: str | None = None
    order_settings: KeyValues | None = json_body(default=None)


@request(RequestCode.REGISTER_BROKER)
@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker(Request[RegisterBrokerReply]):
    """Tell a NameServer that a broker is there, and its topics.

    The body is a Registration in one of two forms, which ``compressed`` tells apart:
    ``read_registration`` and ``write_registration`` know both.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: int
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    #: 0: not checked.
    body_crc32: I32 = wire("bodyCrc32", default=0)
    body: bytes = raw_body(default=b"")


@request(RequestCode.UNREGISTER_BROKER)
@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker(Request[None]):
    """Tell a NameServer that a broker is leaving."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfoReply:
    """Every cluster and broker that the NameServer knows."""

    cluster_brokers: ClusterBrokers = json_body(strict=True)


@request(RequestCode.GET_BROKER_CLUSTER_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerClusterInfo(Request[ClusterInfoReply]):
    """Ask for every cluster and broker."""


class TopicNames(Body, frozen=True, kw_only=True):
    """Names of topics; ``broker_addr`` is that of any broker, where the request asks for one."""

    topics: frozenset[str] = msgspec.field(name="topicList", default=frozenset())
    broker_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNamesReply:
    """The topics that were asked for."""

    names: TopicNames = json_body()


@request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopics(Request[TopicNamesReply]):
    """Ask for every topic that has a route."""


@request(RequestCode.GET_TOPICS_BY_CLUSTER)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicsByCluster(Request[TopicNamesReply]):
    """Ask for the topics that a cluster's brokers hold."""

    cluster: str


@request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetSystemTopics(Request[TopicNamesReply]):
    """Ask for the topics named like clusters and brokers, and for the address of some broker."""


@request(RequestCode.GET_UNIT_TOPIC_LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetUnitTopics(Request[TopicNamesReply]):
    """Ask for the topics that belong to a unit."""


@request(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetUnitSubscribedTopics(Request[TopicNamesReply]):
    """Ask for the topics that some unit subscribes to."""


@request(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetUnitSubscribedPlainTopics(Request[TopicNamesReply]):
    """Ask for the topics that some unit subscribes to but that belong to none."""


@request(RequestCode.DELETE_TOPIC_IN_NAMESRV)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicInNamesrv(Request[None]):
    """Take the route of a topic away, in one cluster or in all."""

    topic: str
    cluster_name: str | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterTopicInNamesrv(Request[None]):
    """Give a topic queues on brokers that the NameServer knows; only ``route.queues`` counts."""

    topic: str
    broker_name: str | None = wire("bname", default=None)
    route: TopicRoute = json_body()


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeWritePermReply:
    """How many topics of the broker can no longer be written."""

    wipe_topic_count: I32


@request(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
@dataclass(frozen=True, slots=True, kw_only=True)
class WipeWritePerm(Request[WipeWritePermReply]):
    """Keep producers away from a broker, so that it can be emptied."""

    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWritePermReply:
    """How many topics of the broker can be read and written again."""

    add_topic_count: I32


@request(RequestCode.ADD_WRITE_PERM_OF_BROKER)
@dataclass(frozen=True, slots=True, kw_only=True)
class AddWritePerm(Request[AddWritePermReply]):
    """Let producers come to a broker again."""

    broker_name: str
