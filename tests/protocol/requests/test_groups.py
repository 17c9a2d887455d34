from __future__ import annotations

import pytest

from rocketpipe.errors import BodyError
from rocketpipe.model.group import GroupSettings
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_command
from rocketpipe.protocol.requests.groups import (
    DeleteGroup,
    GetAllGroupConfig,
    UpdateAndCreateGroup,
    UpdateGroupForbidden,
)


def asked(body: bytes) -> GroupSettings:
    command = Command(code=200, opaque=1, body=body)
    return from_command(UpdateAndCreateGroup, command).settings


def test_a_group_of_which_only_the_name_is_said_has_rocketmqs_defaults() -> None:
    assert asked(b'{"groupName":"g"}') == GroupSettings(name="g")


def test_a_tool_of_4_9_knows_nothing_of_retry_policies() -> None:
    settings = asked(b'{"groupName":"g","retryMaxTimes":3,"consumeEnable":false}')
    assert settings.max_retries == 3
    assert settings.consume_enable is False
    assert settings.retry_policy.delay_ms(0) == 10_000


@pytest.mark.parametrize("body", [b"", b"{}", b'{"groupName":"g","retryMaxTimes":2147483648}'])
def test_settings_that_name_no_group_or_do_not_fit_are_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        asked(body)


def test_groups_of_a_broker_before_5_3_4_come_without_what_is_forbidden() -> None:
    body = b'{"dataVersion":{"counter":1},"subscriptionGroupTable":{"g":{"groupName":"g"}}}'
    reply = read_reply(GetAllGroupConfig(), Command(code=0, opaque=1, flag=RESPONSE, body=body))
    assert reply.total_group_num is None
    assert reply.table.forbidden == {}
    assert reply.table.groups == {"g": GroupSettings(name="g")}


def test_to_ask_is_neither_to_forbid_nor_to_allow() -> None:
    fields = to_command(UpdateGroupForbidden(group="g", topic="t"), 1).fields
    assert fields == {"group": "g", "topic": "t"}
    asked = from_command(UpdateGroupForbidden, Command(code=353, opaque=1, fields=fields))
    assert asked.readable is None


def test_offsets_stay_unless_they_are_said_to_go() -> None:
    command = Command(code=207, opaque=1, fields={"groupName": "g"})
    assert from_command(DeleteGroup, command).clean_offset is False
