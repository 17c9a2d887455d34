"""The web examples under uvicorn and gunicorn with two workers: nothing that was taken is lost."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import httpx
import pytest
from tests.integrations.support.programs import killable_servers, program
from tests.waiting import PATIENCE_S

from rocketpipe import Admin, PullConsumer
from rocketpipe.errors import NoRoute

pytestmark = pytest.mark.scenario

WEB = Path(__file__).parents[2] / "examples" / "web"
ORDERS = 30
UVICORN = ("uvicorn", "--app-dir", str(WEB), "--workers", "2", "--fd")
GUNICORN = (
    "gunicorn",
    "--chdir",
    str(WEB),
    "-c",
    str(WEB / "gunicorn_conf.py"),
    "--workers",
    "2",
    "--bind",
)
FASTAPI = ("fastapi-billing", "fastapi-orders", "fastapi-invoices")
DJANGO = ("django-billing", "django-orders", "django-invoices")
#: What is started, which application, and its group and topics.
PROGRAMS = {
    "fastapi": (UVICORN, "fastapi_app:app", *FASTAPI),
    "django": (GUNICORN, "django_app:application", *DJANGO),
    "django-asgi": (UVICORN, "django_app:asgi", *DJANGO),
}


class Site:
    """A web server on a port of its own, which stays when the server does not."""

    def __init__(self, kind: str, scratch: Path, name_server: str) -> None:
        self._kind, self._scratch, self._name_server = kind, scratch, name_server
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self._listening.getsockname()[1]}",
            timeout=PATIENCE_S,
            limits=httpx.Limits(max_keepalive_connections=0),  # each to whichever process is free
        )

    async def __aenter__(self) -> Site:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.client.aclose()
        self._listening.close()

    @contextmanager
    def running(self) -> Iterator[Popen[bytes]]:
        server, app, *_ = PROGRAMS[self._kind]
        fd = self._listening.fileno()
        at = f"fd://{fd}" if server is GUNICORN else str(fd)
        facts = {"ROCKETPIPE_NAMESRV": self._name_server}
        with program([*server, at, app], self.log, facts, pass_fds=[fd]) as process:
            yield process

    @property
    def log(self) -> Path:
        return self._scratch / f"{self._kind}.log"

    async def order(self, item: str) -> httpx.Response:
        if self._kind == "fastapi":
            return await self.client.post("/orders", json={"item": item})
        return await self.client.post("/orders", content=item)

    async def until_ready(self, *, ready: bool = True) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while (await self.client.get("/ready")).is_success is not ready:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    "kind", ["fastapi", "django", pytest.param("django-asgi", marks=pytest.mark.soak)]
)
async def test_orders_are_refused_or_handled_whoever_comes_or_goes(
    kind: str, tmp_path: Path
) -> None:
    _, _, group, orders, invoices = PROGRAMS[kind]
    with killable_servers(tmp_path) as servers:
        servers.kill()
        async with Site(kind, tmp_path, servers.name_server) as site:
            taken, processes = set(), set()
            with site.running() as server:
                await site.until_ready(ready=False)
                refused = await site.order("refused")
                assert refused.status_code == 503, refused.text
                assert "no NameServer answers" in refused.json()["reason"]
                servers.start()
                await site.until_ready()
                while len(taken) < ORDERS or len(processes) < 2:
                    order = f"order-{len(taken)}"
                    answer = await site.order(order)
                    assert answer.status_code == 202, answer.text
                    taken.add(order)
                    processes.add(int(answer.json()["process"]))
                await until_first(servers.name_server, invoices)
                server.terminate()  # with orders that perhaps no handler has had yet
                assert server.wait(PATIENCE_S) == 0, site.log.read_text()[-3000:]
                assert not any(map(is_alive, processes))
            assert "Traceback" not in site.log.read_text()
            # Each is an invoice, or there for the next member of the group.
            invoiced = await unread(servers.name_server, "auditor", invoices)
            left = await unread(servers.name_server, group, orders)
            assert invoiced
            assert invoiced | left == taken


async def until_first(name_server: str, topic: str) -> None:
    async with asyncio.timeout(PATIENCE_S), Admin(name_server) as admin:
        while True:
            try:
                if (await admin.topics.stats(topic)).messages:
                    return
            except NoRoute:
                pass
            await asyncio.sleep(0.1)


async def unread(name_server: str, group: str, topic: str) -> set[str]:
    """The items that a group has still to read of a topic."""
    found: list[str] = []
    async with (
        asyncio.timeout(PATIENCE_S),
        Admin(name_server) as admin,
        PullConsumer(name_server, group=f"{group}-reader", auto_commit=False) as consumer,
    ):
        places = await admin.offsets.of_group(group, topic)
        await consumer.assign([place.queue for place in places])
        count = 0
        for place in places:
            first = place.least if place.committed is None else place.committed
            await consumer.seek(place.queue, first)
            count += place.end - first
        while len(found) < count:
            for message in await consumer.poll():
                body = message.body.decode()
                found.append(json.loads(body)["item"] if body.startswith("{") else body)
    return set(found)


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True
