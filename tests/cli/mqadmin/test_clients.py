"""Producers and settings of groups by the original verbs, against real servers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rocketpipe.blocking import Producer
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]


def test_producers_are_listed_by_broker(
    servers: Servers, command: Command, make_topic: Callable[..., str]
) -> None:
    with Producer(servers.name_server, group="makers") as producer:
        producer.send(make_topic(queues=1), b"x")
        rows = json.loads(command("mqadmin", "producer", "-b", servers.broker, "--output", "json"))
    assert "makers" in {row["group"] for row in rows}


def test_the_settings_of_a_group_have_their_original_names(command: Command) -> None:
    command("group", "create", "configured", "--max-attempts", "3")
    flags = ("-g", "configured", "--output", "json")
    rows = json.loads(command("mqadmin", "getConsumerConfig", *flags))
    assert {"broker": "broker-a", "key": "retryMaxTimes", "value": 2} in rows
