"""Planning and reading what is there, against real servers, without Spark."""

from __future__ import annotations

import dataclasses
import gc
import logging
import pickle
import zlib
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    StringContains,
)
from tests.pipeline.support.fake_offsets import FakePlaces

from rocketpipe.errors import ConnectionLost
from rocketpipe.model.flags import Compression, with_compression
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.pipeline import batch as batch_module
from rocketpipe.pipeline.batch import BatchReader, FilteringBatchReader
from rocketpipe.pipeline.columns.rows import SCHEMA, ColumnError, UnreadableMessage
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.partition import SparkPartition
from rocketpipe.pipeline.planning.gaps import MessagesGone
from rocketpipe.pipeline.planning.offset_reader import QueuesUnreachable, UnknownTopic
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.testing import Cluster

NUMBERS = pa.schema([SCHEMA.field(name) for name in ("queue_id", "queue_offset", "body")])


def reader(
    servers: Cluster, topics: str, schema: pa.Schema = NUMBERS, **options: str
) -> FilteringBatchReader:
    given = {"nameServer": servers.name_server, "subscribe": topics, **options}
    return FilteringBatchReader(ReadOptions.parse(given), schema)


def rows_of(reading: BatchReader, part: InputPartition) -> list[dict[str, Any]]:
    return [row for batch in reading.read(part) for row in batch.to_pylist()]


def all_rows(reading: BatchReader) -> list[dict[str, Any]]:
    return [row for part in reading.partitions() for row in rows_of(reading, part)]


def spans(reading: BatchReader) -> list[tuple[str, int, int, int]]:
    return [
        (each.queue.topic, each.queue.queue_id, each.start, each.end)
        for part in reading.partitions()
        for each in part.ranges
    ]


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
    [part] = reading.partitions()  # so little needs one task
    assert part.addresses == {"broker-a": servers.broker}
    assert [each.queue.queue_id for each in part.ranges] == [0, 1, 2, 3]
    rows = rows_of(reading, part)
    assert sorted(int(row["body"]) for row in rows) == list(range(203))
    places = [(row["queue_id"], row["queue_offset"]) for row in rows]
    assert places == [(each.queue.queue_id, at) for each in part.ranges for at in range(each.end)]
    shared = reader(servers, "batch-whole", minPartitions="8")
    assert len(shared.partitions()) >= 8
    assert sorted(int(row["body"]) for row in all_rows(shared)) == list(range(203))


def test_what_comes_after_the_plan_is_not_read(servers: Cluster, send_raw: Any) -> None:
    send_raw("batch-later", b"before")
    reading = reader(servers, "batch-later")
    [part] = reading.partitions()
    send_raw("batch-later", b"after")
    assert [row["body"] for row in rows_of(reading, part)] == [b"before"]
    assert [row["body"] for row in all_rows(reading)] == [b"before", b"after"]


def test_a_topic_without_messages_has_no_parts_and_the_one_spark_makes_up_is_empty(
    servers: Cluster,
) -> None:
    reading = reader(servers, AUTO_CREATE_TOPIC)
    assert reading.partitions() == []
    assert rows_of(reading, InputPartition(None)) == []


def test_offsets_say_where_to_begin_and_end(servers: Cluster, send_raw: Any) -> None:
    for number in range(6):
        send_raw("batch-edges", b"%d" % number, queue_id=number % 2)
    some = '{"batch-edges": {"broker-a": {"0": 1}}}'
    assert spans(reader(servers, "batch-edges", startingOffsets=some)) == [
        ("batch-edges", 0, 1, 3),
        ("batch-edges", 1, 0, 3),
    ]
    assert spans(reader(servers, "batch-edges", endingOffsets=some)) == [
        ("batch-edges", 0, 0, 1),
        ("batch-edges", 1, 0, 3),
    ]
    assert spans(reader(servers, "batch-edges", endingTimestamp="1000")) == []
    assert len(spans(reader(servers, "batch-edges", startingTimestamp="1000"))) == 2
    with pytest.raises(OptionError, match="'endingOffsets' names queue 7"):
        spans(
            reader(servers, "batch-edges", endingOffsets='{"batch-edges": {"broker-a": {"7": 1}}}')
        )


