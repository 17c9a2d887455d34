from __future__ import annotations

import pytest

from rocketpipe.errors import BodyError
from rocketpipe.model.group import GroupSettings
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import from_command
from rocketpipe.protocol.requests.groups import UpdateAndCreateGroup


def asked(body: bytes) -> GroupSettings:
    command = Command(code=200, opaque=1, body=body)
    return from_command(UpdateAndCreateGroup, command).settings


def test_a_group_of_which_only_the_name_is_said_has_rocketmqs_defaults() -> None:
    assert asked(b'{"groupName":"g"}') == GroupSettings(name="g")


def test_a_tool_of_4_9_knows_nothing_of_retry_policies() -> None:
    settings = asked(b'{"groupName":"g","retryMaxTimes":3,"consumeEnable":false}')
    assert settings.retry_max_times == 3
    assert settings.consume_enable is False
    assert settings.retry_policy.delay_ms(0) == 10_000


@pytest.mark.parametrize("body", [b"", b"{}", b'{"groupName":"g","retryMaxTimes":2147483648}'])
def test_settings_that_name_no_group_or_do_not_fit_are_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        asked(body)
