"""``rocketpipe broker list|show|config|resign|lead|forget`` against real servers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.broker.support.group_status import following, leading
from tests.client.admin.support.replicas import Replica, replicas_beside

from rocketpipe.broker.replication.role import LeaderPossible
from rocketpipe.broker.replication.status import Lacking
from rocketpipe.coordination.coordinator import NotInSync
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario


@pytest.fixture
def group(servers: Servers) -> Iterator[list[Replica]]:
    with replicas_beside(servers.name_server, leading(), following()) as made:
        yield made


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
    told = command("broker", "show", "broker-a")
    assert re.search(r"^PUT TPS +\d+\.\d in 10 s, \d+\.\d in a minute, ", told, re.MULTILINE)
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


def test_a_leader_hands_over(group: list[Replica], command: Command, answer: Answer) -> None:
    first, second = group
    asked: list[int | None] = []

    async def resign(to: int | None) -> None:
        asked.append(to)
        second.leads(epoch=4)
        first.status = following(id=1, leader=second.status.leader)

    assert "roles are fixed" in command("broker", "resign", "broker-r", code=1)
    first.view.resign = resign
    assert "broker-a, broker-r" in command("broker", "resign", code=2)
    assert "no broker is named 'x'" in command("broker", "resign", "x", code=2)
    assert "not in sync" in command("broker", "resign", "broker-r", "--to", "3", code=1)
    assert "leads already" in command("broker", "resign", "broker-r", "--to", "1", code=1)
    told = answer("broker", "resign", "broker-r", "--to", "2")
    assert told == {"broker": "broker-r", "leader": 2, "address": second.address, "epoch": 4}
    assert asked == [2]
    assert "does not lead: ask" in command("broker", "resign", "broker-r", code=1)


def test_a_leader_that_nobody_can_replace_says_so(group: list[Replica], command: Command) -> None:
    async def resign(to: int | None) -> None:
        raise NotInSync("no in-sync replica has everything: this broker goes on leading")

    group[0].view.resign = resign
    assert "goes on leading" in command("broker", "resign", "broker-r", code=1)


def test_a_replica_leads_by_the_operators_word(
    group: list[Replica], command: Command, answer: Answer
) -> None:
    led: list[bool] = []

    async def lead_anyway(do_it: bool) -> Lacking:
        led.append(do_it)
        return Lacking(
            log_end=900,
            last_epoch=3,
            in_sync=frozenset({1, 2}),
            unclean=frozenset({2}),
            ahead=frozenset({3}),
            epoch=4 if do_it else None,
        )

    wish = ("broker", "lead", "broker-r", "--id", "2")
    assert "roles are fixed" in command(*wish, "--yes", code=1)
    group[1].view.lead_anyway = lead_anyway
    assert "no replica 7" in command("broker", "lead", "broker-r", "--id", "7", code=1)
    shown = answer(*wish, "--dry-run")
    assert (shown["in_sync"], shown["epoch"]) == ([1, 2], None)
    assert "up to 900, of epoch 3: whatever was acknowledged behind that is lost" in shown["loss"]
    assert "more of the log has 3" in shown["loss"]
    refused = command(*wish, code=1)
    assert "lost for good" in refused
    assert "not confirmed" in refused
    assert led == [False, False]
    assert answer(*wish, "--yes")["epoch"] == 4
    assert led == [False, False, False, True]


def test_nobody_leads_by_word_where_another_may(group: list[Replica], command: Command) -> None:
    async def lead_anyway(do_it: bool) -> Lacking:
        raise LeaderPossible("replica 1 leads, at 127.0.0.1:1")

    group[1].view.lead_anyway = lead_anyway
    assert "replica 1 leads" in command("broker", "lead", "broker-r", "--id", "2", "-y", code=1)


def test_a_replica_is_forgotten(group: list[Replica], command: Command, answer: Answer) -> None:
    forgotten: list[int] = []
    wish = ("broker", "forget", "broker-r", "--id", "3")
    assert "no replicas" in command(*wish, code=1)
    group[0].view.forget = forgotten.append
    told = answer(*wish)
    assert told == {"broker": "broker-r", "forgotten": 3, "leader": 1, "in_sync": [1, 2]}
    assert forgotten == [3]
