"""The original verbs about brokers, against real servers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]


def test_clusters_are_listed_under_the_original_titles(servers: Servers, command: Command) -> None:
    head, row = command("mqadmin", "clusterList", "-n", servers.name_server).splitlines()
    assert head.split()[:4] == ["#Cluster", "Name", "#Broker", "Name"]
    assert head.endswith("#ACTIVATED")
    assert row.split()[:4] == ["DefaultCluster", "broker-a", "0", servers.broker]
    (facts,) = json.loads(command("mqadmin", "clusterList", "--output", "json"))
    assert facts["active"] == "true"
    assert facts["in_tps"].endswith("ms)")
    (totals,) = json.loads(command("mqadmin", "clusterList", "-m", "--output", "json"))
    assert (totals["broker"], totals["in_yesterday"]) == ("broker-a", 0)


def test_status_and_settings_are_printed_as_operators_grep_them(
    servers: Servers, command: Command
) -> None:
    status = command("mqadmin", "brokerStatus", "-b", servers.broker)
    assert "\nbrokerActive                    : true\n" in status
    (row,) = [
        row
        for row in json.loads(
            command("mqadmin", "brokerStatus", "-c", "DefaultCluster", "--output", "json")
        )
        if row["key"] == "brokerActive"
    ]
    assert row == {"broker": "broker-a", "key": "brokerActive", "value": "true"}
    change = ("mqadmin", "updateBrokerConfig", "-b", servers.broker, "-k", "autoCreateTopicEnable")
    for value in ("false", "true"):  # as it was, at last: the servers are not this test's alone
        assert "success" in command(*change, "-v", value)
        settings = command("mqadmin", "getBrokerConfig", "-b", servers.broker)
        assert f"============{servers.broker}============" in settings
        (line,) = [row for row in settings.splitlines() if row.startswith("autoCreateTopicEnable ")]
        assert line.split("=")[1].strip() == value


def test_producers_are_kept_away_and_let_come_again(servers: Servers, command: Command) -> None:
    wiped = command("mqadmin", "wipeWritePerm", "-b", "broker-a")
    assert wiped.startswith(
        f"wipe write perm of broker[broker-a] in name server[{servers.name_server}] OK, "
    )
    assert "OK" in command("mqadmin", "addWritePerm", "-b", "broker-a")
    assert "'none'" in command("mqadmin", "addWritePerm", "-b", "none", code=1)
