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
from tests.pipeline.support.own_frames import own_frames

from rocketpipe import PullConsumer
from rocketpipe.model.flags import Compression, with_compression
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.properties import encode
from rocketpipe.pipeline.batch import BatchReader, FilteringBatchReader
from rocketpipe.pipeline.columns.rows import SCHEMA
from rocketpipe.pipeline.launch import LOG_NAME
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.register import PUSH_DOWN_SETTING
from rocketpipe.pipeline.source import RocketPipeSource
from rocketpipe.pipeline.spark_columns import spark_schema
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
        RocketPipeSource({"subscribe": "orders"}).reader(spark_schema(SCHEMA))


def test_push_down_is_offered_only_when_asked_for() -> None:
    given = {"nameServer": "a:1", "subscribe": "orders"}
    assert type(RocketPipeSource(given).reader(spark_schema(SCHEMA))) is BatchReader
    asking = RocketPipeSource(given | {"pushDown": "true"}).reader(spark_schema(SCHEMA))
    assert type(asking) is FilteringBatchReader
    assert "pushFilters" not in vars(BatchReader)


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
    assert frame.schema == spark_schema(SCHEMA)
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
    send("source-limit", [b"x"] * 4000)
    log = spark_scratch / LOG_NAME
    before = log.stat().st_size
    assert len(load(subscribe="source-limit").limit(3).collect()) == 3
    with log.open("rb") as file:
        file.seek(before)
        said = file.read().decode()
    # Spark's own daemon may find its pipe closed; what is ours leaves without a word.
    assert "rocketpipe/pipeline" not in said
    assert "Warning" not in said


@pytest.mark.spark
def test_what_is_wrong_with_options_shows_at_load(load: Any, send: Any, tmp_path: Path) -> None:
    send("source-there", [b"x"])
    there = {"subscribe": "source-there"}
    wrong: list[tuple[dict[str, str], str]] = [
        ({}, "option 'subscribe' is missing: add .option("),
        ({"subscribe": "a b"}, "option 'subscribe' is wrong: topic 'a b'"),
        (there | {"nameServer": ""}, "option 'nameServer' is missing"),
        (there | {"nameServer": "nowhere"}, "'nowhere' is not host:port"),
        (there | {"groupIdd": "g"}, "option 'groupidd' is unknown: did you mean"),
        ({"subscribe": "source-ther"}, "topic 'source-ther' is not known to NameServer"),
        (there | {"nameServer": "127.0.0.1:1"}, "no NameServer answers"),
        (there | {"path": str(tmp_path), "groupId": "g"}, "no log to read"),
        (there | {"startingOffsets": "{"}, "option 'startingOffsets' is no JSON"),
        (there | {"columns": "colour"}, "column 'colour' is unknown: there are topic,"),
    ]
    for options, said in wrong:
        with pytest.raises(AnalysisException) as caught:
            load(**options)
        assert said in str(caught.value)
        assert_only_the_sentence(caught)
    planned: list[tuple[str | None, dict[str, str], str]] = [
        (None, there | {"startingOffsets": "latest"}, "option 'startingOffsets' is latest"),
        ("colour STRING", there, "column 'colour' is unknown: there are topic,"),
        ("queue_id STRING", there, "column 'queue_id' is int, not string"),
        ("body BINARY", {"subscribe": "source-ther"}, "topic 'source-ther' is not known"),
    ]
    for schema, options, said in planned:
        # On the driver: a task that failed would be another kind of exception.
        with pytest.raises(AnalysisException) as caught:
            load(schema, **options).collect()
        assert said in str(caught.value)
        assert_only_the_sentence(caught)


def assert_only_the_sentence(caught: pytest.ExceptionInfo[AnalysisException]) -> None:
    """None of our frames, neither in the text nor as if the caller had called them."""
    assert "Traceback" not in str(caught.value)
    assert not own_frames(caught.value)


