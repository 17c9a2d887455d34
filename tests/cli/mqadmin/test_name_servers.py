"""The original verbs about what NameServers keep, against real servers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rocketpipe.blocking import Admin
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]


def test_a_value_is_kept_and_let_go_of(servers: Servers, command: Command) -> None:
    where = ("-s", "ROCKETPIPE_STAGE_HOMES", "-k", "nightly-report")
    said = command("mqadmin", "updateKvConfig", *where, "-v", "broker-a")
    assert said == "create or update kv config to namespace success.\n"
    with Admin(servers.name_server) as admin:
        assert admin.name_servers.get("ROCKETPIPE_STAGE_HOMES", "nightly-report") == "broker-a"
        said = command("mqadmin", "deleteKvConfig", *where)
        assert said == "delete kv config from namespace success.\n"
        assert admin.name_servers.get("ROCKETPIPE_STAGE_HOMES", "nightly-report") is None


def test_settings_are_read_and_changed(command: Command) -> None:
    change = ("mqadmin", "updateNamesrvConfig", "-k", "scanNotActiveBrokerInterval")
    assert command(*change, "-v", "6000") == "update name server config success!\n"
    rows = json.loads(command("mqadmin", "getNamesrvConfig", "--output", "json"))
    assert ("scanNotActiveBrokerInterval", "6000") in {(row["key"], row["value"]) for row in rows}
    command(*change, "-v", "5000")


def test_the_order_of_a_topic_is_put_read_and_deleted(command: Command) -> None:
    verb = ("mqadmin", "updateOrderConf", "-t", "ordered-everywhere", "-m")
    assert "say which queues" in command(*verb, "put", code=2)
    command(*verb, "put", "-v", "broker-a:4")
    assert json.loads(command(*verb, "get", "--output", "json"))["order"] == "broker-a:4"
    command(*verb, "delete")
    assert json.loads(command(*verb, "get", "--output", "json"))["order"] is None
