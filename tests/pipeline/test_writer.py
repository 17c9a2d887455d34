"""Writers as Spark uses them: made and committed on the driver, writing in tasks."""

from __future__ import annotations

import asyncio
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from tests.pipeline.support.sinks import messages_in

from rocketpipe.client.session import Session
from rocketpipe.errors import BatchMismatch, ConnectionLost
from rocketpipe.pipeline.columns.write_rows import BadColumn
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.options.write import Delivery, WriteOptions
from rocketpipe.pipeline.writer import (
    AppendOnly,
    StreamRowWriter,
    Written,
    batch_writer,
    stream_writer,
)
from rocketpipe.testing import Cluster

BODY = StructType([StructField("body", BinaryType())])


def options(servers: Cluster, topic: str, **more: str) -> dict[str, str]:
    return {"nameServer": servers.name_server, "topic": topic, "delivery": "direct", **more}


def test_a_frame_is_sent_and_what_was_sent_is_told(servers: Cluster) -> None:
    writer = pickle.loads(pickle.dumps(batch_writer(options(servers, "sink-frame"), BODY, False)))
    batches = [pa.record_batch({"body": [b"%d" % n for n in range(300)]}) for _ in range(2)]
    told = pickle.loads(pickle.dumps(writer.write(iter(batches))))
    assert (told.rows, told.query, told.batch) == (600, None, None)
    assert told.attempt != writer.write(iter([])).attempt
    writer.commit([told, None])
    found = sorted(int(message.body) for message in messages_in(servers.name_server, "sink-frame"))
    assert found == sorted([*range(300)] * 2)


def test_rows_show_once_the_commit_has_returned(servers: Cluster) -> None:
    """A broker answers for what it has stored, and shows it a moment later: long ones later."""
    writer = batch_writer(options(servers, "sink-shown", batchBytes="3m"), BODY, False)
    batch = pa.record_batch({"body": [b"x" * 1_000_000] * 8})
    told = writer.write(iter([batch]))
    assert sum(end for _, end in told.ends) == 8
    writer.commit([told])
    assert shown_now(servers, "sink-shown") == 8


def shown_now(servers: Cluster, topic: str) -> int:
    async def ask() -> int:
        async with Session(servers.name_server) as session:
            route = await session.routes.get(topic)
            ends = [await session.ends_of(queue) for queue in route.readable_queues(topic)]
            return sum(end for _, end in ends)

    return asyncio.run(ask())


def test_what_cannot_work_is_found_on_the_driver(servers: Cluster) -> None:
    given = options(servers, "sink-wrong")
    with pytest.raises(AppendOnly, match=r'use \.mode\("append"\).*"Overwrite" for every source'):
        batch_writer(given, BODY, True)
    with pytest.raises(AppendOnly, match=r'use \.outputMode\("append"\)'):
        stream_writer(given, BODY, True)
    with pytest.raises(OptionError, match="nameServer"):
        batch_writer({"topic": "orders"}, BODY, False)
    with pytest.raises(BadColumn, match="'v' is unknown"):
        stream_writer(given, StructType([StructField("v", StringType())]), False)
    with pytest.raises(OptionError, match=r"'txn' is for frame\.write.* known by its checkpoint"):
        stream_writer({**given, "txn": "job"}, BODY, False)
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1\b"):
        batch_writer({**given, "nameServer": "127.0.0.1:1"}, BODY, False)


def test_rows_show_once_where_brokers_stage_and_the_job_has_a_name(
    servers: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"nameServer": servers.name_server, "topic": "sink-once"}
    with pytest.raises(OptionError, match="'txn' is missing"):
        batch_writer({**given, "delivery": "staged"}, BODY, False)
    batch_writer(given, BODY, False)
    assert "some may show twice" in caplog.text
    writer = pickle.loads(pickle.dumps(batch_writer({**given, "txn": "job-1"}, BODY, False)))
    rows = pa.record_batch({"body": [b"%d" % n for n in range(300)]})
    lost, told = (pickle.loads(pickle.dumps(writer.write(iter([rows])))) for _ in range(2))
    assert told.application == "job-1/sink-once"
    assert (told.rows, dict(told.parts)) == (300, dict(lost.parts))
    assert dict(told.contents) == dict(lost.contents)
    assert messages_in(servers.name_server, "sink-once") == []
    writer.abort([lost])
    writer.commit([told, None])
    writer.commit([lost])
    found = sorted(int(message.body) for message in messages_in(servers.name_server, "sink-once"))
    assert found == list(range(300))


