"""Requests about a broker's consumer groups."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rocketpipe.model.body import Body, Int32
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.topic import DataVersion
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, json_body, wire
from rocketpipe.protocol.request import Request, request


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAndCreateGroup(Request[None]):
    """Create a consumer group, or replace its settings."""

    settings: GroupSettings = json_body()


class GroupList(Body, frozen=True, kw_only=True):
    """Groups with their settings; attributes are a change here, as with topics."""

    groups: tuple[GroupSettings, ...] = msgspec.field(name="groupConfigList", default=())


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAndCreateGroupList(Request[None]):
    """Create or replace many groups at once."""

    wanted: GroupList = json_body()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReply:
    """What the broker keeps about the group."""

    settings: GroupSettings = json_body()


@request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetGroupConfig(Request[GroupReply]):
    """Ask for one group's settings."""

    group: str
    broker_name: str | None = wire("bname", default=None)


class GroupTableData(Body, frozen=True, kw_only=True):
    """Groups by name, what they may not do, and which state of the table this is.

    What is forbidden is told by bits, by group and topic: a 4 forbids to read.
    """

    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    forbidden: dict[str, dict[str, Int32]] = msgspec.field(
        name="forbiddenTable", default_factory=dict
    )
    groups: dict[str, GroupSettings] = msgspec.field(
        name="subscriptionGroupTable", default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllGroupsReply:
    """A page of the groups, and how many there are in all."""

    total_group_num: I32 | None = None
    table: GroupTableData = json_body()


@request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllGroupConfig(Request[AllGroupsReply]):
    """Ask for every group's settings; all at once if no field is given, else a page of them."""

    #: The place of the page's first group, in the order of names.
    group_seq: I32 | None = None
    #: The version of the pages before, as JSON; after a change the first page comes again.
    data_version: str | None = None
    max_group_num: I32 | None = None


@request(RequestCode.DELETE_SUBSCRIPTIONGROUP)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup(Request[None]):
    """Delete a consumer group, with its offsets if they are to go too."""

    group_name: str
    clean_offset: bool = False
    broker_name: str | None = wire("bname", default=None)


class GroupForbidden(Body, frozen=True, kw_only=True):
    """Whether a group may read a topic."""

    group: str
    topic: str
    readable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupForbiddenReply:
    """What holds now."""

    state: GroupForbidden = json_body()


@request(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateGroupForbidden(Request[GroupForbiddenReply]):
    """Forbid a group to read a topic, allow it again, or only ask."""

    group: str
    topic: str
    readable: bool | None = None
    broker_name: str | None = wire("bname", default=None)
