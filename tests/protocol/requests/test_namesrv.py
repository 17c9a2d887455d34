from __future__ import annotations

from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_command
from rocketpipe.protocol.requests.namesrv import GetNamesrvConfig, UpdateNamesrvConfig


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
