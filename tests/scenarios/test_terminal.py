"""A session at a terminal, through the installed command: from nothing to replayed dead letters.

It is one story, so it is one test: each step needs what those before it left behind.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.scenarios.support.terminal import PATIENCE_S, Screen, Terminal, compare, masked

pytestmark = pytest.mark.scenario

#: A user's program, whose handler fails as long as there is no file "stock".
SHOP = """
import asyncio, os, pathlib, signal
from rocketpipe import ConsumeFromWhere, PushConsumer, PushTuning, Retry

async def main():
    consumer = PushConsumer(
        os.environ["ROCKETPIPE_NAMESRV"],
        group="shop",
        start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        concurrency=1,
        tuning=PushTuning(max_attempts=2),
    )

    @consumer.on("orders")
    async def pack(message):
        if not pathlib.Path("stock").exists():
            raise Retry("no stock", delay_level=1)
        print("packed", message.body.decode(), flush=True)

    async with consumer:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
        await consumer.closed()

asyncio.run(main())
"""

#: Another, which dies before it has decided a transaction.
UNDECIDED = """
import os
from rocketpipe.blocking import Producer

with Producer(os.environ["ROCKETPIPE_NAMESRV"], group="payments") as producer:
    with producer.transaction("orders", b"paid, perhaps") as tx:
        tx.unknown()
