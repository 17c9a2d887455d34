"""Requests about a broker's consumer groups."""

from __future__ import annotations

from dataclasses import dataclass

from rocketpipe.model.group import GroupSettings
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import json_body
from rocketpipe.protocol.request import Request, request


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAndCreateGroup(Request[None]):
    """Create a consumer group, or replace its settings."""

    settings: GroupSettings = json_body()
