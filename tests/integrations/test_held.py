"""Messages that are worked on stay hidden, until it is done or nobody works on them any more."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketpipe import NoBroker, Producer, Session, SimpleConsumer
from rocketpipe.errors import AccessDenied, ConnectionLost, NoRoute
from rocketpipe.integrations.held import HeldMessages, is_passing
from rocketpipe.testing import Kit, kit

pytestmark = pytest.mark.scenario
INVISIBLE_MS = 30_000


@asynccontextmanager
async def held(
    servers: Kit, *, longest: str = "1d"
) -> AsyncIterator[tuple[HeldMessages, SimpleConsumer]]:
    session = Session(servers.name_server, clock=servers.clock)
    longest_ms = {"1d": 86_400_000, "1m": 60_000}[longest]
    async with (
        Producer(session) as producer,
        SimpleConsumer(session, group="held") as consumer,
    ):
        await producer.send("work", b"a task")
        await consumer.subscribe("work")
        messages = HeldMessages(
            consumer, servers.clock, invisible_ms=INVISIBLE_MS, longest_ms=longest_ms
        )
        async with messages.kept("held"):
            yield messages, consumer


async def receive(consumer: SimpleConsumer, wait_ms: int = 20_000) -> list[bytes]:
    return [
        bytes(each.body)
        for each in await consumer.receive(invisible_ms=INVISIBLE_MS, wait_ms=wait_ms)
    ]


@pytest.fixture
def servers(tmp_path: Path):  # type: ignore[no-untyped-def]
    with kit(tmp_path) as running_kit:
        yield running_kit


async def test_what_is_worked_on_for_minutes_is_nobody_elses(servers: Kit) -> None:
    async with held(servers) as (messages, consumer):
        (message,) = await consumer.receive(invisible_ms=INVISIBLE_MS)
        ticket = messages.ticket(message)
        for _ in range(12):
            await servers.clock.advance("10s")
        assert await receive(consumer, wait_ms=0) == []
        await ticket()
        await ticket()  # once more does no harm
        assert len(messages) == 0
        await servers.clock.advance("10m")
        assert await receive(consumer, wait_ms=0) == []


async def test_what_nobody_works_on_any_more_comes_again(servers: Kit) -> None:
    async with held(servers) as (messages, consumer):
        (message,) = await consumer.receive(invisible_ms=INVISIBLE_MS)
        ticket = messages.ticket(message)
        assert len(messages) == 1
        del ticket
        gc.collect()
        assert len(messages) == 0
        coming = asyncio.create_task(receive(consumer, wait_ms=120_000))
        await servers.clock.advance("1m")
        assert await coming == [b"a task"]


async def test_what_is_held_for_too_long_comes_again(
    servers: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    async with held(servers, longest="1m") as (messages, consumer):
        (message,) = await consumer.receive(invisible_ms=INVISIBLE_MS)
        ticket = messages.ticket(message)
        coming = asyncio.create_task(receive(consumer, wait_ms=600_000))
        while not coming.done():
            await servers.clock.advance("10s")
        assert coming.result() == [b"a task"]
        assert "held for too long" in caplog.text
        await ticket()  # too late, and no error


async def test_what_is_given_back_comes_again_at_once(servers: Kit) -> None:
    async with held(servers) as (messages, consumer):
        (message,) = await consumer.receive(invisible_ms=INVISIBLE_MS)
        ticket = messages.ticket(message)
        await messages.give_back()
        assert await receive(consumer) == [b"a task"]
        del ticket


async def test_a_broker_that_was_away_is_told_when_it_is_back(servers: Kit) -> None:
    async with held(servers) as (messages, consumer):
        (message,) = await consumer.receive(invisible_ms=300_000)
        ticket = messages.ticket(message)
        acknowledging = asyncio.create_task(ticket())
        await servers.kill()
        await acknowledging
        assert len(messages) == 0
        await servers.clock.advance("10m")
        assert await receive(consumer, wait_ms=0) == []


def test_only_what_others_may_mend_is_waited_for() -> None:
    assert is_passing(NoRoute("t", "a:1"))
    assert is_passing(NoBroker("no broker", "start one"))
    assert is_passing(ConnectionLost("a:1", "gone"))
    assert not is_passing(AccessDenied(16, "no"))