def test_a_job_whose_name_wrote_something_else_fails_and_the_other_topic_is_another_job(
    servers: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def run(topic: str, *bodies: bytes, tasks: int = 1, **more: str) -> None:
        given = {"nameServer": servers.name_server, "topic": topic, "txn": "job-2", **more}
        writer = batch_writer(given, BODY, False)
        parts = [bodies[number::tasks] for number in range(tasks)]
        writer.commit([writer.write(iter([pa.record_batch({"body": some})])) for some in parts])

    run("sink-named", b"a", b"b", b"c")
    run("sink-named", b"c", b"b", b"a", tasks=2)  # the same, in other tasks and another order
    run("sink-named-too", b"x")
    with pytest.raises(BatchMismatch, match=r"3 messages to sink-named then, 2 messages") as caught:
        run("sink-named", b"x", b"y")
    assert "stagedLedgerTime" in str(caught.value)
    run("sink-named", b"x", b"y", onRepeat="skip")
    assert "is not written again" in caplog.text
    found = [message.body for message in messages_in(servers.name_server, "sink-named")]
    assert sorted(found) == [b"a", b"b", b"c"]
    [too] = messages_in(servers.name_server, "sink-named-too")
    assert too.body == b"x"


async def test_the_writer_of_a_stream_waits_for_brokers_that_are_restarted(
    servers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def served_again(options: WriteOptions, session: Session) -> bool:
        nonlocal asked
        asked += 1
        if asked % 2:
            raise ConnectionLost(servers.broker, "it is restarted")
        return True

    monkeypatch.setattr("rocketpipe.pipeline.writer.is_served", served_again)
    given = {"nameServer": servers.name_server, "topic": "sink-restarted"}
    writer = await asyncio.to_thread(stream_writer, given, BODY, False)
    assert writer._options.delivery is Delivery.STAGED
    with pytest.raises(ConnectionLost, match="it is restarted"):  # who starts a job is told at once
        await asyncio.to_thread(batch_writer, {**given, "txn": "job"}, BODY, False)
    assert asked == 3


async def test_against_brokers_that_do_not_stage_rows_are_sent_directly(
    servers: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def not_served(options: WriteOptions, session: Session) -> bool:
        return False

    monkeypatch.setattr("rocketpipe.pipeline.writer.is_served", not_served)
    given = {"nameServer": servers.name_server, "topic": "sink-elsewhere"}
    writer = await asyncio.to_thread(stream_writer, given, BODY, False)
    assert writer._options.delivery is Delivery.DIRECT
    assert "these brokers do not stage" in caplog.text
    with pytest.raises(OptionError, match="use direct"):
        await asyncio.to_thread(stream_writer, {**given, "delivery": "staged"}, BODY, False)


def test_a_stream_is_written_by_row_where_spark_has_no_arrow_for_it(servers: Cluster) -> None:
    writer = StreamRowWriter(WriteOptions(servers.name_server, "sink-rows"), BODY)
    assert isinstance(writer, DataSourceStreamWriter)
    told = writer.write(iter([(b"a",), (b"b",)]))  # type: ignore[arg-type]
    assert isinstance(told, Written)
    writer.commit([told], 3)
    found = {message.body for message in messages_in(servers.name_server, "sink-rows")}
    assert found == {b"a", b"b"}


@pytest.mark.spark
def test_spark_writes_frames_and_streams(
    spark: SparkSession, servers: Cluster, tmp_path: Any
) -> None:
    frame: DataFrame = spark.range(0, 1000, 1, 3).selectExpr(
        "concat('row ', id) AS body",
        "array(concat('k', id)) AS keys",
        "if(id % 2 = 0, 'even', null) AS tags",
        "map('n', cast(id as string)) AS properties",
        "id % 5 AS queue_key",
    )
    given = options(servers, "sink-spark")
    frame.write.format("rocketpipe").options(**given).mode("append").save()
    found = messages_in(servers.name_server, "sink-spark")
    assert sorted(message.body for message in found) == sorted(b"row %d" % n for n in range(1000))
    assert all(message.keys == (f"k{message.properties['n']}",) for message in found)
    assert sum(message.tags == "even" for message in found) == 500
    with pytest.raises(Exception, match="a topic is only appended to"):
        frame.write.format("rocketpipe").options(**given).mode("overwrite").save()
    with pytest.raises(Exception, match="column 'body' of row 0 of this partition: is NULL") as it:
        frame.selectExpr("nullif(body, body) AS body").write.format("rocketpipe").options(
            **given
        ).mode("append").save()
    assert "Traceback" not in str(it.value)
    for _ in range(2):  # the same job a second time sends nothing more
        job = frame.write.format("rocketpipe").options(nameServer=servers.name_server)
        job.options(topic="sink-job", txn="nightly").mode("append").save()
    found = messages_in(servers.name_server, "sink-job")
    assert sorted(message.body for message in found) == sorted(b"row %d" % n for n in range(1000))
    frame.write.mode("overwrite").parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "rows"))
    for _ in range(2):
        writing = (
            stream.writeStream.format("rocketpipe")
            .options(nameServer=servers.name_server, topic="sink-stream")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        writing.awaitTermination()
        # As after a death between our commit and Spark's own: the batch is run again.
        (tmp_path / "checkpoint" / "commits" / "0").unlink()
        (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink()
    found = messages_in(servers.name_server, "sink-stream")
    assert sorted(message.body for message in found) == sorted(b"row %d" % n for n in range(1000))


@pytest.mark.spark
def test_sinks_in_foreach_batch_write_each_micro_batch_once(
    spark: SparkSession, servers: Cluster, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"

    def sink(frame: DataFrame, topic: str, txn: str = "both") -> None:
        writer = frame.write.format("rocketpipe").option("nameServer", servers.name_server)
        writer.options(topic=topic, txn=txn).mode("append").save()

    def run(sinks: Callable[[DataFrame, int], None], where: Path = checkpoint) -> None:
        stream = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", "1")
        query = (
            stream.parquet(str(source))
            .writeStream.foreachBatch(sinks)
            .option("checkpointLocation", str(where))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def bodies(topic: str) -> list[bytes]:
        return sorted(message.body for message in messages_in(servers.name_server, topic))

    def forget_the_last_commit() -> None:
        """As after a death between our commit and Spark's own: the batch is run again."""
        last = max(int(name.name) for name in (checkpoint / "commits").glob("[0-9]*"))
        (checkpoint / "commits" / str(last)).unlink()
        (checkpoint / "commits" / f".{last}.crc").unlink()

    for start in (0, 10):
        spark.range(start, start + 10, 1, 1).write.mode("append").parquet(str(source))

    def two_topics(frame: DataFrame, batch: int) -> None:
        rows = frame.selectExpr("concat('row ', id) AS body", "id")
        sink(rows.where("id % 2 = 0").select("body"), "each-even")
        sink(rows.where("id % 2 = 1").select("body"), "each-odd")

    wanted = [b"row %d" % number for number in range(20)]
    for _ in range(2):
        run(two_topics)
        assert bodies("each-even") == sorted(wanted[::2])
        assert bodies("each-odd") == sorted(wanted[1::2])
        forget_the_last_commit()

    def random_rows(frame: DataFrame, batch: int) -> None:  # whoever replays it has other rows
        sink(frame.selectExpr("uuid() AS body"), "each-odd")
        sink(frame.selectExpr("concat(id, uuid()) AS body"), "each-new", txn="new")

    run(random_rows)
    assert bodies("each-odd") == sorted(wanted[1::2])
    assert len(bodies("each-new")) == 10
    forget_the_last_commit()

    def twice_the_same_topic(frame: DataFrame, batch: int) -> None:
        sink(frame.selectExpr("concat('first ', id) AS body"), "each-twice")
        sink(frame.selectExpr("concat('second ', id) AS body"), "each-twice")

    with pytest.raises(Exception, match="was committed before with other messages"):
        run(twice_the_same_topic)
    # A copy of the checkpoint, whose rows go elsewhere.
    copied = tmp_path / "copied"
    shutil.copytree(checkpoint, copied)
    run(lambda frame, _: sink(frame.selectExpr("concat('c', id) AS body"), "each-copy"), copied)
    assert len(bodies("each-copy")) == 10
