"""``rocketpipe client`` against real servers and a real consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rocketpipe.blocking import Producer, PushConsumer
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario


def test_who_is_connected_is_listed_and_asked(
    servers: Servers, command: Callable[..., str], answer: Callable[..., Any]
) -> None:
    command("topic", "create", "orders", "-q", "1")
    assert answer("client", "list") == []
    consumer = PushConsumer(servers.name_server, group="shop")
    consumer.on("orders")(lambda message: None)
    with Producer(servers.name_server, group="makers") as producer, consumer:
        producer.send("orders", b"order 1")
        rows = answer("client", "list")
        assert {(row["kind"], row["group"]) for row in rows} == {
            ("consumer", "shop"),
            ("producer", "makers"),
        }
        (member,) = answer("client", "list", "--group", "shop")
        shown = answer("client", "show", "shop", member["client"], "--stacks")
        assert shown["queues"] or shown["properties"]
        assert shown["stacks"]
        command("client", "show", "shop", member["client"])
    assert "nobody" in command("client", "show", "shop", "nobody", code=1)
