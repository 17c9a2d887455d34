"""A query whose topics are led by another broker from one moment to the next."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql import SparkSession
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.pipeline.live.test_following import patiently, wait_for
from tests.pipeline.support.sinks import read_topic
from tests.waiting import PATIENCE_S

from rocketpipe import Admin, Producer

ResultT = TypeVar("ResultT")


class Beside:
    """Runs what a blocking test asks for on a loop in another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)


@contextmanager
def beside() -> Iterator[Beside]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="brokers")
    thread.start()
    try:
        yield Beside(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


@contextmanager
def three_brokers(root: Path, run: Beside) -> Iterator[ElectedGroup]:
    made = elected_group(root)
    group = run(made.__aenter__())
    try:
        run(group.three())
        run(create(group, "spark-in", "spark-out"))
        yield group
    finally:
        run(made.__aexit__(None, None, None))


async def create(group: ElectedGroup, *topics: str) -> None:
    async with Admin(group.name_server) as admin:
        for topic in topics:
            await admin.topics.create(topic, queues=1)


async def send(group: ElectedGroup, first: int, *, lost: int | None = None) -> None:
    async with Producer(group.name_server, timeout_ms=20_000) as producer:
        sends = [
            asyncio.create_task(producer.send("spark-in", b"%d" % number))
            for number in range(first, first + 50)
        ]
        if lost is not None:
            await group.lose(lost)
        await asyncio.gather(*sends)


@pytest.mark.spark
@pytest.mark.soak  # the client's own failover is in scenarios; the demo has one under a pipeline
def test_a_query_reads_and_writes_on_when_another_broker_leads(
    spark: SparkSession, tmp_path: Path
) -> None:
    with beside() as run, three_brokers(tmp_path / "brokers", run) as group:

        def copied() -> list[int]:
            return [int(each.body) for each in run(read_topic(group.name_server, "spark-out"))]

        def copy() -> None:
            frame = spark.readStream.format("rocketpipe").options(
                nameServer=group.name_server, subscribe="spark-in", startingOffsets="earliest"
            )
            query = (
                frame.load()
                .select("body")
                .writeStream.format("rocketpipe")
                .options(nameServer=group.name_server, topic="spark-out")
                .option("checkpointLocation", str(tmp_path / "kept"))
                .start()
            )
            try:
                wait_for(lambda: len(copied()) >= 50, query)
                run(group.in_sync(1, 2, 3))
                run(send(group, 50, lost=run(group.leader())))
                wait_for(lambda: len(set(copied())) >= 100, query)
            finally:
                query.stop()

        run(send(group, 0))
        patiently(copy)
        assert sorted(set(copied())) == list(range(100))
        assert len(copied()) == len(run(read_topic(group.name_server, "spark-in")))
