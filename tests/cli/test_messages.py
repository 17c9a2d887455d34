"""``rocketpipe message`` against real servers."""

from __future__ import annotations

import io
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
        (("show", "orders", "--queue", "9", "--offset", "0"), "say which --broker of broker-a"),
    ],
)
def test_what_is_said_wrongly_is_told_so(
    command: Command, words: tuple[str, ...], reason: str
) -> None:
    assert reason in command("message", *words, code=2)
