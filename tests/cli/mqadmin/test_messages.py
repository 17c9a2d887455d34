"""The original verbs about messages, against real servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rocketpipe.blocking import PushConsumer
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """A topic of the test's own, of two queues."""
    return make_topic(queues=2)


def sent(command: Command, topic: str, *words: str) -> dict[str, Any]:
    (row,) = json.loads(command("mqadmin", "sendMessage", "-t", topic, *words, "--output", "json"))
    found: dict[str, Any] = row
    return found


def test_a_message_is_sent_and_found_in_every_way(command: Command, topic: str) -> None:
    place = ("-b", "broker-a", "-i", "1")
    row = sent(command, topic, "-p", "order 1", "-k", "A1 A2", "-c", "paid", *place)
    assert (row["broker"], row["queue"], row["result"]) == ("broker-a", 1, "SEND_OK")
    by_id = ("-i", row["message_id"], "-t", topic)
    text = command("mqadmin", "queryMsgByUniqueKey", *by_id)
    assert "Message Body:        order 1\n" in text
    assert "Queue ID:            1\n" in text
    assert text == command("mqadmin", "queryMsgById", *by_id)
    offset_id = next(line for line in text.splitlines() if line.startswith("OffsetID:")).split()[1]
    assert text == command("mqadmin", "queryMsgById", "-i", offset_id)
    at = ("-b", "broker-a", "-i", "1", "-o", "0")
    assert text == command("mqadmin", "queryMsgByOffset", "-t", topic, *at)
    found = command("mqadmin", "queryMsgByKey", "-t", topic, "-k", "A2", "-b", "0")
    assert found.splitlines()[1].split() == [row["message_id"], "1", "0"]
    assert found == command("mqadmin", "queryMsgByUniqueKey", *by_id, "-a")
    shown = json.loads(command("mqadmin", "queryMsgById", *by_id, "--output", "json"))
    assert (shown["tags"], shown["keys"]) == ("paid", ["A1", "A2"])


def test_what_a_topic_has_is_printed(command: Command, topic: str) -> None:
    row = sent(command, topic, "-p", "grüße", "-c", "greeting", "-b", "broker-a")
    text = command("mqadmin", "printMsg", "-t", topic, "-s", "greeting")
    assert text.startswith(f"MSGID: {row['message_id']} broker-a:0:")
    assert text.endswith("BODY: grüße\n")
    bare = command("mqadmin", "printMsg", "-t", topic, "-s", "greeting", "-d", "false")
    assert bare.endswith("BODY: NOT PRINT BODY\n")
    assert command("mqadmin", "printMsg", "-t", topic, "-e", "1000") == ""
    rows = json.loads(command("mqadmin", "printMsg", "-t", topic, "-b", "1000", "--output", "json"))
    assert row["message_id"] in {each["message_id"] for each in rows}


def test_a_member_handles_a_message_on_demand(
    servers: Servers, command: Command, topic: str
) -> None:
    row = sent(command, topic, "-p", "again")
    consumer = PushConsumer(servers.name_server, group="clerks")
    consumer.on(topic)(lambda message: None)
    with consumer:
        (member,) = json.loads(command("client", "list", "--group", "clerks", "-o", "json"))
        whom = ("-g", "clerks", "-d", member["client"])
        done = command(
            "mqadmin", "queryMsgByUniqueKey", "-i", row["message_id"], "-t", topic, *whom
        )
    assert "CR_SUCCESS" in done


@pytest.mark.parametrize(
    ("words", "reason", "code"),
    [
        (("queryMsgByKey", "-t", "{topic}", "-k", "a", "-m", "65"), "from 1 to 64", 2),
        (("sendMessage", "-t", "{topic}", "-p", "x", "-i", "1"), "give -b too", 2),
        (("sendMessage", "-t", "{topic}", "-p", "x", "-b", "none"), "no such queue", 2),
        (("queryMsgByUniqueKey", "-i", "none", "-t", "{topic}"), "has this id", 1),
        (("queryMsgById", "-i", "none"), "none", 1),
    ],
)
def test_what_cannot_be_done_is_told(
    command: Command, topic: str, words: tuple[str, ...], reason: str, code: int
) -> None:
    words = tuple(word.format(topic=topic) for word in words)
    assert reason in command("mqadmin", *words, code=code)


def test_a_key_that_nothing_has_is_found_nowhere(
    servers: Servers, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from rocketpipe.cli.main import main

    words = ["mqadmin", "queryMsgByKey", "-t", topic, "-k", "none", "-n", servers.name_server]
    assert main(words) == 1
    assert capsys.readouterr().out.startswith("#Message ID")