@pytest.mark.spark
def test_broker_and_log_give_what_a_consumer_receives(
    servers: Cluster, send: Any, load: Any, spark: SparkSession, store_path: Path
) -> None:
    for city in ("Lima", "Oslo"):
        send("source-both", [b"%d" % number for number in range(60)], keys=[city], tags=city[:1])

    async def consume() -> Counter[tuple[Any, ...]]:
        seen: Counter[tuple[Any, ...]] = Counter()
        async with PullConsumer(servers.name_server, group="both") as consumer:
            await consumer.subscribe("source-both")
            while seen.total() < 120 and (messages := await consumer.poll(timeout_ms=20_000)):
                seen.update(
                    (m.queue.queue_id, m.queue_offset, m.body, m.tags, *m.keys, m.message_id)
                    for m in messages
                )
        return seen

    consumed = asyncio.run(consume())
    assert consumed.total() == len(consumed) == 120
    through = load(subscribe="source-both")
    straight = spark.read.format("rocketpipe").option("subscribe", "source-both")
    columns = ["queue_id", "queue_offset", "body", "tags", "keys", "message_id"]
    rows = {}
    for name, frame in {"broker": through, "log": straight.load(str(store_path))}.items():
        rows[name] = Counter(
            (
                row.queue_id,
                row.queue_offset,
                bytes(row.body),
                row.tags,
                *row["keys"],
                row.message_id,
            )
            for row in frame.select(*columns).collect()
        )
    assert rows["broker"] == consumed
    assert rows["log"] == consumed


@pytest.mark.spark
def test_conditions_save_reading(send: Any, servers: Cluster, spark: SparkSession) -> None:
    spark.conf.set(PUSH_DOWN_SETTING, "true")
    for tag in "ab":
        send("source-push", [b"x" * 1000] * 200, tags=tag)
    counted = 0

    def read(condition: str) -> tuple[int, int]:
        """How many rows there are, and how many bytes the tasks handed over for them."""
        nonlocal counted
        reader = spark.read.format("rocketpipe").option("nameServer", servers.name_server)
        reader = reader.option("subscribe", "source-push").option("pushDown", "true")
        frame = reader.load().where(condition).select("body")
        plan = frame._jdf.queryExecution().executedPlan()
        found = len(plan.executeCollect())
        # Spark counts on from read to read.
        before = counted
        metrics = plan.collectLeaves().apply(0).metrics()
        counted = int(metrics.apply("pythonDataReceived").value())
        return found, counted - before

    found, everything = read("true")
    assert found == 400
    assert everything > 400_000
    for condition, share in {
        "tags = 'a'": 0.5,
        "queue_id = 1 AND topic = 'source-push'": 0.25,
        "queue_offset >= 10 AND queue_offset < 20": 0.1,
        "store_timestamp < '2001-01-01'": 0.0,
    }.items():
        found, handed = read(condition)
        assert found == 400 * share, condition
        assert handed <= everything * (share + 0.05), condition
    spark.conf.unset(PUSH_DOWN_SETTING)


@pytest.mark.spark
def test_a_message_that_cannot_be_read_is_named(send_raw: Any, load: Any) -> None:
    flag = with_compression(0, Compression.ZLIB)
    send_raw("source-damaged", b"not zlib at all", sys_flag=flag)
    frame = load(subscribe="source-damaged")
    with pytest.raises(PySparkException, match="message 0 in queue 0 of broker 'broker-a' cannot"):
        frame.collect()
    others = load("queue_offset BIGINT", subscribe="source-damaged")
    assert [row.queue_offset for row in others.collect()] == [0]
    kept = load(subscribe="source-damaged", onBadMessage="null")
    assert [(row.queue_offset, row.body) for row in kept.collect()] == [(0, None)]
    assert load(subscribe="source-damaged", onBadMessage="skip").collect() == []


BODIES = (
    '{"flag": true, "n": 7, "d": 1.5, "s": "text", "p": 1.5, "day": "2013-01-31"}',
    '{"at": "2013-01-31T05:15:00Z", "l": "2013-01-31T05:15:00", "m": {"a": 1, "b": null}}',
    '{"a": [1, null, 3], "i": {"x": 1, "y": 2, "z": 3}, "other": {}}',
    '{"n": 5000000000, "s": "kept", "d": 2}',
    '{"n": 1.0, "s": 5.10, "p": 1.005}',
    '{"n": "5", "s": true, "p": "2.50"}',
    '{"s": {"k": [1,2.50,"x"]}, "p": 99999, "n": 1}',
    '{"at": 1700000000, "d": "NaN", "flag": "true"}',
    '{"at": "2013-01-31T05:15:00", "l": "2013-01-31T05:15:00Z", "n": 3}',
    '{"at": "2013-01-31 05:15:00.123456+02:00", "day": "31.1.2013", "n": 4}',
    '{"i": {"x": "no", "y": 2}, "m": {"a": "no", "b": 2}, "n": 5}',
    '{"i": [1], "a": {"x": 1}, "m": [1], "n": 6}',
    '{"n": 1, "n": 2}',
    "{oops",
    " ",
)
TYPES = (
    "flag BOOLEAN, n INT, d DOUBLE, s STRING, p DECIMAL(6,2), day DATE, at TIMESTAMP, "
    "l TIMESTAMP_NTZ, m MAP<STRING, BIGINT>, a ARRAY<INT>, i STRUCT<x: INT, y: INT>"
)


