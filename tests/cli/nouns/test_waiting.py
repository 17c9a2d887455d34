"""``rocketpipe delayed`` and ``rocketpipe transaction`` against real servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rocketpipe import Producer
from rocketpipe.cli.main import main
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario


async def send_later(name_server: str) -> str:
    async with Producer(name_server) as producer:
        result = await producer.send("orders", b"later", delay=timedelta(hours=1))
        return result.message_id


def test_a_message_that_waits_is_listed_and_cancelled(
    servers: Servers, command: Callable[..., str], answer: Callable[..., Any]
) -> None:
    command("topic", "create", "orders", "-q", "1")
    message_id = asyncio.run(send_later(servers.name_server))
    (row,) = answer("delayed", "list", "--topic", "orders")
    assert row["message_id"] == message_id
    assert "not confirmed" in command("delayed", "cancel", "orders", row["handle"], code=1)
    done = answer("delayed", "cancel", "orders", message_id, "--yes")
    assert done["was_due"] == row["due"]
    assert answer("delayed", "list") == []
    assert "no message" in command("delayed", "cancel", "orders", message_id, code=2)


async def leave_open(name_server: str, count: int) -> list[str]:
    """Begin transactions, and go without having decided them."""
    sent = []
    async with Producer(name_server, group="payers") as producer:
        for number in range(count):
            async with producer.transaction("paid", str(number).encode()) as transaction:
                sent.append(transaction.message_id)
                transaction.unknown()
    return sent


def test_an_open_transaction_is_decided_by_who_looks_after_it(
    servers: Servers, command: Callable[..., str], answer: Callable[..., Any]
) -> None:
    command("topic", "create", "paid", "-q", "1")
    kept, dropped = asyncio.run(leave_open(servers.name_server, 2))
    assert {each["message_id"] for each in answer("transaction", "list")} == {kept, dropped}
    assert "in the place of payers" in command("transaction", "commit", kept, code=1)
    (done,) = answer("transaction", "commit", kept, "--yes")
    assert done == {"topic": "paid", "message_id": kept, "outcome": "committed"}
    (done,) = answer("transaction", "rollback", dropped, "--yes")
    assert done["outcome"] == "rolled back"
    assert answer("transaction", "list") == []
    assert "no transaction is open" in command("transaction", "commit", kept, "-y", code=2)
    (seen,) = answer("message", "tail", "paid", "--from", "earliest")
    assert seen["message_id"] == kept


def test_each_noun_shows_its_own_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for noun, other in (("transaction", "delayed"), ("delayed", "transaction")):
        with pytest.raises(SystemExit):
            main([noun, "--help"])
        shown = capsys.readouterr().out
        assert f"rocketpipe {noun} list" in shown
        assert f"rocketpipe {other}" not in shown


def test_no_transaction_is_open_here(answer: Callable[..., Any]) -> None:
    assert answer("transaction", "list") == []