def test_conditions_narrow_the_plan_and_those_that_need_it_stay_with_spark(
    servers: Cluster, send_raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(8):
        send_raw("batch-push", b"%d" % number, queue_id=number % 2)
    reading = reader(servers, "batch-push,batch-whole2")
    send_raw("batch-whole2", b"x")
    conditions = [
        EqualTo(("topic",), "batch-push"),
        EqualTo(("queue_id",), 1),
        GreaterThanOrEqual(("queue_offset",), 1),
        LessThan(("queue_offset",), 3),
    ]
    by_rows = [In(("queue_id",), (1, 7)), StringContains(("topic",), "push")]
    assert list(reading.pushFilters([*conditions, *by_rows])) == by_rows
    with caplog.at_level(logging.INFO):
        assert spans(reading) == [("batch-push", 1, 1, 3)]
    assert (
        "read planned topics=batch-push queues=1 messages=2 tasks=1 "
        "conditions=topic:['batch-push'] queue_id:[1] queue_offset:[1, 3]"
    ) in caplog.text
    # What was learnt goes with the reader to its tasks.
    assert [row["body"] for row in all_rows(pickle.loads(pickle.dumps(reading)))] == [b"3", b"5"]


def test_only_messages_of_the_keys_asked_for_are_given(servers: Cluster, send: Any) -> None:
    for key in ("k1", "k2", "k3"):
        send("batch-keys", [key.encode()], keys=[key, "all"])
    found = all_rows(reader(servers, "batch-keys", keys="k1,k3"))
    assert sorted(row["body"] for row in found) == [b"k1", b"k3"]


def test_closing_a_read_early_ends_its_connection(servers: Cluster, send_raw: Any) -> None:
    for number in range(11):
        send_raw("batch-early", b"%d" % number)
    reading = reader(servers, "batch-early", batchRows="10")
    batches = reading.read(reading.partitions()[0])
    first = next(batches)
    assert isinstance(first, pa.RecordBatch)
    assert first.num_rows == 10
    batches.close()
    assert open_to(servers.broker) == 0


def test_a_read_that_fails_ends_its_connection(servers: Cluster, send_raw: Any) -> None:
    zlib_flag = with_compression(0, Compression.ZLIB)
    send_raw("batch-damaged", zlib.compress(b"fine"), sys_flag=zlib_flag)
    send_raw("batch-damaged", b"not zlib at all", sys_flag=zlib_flag)
    reading = reader(servers, "batch-damaged")
    with pytest.raises(UnreadableMessage, match="message 1 in queue 0 of broker 'broker-a'"):
        all_rows(reading)
    assert open_to(servers.broker) == 0


def test_messages_that_are_gone_are_missed_loudly(servers: Cluster, send_raw: Any) -> None:
    send_raw("batch-gone", b"one")
    send_raw("batch-gone", b"two")
    reading = reader(servers, "batch-gone")
    [part] = reading.partitions()
    longer = dataclasses.replace(part.ranges[0], end=QueueOffset(5))
    with pytest.raises(MessagesGone, match="no messages 2 to 4 any more"):
        rows_of(reading, SparkPartition((longer,), part.addresses))
    skipping = reader(servers, "batch-gone", onGap="skip")
    assert len(rows_of(skipping, SparkPartition((longer,), part.addresses))) == 2


def offsets(offset: int) -> str:
    return f'{{"orders": {{"a": {{"0": {offset}}}}}}}'


@pytest.mark.parametrize(
    ("option", "offset", "error", "said", "left"),
    [
        ("startingOffsets", 1, MessagesGone, "no messages 1 to 2 any more", (3, 7)),
        ("startingOffsets", 8, OptionError, "has 8 for queue 0 of 'orders' .* ends at 7", None),
        ("endingOffsets", 9, OptionError, "has 9 for queue 0 of 'orders' .* ends at 7", (3, 7)),
    ],
)
def test_offsets_that_a_queue_does_not_have_are_refused_or_cut(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    option: str,
    offset: int,
    error: type[Exception],
    said: str,
    left: tuple[int, int] | None,
) -> None:
    monkeypatch.setattr(
        batch_module, "open_offsets", lambda options: FakePlaces({"orders/a/0": (3, 7)})
    )
    given = {"nameServer": "a:1", "subscribe": "orders", option: offsets(offset)}
    with pytest.raises(error, match=said):
        BatchReader(ReadOptions.parse(given), NUMBERS).partitions()
    skipping = BatchReader(ReadOptions.parse(given | {"onGap": "skip"}), NUMBERS)
    with caplog.at_level(logging.WARNING, "rocketpipe.pipeline"):
        assert spans(skipping) == ([("orders", 0, *left)] if left else [])
    assert "skipped" in caplog.text or "the end is taken" in caplog.text


def test_a_start_at_the_end_reads_nothing_and_one_behind_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        batch_module, "open_offsets", lambda options: FakePlaces({"orders/a/0": (3, 7)})
    )
    given = {"nameServer": "a:1", "subscribe": "orders"}
    at_end = BatchReader(ReadOptions.parse(given | {"startingOffsets": offsets(7)}), NUMBERS)
    assert spans(at_end) == []
    crossed = given | {"startingOffsets": offsets(6), "endingOffsets": offsets(5)}
    with pytest.raises(OptionError, match=r"'endingOffsets' has 5 .* begins at 6"):
        BatchReader(ReadOptions.parse(crossed), NUMBERS).partitions()


