"""Requests about a NameServer's own settings, and those that it keeps for others by their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import json_body, raw_body
from rocketpipe.protocol.request import Request, request
from rocketpipe.protocol.requests.routes import KeyValues

#: Where topics that are ordered across brokers are kept: ``broker-a:4;broker-b:4`` by topic.
ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
#: Ours, where brokers are kept that were drained: under ``broker@topic`` how far its queues there
#: reached, as ``0:42;1:40``; under ``broker`` alone that it is gone.
DRAINED_NAMESPACE: Final = "ROCKETPIPE_DRAINED"


@request(RequestCode.PUT_KV_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class PutKeyValue(Request[None]):
    """Keep a value, in the place of the last one."""

    namespace: str
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValueReply:
    """The value that is kept."""

    value: str | None = None


@request(RequestCode.GET_KV_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetKeyValue(Request[KeyValueReply]):
    """Ask for one value."""

    namespace: str
    key: str


@request(RequestCode.DELETE_KV_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKeyValue(Request[None]):
    """Let go of a value; one that is not there is gone already."""

    namespace: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValuesReply:
    """Every value of the namespace."""

    values: KeyValues = json_body()


@request(RequestCode.GET_KVLIST_BY_NAMESPACE)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetKeyValues(Request[KeyValuesReply]):
    """Ask for every value of a namespace."""

    namespace: str


# Its own, as lines of ``key=value``


@request(RequestCode.UPDATE_NAMESRV_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateNamesrvConfig(Request[None]):
    """Change settings while the server runs; all of them or, if one is refused, none."""

    properties: bytes = raw_body(default=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvConfigReply:
    """Every setting, sorted by key."""

    properties: bytes = raw_body()


@request(RequestCode.GET_NAMESRV_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetNamesrvConfig(Request[NamesrvConfigReply]):
    """Ask for every setting."""
