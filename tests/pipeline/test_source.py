"""The source, as Spark's users see it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import zlib
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rocketpipe import PullConsumer
from rocketpipe.model.flags import Compression, with_compression
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.properties import encode
from rocketpipe.pipeline.launch import LOG_NAME
from rocketpipe.pipeline.options import OptionError
from rocketpipe.pipeline.rows import BATCH_ROWS, SCHEMA
from rocketpipe.pipeline.source import NotYet, RocketPipeSource
from rocketpipe.testing import Cluster


def test_being_found_costs_neither_arrow_nor_a_reader() -> None:
    """Spark imports the source of everybody who is installed, whichever is used."""
    program = (
        "import sys, pyspark_rocketpipe as found\n"
        "print(found.DefaultSource.name(), 'rocketpipe.pipeline.batch' in sys.modules)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout == "rocketpipe False\n"


def test_wrong_options_fail_when_the_schema_is_asked_for() -> None:
    with pytest.raises(OptionError, match="'nameServer' is missing"):
        RocketPipeSource({"subscribe": "orders"}).schema()
    with pytest.raises(OptionError, match="'nameServer' is missing"):
        RocketPipeSource({"subscribe": "orders"}).reader(SCHEMA)


def test_what_it_cannot_do_yet_it_says() -> None:
    source = RocketPipeSource({})
    with pytest.raises(NotYet, match=r"rocketpipe\.Producer"):
        source.writer(StructType(), overwrite=False)
    with pytest.raises(NotYet, match=r"rocketpipe\.Producer"):
        source.streamWriter(StructType(), overwrite=False)
    with pytest.raises(NotYet, match=r"spark\.read"):
        source.streamReader(StructType())


@pytest.mark.spark
def test_every_column_arrives_with_its_type_and_value(
    servers: Cluster, send_raw: Any, load: Any
) -> None:
    named = {"KEYS": "A1 B2", "TAGS": "paid", "UNIQ_KEY": "0123456789ABCDEF", "colour": "rosé"}
    body = b"so much text " * 1000
    flag = with_compression(0, Compression.ZLIB)
    assert flag == 1 | 768
    send_raw(
        "source-columns",
        zlib.compress(body),
        queue_id=2,
        sys_flag=flag,
        born_timestamp=1_700_000_000_123,
        properties=encode(named),
        reconsume_times=3,
    )
    frame = load(subscribe="source-columns")
    assert frame.schema == SCHEMA
    [row] = frame.collect()
    assert row.topic == "source-columns"
    assert row.broker == "broker-a"
    assert (row.queue_id, row.queue_offset) == (2, 0)
    assert row.log_offset >= 0
    assert row["keys"] == ["A1", "B2"]
    assert row.tags == "paid"
    assert row.body == body
    assert named.items() <= row.properties.items()
    # Spark gives times without a zone, in that of the machine.
    assert row.born_timestamp == datetime.fromtimestamp(1_700_000_000.123)
    assert row.store_timestamp > row.born_timestamp
    assert row.message_id == "0123456789ABCDEF"
    assert row.reconsume_times == 3
    assert row.sys_flag == flag


@pytest.mark.spark
def test_what_a_message_lacks_is_null_or_empty(send_raw: Any, load: Any) -> None:
    send_raw("source-bare", b"", born_timestamp=(1 << 63) - 1)
    [row] = load(subscribe="source-bare").collect()
    assert row.body == b""
    assert row["keys"] == []
    assert row.tags is None
    assert row.born_timestamp is None
    assert len(row.message_id) == 32  # the place of the message, as hex


@pytest.mark.spark
def test_counts_are_those_of_a_consumer_and_the_same_each_time(
    servers: Cluster, send: Any, load: Any
) -> None:
    for city, count in {"Lima": 70, "Oslo": 40, "Rome": 1}.items():
        send("source-counts", [b"%d" % number for number in range(count)], keys=[city])

    async def consume() -> Counter[str]:
        seen: Counter[str] = Counter()
        async with PullConsumer(servers.name_server, group="counting") as consumer:
            await consumer.subscribe("source-counts")
            while seen.total() < 111 and (messages := await consumer.poll(timeout_ms=20_000)):
                seen.update(key for message in messages for key in message.keys)
        return seen

    consumed = asyncio.run(consume())
    assert consumed == {"Lima": 70, "Oslo": 40, "Rome": 1}
    frame = load(subscribe="source-counts")
    for _ in range(2):
        rows = frame.selectExpr("explode(keys) AS key").groupBy("key").count().collect()
        assert {row["key"]: row["count"] for row in rows} == consumed
    assert frame.select("queue_id", "queue_offset").distinct().count() == 111


@pytest.mark.spark
def test_a_schema_chooses_the_columns(send: Any, load: Any) -> None:
    send("source-schema", [b"a", b"b", b"c"])
    frame = load("queue_offset BIGINT NOT NULL, body BINARY", subscribe="source-schema")
    assert frame.columns == ["queue_offset", "body"]
    assert sorted(row.body for row in frame.collect()) == [b"a", b"b", b"c"]


@pytest.mark.spark
def test_several_topics_are_read_together(send: Any, load: Any) -> None:
    send("source-north", [b"1", b"2"])
    send("source-south", [b"3"])
    rows = load(subscribe="source-north, source-south").groupBy("topic").count().collect()
    assert {row["topic"]: row["count"] for row in rows} == {"source-north": 2, "source-south": 1}


@pytest.mark.spark
def test_a_topic_without_messages_is_an_empty_frame(load: Any) -> None:
    assert load(subscribe=AUTO_CREATE_TOPIC).collect() == []


@pytest.mark.spark
def test_a_limit_takes_what_it_needs_and_nothing_complains(
    send: Any, load: Any, spark_scratch: Path
) -> None:
    send("source-limit", [b"x"] * 4 * (BATCH_ROWS + 100))
    log = spark_scratch / LOG_NAME
    before = log.stat().st_size
    assert len(load(subscribe="source-limit").limit(3).collect()) == 3
    with log.open("rb") as file:
        file.seek(before)
        said = file.read().decode()
    assert "Traceback" not in said
    assert "Warning" not in said


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option 'subscribe' is missing: add .option("),
        ({"subscribe": "a b"}, "option 'subscribe' is wrong: topic 'a b'"),
        ({"subscribe": "a", "nameServer": ""}, "option 'nameServer' is missing"),
        ({"subscribe": "a", "nameServer": "nowhere"}, "'nowhere' is not host:port"),
        ({"subscribe": "a", "groupIdd": "g"}, "option 'groupidd' is unknown: did you mean"),
    ],
)
def test_a_wrong_option_fails_at_load(load: Any, options: dict[str, str], said: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(**options)
    assert said in str(caught.value)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("schema", "options", "said"),
    [
        (None, {"subscribe": "source-nowhere"}, "no route for topic 'source-nowhere'"),
        (None, {"subscribe": "a", "nameServer": "127.0.0.1:1"}, "no NameServer answers"),
        ("colour STRING", {"subscribe": "a"}, "column 'colour' is unknown: there are topic,"),
        ("queue_id STRING", {"subscribe": "a"}, "column 'queue_id' is int, not string"),
        ("body BINARY", {"subscribe": "a b"}, "option 'subscribe' is wrong"),
    ],
)
def test_what_shows_only_in_the_plan_fails_on_the_driver(
    load: Any, schema: str | None, options: dict[str, str], said: str
) -> None:
    # A task that failed would be another kind of exception.
    with pytest.raises(AnalysisException) as caught:
        load(schema, **options).collect()
    assert said in str(caught.value)


@pytest.mark.spark
def test_a_message_that_cannot_be_read_is_named(send_raw: Any, load: Any) -> None:
    flag = with_compression(0, Compression.ZLIB)
    send_raw("source-damaged", b"not zlib at all", sys_flag=flag)
    frame = load(subscribe="source-damaged")
    with pytest.raises(PySparkException, match="message 0 in queue 0 of broker 'broker-a' cannot"):
        frame.collect()
    others = load("queue_offset BIGINT", subscribe="source-damaged")
    assert [row.queue_offset for row in others.collect()] == [0]


@pytest.mark.spark
def test_an_attempt_to_write_is_told_that_it_is_too_early(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="rocketpipe cannot write yet"):
        spark.range(1).write.format("rocketpipe").mode("append").option("topic", "a").save()
