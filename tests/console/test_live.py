"""Streams of what a tab sees: news as they happen, bounded, and over when they should be."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.console.support.asking import ADDRESS, OURS, TOKEN
from tests.console.support.shop import Shop
from tests.waiting import PATIENCE_S, until

from rocketpipe import Producer
from rocketpipe.auth.secret import Secret
from rocketpipe.console.app import console_app
from rocketpipe.console.console import Console, ConsoleConfig
from rocketpipe.console.port import speaking
from rocketpipe.health.http_port import Watched, health_port

pytestmark = pytest.mark.scenario


@contextlib.asynccontextmanager
async def listening(
    shop: Shop, **settings: Any
) -> AsyncIterator[tuple[Console, httpx.AsyncClient]]:
    settings = {"token": Secret(TOKEN), "address": ADDRESS, **settings}
    config = ConsoleConfig(name_servers=shop.name_server, **settings)
    async with (
        Console(config) as console,
        speaking(console_app(console)) as more,
        health_port("127.0.0.1", 0, Watched(), more=more) as address,
    ):
        try:
            async with httpx.AsyncClient(base_url=f"http://{address}", timeout=60) as client:
                yield console, client
        finally:
            console.closing.set()


async def events(answer: httpx.Response) -> AsyncIterator[tuple[str, str, Any]]:
    """Each event: its id, its name, and what it says."""
    found: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            found[name] = value
            continue
        if "data" in found:
            yield found.get("id", ""), found["event"], json.loads(found["data"])
        found = {}


async def test_a_tail_shows_what_arrives_and_goes_on_where_it_was_cut_off(shop: Shop) -> None:
    async with (
        listening(shop) as (console, client),
        Producer(shop.name_server) as producer,
        asyncio.timeout(PATIENCE_S),
    ):
        see = {"see": "tail:refunds", "tags": "wanted"}
        async with client.stream("GET", "/api/1/live", params=see) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            news = events(answer)
            first_id, name, first = await anext(news)
            assert (name, first["rows"]) == ("tail", [])
            assert console.streams == 1
            await producer.send("refunds", b"no", tags="other")
            await producer.send("refunds", b"one", tags="wanted")
            _, _, found = await anext(news)
            while not found["rows"]:
                _, _, found = await anext(news)
            assert [row["preview"] for row in found["rows"]] == ["one"]
        await until(lambda: console.streams == 0)
        async with client.stream(
            "GET", "/api/1/live", params=see, headers={"Last-Event-ID": first_id}
        ) as answer:
            _, _, again = await anext(events(answer))
            assert [row["preview"] for row in again["rows"]] == ["one"]


async def test_figures_of_a_group_and_of_the_cluster_come_by_one_stream(shop: Shop) -> None:
    async with listening(shop) as (_, client), asyncio.timeout(PATIENCE_S):
        see = {"see": "overview,group:billing"}
        async with client.stream("GET", "/api/1/live", params=see) as answer:
            news = events(answer)
            seen = {name: value async for _, name, value in _first(news, 2)}
            assert seen["overview"]["brokers"] == {"value": 1}
            assert seen["group"]["lag"]["value"] == 23


async def _first(news: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    for _ in range(count):
        yield await anext(news)


async def test_streams_are_counted_and_what_cannot_be_seen_is_refused(shop: Shop) -> None:
    async with listening(shop, max_streams=1) as (_, client), asyncio.timeout(PATIENCE_S):
        for see in ("", "nobody", "tail:", "group:", "overview," * 5):
            assert (await client.get("/api/1/live", params={"see": see})).status_code == 400
        bad = {"see": "tail:orders", "sql": "a >"}
        assert (await client.get("/api/1/live", params=bad)).status_code == 400
        forged = await client.get(
            "/api/1/live", params={"see": "tail:orders"}, headers={"Last-Event-ID": "forged"}
        )
        assert forged.status_code == 400
        async with client.stream("GET", "/api/1/live", params={"see": "overview"}) as answer:
            await anext(events(answer))
            refused = await client.get("/api/1/live", params={"see": "overview"})
            assert refused.status_code == 503
            assert refused.headers["retry-after"]


async def test_many_that_come_at_once_are_counted_too(shop: Shop) -> None:
    async with listening(shop, max_streams=3) as (console, client), asyncio.timeout(PATIENCE_S):
        opened = contextlib.AsyncExitStack()

        async def come() -> int:
            params = {"see": "tail:orders"}
            answer = client.stream("GET", "/api/1/live", params=params)
            return (await opened.enter_async_context(answer)).status_code

        async with opened:
            found = await asyncio.gather(*(come() for _ in range(40)))
            assert sorted(found) == [200] * 3 + [503] * 37
            assert console.streams == 3
        await until(lambda: console.streams == 0)


async def test_a_stream_ends_when_who_opened_it_logs_out(shop: Shop) -> None:
    async with listening(shop) as (console, client), asyncio.timeout(PATIENCE_S):
        await client.post("/api/1/login", json={"token": TOKEN}, headers=OURS)
        async with client.stream("GET", "/api/1/live", params={"see": "tail:orders"}) as answer:
            news = events(answer)
            await anext(news)
            await client.post("/api/1/logout", json={}, headers=OURS)
            assert [each async for each in news] == []
        assert console.streams == 0
