"""Consumer groups, as operators see them: their settings at every broker, and who is in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import msgspec

from rocketpipe.client.admin.fleet import Fleet, each
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.group import GroupSettings, RetryPolicy
from rocketpipe.model.misnomers import check_names
from rocketpipe.model.names import check_consumer_group, is_predefined_group, is_system_group
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.clients import GetConsumerListByGroup
from rocketpipe.protocol.requests.groups import (
    DeleteGroup,
    GetAllGroupConfig,
    UpdateAndCreateGroup,
    UpdateGroupForbidden,
)


class NoGroup(RocketPipeError):
    """No broker has settings of this group."""

    def __init__(self, group: str, brokers: int) -> None:
        self.hint = "create it, or start a consumer of it"
        super().__init__(
            f"no group {group!r} at {brokers} broker{'' if brokers == 1 else 's'}: {self.hint}"
        )
        self.group = group


class GroupExists(RocketPipeError):
    """A group that was to be created is there already."""

    def __init__(self, group: str, brokers: list[str]) -> None:
        self.hint = "update it instead"
        super().__init__(f"group {group!r} exists at {', '.join(brokers)}: {self.hint}")
        self.group = group


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group: its settings at each broker."""

    name: str
    settings: Mapping[str, GroupSettings]


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A client that consumes for a group, and the brokers that it is connected to."""

    client_id: str
    brokers: tuple[str, ...]


class GroupChanges(TypedDict, total=False):
    """What can be set of a group; see ``GroupSettings``."""

    consume_enable: bool
    consume_from_min_enable: bool
    consume_broadcast_enable: bool
    ordered: bool
    retry_queues: int
    max_attempts: int
    retry_policy: RetryPolicy
    broker_id: int
    which_broker_when_consume_slowly: int
    notify_consumer_ids_changed_enable: bool
    consume_timeout_minute: int


class GroupAdmin:
    """Creates, changes, deletes, lists and shows consumer groups."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def create(
        self,
        group: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        if_missing: bool = False,
        **settings: Unpack[GroupChanges],
    ) -> None:
        """Create a group at every broker, at those of a cluster, or at one.

        What is not given is as RocketMQ has it by default. With ``if_missing`` brokers that have it
        keep it as it is, and that is no error.

        Raises:
            InvalidName: If no group may have this name.
            TypeError: If a group has no such setting; the message says which may be meant.
            GroupExists: If one of these brokers has it.
            NoBroker: If there is no such cluster or broker.
            PartlyDone: If some brokers have it now, and others do not.
        """
        check_consumer_group(group)
        check_names("a group", settings, GroupChanges.__annotations__)
        wanted = GroupSettings(name=group, **_fields(settings))
        leaders = await self._fleet.leaders(cluster=cluster, broker=broker)
        known = await self._settings(group, leaders)
        if known and not if_missing:
            raise GroupExists(group, sorted(known))
        leaders = {name: at for name, at in leaders.items() if name not in known}
        await self._fleet.tell(leaders, UpdateAndCreateGroup(settings=wanted))

    async def update(
        self,
        group: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        **changes: Unpack[GroupChanges],
    ) -> None:
        """Change settings where the group is; those that are not given stay.

        Raises:
            NoGroup: If no broker of these has it.
            NoBroker: If there is no such cluster or broker.
            PartlyDone: If some brokers have changed it, and others have not.
        """
        check_names("a group", changes, GroupChanges.__annotations__)
        leaders = await self._fleet.leaders(cluster=cluster, broker=broker)
        known = await self._settings(group, leaders)
        if not known:
            raise NoGroup(group, len(leaders))
        fields = _fields(changes)
        await self._fleet.carry_out(
            {
                name: (
                    leaders[name],
                    # What travels as attributes is a change of them, and this is none.
                    UpdateAndCreateGroup(
                        settings=msgspec.structs.replace(before, attributes={}, **fields)
                    ),
                )
                for name, before in known.items()
            }
        )

    async def delete(
        self,
        group: str,
        *,
        offsets: bool = False,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Delete a group's settings, and how far it has come if ``offsets`` are to go too.

        Its retry and dead letter topics stay: they are topics like others. To delete what is not
        there is no error.

        Raises:
            NoBroker: If there is no such cluster or broker.
            PartlyDone: If some brokers still have it.
        """
        leaders = await self._fleet.leaders(cluster=cluster, broker=broker)
        await self._fleet.tell(leaders, DeleteGroup(group_name=group, clean_offset=offsets))

    async def names(self, *, cluster: str | None = None, internal: bool = False) -> list[str]:
        """The names of users' groups, in order; with ``internal`` also RocketMQ's own.

        Raises:
            NoBroker: If there is no such cluster.
            ConnectionLost: If a server is out of reach.
        """
        leaders = await self._fleet.leaders(cluster=cluster)
        replies = await self._fleet.ask(leaders, GetAllGroupConfig())
        names = {name for reply in replies.values() for name in reply.table.groups}
        return sorted(name for name in names if internal or not _is_internal(name))

    async def show(self, group: str) -> GroupInfo:
        """The settings of a group at each broker that has it.

        Raises:
            NoGroup: If none has it.
            ConnectionLost: If a server is out of reach.
        """
        leaders = await self._fleet.leaders()
        known = await self._settings(group, leaders)
        if not known:
            raise NoGroup(group, len(leaders))
        return GroupInfo(group, known)

    async def members(self, group: str) -> list[GroupMember]:
        """Who consumes for a group now, in the order in which queues are shared out.

        Raises:
            ConnectionLost: If a server is out of reach.
        """
        leaders = await self._fleet.leaders()
        ids = await each(leaders, lambda name: self._ids(group, leaders[name]))
        found: dict[str, list[str]] = {}
        for name, members in ids.items():
            for client_id in members:
                found.setdefault(client_id, []).append(name)
        return [GroupMember(client_id, tuple(found[client_id])) for client_id in sorted(found)]

    async def may_read(self, group: str, topic: str) -> bool:
        """Whether every broker lets a group read a topic.

        Raises:
            ConnectionLost: If a server is out of reach.
        """
        leaders = await self._fleet.leaders()
        request = UpdateGroupForbidden(group=group, topic=topic)
        replies = await self._fleet.ask(leaders, request)
        return all(reply.state.readable for reply in replies.values())

    async def let_read(self, group: str, topic: str, *, allowed: bool) -> None:
        """Let a group read a topic, or forbid it to.

        Raises:
            InvalidName: If the group, or the topic, may not have this name.
            PartlyDone: If some brokers have changed it, and others have not.
        """
        leaders = await self._fleet.leaders()
        request = UpdateGroupForbidden(group=group, topic=topic, readable=allowed)
        await self._fleet.tell(leaders, request)

    async def _settings(self, group: str, leaders: Mapping[str, str]) -> dict[str, GroupSettings]:
        # To ask for the one group would create it at brokers that create groups by themselves.
        replies = await self._fleet.ask(leaders, GetAllGroupConfig())
        return {
            name: reply.table.groups[group]
            for name, reply in replies.items()
            if group in reply.table.groups
        }

    async def _ids(self, group: str, address: str) -> tuple[str, ...]:
        try:
            reply = await self._fleet.call(address, GetConsumerListByGroup(consumer_group=group))
        except RequestRejected as error:
            if error.code != ResponseCode.SYSTEM_ERROR:
                raise
            return ()  # so a broker says that nobody is there
        return reply.members.consumer_ids


def _is_internal(group: str) -> bool:
    return is_predefined_group(group) or is_system_group(group)


def _fields(changes: GroupChanges) -> dict[str, Any]:
    """What is to be set, as the protocol has it: it counts the attempts after the first.

    Raises:
        ValueError: A message would not be tried at all.
    """
    fields: dict[str, Any] = dict(changes)
    most = fields.pop("max_attempts", None)
    if most is not None:
        if most < 1:
            raise ValueError(f"max_attempts={most}: it counts the first attempt too, so 1 is least")
        fields["max_retries"] = most - 1
    return fields
