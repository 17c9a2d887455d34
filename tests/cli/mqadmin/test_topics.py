"""The original verbs about topics, against real servers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]

UPDATE = ("mqadmin", "updateTopic", "-t", "orders")


def test_a_topic_is_created_changed_shown_and_deleted(servers: Servers, command: Command) -> None:
    made = command(*UPDATE, "-c", "DefaultCluster", "-r", "3", "-w", "2", "-o", "true")
    assert f"create topic to {servers.broker} success." in made
    assert "readQueueNums=3, writeQueueNums=2, perm=6, order=true" in made
    assert "orderConf=[broker-a:2]" in made
    # What is not given stays.
    changed = command(*UPDATE, "-b", servers.broker, "-p", "4", "-a", "+message.type=FIFO")
    assert "readQueueNums=3, writeQueueNums=2, perm=4, order=true" in changed
    assert "'message.type': 'FIFO'" in changed
    perm = command("mqadmin", "updateTopicPerm", "-t", "orders", "-p", "6")
    assert f"update topic perm from 4 to 6 in {servers.broker} success." in perm

    assert "orders" in command("mqadmin", "topicList").splitlines()
    head, *rows = command("mqadmin", "topicList", "-c").splitlines()
    assert head.startswith("#Cluster Name")
    assert any(row.split()[:2] == ["DefaultCluster", "orders"] for row in rows)
    assert command("mqadmin", "topicClusterList", "-t", "orders") == "DefaultCluster\n"
    route = json.loads(command("mqadmin", "topicRoute", "-t", "orders"))
    assert route["queueDatas"][0]["readQueueNums"] == 3
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": servers.broker}
    assert "#WriteQueue" in command("mqadmin", "topicRoute", "-t", "orders", "-l")
    status = command("mqadmin", "topicStatus", "-t", "orders").splitlines()
    assert status[0].split()[2:6] == ["#QID", "#Min", "Offset", "#Max"]
    assert len(status) == 4

    assert "no cluster" in command("mqadmin", "deleteTopic", "-t", "orders", "-c", "x", code=2)
    gone = command("mqadmin", "deleteTopic", "-t", "orders", "-c", "DefaultCluster")
    assert "delete topic [orders] from cluster [DefaultCluster] success." in gone
    assert "orders" not in command("mqadmin", "topicList").splitlines()


def test_what_is_said_wrongly_is_told_so(command: Command) -> None:
    where = ("-c", "DefaultCluster")
    assert "6 for both" in command(*UPDATE, *where, "-p", "9", code=2)
    assert "+name=value" in command(*UPDATE, *where, "-a", "message.type", code=2)
    assert "'none'" in command("mqadmin", "topicStatus", "-t", "none", code=1)
