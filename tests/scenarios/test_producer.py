"""Two brokers, one killed in the middle of sending."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.scenarios.test_two_brokers import (
    BROKERS,
    PATIENCE_S,
    Tool,
    create,
    four_servers,
    held_by,
    read,
)

from rocketpipe import Producer
from rocketpipe.client.faults import Variant
from rocketpipe.client.session import Session
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing import ManualClock

pytestmark = pytest.mark.scenario

AVOIDED_MS = 600_000


async def brokers_of(producer: Producer, word: str, sends: int, sent: set[bytes]) -> list[str]:
    """Send one after another; gives which broker took each."""
    used = []
    for number in range(sends):
        body = f"{word} {number}".encode()
        used.append((await producer.send("orders", body)).queue.broker_name)
        sent.add(body)
    return used


async def grown(sent: set[bytes], size: int) -> None:
    while len(sent) < size:  # noqa: ASYNC110 - it grows in several tasks
        await asyncio.sleep(0.001)


async def test_sends_go_on_and_the_broker_that_failed_returns_after_its_time(
    tmp_path: Path,
) -> None:
    clock, sent = ManualClock(), set[bytes]()
    with four_servers(tmp_path) as servers:
        async with Caller() as caller, asyncio.timeout(PATIENCE_S * 2):
            tool = Tool(caller)
            for name_server in servers.name_servers:
                await tool.route_until(name_server, "TBW102", held_by(*BROKERS))
            for address in servers.brokers.values():
                await tool.ask(address, create("orders"))
            session = Session(servers.all_name_servers, clock=clock)
            async with Producer(session, avoid_slow=Variant.V4) as producer:
                assert set(await brokers_of(producer, "before", 8, sent)) == set(BROKERS)

                # A stream of sends, and one broker dies under it: not one send fails.
                stop = asyncio.Event()

                async def stream(number: int) -> int:
                    count = 0
                    while not stop.is_set():
                        body = f"stream {number} {count}".encode()
                        await producer.send("orders", body)
                        sent.add(body)
                        count += 1
                    return count

                streams = [asyncio.create_task(stream(number)) for number in range(8)]
                await grown(sent, 100)
                servers.kill("broker-b")
                await grown(sent, len(sent) + 200)
                stop.set()
                assert min(await asyncio.gather(*streams)) > 0
                assert set(await brokers_of(producer, "without", 8, sent)) == {"broker-a"}

                # It is back, and its route too; but its time has not passed.
                servers.start("broker-b")
                for name_server in servers.name_servers:
                    await tool.route_until(name_server, "orders", held_by(*BROKERS))
                await session.routes.refresh("orders")
                assert set(await brokers_of(producer, "avoided", 8, sent)) == {"broker-a"}
                await clock.advance(AVOIDED_MS)
                assert set(await brokers_of(producer, "again", 8, sent)) == set(BROKERS)
        assert await read(servers.all_name_servers, "orders", sent) == sent
