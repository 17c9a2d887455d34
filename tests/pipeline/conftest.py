"""Servers for all tests of the pipeline."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketpipe import Producer
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing import Cluster, cluster

Load = Callable[..., DataFrame]
Send = Callable[..., None]
SendRaw = Callable[..., None]


@pytest.fixture(scope="session")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory in which the broker of `servers` keeps its messages."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def servers(store_path: Path) -> Iterator[Cluster]:
    """A NameServer and a broker on a loop of their own, so that tests may block."""
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Event, Cluster]] = []
    is_ready = threading.Event()

    async def serve(data: Path) -> None:
        stop = asyncio.Event()
        async with cluster(data) as running:
            started.append((asyncio.get_running_loop(), stop, running))
            is_ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve(store_path)), name="servers")
    thread.start()
    assert is_ready.wait(60)
    loop, stop, running = started[0]
    yield running
    loop.call_soon_threadsafe(stop.set)
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture
def load(spark: SparkSession, servers: Cluster) -> Load:
    """``load(subscribe="orders")``: a frame of these servers' messages."""

    def frame(schema: str | None = None, **options: str) -> DataFrame:
        reader = spark.read.format("rocketpipe").option("nameServer", servers.name_server)
        reader = reader.options(**options)
        return (reader.schema(schema) if schema else reader).load()

    return frame


@pytest.fixture(scope="session")
def send(servers: Cluster) -> Send:
    """``send("orders", [b"one", b"two"], tags="new")``"""

    def send_all(topic: str, bodies: Sequence[bytes], **parts: Any) -> None:
        async def work() -> None:
            async with Producer(servers.name_server) as producer:
                for body in bodies:
                    await producer.send(topic, body, timeout_ms=30_000, **parts)

        asyncio.run(work())

    return send_all


@pytest.fixture(scope="session")
def send_raw(servers: Cluster) -> SendRaw:
    """Send what no producer of ours would, straight to the broker."""

    def send_one(topic: str, body: bytes, **fields: Any) -> None:
        request = SendMessage(
            producer_group="strangers",
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=4,
            body=body,
            **{"queue_id": 0, "sys_flag": 0, "born_timestamp": 0, "flag": 0} | fields,
        )

        async def work() -> None:
            async with Caller() as caller:
                await caller.call(servers.broker, request, 30_000)

        asyncio.run(work())

    return send_one