@pytest.mark.spark
def test_bodies_are_decoded_as_from_json_decodes_them(
    send: Any, load: Any, spark: SparkSession
) -> None:
    send("source-json", [body.encode() for body in BODIES])
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        frame = load(subscribe="source-json", decode="json", decodeSchema=TYPES)
        names = [name for name in frame.columns if name not in (*SCHEMA.names, "decode_error")]
        frame = frame.selectExpr(
            "CAST(body AS STRING) AS body",
            f"struct({', '.join(names)}) AS ours",
            f"from_json(CAST(body AS STRING), '{TYPES}') AS sparks",
            "decode_error",
        )
        frame = frame.selectExpr(
            "body", "to_json(ours) AS ours", "to_json(sparks) AS sparks", "decode_error"
        )
        rows = {row.body: row for row in frame.collect()}
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert set(rows) == set(BODIES)
    differing = {
        BODIES.index(body): (row.ours, row.sparks)
        for body, row in rows.items()
        if (row.ours or "{}") != (row.sparks or "{}")
    }
    # Numbers as text are left as they were written, and a map keeps what of it fits.
    assert differing == {
        4: ('{"s":"5.10","p":1.01}', '{"s":"5.1","p":1.01}'),
        6: (
            '{"n":1,"s":"{\\"k\\":[1,2.50,\\"x\\"]}"}',
            '{"n":1,"s":"{\\"k\\":[1,2.5,\\"x\\"]}"}',
        ),
        10: ('{"n":5,"m":{"a":null,"b":2},"i":{"y":2}}', '{"n":5,"i":{"y":2}}'),
    }
    told = {body for body, row in rows.items() if row.decode_error is not None}
    assert told == {*BODIES[3:6], BODIES[6], *BODIES[7:12], *BODIES[13:]}


@pytest.mark.spark
def test_a_table_of_the_catalogue_is_read_with_its_options(
    send: Any, servers: Cluster, spark: SparkSession
) -> None:
    send("source-table", [b'{"n": %d}' % number for number in range(6)])
    send("source-other", [b'{"n": 100}'])
    spark.sql(
        "CREATE TABLE topic_table USING rocketpipe OPTIONS "
        f"(nameServer '{servers.name_server}', subscribe 'source-table', decode 'json', "
        "decodeSchema 'n INT', columns 'queue_offset, n')"
    )
    try:
        assert spark.table("topic_table").columns == ["queue_offset", "n"]
        assert spark.sql("SELECT sum(n) FROM topic_table").first()[0] == 15
        other = "SELECT sum(n) FROM topic_table WITH (subscribe = 'source-other')"
        assert spark.sql(other).first()[0] == 100
        assert spark.readStream.table("topic_table").isStreaming
        with pytest.raises(AnalysisException, match=r"'nameServer' is missing.*INSERT INTO t WITH"):
            spark.sql("INSERT INTO topic_table VALUES (1, 2)")
    finally:
        spark.sql("DROP TABLE topic_table")


@pytest.mark.spark
def test_a_table_with_columns_of_writing_is_written_to(
    servers: Cluster, load: Any, spark: SparkSession
) -> None:
    spark.sql("CREATE TABLE written_table (body STRING, tags STRING) USING rocketpipe")
    try:
        spark.sql(
            f"INSERT INTO written_table WITH (nameServer = '{servers.name_server}', "
            "topic = 'source-written') VALUES ('one', 'new'), ('two', NULL)"
        )
    finally:
        spark.sql("DROP TABLE written_table")
    rows = load(subscribe="source-written").collect()
    assert {(bytes(row.body), row.tags) for row in rows} == {(b"one", "new"), (b"two", None)}
