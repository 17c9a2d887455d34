"""``rocketpipe broker list|show|config`` against real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]


def test_brokers_are_listed_shown_and_told_otherwise(
    servers: Servers, command: Command, answer: Answer
) -> None:
    (row,) = answer("broker", "list")
    assert (row["broker"], row["address"], row["answers"]) == ("broker-a", servers.broker, True)
    shown = answer("broker", "show", "broker-a")
    assert shown["brokerActive"] == "true"
    assert len(answer("broker", "show", "broker-a", "--all")) > len(shown)
    change = ("broker", "config", "broker-a", "--set", "autoCreateTopicEnable=false")
    key = ("broker", "config", "broker-a", "--key", "autoCreateTopicEnable")
    assert answer(*change, "--dry-run")[0]["then"] == "false"
    assert answer(*key) == [{"key": "autoCreateTopicEnable", "value": "true"}]
    answer(*change, "--yes")
    assert answer(*key) == [{"key": "autoCreateTopicEnable", "value": "false"}]
    refused = command("broker", "config", "broker-a", "--set", "listenPort=1", "-y", code=2)
    assert "listenPort" in refused
    assert "KEY=VALUE" in command("broker", "config", "broker-a", "--set", "x", code=2)
    assert "no setting" in command("broker", "config", "broker-a", "--key", "x", code=2)
    assert "nobody" in command("broker", "show", "nobody", code=1)


def test_a_setting_that_cannot_be_changed_is_refused_without_a_wrong_remedy(
    command: Callable[..., str],
) -> None:
    change = ["broker", "config", "broker-a", "--set", "listenPort=1", "--yes"]
    error = command(*change, code=2)
    assert error.startswith("rocketpipe broker config: --set: listenPort")
    assert "permissions" not in error
