from __future__ import annotations

import pytest

from rocketpipe.errors import BodyError
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_command
from rocketpipe.protocol.requests.kv import (
    GetKeyValue,
    GetKeyValues,
    GetNamesrvConfig,
    PutKeyValue,
    UpdateNamesrvConfig,
)


def test_a_value_travels_in_the_header_whatever_is_in_it() -> None:
    asked = PutKeyValue(namespace="n", key="k", value="a=1;\nü")
    assert to_command(asked, 1).fields == {"namespace": "n", "key": "k", "value": "a=1;\nü"}
    assert to_command(asked, 1).body == b""


def test_an_empty_value_is_a_value() -> None:
    answer = Command(code=0, opaque=1, flag=RESPONSE, fields={"value": ""})
    assert read_reply(GetKeyValue(namespace="n", key="k"), answer).value == ""


def test_a_namespace_comes_as_a_table_and_nothing_is_the_servers_mistake() -> None:
    ask = GetKeyValues(namespace="n")
    answer = Command(code=0, opaque=1, flag=RESPONSE, body=b'{"table":{}}')
    assert read_reply(ask, answer).values.table == {}
    with pytest.raises(BodyError):
        read_reply(ask, Command(code=0, opaque=1, flag=RESPONSE))


def test_settings_travel_as_they_are() -> None:
    command = to_command(UpdateNamesrvConfig(properties=b"a=1\nb=2\n"), 1)
    assert (command.fields, command.body) == ({}, b"a=1\nb=2\n")
    assert from_command(UpdateNamesrvConfig, command).properties == b"a=1\nb=2\n"


def test_a_change_of_nothing_has_no_body() -> None:
    command = Command(code=318, opaque=1)
    assert from_command(UpdateNamesrvConfig, command).properties == b""


def test_settings_are_read_from_the_body() -> None:
    answer = Command(code=0, opaque=1, flag=RESPONSE, body=b"a=1\n")
    assert read_reply(GetNamesrvConfig(), answer).properties == b"a=1\n"
