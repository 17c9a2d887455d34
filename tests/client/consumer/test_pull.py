"""Reading, from real servers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketpipe import Producer, PullConsumer
from rocketpipe.errors import FilterError, InvalidName, NoRoute
from rocketpipe.testing import cluster


async def read(consumer: PullConsumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    async with asyncio.timeout(20):
        while len(bodies) < count:
            bodies += [message.body for message in await consumer.poll()]
    return bodies


async def test_everything_that_was_sent_is_read_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        for number in range(100):
            await producer.send("orders", b"%d" % number)
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            bodies = await read(consumer, 100)
            assert sorted(map(int, bodies)) == list(range(100))
            assert await consumer.poll(timeout_ms=1) == []


async def test_a_group_goes_on_where_it_committed_and_another_starts_afresh(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        for number in range(8):
            await producer.send("orders", b"%d" % number)
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            await read(consumer, 8)
            await consumer.commit()
        await producer.send("orders", b"new")
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            assert await read(consumer, 1) == [b"new"]
        async with PullConsumer(servers.name_server, group="h") as consumer:
            await consumer.subscribe("orders")
            assert len(await read(consumer, 9)) == 9


async def test_a_poll_waits_for_what_has_not_been_sent_yet(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        await producer.send("orders", b"first")
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            await read(consumer, 1)
            waiting = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0)
            await producer.send("orders", b"second")
            assert [message.body for message in await waiting] == [b"second"]


async def test_only_the_tags_that_were_asked_for_come(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        for number in range(12):
            await producer.send("orders", b"%d" % number, tags="ABC"[number % 3])
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders", tags="A || C")
            bodies = await read(consumer, 8)
            assert sorted(map(int, bodies)) == [0, 2, 3, 5, 6, 8, 9, 11]


async def test_wrong_names_and_expressions_are_refused_before_anything_is_asked() -> None:
    with pytest.raises(InvalidName):
        PullConsumer("127.0.0.1:1", group="DEFAULT_CONSUMER")
    async with PullConsumer("127.0.0.1:1", group="g") as consumer:
        with pytest.raises(InvalidName):
            await consumer.subscribe("a b")
        with pytest.raises(FilterError):
            await consumer.subscribe("orders", tags="||")


async def test_an_unknown_topic_is_named(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        async with PullConsumer(servers.name_server, group="g") as consumer:
            with pytest.raises(NoRoute, match="'nowhere'"):
                await consumer.subscribe("nowhere")