"""


@contextmanager
def serving(terminal: Terminal, *words: str) -> Iterator[Screen]:
    """`rocketpipe serve` on a screen of its own, from the first line to Ctrl-C."""
    ports = ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0"]
    screen = terminal.open("serve", *ports, *words)
    try:
        ready = screen.read_until(r"\nready namesrv=(\S+) broker=(\S+)\s")
        terminal.environ["ROCKETPIPE_NAMESRV"] = ready[1]
        yield screen
        screen.type("\x03")
        assert screen.finish().code == 0, screen.shown
        assert "Traceback" not in screen.shown
    finally:
        screen.close()


@contextmanager
def program(terminal: Terminal, name: str, text: str) -> Iterator[subprocess.Popen[str]]:
    """A program that a user wrote, as long as the block lasts."""
    (terminal.directory / name).write_text(text)
    log = terminal.directory / f"{name}.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, name],
            cwd=terminal.directory,
            env=terminal.environ,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as child,
    ):
        try:
            yield child
        except AssertionError as error:
            error.add_note(log.read_text())
            raise
        finally:
            child.terminate()
            child.wait(PATIENCE_S)


def test_from_nothing_to_replayed_dead_letters(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with serving(terminal) as screen:
        compare("serve.txt", masked(screen.shown, terminal.places))
        _topics_and_messages(terminal)
        _dead_letters(terminal)
        _places(terminal)
        _what_waits(terminal)
        _servers(terminal)
    _files(terminal)
    with serving(terminal, "--data", "restored") as screen:
        compare("serve-again.txt", masked(screen.shown, terminal.places))
        found = terminal.piped("message", "query", "orders", "--key", "A1", "-o", "json").value
        assert [each["body"] for each in found] == ["order 1"]


def _topics_and_messages(terminal: Terminal) -> None:
    terminal.shown("topic-create", "topic", "create", "orders", "--queues", "4")
    terminal.both("topic-list", "topic", "list", "--stats")
    send = ["message", "send", "orders", "--order-by", "alice"]
    terminal.shown("message-send", *send, "order 1", "--tag", "paid", "--key", "A1")
    sent = terminal.piped(*send, "-", "--tag", "paid", "-o", "json", typed="order 2")
    compare("message-send.json", masked(sent.text, terminal.places))
    terminal.both("topic-show", "topic", "show", "orders")
    found = terminal.both("message-query", "message", "query", "orders", "--key", "A1")
    terminal.both("message-tail", "message", "tail", "orders", "--from", "earliest")
    terminal.both("message-show", "message", "show", "orders", "--id", found[0]["message_id"])


def _dead_letters(terminal: Terminal) -> None:
    with program(terminal, "shop.py", SHOP):
        terminal.until("dlq", "list", holds=lambda rows: [row["letters"] for row in rows] == [2])
        (client,) = terminal.both("client-list", "client", "list", "--group", "shop")
        terminal.both("client-show", "client", "show", "shop", client["client"])
        # Its place in the topic is saved every now and then.
        terminal.until(
            "group",
            "list",
            holds=lambda rows: [(row["topics"], row["lag"]) for row in rows] == [(1, 0)],
        )
        terminal.both("group-list", "group", "list")
        terminal.both("group-show", "group", "show", "shop")
    terminal.both("dlq-list", "dlq", "list")
    terminal.both("dlq-show", "dlq", "show", "shop")
    terminal.both("dlq-replay-plan", "dlq", "replay", "shop", "--all", "--dry-run")
    terminal.shown("dlq-replay", "dlq", "replay", "shop", "--all", "--yes")
    again = terminal.both("dlq-replay-again", "dlq", "replay", "shop", "--all", "--yes")
    assert [each["outcome"] for each in again] == ["replayed before"] * 2
    (terminal.directory / "stock").touch()
    with program(terminal, "shop.py", SHOP) as shop:
        assert shop.stdout is not None
        packed = {shop.stdout.readline() for _ in range(2)}
    assert packed == {"packed order 1\n", "packed order 2\n"}
    terminal.shown("dlq-show-replayed", "dlq", "show", "shop")


def _places(terminal: Terminal) -> None:
    lag = ["group", "lag", "shop", "--topic", "orders"]
    terminal.both("group-lag", *lag)
    reset = ["offsets", "reset", "shop", "orders", "--to", "earliest"]
    terminal.both("offsets-reset-plan", *reset, "--dry-run")
    terminal.shown("offsets-reset", *reset, "--yes")
    rows = terminal.both("offsets-show", "offsets", "show", "shop", "orders")
    assert sum(row["lag"] for row in rows) == 2
    terminal.shown("group-create", "group", "create", "shop-copy", "--max-attempts", "4")
    terminal.shown("offsets-clone", "offsets", "clone", "shop", "shop-copy", "orders", "--yes")
    terminal.shown("topic-delete-refused", "topic", "delete", "nothing", "--yes", code=1)


def _what_waits(terminal: Terminal) -> None:
    terminal.told("message", "send", "orders", "much later", "--delay", "2h")
    (waiting,) = terminal.both("delayed-list", "delayed", "list")
    terminal.shown("delayed-cancel", "delayed", "cancel", "orders", waiting["message_id"], "--yes")
    assert json.loads(terminal.told("delayed", "list")) == []
    with program(terminal, "undecided.py", UNDECIDED) as child:
        assert child.wait(PATIENCE_S) == 0
    (opened,) = json.loads(terminal.told("transaction", "list"))
    assert (opened["topic"], opened["group"]) == ("orders", "payments")
    shown = terminal.open("transaction", "list").finish()
    assert opened["message_id"] in shown.text


def _servers(terminal: Terminal) -> None:
    terminal.both("broker-list", "broker", "list")
    facts = json.loads(terminal.told("broker", "show", "broker-a"))
    # Every value is another at every run; the names are what programs rely on.
    compare("broker-show-names.txt", "\n".join(facts) + "\n")
    terminal.both("broker-config", "broker", "config", "broker-a", "--key", "maxMessageSize")
    change = ["broker", "config", "broker-a", "--set", "maxMessageSize=1048576"]
    terminal.shown("broker-config-plan", *change, "--dry-run")
    terminal.shown("broker-config-set", *change, "--yes")
    terminal.both("cluster-list", "cluster", "list")
    shown = terminal.open("doctor", "--lag", "100").finish()
    for looked_at in ("broker broker-a", "shop", "open files"):
        assert looked_at in shown.text, shown.text
    assert " 0 problems, " in shown.text.splitlines()[-1]
    produce = ["bench", "produce", "load", "--messages", "200", "--size", "100", "--yes"]
    assert terminal.piped(*produce, "-o", "json").value["messages"] == 200
    assert json.loads(terminal.told("bench", "consume", "load"))["messages"] == 200
    terminal.shown("config-show", "config", "show", "--for", "serve", "--changed", "--origin")
    (terminal.directory / "broker.conf").write_text("brokerNam=b1\nfileReservedTime=24\n")
    terminal.both("config-check", "config", "check", "broker.conf", code=1)
    script = terminal.piped("completion", "bash").text
    assert "complete -o default -F _rocketpipe rocketpipe" in script


def _files(terminal: Terminal) -> None:
    data = "rocketpipe-data"
    checked = terminal.piped("store", "check", data, "-o", "json").value
    assert checked["ok"]
    assert checked["stopped_in_order"]
    dumped = terminal.piped("store", "dump", data, "--topic", "orders").text
    assert len(dumped.splitlines()) >= 2
    terminal.shown("store-export", "store", "export", data, "out.bin", "--topic", "orders")
    made = terminal.piped("store", "backup", data, "backup", "-o", "json").value
    restored = json.loads(terminal.told("store", "restore", "backup", "restored"))
    assert restored["end_offset"] == made["end_offset"]
    assert json.loads(terminal.told("store", "check", "restored"))["ok"]
