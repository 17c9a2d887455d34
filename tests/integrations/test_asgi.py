"""Clients that live as long as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from rocketpipe import ReceivedMessage
from rocketpipe.errors import ConnectionLost, NoRoute, SessionClosed
from rocketpipe.integrations.asgi import Messaging
from rocketpipe.testing import cluster

NOWHERE = "127.0.0.1:1"


async def test_brokers_may_be_away_unless_they_are_required() -> None:
    messaging = Messaging(NOWHERE)
    assert "not open" in (await messaging.readiness()).reason
    async with messaging:
        readiness = await messaging.readiness()
        assert not readiness
        assert "no NameServer answers" in readiness.reason
        with pytest.raises((ConnectionLost, NoRoute)):
            await messaging.producer.send("orders", b"x")
        with pytest.raises(ValueError, match="open already"):
            await messaging.__aenter__()
        with pytest.raises(ValueError, match="before the application starts"):
            messaging.consumer(group="late")
    with pytest.raises(SessionClosed):
        await messaging.producer.send("orders", b"x")
    with pytest.raises(ConnectionLost, match="no NameServer answers"):
        async with Messaging(NOWHERE, required=True):
            pass


async def test_a_consumer_that_cannot_be_ends_the_start_and_leaves_nothing_open() -> None:
    messaging = Messaging(NOWHERE)
    messaging.consumer(group="billing")
    with pytest.raises(ValueError, match="'billing' has no handler"):
        async with messaging:
            pass
    assert not messaging.session.is_open


@pytest.mark.scenario
async def test_consumers_begin_and_end_with_the_lifespan(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        messaging = Messaging(servers.name_server, required=True)
        billing = messaging.consumer(group="billing", start="first")
        began, ended = asyncio.Event(), asyncio.Event()

        @billing.on("orders")
        async def bill(message: ReceivedMessage) -> None:
            began.set()
            await asyncio.sleep(0.2)
            await messaging.producer.send("invoices", message.body)  # at the very end too
            ended.set()

        for _ in range(2):  # an application may be started again, as tests do
            async with messaging.lifespan(None) as state:
                assert state == {"messaging": messaging}
                assert await messaging.readiness()
                began.clear(), ended.clear()
                await messaging.producer.send("orders", b"tea")
                await began.wait()
            assert ended.is_set()
            assert not billing.is_open
            assert not messaging.session.is_open


class Server:
    """The other side of an ASGI lifespan."""

    def __init__(self, *told: str) -> None:
        self._told, self.heard = list(told), []

    async def receive(self) -> MutableMapping[str, Any]:
        return {"type": f"lifespan.{self._told.pop(0)}"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.heard.append((message["type"], message.get("message")))


async def test_an_application_without_a_lifespan_gets_one() -> None:
    asked = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["type"])

    server = Server("startup", "shutdown")
    await Messaging(NOWHERE).around(app)({"type": "lifespan"}, server.receive, server.send)
    assert [kind for kind, _ in server.heard] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    await Messaging(NOWHERE).around(app)({"type": "http"}, server.receive, server.send)
    assert asked == ["http"]
    server = Server("startup")
    required = Messaging(NOWHERE, required=True)
    await required.around(app)({"type": "lifespan"}, server.receive, server.send)
    ((kind, reason),) = server.heard
    assert kind == "lifespan.startup.failed"
    assert "no NameServer answers" in reason
