"""Where consumers of every kind begin, against real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rocketpipe import Producer, PullConsumer, PushConsumer, SimpleConsumer
from rocketpipe.client.consumer.group.start import Start
from rocketpipe.testing import cluster

pytestmark = pytest.mark.scenario

Next = Callable[[], Awaitable[bytes]]


@asynccontextmanager
async def push(address: str, group: str, start: Start, **more: Any) -> AsyncIterator[Next]:
    got: asyncio.Queue[bytes] = asyncio.Queue()
    consumer = PushConsumer(address, group=group, start=start, **more)
    consumer.subscribe("orders", lambda message: got.put_nowait(message.body))
    async with consumer:
        yield got.get


@asynccontextmanager
async def pop(address: str, group: str, start: Start) -> AsyncIterator[Next]:
    async with push(address, group, start, pop=True) as following:
        yield following


@asynccontextmanager
async def pull(address: str, group: str, start: Start) -> AsyncIterator[Next]:
    async with PullConsumer(address, group=group, start=start) as consumer:
        await consumer.subscribe("orders")

        async def following() -> bytes:
            return (await anext(aiter(consumer))).body

        yield following


@asynccontextmanager
async def simple(address: str, group: str, start: Start) -> AsyncIterator[Next]:
    async with SimpleConsumer(address, group=group, start=start) as consumer:
        await consumer.subscribe("orders")

        async def following() -> bytes:
            (message,) = await consumer.receive(max_messages=1)
            await consumer.ack(message)
            return message.body

        yield following


async def test_each_begins_where_it_says_also_in_a_young_queue(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as servers,
        Producer(servers.name_server) as producer,
        asyncio.timeout(60),
    ):
        kinds = (push, pop, pull, simple)
        await producer.send("orders", b"old", order_by="one")
        moment = datetime.now(UTC) + timedelta(milliseconds=1)
        while datetime.now(UTC) < moment:  # noqa: ASYNC110 - the clock is what is waited for
            await asyncio.sleep(0)
        await producer.send("orders", b"later", order_by="one")
        for kind in kinds:
            at = servers.name_server
            async with (
                kind(at, f"first-{kind.__name__}", "first") as first,
                kind(at, f"last-{kind.__name__}", "last") as last,
            ):
                assert [await first(), await first()] == [b"old", b"later"]
                await producer.send("orders", kind.__name__.encode(), order_by="one")
                assert await last() == kind.__name__.encode()
            async with kind(at, f"then-{kind.__name__}", moment) as then:
                assert await then() == b"later"
