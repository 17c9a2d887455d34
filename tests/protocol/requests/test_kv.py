from __future__ import annotations

import pytest

from rocketpipe.errors import BodyError
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import read_reply, to_command
from rocketpipe.protocol.requests.kv import GetKeyValue, GetKeyValues, PutKeyValue


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
