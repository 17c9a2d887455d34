"""Consumer groups created, changed, deleted, listed, and kept from topics."""

from __future__ import annotations

from typing import Any

import pytest

from rocketpipe.broker.handlers.groups import GroupHandlers
from rocketpipe.broker.tables.groups import FORBID_READ, GroupTable
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.errors import RequestRejected
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import Request, read_reply, to_command
from rocketpipe.protocol.requests.groups import (
    DeleteGroup,
    GetAllGroupConfig,
    GetGroupConfig,
    GroupForbidden,
    GroupList,
    UpdateAndCreateGroup,
    UpdateAndCreateGroupList,
    UpdateGroupForbidden,
)
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.remoting.router import Router
from rocketpipe.testing.clock import ManualClock


class Broker:
    """Groups, and what answers about them."""

    def __init__(self, *, auto_create: bool = True) -> None:
        self.groups = GroupTable(auto_create=auto_create)
        self.offsets = OffsetTable()
        self.router = Router(GroupHandlers(self.groups, self.offsets, ManualClock()))

    async def ask(self, request: Request[Any]) -> Command:
        peer = PeerConnection(self.router.answer, limits=ConnectionLimits())
        return await self.router.answer(to_command(request, 1), peer)

    async def reply(self, request: Request[Any]) -> Any:
        return read_reply(request, await self.ask(request))


def group(name: str = "g", **changes: Any) -> GroupSettings:
    return GroupSettings(name=name, **changes)


async def test_a_group_is_created_and_replaced() -> None:
    broker = Broker()
    for settings in (group(max_retries=3), group(consume_enable=False)):
        assert (await broker.ask(UpdateAndCreateGroup(settings=settings))).code == 0
        assert broker.groups.get("g") == settings
        assert (await broker.reply(GetGroupConfig(group="g"))).settings == settings


async def test_a_change_is_settled_before_it_is_answered() -> None:
    broker = Broker()
    settled: list[object] = []

    async def settle() -> None:
        settled.append(broker.groups.get("g"))

    broker.router = Router(GroupHandlers(broker.groups, broker.offsets, ManualClock(), settle))
    await broker.ask(UpdateAndCreateGroup(settings=group(max_retries=3)))
    await broker.ask(DeleteGroup(group_name="g"))
    assert settled == [group(max_retries=3), None]


async def test_a_change_that_could_not_be_settled_is_refused_before_it_is_made() -> None:
    broker = Broker()
    await broker.ask(UpdateAndCreateGroup(settings=group(max_retries=3)))

    def admit() -> None:
        raise RequestRejected(1, "too few")

    broker.router = Router(GroupHandlers(broker.groups, broker.offsets, ManualClock(), admit=admit))
    for request in (
        UpdateAndCreateGroup(settings=group(max_retries=4)),
        DeleteGroup(group_name="g"),
        UpdateGroupForbidden(group="g", topic="t", readable=False),
    ):
        assert (await broker.ask(request)).remark == "too few"
    assert broker.groups.get("g") == group(max_retries=3)
    assert not broker.groups.forbidden("g", "t")


async def test_of_a_list_all_are_made_or_none() -> None:
    broker = Broker()
    odd = GroupList(groups=(group("a"), group("../b")))
    assert (await broker.ask(UpdateAndCreateGroupList(wanted=odd))).code == 29
    assert broker.groups.get("a") is None
    wanted = GroupList(groups=(group("a"), group("b", retry_queues=2)))
    assert (await broker.ask(UpdateAndCreateGroupList(wanted=wanted))).code == 0
    assert broker.groups.get("b") == group("b", retry_queues=2)


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (UpdateAndCreateGroup(settings=group("../g")), 29, "group '../g'"),
        (
            UpdateAndCreateGroup(settings=group(attributes={"+odd": "1"})),
            1,
            "'+odd' is no attribute of a group",
        ),
        (GetGroupConfig(group="none"), 26, "No group in this broker. group: none"),
        (GetGroupConfig(group="../g"), 26, "No group in this broker. group: ../g"),
        (UpdateGroupForbidden(group="../g", topic="t"), 29, "group '../g'"),
        (UpdateGroupForbidden(group="g", topic="../t"), 29, "topic '../t'"),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason(
    request_: Request[Any], code: int, remark: str
) -> None:
    broker = Broker(auto_create=False)
    before = broker.groups.version
    answer = await broker.ask(request_)
    assert answer.code == code
    assert remark in str(answer.remark)
    assert broker.groups.version == before


async def test_where_groups_come_by_themselves_asking_is_enough() -> None:
    broker = Broker()
    assert (await broker.reply(GetGroupConfig(group="g"))).settings == group()


async def test_a_deleted_group_keeps_its_offsets_unless_they_are_to_go() -> None:
    broker = Broker()
    for clean, left in ((False, 1), (True, 0)):
        broker.groups.ensure("g", now_ms=1)
        broker.offsets.commit("g", "t", 0, QueueOffset(7))
        request = DeleteGroup(group_name="g", clean_offset=clean)
        assert (await broker.ask(request)).code == 0
        assert broker.groups.get("g") is None
        assert len(list(broker.offsets.all())) == left
    assert (await broker.ask(DeleteGroup(group_name="g"))).code == 0


async def test_a_group_is_kept_from_a_topic_and_let_in_again() -> None:
    broker = Broker()
    for readable, state, bits in (
        (None, True, 0),
        (False, False, FORBID_READ),
        (None, False, FORBID_READ),
        (True, True, 0),
    ):
        request = UpdateGroupForbidden(group="g", topic="t", readable=readable)
        reply = await broker.reply(request)
        assert reply.state == GroupForbidden(group="g", topic="t", readable=state)
        assert broker.groups.forbidden("g", "t") == bits


async def test_other_bits_stay_when_reading_is_allowed() -> None:
    broker = Broker()
    broker.groups.forbid("g", "t", FORBID_READ | 2, now_ms=1)
    await broker.ask(UpdateGroupForbidden(group="g", topic="t", readable=True))
    assert broker.groups.forbidden("g", "t") == 2


async def test_all_groups_come_at_once_or_page_by_page_with_what_is_forbidden() -> None:
    broker = Broker()
    for name in ("a", "b"):
        broker.groups.ensure(name, now_ms=1)
        broker.groups.forbid(name, "t", FORBID_READ, now_ms=1)
    whole = await broker.reply(GetAllGroupConfig())
    assert whole.table == broker.groups.to_file()
    assert whole.total_group_num == len(broker.groups.all())
    version = fastjson.write(whole.table.version, strict=True).decode()
    names = sorted(broker.groups.all())
    request = GetAllGroupConfig(group_seq=names.index("a"), data_version=version, max_group_num=1)
    page = (await broker.reply(request)).table
    assert page.groups.keys() == {"a"}
    assert page.forbidden == {"a": {"t": FORBID_READ}}
