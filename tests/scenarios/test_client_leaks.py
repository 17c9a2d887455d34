"""Clients at work for minutes: what they hold does not grow.

Ten minutes by default; ``ROCKETPIPE_LEAK_S`` says another time.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.support.consuming import create_topic
from tests.waiting import until

from rocketpipe import ConsumeFromWhere, Producer, PullConsumer, PushConsumer, RocketPipeError
from rocketpipe.client.consumer.outcome import Retry
from rocketpipe.client.producer.sending.batching import Batching
from rocketpipe.testing.servers import serving

pytestmark = [pytest.mark.scenario, pytest.mark.soak]

DURATION_S = float(os.environ.get("ROCKETPIPE_LEAK_S", "600"))
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
#: Messages of a round, which goes through every kind of client.
ROUND = 400
#: Rounds whose memory is compared with that of the last ones: after the first, which warm up.
COMPARED = 10
#: What allocators may keep; a hundred bytes for each message of ten minutes would be far more.
GROWTH_BYTES = 4 << 20


@dataclass(frozen=True)
class Held:
    """What this process holds between two rounds."""

    memory: int
    descriptors: int
    tasks: int


def held() -> Held:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Held(
        pages * os.sysconf("SC_PAGE_SIZE"),
        sum(1 for _ in Path("/proc/self/fd").iterdir()),
        len(asyncio.all_tasks()),
    )


@dataclass
class Lasting:
    """Clients that live as long as the test does."""

    producer: Producer
    batching: Producer
    pull: PullConsumer
    got: set[bytes]


@asynccontextmanager
async def lasting(name_server: str) -> AsyncIterator[Lasting]:
    got: set[bytes] = set()
    push = PushConsumer(name_server, group="lasting", start=FIRST)

    @push.on("leaks")
    async def note(message: Any) -> Any:
        got.add(message.body)
        # Some come again, so that what is sent back is part of it.
        return Retry(delay_level=1) if message.body.endswith(b"99") else None

    async with (
        Producer(name_server) as producer,
        Producer(name_server, group="batching", batching=Batching(), trace=True) as batching,
        PullConsumer(name_server, group="lasting-pull") as pull,
        push,
    ):
        await pull.subscribe("leaks")
        yield Lasting(producer, batching, pull, got)


async def round_of(clients: Lasting, name_server: str, number: int) -> None:
    """Everything that clients do, by lasting ones and by some that are here for this round."""
    bodies = [b"%d %d" % (number, each) for each in range(ROUND)]
    wanted = set(bodies)
    await asyncio.gather(
        *(clients.producer.send("leaks", body) for body in bodies[::2]),
        *(clients.batching.send("leaks", body, order_by=3) for body in bodies[1::2]),
    )
    with pytest.raises(RocketPipeError):
        await clients.producer.send("no such topic", b"refused")
    pulled: set[bytes] = set()
    async with asyncio.timeout(60):
        while not wanted <= pulled:
            pulled |= {message.body for message in await clients.pull.poll()}
    await clients.pull.commit()
    await until(lambda: wanted <= clients.got)
    clients.got.clear()

    got: set[bytes] = set()
    consumer = PushConsumer(name_server, group="passing", ordered=bool(number % 2), start=FIRST)
    consumer.subscribe("leaks", lambda message: got.add(message.body))
    async with consumer, Producer(name_server) as producer:
        await producer.send("leaks", b"passing %d" % number)
        await until(lambda: b"passing %d" % number in got)


async def settled(so: Callable[[], bool]) -> None:
    """Wait for tasks that are about to end; what does not settle is seen by what it holds."""
    try:
        async with asyncio.timeout(5):
            while not so():  # noqa: ASYNC110 - tasks of others
                await asyncio.sleep(0.01)
    except TimeoutError:
        pass


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc to look into")
@pytest.mark.timeout(DURATION_S + 300)
async def test_memory_tasks_and_descriptors_stay_flat(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Warnings of retries, which are meant to be; pytest would keep every one of them in memory.
    caplog.set_level(logging.ERROR, logger="rocketpipe")
    samples: list[Held] = []
    with serving(tmp_path) as servers:
        await create_topic(servers.broker, "leaks", 4)
        async with lasting(servers.name_server) as clients:
            until_s = time.monotonic() + DURATION_S
            while time.monotonic() < until_s or len(samples) < 3 * COMPARED:
                await round_of(clients, servers.name_server, len(samples))
                if samples:
                    await settled(lambda: len(asyncio.all_tasks()) <= samples[0].tasks)
                samples.append(held())
    early, late = samples[COMPARED : 2 * COMPARED], samples[-COMPARED:]
    grown = statistics.median(each.memory for each in late) - statistics.median(
        each.memory for each in early
    )
    facts = f"after {len(samples)} rounds: {samples[0]}, {early[0]}, {samples[-1]}"
    (tmp_path / "held.txt").write_text(facts)  # for whoever wants to know, red or green
    assert grown < GROWTH_BYTES, f"{grown} bytes more {facts}"
    assert min(each.descriptors for each in late) <= max(each.descriptors for each in early), facts
    assert min(each.tasks for each in late) <= max(each.tasks for each in early), facts
