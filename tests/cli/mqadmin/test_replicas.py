"""The original verbs about replicas, against replicas on real sockets."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator

import pytest
from tests.broker.support.group_status import following, leading
from tests.client.admin.support.replicas import Replica, replicas_beside

from rocketpipe.cli.mqadmin import replicas as verbs
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]


@pytest.fixture
def group(servers: Servers) -> Iterator[list[Replica]]:
    with replicas_beside(servers.name_server, leading(), following()) as made:
        yield made


def test_how_far_replicas_are_is_told_of_all_or_of_one(
    group: list[Replica], command: Command
) -> None:
    leader, follower = group
    head, *rows = command("mqadmin", "haStatus", "-b", "broker-r").splitlines()
    assert head.split()[:3] == ["#Broker", "#Role", "#Peer"]
    assert [row.split()[1] for row in rows] == ["MASTER", "its", "its", "SLAVE"]
    (told,) = json.loads(command("mqadmin", "haStatus", "-b", follower.address, "--output", "json"))
    assert (told["role"], told["peer"], told["end"]) == ("SLAVE", "127.0.0.1:10912", 900)
    rows = json.loads(command("mqadmin", "haStatus", "-b", leader.address, "--output", "json"))
    assert [row.get("diff") for row in rows] == [None, 0, 100]
    everybody = command("mqadmin", "haStatus", "-c", "DefaultCluster")
    assert leader.address in everybody


async def test_it_is_told_again_and_again_if_asked_so() -> None:
    shown = 0

    async def show() -> None:
        nonlocal shown
        shown += 1
        if shown == 3:
            raise KeyError

    assert await verbs._again(argparse.Namespace(interval=None), show) == 0
    with pytest.raises(KeyError):
        await verbs._again(argparse.Namespace(interval=verbs._seconds("0.001")), show)
    for wrong in ("0", "x", "-1", "nan"):
        with pytest.raises(argparse.ArgumentTypeError):
            verbs._seconds(wrong)


def test_epochs_and_who_is_in_sync_are_told(group: list[Replica], command: Command) -> None:
    rows = json.loads(
        command("mqadmin", "getBrokerEpoch", "-b", group[1].address, "--output", "json")
    )
    assert [(row["epoch"], row["start"], row["end"]) for row in rows] == [
        (1, 0, 500),
        (3, 500, 900),
    ]
    asked = ("getSyncStateSet", "-a", "nowhere:1", "-b", "broker-r", "--output", "json")
    rows = json.loads(command("mqadmin", *asked))
    assert [(row["id"], row["role"], row["in_sync"]) for row in rows] == [
        (1, "MASTER", True),
        (2, "SLAVE", True),
        (3, "SLAVE", False),
    ]
    assert (rows[0]["epoch"], rows[0]["set_epoch"]) == (3, 7)


def test_another_is_made_to_lead(group: list[Replica], command: Command) -> None:
    first, second = group

    async def resign(to: int | None) -> None:
        second.leads(epoch=4)
        first.status = following(id=1, leader=second.status.leader)

    refused = command("mqadmin", "electMaster", "-b", "2", "-bn", "broker-r", code=1)
    assert "roles are fixed" in refused
    first.view.resign = resign
    told = command("mqadmin", "electMaster", "-b", "2", "-bn", "broker-r", "-c", "DefaultCluster")
    assert told == (f"elect master success: broker-r is led by 2 at {second.address}, epoch 4\n")
    assert "no replica's id" in command(
        "mqadmin", "electMaster", "-b", "-3", "-bn", "broker-r", code=2
    )
