"""Planning and reading, against real servers, without Spark."""

from __future__ import annotations

import dataclasses
import gc
import zlib
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from rocketpipe.errors import ConnectionLost, NoRoute
from rocketpipe.model.flags import Compression, with_compression
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.pipeline.batch import BatchReader, MessagesGone
from rocketpipe.pipeline.options import ReadOptions
from rocketpipe.pipeline.rows import BATCH_ROWS, SCHEMA, ColumnError, UnreadableMessage
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.testing import Cluster

NUMBERS = StructType([SCHEMA["queue_id"], SCHEMA["queue_offset"], SCHEMA["body"]])


def reader(servers: Cluster, *topics: str, schema: StructType = NUMBERS) -> BatchReader:
    return BatchReader(ReadOptions(servers.name_server, topics, "spark"), schema)


def rows_of(reading: BatchReader, part: InputPartition) -> list[dict[str, Any]]:
    return [row for batch in reading.read(part) for row in batch.to_pylist()]


def open_to(address: str) -> int:
    """How many connections this process holds open to a server."""
    gc.collect()
    return sum(
        isinstance(thing, PeerConnection) and thing.is_open and thing.address == address
        for thing in gc.get_objects()
    )


def test_each_queue_with_messages_is_read_from_its_start_to_its_end(
    servers: Cluster, send: Any
) -> None:
    send("batch-whole", [b"%d" % number for number in range(203)])
    reading = reader(servers, "batch-whole")
    parts = reading.partitions()
    assert [part.queue.queue_id for part in parts] == [0, 1, 2, 3]
    assert {part.address for part in parts} == {servers.broker}
    rows = [row for part in parts for row in rows_of(reading, part)]
    assert sorted(int(row["body"]) for row in rows) == list(range(203))
    places = [(row["queue_id"], row["queue_offset"]) for row in rows]
    assert places == [(part.queue.queue_id, at) for part in parts for at in range(part.end)]


def test_what_comes_after_the_plan_is_not_read(servers: Cluster, send_raw: Any) -> None:
    send_raw("batch-later", b"before")
    reading = reader(servers, "batch-later")
    [part] = reading.partitions()
    send_raw("batch-later", b"after")
    assert [row["body"] for row in rows_of(reading, part)] == [b"before"]
    assert [row["body"] for row in rows_of(reading, reading.partitions()[0])] == [
        b"before",
        b"after",
    ]


def test_a_topic_without_messages_has_no_parts_and_the_one_spark_makes_up_is_empty(
    servers: Cluster,
) -> None:
    reading = reader(servers, AUTO_CREATE_TOPIC)
    assert reading.partitions() == []
    assert rows_of(reading, InputPartition(None)) == []


def test_several_topics_are_planned_together(servers: Cluster, send_raw: Any) -> None:
    send_raw("batch-two", b"x", queue_id=1)
    send_raw("batch-one", b"x", queue_id=3)
    parts = reader(servers, "batch-two", "batch-one").partitions()
    assert [(part.queue.topic, part.queue.queue_id) for part in parts] == [
        ("batch-one", 3),
        ("batch-two", 1),
    ]


def test_closing_a_read_early_ends_its_connection(servers: Cluster, send_raw: Any) -> None:
    for number in range(BATCH_ROWS + 1):
        send_raw("batch-early", b"%d" % number)
    reading = reader(servers, "batch-early")
    batches = reading.read(reading.partitions()[0])
    first = next(batches)
    assert isinstance(first, pa.RecordBatch)
    assert first.num_rows == BATCH_ROWS
    assert open_to(servers.broker) == 1
    batches.close()
    assert open_to(servers.broker) == 0


def test_a_read_that_nobody_finishes_ends_its_connection_too(
    servers: Cluster, send_raw: Any
) -> None:
    send_raw("batch-dropped", b"x")
    reading = reader(servers, "batch-dropped")
    batches = reading.read(reading.partitions()[0])
    next(batches)
    del batches
    assert open_to(servers.broker) == 0


def test_a_read_that_fails_ends_its_connection(servers: Cluster, send_raw: Any) -> None:
    zlib_flag = with_compression(0, Compression.ZLIB)
    send_raw("batch-damaged", zlib.compress(b"fine"), sys_flag=zlib_flag)
    send_raw("batch-damaged", b"not zlib at all", sys_flag=zlib_flag)
    reading = reader(servers, "batch-damaged")
    [part] = reading.partitions()
    with pytest.raises(UnreadableMessage, match="message 1 in queue 0 of broker 'broker-a'"):
        rows_of(reading, part)
    assert open_to(servers.broker) == 0


@pytest.mark.parametrize(("start", "end", "missing"), [(0, 3, 2), (5, 6, 5)])
def test_messages_that_are_gone_are_missed_loudly(
    servers: Cluster, send_raw: Any, start: int, end: int, missing: int
) -> None:
    topic = f"batch-gone-{missing}"
    send_raw(topic, b"one")
    send_raw(topic, b"two")
    reading = reader(servers, topic)
    [part] = reading.partitions()
    planned = dataclasses.replace(part, start=QueueOffset(start), end=QueueOffset(end))
    with pytest.raises(MessagesGone, match=f"message {missing} in queue 0 .* removed") as caught:
        rows_of(reading, planned)
    assert caught.value.offset == missing


def test_an_unknown_topic_fails_in_the_plan(servers: Cluster) -> None:
    with pytest.raises(NoRoute, match="'batch-nowhere'"):
        reader(servers, "batch-nowhere").partitions()


def test_a_name_server_out_of_reach_fails_in_the_plan() -> None:
    options = ReadOptions("127.0.0.1:1", ("orders",), "spark")
    with pytest.raises(ConnectionLost, match="no NameServer answers"):
        BatchReader(options, NUMBERS).partitions()


def test_a_schema_that_messages_cannot_fill_fails_before_the_plan(servers: Cluster) -> None:
    with pytest.raises(ColumnError, match="'colour'"):
        reader(servers, "orders", schema=StructType().add("colour", "string"))
