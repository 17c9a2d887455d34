"""``rocketpipe message`` against real servers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def topic(servers: Servers) -> None:
    from rocketpipe.cli.main import main

    assert main(["topic", "create", "orders", "-q", "2", "-n", servers.name_server]) == 0


def test_what_was_sent_is_found_by_key_and_id(command: Command, answer: Answer) -> None:
    (sent,) = answer(
        *("message", "send", "orders", "order 1", "--tag", "paid", "--key", "A1"),
        *("--property", "colour=red"),
    )
    assert sent["durable"] is True
    assert sent["written"] == "to memory, then disk"
    (found,) = answer("message", "query", "orders", "--key", "A1")
    assert (found["body"], found["tags"], found["keys"]) == ("order 1", "paid", ["A1"])
    assert found["message_id"] == sent["message_id"]
    assert answer("message", "query", "orders", "--id", sent["message_id"]) == [found]
    shown = answer("message", "show", "orders", "--id", sent["message_id"])
    assert shown["properties"]["colour"] == "red"
    place = ("--queue", str(sent["queue"]), "--offset", str(sent["offset"]))
    assert answer("message", "show", "orders", *place) == shown
    assert "no message" in command("message", "query", "orders", "--key", "none", code=1)
    assert "it has offsets" in command(
        "message", "show", "orders", "--queue", "0", "--offset", "999", code=1
    )


def test_lines_in_order_come_out_in_order(
    answer: Answer, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Input:
        buffer = io.BytesIO(b"a\nb\n\nc\n")

    monkeypatch.setattr("sys.stdin", Input())
    sent = answer("message", "send", "orders", "--lines", "-", "--order-by", "alice")
    assert len({each["queue"] for each in sent}) == 1
    queue = ("--queue", str(sent[0]["queue"]))
    tail = answer("message", "tail", "orders", "--from", str(sent[0]["offset"]), *queue)
    assert [each["body"] for each in tail] == ["a", "b", "c"]
    last = answer("message", "tail", "orders", "--from", "-1", *queue)
    assert [each["body"] for each in last] == ["c"]
    assert len(answer("message", "tail", "orders", "--from", "earliest", "--count", "2")) == 2
    assert answer("message", "tail", "orders", "--from", "earliest", "--tags", "nobody") == []
    shown = command("message", "tail", "orders", "--from", "-1", "--follow", "--count", "1", *queue)
    assert shown.endswith("c\n")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("send", "orders"), "say what to send"),
        (("send", "orders", "x", "--property", "p"), "write NAME=VALUE"),
        (("query", "orders", "--key", "a", "--limit", "65"), "from 1 to 64"),
        (("query", "orders", "--key", "a", "--since", "soon"), "is no time"),
        (("tail", "orders", "--from", "soon"), "is no time"),
        (("tail", "orders", "--from", "earliest", "--queue", "9"), "no such queue"),
        (("show", "orders"), "say which message"),
        (("show", "orders", "--queue", "9", "--offset", "0"), "its queues are 0 to 1"),
    ],
)
def test_what_is_said_wrongly_is_told_so(
    command: Command, words: tuple[str, ...], reason: str
) -> None:
    assert reason in command("message", *words, code=2)


def test_delays_are_a_duration_or_a_moment(
    answer: Callable[..., Any], command: Callable[..., str]
) -> None:
    command("topic", "create", "later", "--queues", "1")
    command("message", "send", "later", "one", "--delay", "2h")
    command("message", "send", "later", "--at", "2100-01-01T00:00:00Z", "two", code=1)
    assert [row["topic"] for row in answer("delayed", "list", "--topic", "later")] == ["later"]
    assert "is no time" in command("message", "send", "later", "x", "--at", "soon", code=2)


def test_what_follows_is_printed_line_by_line_for_programs_too(
    command: Callable[..., str],
) -> None:
    command("topic", "create", "followed", "--queues", "1")
    for body in ("one", "two"):
        command("message", "send", "followed", body)
    follow = ["message", "tail", "followed", "--from", "earliest", "--follow", "--count", "2"]
    lines = command(*follow, "-o", "json").splitlines()
    assert [json.loads(line)["body"] for line in lines] == ["one", "two"]


def test_wrong_words_are_refused_by_name(command: Callable[..., str]) -> None:
    command("topic", "create", "plain", "--queues", "2")
    show = ["message", "show", "plain", "--offset", "0", "--queue", "7"]
    assert "its queues are 0 to 1" in command(*show, code=2)
    tail = ["message", "tail", "plain", "--from", "earliest"]
    assert "--sql: expected" in command(*tail, "--sql", "a >", code=2)
    lines = ["message", "send", "plain", "--lines", "nowhere.txt"]
    assert "--lines: nowhere.txt cannot be read" in command(*lines, code=2)
