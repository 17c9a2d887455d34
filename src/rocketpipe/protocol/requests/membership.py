"""Requests of brokers to a NameServer between two registrations: still here, still the same?"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rocketpipe.model.body import Body, Int64
from rocketpipe.model.topic import DataVersion
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, json_body
from rocketpipe.protocol.request import Request, request


@dataclass(frozen=True, slots=True, kw_only=True)
class DataVersionReply:
    """Whether the broker has to register anew, and the version that the NameServer has."""

    changed: bool
    #: None for a broker that is not known.
    version: DataVersion | None = json_body(default=None)


@request(RequestCode.QUERY_DATA_VERSION)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDataVersion(Request[DataVersionReply]):
    """Ask whether a topic table of this version was registered; the asker counts as heard."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int
    version: DataVersion = json_body()


@request(RequestCode.BROKER_HEARTBEAT)
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeat(Request[None]):
    """Tell that a registered broker is still there.

    What comes after its name is for a controller; a NameServer looks at name and address alone.
    """

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: int | None = None
    epoch: I32 | None = None
    max_offset: int | None = None
    confirm_offset: int | None = None
    #: RocketMQ spells it so here, and ``heartbeatTimeoutMillis`` in a registration.
    heartbeat_timeout_mills: int | None = None
    election_priority: I32 | None = None


class BrokerMembers(Body, frozen=True, kw_only=True):
    """The brokers that share one name, by their ids."""

    cluster: str | None = None
    broker_name: str | None = None
    addresses: dict[Int64, str] = msgspec.field(name="brokerAddrs", default_factory=dict)


class MemberGroup(Body, frozen=True, kw_only=True):
    """What the answer wraps the members in."""

    members: BrokerMembers = msgspec.field(name="brokerMemberGroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberGroupReply:
    """Who shares the name; nobody, if it is not known."""

    group: MemberGroup = json_body(strict=True)


@request(RequestCode.GET_BROKER_MEMBER_GROUP)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerMemberGroup(Request[MemberGroupReply]):
    """Ask which brokers share a name."""

    cluster_name: str
    broker_name: str


@request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyMinBrokerIdChange(Request[None]):
    """Tell the brokers of one name that another of them now has the smallest id."""

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
