from __future__ import annotations

from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import from_command, read_reply, to_command, to_reply
from rocketpipe.protocol.requests.brokers import (
    BrokerConfigReply,
    BrokerStatsReply,
    GetBrokerConfig,
    StatsWindow,
    StatsWindows,
    UpdateBrokerConfig,
    ViewBrokerStats,
)


def test_settings_travel_as_lines_and_their_version_in_the_header() -> None:
    asked = Command(code=26, opaque=1)
    reply = BrokerConfigReply(version='{"counter":1}', properties=b"a=1\n")
    command = to_reply(asked, reply)
    assert (command.fields, command.body) == ({"version": '{"counter":1}'}, b"a=1\n")
    assert read_reply(GetBrokerConfig(), command) == reply


def test_a_change_may_be_empty() -> None:
    assert from_command(UpdateBrokerConfig, to_command(UpdateBrokerConfig(), 1)).properties == b""


def test_a_window_that_is_missing_is_none() -> None:
    reply = BrokerStatsReply(stats=StatsWindows(day=StatsWindow(total=3, tps=0.5, average=1.0)))
    command = to_reply(Command(code=315, opaque=1), reply)
    assert command.body == b'{"statsDay":{"avgpt":1.0,"sum":3,"tps":0.5}}'
    asked = ViewBrokerStats(stats_name="TOPIC_PUT_NUMS", stats_key="t")
    assert read_reply(asked, command).stats.minute is None