def test_a_broker_that_does_not_answer_fails_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    places = FakePlaces({"orders/a/0": (3, 7)})
    places.silent.add("a")
    monkeypatch.setattr(batch_module, "open_offsets", lambda options: places)
    options = ReadOptions.parse({"nameServer": "a:1", "subscribe": "orders"})
    with pytest.raises(QueuesUnreachable, match="broker 'a'"):
        BatchReader(options, NUMBERS).partitions()
    assert places.is_closed


@pytest.mark.parametrize(
    ("schema", "count", "told"),
    [(SCHEMA, 1 << 20, True), (SCHEMA, 10, False), (NUMBERS, 1 << 20, False)],
)
def test_who_reads_all_columns_of_much_is_told_how_to_read_less(
    schema: pa.Schema,
    count: int,
    told: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    places = FakePlaces({"orders/a/0": (0, count)})
    monkeypatch.setattr(batch_module, "open_offsets", lambda options: places)
    options = ReadOptions.parse({"nameServer": "a:1", "subscribe": "orders"})
    BatchReader(options, schema).partitions()
    assert ("all columns of 1048576 messages are read" in caplog.text) is told


def test_an_unknown_topic_fails_in_the_plan(servers: Cluster) -> None:
    with pytest.raises(UnknownTopic, match="'batch-nowhere'"):
        reader(servers, "batch-nowhere").partitions()


def test_a_name_server_out_of_reach_fails_in_the_plan() -> None:
    options = ReadOptions.parse({"nameServer": "127.0.0.1:1", "subscribe": "orders"})
    with pytest.raises(ConnectionLost, match="no NameServer answers"):
        BatchReader(options, NUMBERS).partitions()


def test_what_cannot_be_read_fails_before_the_plan(servers: Cluster) -> None:
    with pytest.raises(ColumnError, match="'colour'"):
        reader(servers, "orders", schema=pa.schema([("colour", pa.string())]))
    with pytest.raises(OptionError, match="'startingOffsets' is latest"):
        reader(servers, "orders", startingOffsets="latest")


def test_a_pattern_that_fits_nothing_is_an_empty_frame_and_told(
    servers: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"nameServer": servers.name_server, "subscribePattern": "no-such-.*"}
    assert BatchReader(ReadOptions.parse(given), NUMBERS).partitions() == []
    assert "no topic fits pattern=no-such-.*" in caplog.text
