"""``rocketpipe delayed`` and ``rocketpipe transaction`` against real servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rocketpipe import Producer
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


def test_no_transaction_is_open_here(answer: Callable[..., Any]) -> None:
    assert answer("transaction", "list") == []
