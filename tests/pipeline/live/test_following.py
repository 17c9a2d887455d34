"""Real topics, followed batch by batch: by the reader itself, and by a query of Spark."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadAllAvailable

from rocketpipe.client.admin.admin import Admin
from rocketpipe.pipeline.columns.rows import SCHEMA
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.planning.gaps import MessagesGone
from rocketpipe.pipeline.stream import StreamReader
from rocketpipe.testing import Cluster

ResultT = TypeVar("ResultT")


def test_a_real_topic_is_deleted_and_made_anew_under_a_query(
    servers: Cluster, send: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def opened(**more: str) -> StreamReader:
        given = {"nameServer": servers.name_server, "subscribe": "come-and-go", **more}
        return StreamReader(ReadOptions.parse(given | {"startingOffsets": "earliest"}), SCHEMA)

    def delete() -> None:
        async def work() -> None:
            async with Admin(servers.name_server) as admin:
                await admin.topics.delete("come-and-go")

        asyncio.run(work())

    send("come-and-go", [b"old %d" % number for number in range(20)])
    made = opened()
    begin = made.initialOffset()
    half = made.latestOffset(begin, ReadAllAvailable())
    assert len(list(rows(made, begin, half))) == 20
    delete()
    with caplog.at_level(logging.WARNING, "rocketpipe.pipeline"):
        assert made.latestOffset(half, ReadAllAvailable()) == half
    assert "topic" in caplog.text
    # A batch that was planned and not read is lost with its topic, and that is a gap.
    for again in (made, opened()):
        with pytest.raises(MessagesGone, match="no messages 0 to "):
            list(rows(again, begin, half))
        again.stop()
    skipping = opened(onGap="skip")
    assert list(rows(skipping, begin, half)) == []
    skipping.stop()
    # Our brokers number on where the old topic ended, so that what is new is behind what was read.
    send("come-and-go", [b"new %d" % number for number in range(40)])
    failing = opened()
    wait_until(lambda: "come-and-go" in failing._open().topics())
    end = failing.latestOffset(half, ReadAllAvailable())
    bodies = [row["body"] for row in rows(failing, half, end)]
    assert sorted(bodies) == sorted(b"new %d" % number for number in range(40))
    failing.stop()


def rows(made: StreamReader, start: Any, end: Any) -> Iterator[dict[str, Any]]:
    for part in made.partitions(start, end):
        for batch in made.read(part):
            yield from batch.to_pylist()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.mark.spark
def test_a_query_follows_topics_through_restarts_and_its_group_shows_the_lag(
    servers: Cluster, send: Any, spark: SparkSession, tmp_path: Path
) -> None:
    send("stream-1", [b"%d" % number for number in range(40)])
    sent = {("stream-1", b"%d" % number) for number in range(40)}
    options = {
        "nameServer": servers.name_server,
        "subscribePattern": "stream-[0-9]",
        "startingOffsets": "earliest",
        "groupId": "stream-job",
        "maxOffsetsPerTrigger": "25",
        "columns": "topic,queue_id,queue_offset,body",
    }

    def started(**trigger: Any) -> StreamingQuery:
        frame = spark.readStream.format("rocketpipe").options(**options).load()
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        return (
            writer.option("checkpointLocation", str(tmp_path / "kept")).trigger(**trigger).start()
        )

    query = patiently(lambda: to_its_end(started(availableNow=True)))
    assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == [25, 15]
    # A query that goes on sees a topic that was not there when it began.
    send("stream-1", [b"more"])

    def sees_all() -> None:
        query = started(processingTime="0 seconds")
        try:
            wait_for(lambda: lag(servers, "stream-job", "stream-1") == 0, query)
            send("stream-2", [b"late"])
            wait_for(lambda: topics_told(query) == {"stream-1", "stream-2"}, query)
            wait_for(lambda: lag(servers, "stream-job", "stream-2") == 0, query)
        finally:
            query.stop()

    patiently(sees_all)
    send("stream-1", [b"after"] * 3)
    assert lag(servers, "stream-job", "stream-1") == 3
    patiently(lambda: to_its_end(started(availableNow=True)))
    assert lag(servers, "stream-job", "stream-1") == 0
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert len({(row.topic, row.queue_id, row.queue_offset) for row in rows}) == len(rows)
    assert sum(row.topic == "stream-1" for row in rows) == 44
    assert {bytes(row.body) for row in rows if row.topic == "stream-2"} == {b"late"}
    assert sent <= {(row.topic, bytes(row.body)) for row in rows}


def patiently(act: Callable[[], ResultT]) -> ResultT:
    """Spark gives its Pythons ten seconds to start, which a busy machine does not always have."""
    for _ in range(4):
        try:
            return act()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
    return act()


def topics_told(query: StreamingQuery) -> set[str]:
    """The topics of which a query's progress speaks."""
    progress = query.lastProgress
    told = progress.sources[0].latestOffset if progress is not None else None
    return {*json.loads(told)["topics"]} if told is not None else set()


def to_its_end(query: StreamingQuery) -> StreamingQuery:
    assert query.awaitTermination(120)
    return query


def wait_for(holds: Callable[[], bool], query: StreamingQuery) -> None:
    deadline_s = time.monotonic() + 90
    while not holds():
        if (failed := query.exception()) is not None:
            raise failed
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def lag(servers: Cluster, group: str, topic: str) -> int:
    async def ask() -> int:
        async with Admin(servers.name_server) as admin:
            return sum(place.lag for place in await admin.offsets.of_group(group, topic))

    return asyncio.run(ask())
