"""Answers about consumer groups: created, changed, deleted, listed, and kept from topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from rocketpipe.broker.handlers.topics import page_of
from rocketpipe.broker.tables.groups import FORBID_READ, GroupTable
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.clock import Clock
from rocketpipe.errors import InvalidName, RequestRejected
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import check_group, check_topic
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.groups import (
    AllGroupsReply,
    DeleteGroup,
    GetAllGroupConfig,
    GetGroupConfig,
    GroupForbidden,
    GroupForbiddenReply,
    GroupReply,
    GroupTableData,
    UpdateAndCreateGroup,
    UpdateAndCreateGroupList,
    UpdateGroupForbidden,
)
from rocketpipe.remoting.router import Call, handles


class GroupHandlers:
    """Keeps the settings of consumer groups."""

    def __init__(
        self,
        groups: GroupTable,
        offsets: OffsetTable,
        clock: Clock,
        settled: Callable[[], Awaitable[None]] | None = None,
        admit: Callable[[], None] = lambda: None,
    ) -> None:
        """A change is answered when it is ``settled``, if that is given.

        ``admit`` refuses one that could not be settled, before it is made.
        """
        self._admit = admit
        self._groups = groups
        self._offsets = offsets
        self._clock = clock
        self._settled = settled

    @handles(UpdateAndCreateGroup)
    async def update(self, request: UpdateAndCreateGroup, call: Call) -> None:
        await self._update([request.settings])

    @handles(UpdateAndCreateGroupList)
    async def update_many(self, request: UpdateAndCreateGroupList, call: Call) -> None:
        """All of them are checked before the first is changed."""
        await self._update(request.wanted.groups)

    @handles(GetGroupConfig)
    async def one(self, request: GetGroupConfig, call: Call) -> GroupReply:
        """A group that no consumer has come for yet is made by asking, as consumers make it."""
        found = None
        try:
            found = self._groups.ensure(request.group, self._clock.now_ms())
        except InvalidName:
            pass  # so there is none
        if found is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"No group in this broker. group: {request.group}",
            )
        return GroupReply(settings=found)

    @handles(GetAllGroupConfig)
    async def all(self, request: GetAllGroupConfig, call: Call) -> AllGroupsReply:
        table = self._groups.to_file()
        shown = page_of(
            table.groups,
            table.version,
            request.group_seq,
            request.data_version,
            request.max_group_num,
        )
        forbidden = {name: bits for name, bits in table.forbidden.items() if name in shown}
        return AllGroupsReply(
            total_group_num=len(table.groups),
            table=GroupTableData(version=table.version, groups=shown, forbidden=forbidden),
        )

    @handles(DeleteGroup)
    async def delete(self, request: DeleteGroup, call: Call) -> None:
        """To delete what is not there is no error, so that tools can do it again."""
        self._admit()
        self._groups.delete(request.group_name, self._clock.now_ms())
        if request.clean_offset:
            self._offsets.forget_group(request.group_name)
        await self._settle()

    @handles(UpdateGroupForbidden)
    async def forbid(self, request: UpdateGroupForbidden, call: Call) -> GroupForbiddenReply:
        try:
            check_group(request.group)
            check_topic(request.topic)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        bits = self._groups.forbidden(request.group, request.topic)
        if request.readable is not None:
            self._admit()
            bits = bits & ~FORBID_READ if request.readable else bits | FORBID_READ
            self._groups.forbid(request.group, request.topic, bits, self._clock.now_ms())
            await self._settle()
        return GroupForbiddenReply(
            state=GroupForbidden(
                group=request.group, topic=request.topic, readable=not bits & FORBID_READ
            )
        )

    async def _update(self, wanted: Sequence[GroupSettings]) -> None:
        for settings in wanted:
            try:
                check_group(settings.name)
            except InvalidName as error:
                raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
            if settings.attributes:
                # RocketMQ has none for groups either, and says so.
                name = next(iter(settings.attributes))
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR,
                    f"{name[:100]!r} is no attribute of a group: leave attributes empty",
                )
        self._admit()
        for settings in wanted:
            self._groups.update(settings, self._clock.now_ms())
        await self._settle()

    async def _settle(self) -> None:
        if self._settled is not None:
            await self._settled()
