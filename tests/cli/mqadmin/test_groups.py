"""The original verbs about groups and their places, against real servers and consumers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rocketpipe.blocking import Producer, PushConsumer
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
MakeTopic = Callable[..., str]


def test_a_group_is_made_moved_copied_and_deleted(
    servers: Servers, command: Command, make_topic: MakeTopic
) -> None:
    topic = make_topic(queues=1)
    for number in range(3):
        command("message", "send", topic, f"order {number}")
    make = ("mqadmin", "updateSubGroup", "-c", "DefaultCluster", "-g", "shop")
    assert f"to {servers.broker} success" in command(*make, "-r", "3")
    command(*make, "-o", "true")
    (settings,) = json.loads(command("group", "show", "shop", "-o", "json"))["settings"]
    assert settings["max_attempts"] == 4
    command("mqadmin", "updateSubGroup", "-b", servers.broker, "-g", "copy")

    group = ("-g", "shop", "-t", topic)
    moved = command("mqadmin", "resetOffsetByTime", *group, "-s", "0")
    assert moved.splitlines()[-1].split() == ["broker-a", "0", "0", "-"]
    assert "no group 'nobody'" in command("mqadmin", "consumerProgress", "-g", "nobody", code=1)
    shown = command("mqadmin", "consumerProgress", "-g", "shop")
    assert shown.splitlines()[0].split()[0] == "#Topic"
    assert "Consume Diff Total: 3" in shown
    one = ("-b", servers.broker, "-q", "0")
    command("mqadmin", "resetOffsetByTime", *group, "-s", "0", *one, "-o", "1")
    assert "Consume Diff Total: 2" in command("mqadmin", "consumerProgress", *group[:2])
    cloned = command("mqadmin", "cloneGroupOffset", "-s", "shop", "-d", "copy", "-t", topic)
    assert f"srcGroup[shop], destGroup=[copy], topic[{topic}]" in cloned
    command("mqadmin", "skipAccumulatedMessage", *group)
    rows = json.loads(command("mqadmin", "consumerProgress", "--output", "json"))
    lags = {row["group"]: (row["lag"], row["version"]) for row in rows}
    assert (lags["shop"], lags["copy"]) == ((0, "OFFLINE"), (2, "OFFLINE"))
    command("mqadmin", "resetOffsetByTime", *group, "-s", "0", *one)
    assert "Consume Diff Total: 3" in command("mqadmin", "consumerProgress", *group[:2])
    command("mqadmin", "resetOffsetByTime", *group, "-s", "-1")
    assert "Consume Diff Total: 0" in command("mqadmin", "consumerProgress", *group[:2])

    drop = ("mqadmin", "deleteSubGroup", "-g", "shop", "-r", "true")
    assert "[shop]" in command(*drop, "-b", servers.broker)
    assert "shop" in command("group", "show", "shop", code=1)
    assert "give -b and -q" in command(
        "mqadmin", "resetOffsetByTime", *group, "-s", "0", "-o", "1", code=2
    )
    assert "together" in command(
        "mqadmin", "resetOffsetByTime", *group, "-s", "0", "-q", "1", code=2
    )


def test_who_is_connected_is_shown(
    servers: Servers, command: Command, make_topic: MakeTopic
) -> None:
    topic = make_topic(queues=1)
    consumer = PushConsumer(servers.name_server, group="online")
    consumer.on(topic, tags="paid")(lambda message: None)
    with Producer(servers.name_server, group="makers") as producer, consumer:
        producer.send(topic, b"order")
        members = command("mqadmin", "consumerConnection", "-g", "online")
        assert members.startswith("#ClientId")
        assert "paid" in members
        assert "MessageModel: CLUSTERING" in members
        made = command("mqadmin", "producerConnection", "-g", "makers", "-t", topic)
        assert len(made.splitlines()) == 2
        rows = json.loads(command("mqadmin", "consumerProgress", "--output", "json"))
        (row,) = [row for row in rows if row["group"] == "online"]
        assert (row["members"], row["model"]) == (1, "CLUSTERING")
        command("mqadmin", "resetOffsetByTime", "-g", "online", "-t", topic, "-s", "0")
        shown = command("mqadmin", "consumerProgress", "-g", "online", "-s", "true")
        assert "#Client IP" in shown
    assert "online" in command("mqadmin", "consumerConnection", "-g", "online", code=1)


def test_columns_stand_where_the_original_has_them(command: Command, make_topic: MakeTopic) -> None:
    command("group", "create", "of-columns")
    words = ("-g", "of-columns", "-t", make_topic(queues=1))
    moved = command("mqadmin", "resetOffsetByTime", *words, "-s", "now").splitlines()
    assert moved[0].split()[:3] == ["#brokerName", "#queueId", "#offset"]
    assert moved[1].split()[:3] == ["broker-a", "0", "0"]
    shown = command("mqadmin", "consumerProgress", *words, "-c", "DefaultCluster").splitlines()
    titles = shown[0].replace(" Name", "Name").replace(" Offset", "Offset").split()
    assert titles[3:] == ["#BrokerOffset", "#ConsumerOffset", "#Diff", "#Inflight", "#LastTime"]
    command("mqadmin", "skipAccumulatedMessage", *words, "-f", "true")
