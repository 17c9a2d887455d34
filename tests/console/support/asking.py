"""A console asked without a socket, as its own pages ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from rocketpipe.auth.secret import Secret
from rocketpipe.clock import Clock
from rocketpipe.console.app import console_app
from rocketpipe.console.console import Console, ConsoleConfig
from rocketpipe.health.http_port import Watched

TOKEN = "a-token-that-nobody-guesses"
ADDRESS = "127.0.0.1:8080"
#: What a page of the console sends with a change.
OURS = {"Sec-Fetch-Site": "same-origin", "X-RocketPipe-Console": "1"}


class Asker:
    """Asks a console, and keeps its cookies."""

    def __init__(self, console: Console, client: httpx.AsyncClient) -> None:
        self.console = console
        self.client = client

    async def get(self, path: str, status: int = 200, **params: Any) -> Any:
        answer = await self.client.get(f"/api/1/{path}", params=params)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def post(self, path: str, body: Any, status: int = 200) -> Any:
        answer = await self.client.post(f"/api/1/{path}", json=body, headers=OURS)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def log_in(self) -> None:
        await self.post("login", {"token": TOKEN})


@asynccontextmanager
async def asking(
    name_server: str, *, clock: Clock | None = None, place: str = "127.0.0.1", **settings: Any
) -> AsyncIterator[Asker]:
    """Open a console of a cluster, and give who asks it from some place."""
    settings = {"token": Secret(TOKEN), "address": ADDRESS, **settings}
    config = ConsoleConfig(name_servers=name_server, **settings)
    watched = Watched()
    watched.started = True
    async with Console(config, clock=clock) as console:
        transport = httpx.ASGITransport(console_app(console, watched), client=(place, 7))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{ADDRESS}") as client:
            yield Asker(console, client)
