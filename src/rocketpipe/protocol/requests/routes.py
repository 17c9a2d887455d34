"""Requests to a NameServer: brokers tell what they have, clients ask where it is."""

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
    """Where the topic lives."""

    route: TopicRoute = json_body(strict=True)


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
