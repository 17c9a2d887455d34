"""Consumer groups over a real socket: every answer, and every refusal with its code and remark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.support.raw_broker import driven_broker

from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.groups import (
    DeleteGroup,
    GetAllGroupConfig,
    GetGroupConfig,
    GroupList,
    GroupTableData,
    UpdateAndCreateGroup,
    UpdateAndCreateGroupList,
    UpdateGroupForbidden,
)
from rocketpipe.protocol.requests.offsets import QueryConsumerOffset, UpdateConsumerOffset
from rocketpipe.protocol.requests.topics import TopicList, UpdateAndCreateTopicList

pytestmark = pytest.mark.scenario


def group(name: str = "g", **changes: Any) -> GroupSettings:
    return GroupSettings(name=name, **changes)


async def test_groups_are_made_read_listed_and_outlive_the_broker(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        made = group(max_retries=3, consume_broadcast_enable=False)
        assert (await driver.ask(UpdateAndCreateGroup(settings=made))).code == 0
        wanted = GroupList(groups=(group("h"), group("i", ordered=True)))
        assert (await driver.ask(UpdateAndCreateGroupList(wanted=wanted))).code == 0
    async with driven_broker(tmp_path) as driver:
        answer = await driver.ask(GetGroupConfig(group="g"))
        assert answer.code == 0
        assert fastjson.read(answer.body, GroupSettings) == made
        everything = await driver.ask(GetAllGroupConfig())
        table = fastjson.read(everything.body, GroupTableData)
        assert {"g": made, "i": group("i", ordered=True)}.items() <= table.groups.items()
        assert everything.fields == {"totalGroupNum": str(len(table.groups))}
        page = await driver.ask(GetAllGroupConfig(group_seq=0, max_group_num=2))
        assert list(fastjson.read(page.body, GroupTableData).groups) == sorted(table.groups)[:2]
        assert page.fields == everything.fields


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (UpdateAndCreateGroup(settings=group("../g")), 29, "group '../g'"),
        (UpdateAndCreateGroup(settings=group("x" * 121)), 29, "has 121 characters"),
        (UpdateAndCreateGroupList(wanted=GroupList(groups=(group("a b"),))), 29, "group 'a b'"),
        (
            UpdateAndCreateGroup(settings=group(attributes={"+a": "b"})),
            1,
            "'+a' is no attribute of a group",
        ),
        (GetGroupConfig(group="none"), 26, "No group in this broker. group: none"),
        (UpdateGroupForbidden(group="../g", topic="t"), 29, "group '../g'"),
    ],
)
async def test_each_refusal_has_its_code_and_remark(
    tmp_path: Path, request_: Request[Any], code: int, remark: str
) -> None:
    async with driven_broker(tmp_path, auto_create_groups=False) as driver:
        answer = await driver.ask(request_)
        assert answer.code == code
        assert remark in str(answer.remark)


async def test_a_group_is_deleted_with_its_offsets_if_they_are_to_go(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        topics = TopicList(topics=(TopicSettings(name="t"),))
        assert (await driver.ask(UpdateAndCreateTopicList(wanted=topics))).code == 0
        place: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": 0}
        query = QueryConsumerOffset(**place, set_zero_if_not_found=False)
        for clean, code in ((False, 0), (True, 22)):
            assert (await driver.ask(UpdateAndCreateGroup(settings=group()))).code == 0
            commit = UpdateConsumerOffset(**place, commit_offset=QueueOffset(3))
            assert (await driver.ask(commit)).code == 0
            assert (await driver.ask(DeleteGroup(group_name="g", clean_offset=clean))).code == 0
            assert (await driver.ask(query)).code == code


async def test_a_group_is_kept_from_a_topic_and_let_in_again(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        for readable, state in ((None, b"true"), (False, b"false"), (True, b"true")):
            request = UpdateGroupForbidden(group="g", topic="t", readable=readable)
            answer = await driver.ask(request)
            assert answer.code == 0
            assert answer.body == b'{"group":"g","readable":%b,"topic":"t"}' % state
