"""Requests about a NameServer's own settings, as lines of ``key=value``."""

from __future__ import annotations

from dataclasses import dataclass

from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import raw_body
from rocketpipe.protocol.request import Request, request


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
