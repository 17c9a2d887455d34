"""Topics as datasets of Arrow's."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from rocketpipe.arrow import MessagesGone, TopicScan, UnknownTopic, UnreadableMessage, scan
from rocketpipe.blocking import Admin, Producer
from rocketpipe.clock import SystemClock
from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline.broker import reading as broker_reading
from rocketpipe.pipeline.columns.rows import SCHEMA
from rocketpipe.pipeline.log import reading as log_reading
from rocketpipe.pipeline.source import RocketPipeSource
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.entries import QUEUE_ENTRY_BYTES, queue_entry
from rocketpipe.testing import Cluster
from rocketpipe.testing.servers import serving
from rocketpipe.testing.simulation.small_store import HOST, put

GOLDEN = Path(__file__).parent.parent / "golden"
STORES = ["4.9.7-stop", "4.9.7-kill", "5.5.0-stop", "5.5.0-kill"]
PLACE = ("topic", "queue_id", "queue_offset")


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in PLACE)


def rows_of(found: TopicScan) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.to_table().to_pylist()
    return sorted(rows, key=place)


def of_spark(**options: str) -> list[dict[str, Any]]:
    """The rows that the Spark source hands over, task by task."""
    source = RocketPipeSource(options)
    reader = source.reader(source.schema())
    rows = [
        row
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]
    return sorted(rows, key=place)


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


@pytest.mark.parametrize("name", STORES)
def test_rows_are_those_of_the_spark_source_for_every_topic_and_range(
    name: str, tmp_path: Path, unpack_golden: Callable[..., Path]
) -> None:
    store = unpack_golden(name, tmp_path)
    told = json.loads((GOLDEN / f"{name}.json").read_text())
    topics = sorted({message["topic"] for message in told["messages"]})
    assert len(topics) > 3
    for topic in topics:
        given = {"path": str(store), "subscribe": topic}
        whole = of_spark(**given)
        assert rows_of(scan(topic, log=store)) == whole
        assert scan(topic, log=store).count() == len(whole) > 0
        middle = whole[len(whole) // 2]["store_timestamp"]
        for limit in ("starting", "ending"):
            ours: dict[str, Any] = {"start" if limit == "starting" else "end": middle}
            expected = of_spark(**given, **{f"{limit}Timestamp": iso(middle)})
            assert rows_of(scan(topic, log=store, **ours)) == expected
        queue = whole[0]["queue_id"]
        last = max(row["queue_offset"] for row in whole if row["queue_id"] == queue)
        offsets = {topic: {"broker-a": {queue: last // 2}}}
        for limit in ("starting", "ending"):
            ours = {"start" if limit == "starting" else "end": offsets}
            expected = of_spark(**given, **{f"{limit}Offsets": json.dumps(offsets)})
            assert rows_of(scan(topic, log=store, **ours)) == expected
    every = of_spark(path=str(store), subscribe=",".join(topics), decode="text")
    assert rows_of(scan(topics, log=store, decode="text")) == every
    tagged = [row for row in of_spark(path=str(store), subscribe="orders") if row["tags"] == "paid"]
    found = scan("orders", log=store, tags=["paid"])
    assert rows_of(found) == tagged
    assert found.count() == len(tagged) > 0


@pytest.mark.spark
def test_spark_itself_has_the_same_rows(
    spark: Any, tmp_path: Path, unpack_golden: Callable[..., Path]
) -> None:
    names = ["queue_id", "queue_offset", "keys", "tags", "body", "store_timestamp", "message_id"]
    for name in STORES:
        store = unpack_golden(name, tmp_path / name)
        frame = spark.read.format("rocketpipe").option("path", str(store))
        theirs = frame.option("subscribe", "orders").load().select(*names).toArrow()
        ours = scan("orders", log=store, columns=names).to_table()
        by = [("queue_id", "ascending"), ("queue_offset", "ascending")]
        assert theirs.sort_by(by).to_pylist() == ours.sort_by(by).to_pylist()


def test_duckdb_polars_and_pandas_agree_through_brokers_and_files(
    servers: Cluster, store_path: Path, send: Any
) -> None:
    bodies = [b'{"city": "c%d", "cents": %d}' % (number % 7, number) for number in range(500)]
    send("arrow-agree", bodies, tags="paid")
    send("arrow-agree", [b"no json"], tags="odd")
    through = scan(
        "arrow-agree",
        name_servers=servers.name_server,
        decode="json",
        schema="city STRING, cents BIGINT",
    )
    assert through.count() == 501
    until = datetime.now(UTC) + timedelta(minutes=2)
    while True:  # a broker that runs publishes what it has within seconds
        files = scan(
            "arrow-agree",
            log=store_path,
            decode="json",
            schema=pa.schema([("city", pa.string()), ("cents", pa.int64())]),
        )
        if files.count() == 501:
            break
        assert datetime.now(UTC) < until
    for orders in (through, files):
        query = (
            "SELECT city, count(*), sum(cents) FROM orders WHERE tags = 'paid' GROUP BY city "
            "ORDER BY city"
        )
        by_duckdb = duckdb.sql(query).fetchall()
        frame = orders.lazy().filter(pl.col("tags") == "paid").group_by("city")
        by_polars = frame.agg(pl.len(), pl.col("cents").sum()).sort("city").collect().rows()
        table = orders.to_pandas()
        paid = table[table["tags"] == "paid"].groupby("city")["cents"].agg(["count", "sum"])
        assert by_duckdb == by_polars == list(paid.itertuples(name=None))
        assert sum(count for _, count, _ in by_duckdb) == 500
        assert duckdb.sql("SELECT decode_error FROM orders WHERE city IS NULL").fetchall() == [
            ("not JSON: Expecting value: line 1 column 1 (char 0)",)
        ]
    assert rows_of(through) == rows_of(files)
    assert pa.table(files) == files.to_table()
    assert pl.DataFrame(files).height == files.to_polars().height == 501


def test_a_scan_is_what_there_was_and_can_be_read_again(servers: Cluster, send: Any) -> None:
    send("arrow-again", [b"one", b"two"])
    found = scan("arrow-again", name_servers=servers.name_server, columns="body")
    send("arrow-again", [b"three"])
    for _ in range(2):
        assert sorted(found.to_table()["body"].to_pylist()) == [b"one", b"two"]
        assert sorted(duckdb.sql("SELECT body FROM found").fetchall()) == [(b"one",), (b"two",)]
    assert found.count() == 2
    assert found.refreshed().count() == 3
    assert repr(found).startswith("<TopicScan of arrow-again in '127.0.0.1:")
    assert "2 messages; body>" in repr(found)
    with pytest.raises(UnknownTopic, match="arrow-nothing"):
        scan("arrow-nothing", name_servers=servers.name_server)


def test_a_read_that_is_given_up_leaves_no_thread(servers: Cluster, send: Any) -> None:
    send("arrow-left", [b"x" * 1000] * 50)
    found = scan("arrow-left", name_servers=servers.name_server, batch_rows=10)
    before = threading.active_count()
    with found.to_reader() as reader:
        assert reader.read_next_batch().num_rows == 10
    del reader
    assert threading.active_count() == before
    assert duckdb.sql("SELECT count(*) FROM (SELECT body FROM found LIMIT 3)").fetchall() == [(3,)]
    assert found.head(4, columns=["queue_offset"]).num_rows == 4
    assert found.lazy().select("body").head(2).collect().height == 2


class Read(list[tuple[set[str], int]]):
    """What was read of a store: the columns, and how many records at least."""


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    from rocketpipe.arrow import topic_scan as module

    seen = Read()
    real = module.read_part

    def noting(part: Any, options: Any, target: pa.Schema, wanted: Any) -> Iterator[Any]:
        seen.append((set(target.names), sum(each.count for each in part.ranges)))
        return real(part, options, target, wanted)

    monkeypatch.setattr(module, "read_part", noting)
    return seen


def test_engines_hand_down_columns_and_conditions(closed_store: Path, read: Read) -> None:
    plain = scan("plain", log=closed_store, decode="json", schema="n INT")
    few = "SELECT n FROM plain WHERE queue_id = 1 AND queue_offset >= 50 ORDER BY n"
    assert duckdb.sql(few).fetchall() == [(101 + 2 * at,) for at in range(10)]
    assert read[-1][0] <= {"n", "queue_id", "queue_offset"}
    assert read[-1][1] == 10
    lazy = plain.lazy().filter((pl.col("queue_id") == 1) & (pl.col("queue_offset") > 49))
    assert lazy.select("n").sort("n").collect()["n"].to_list() == [101 + 2 * at for at in range(10)]
    assert read[-1] == ({"n", "queue_id", "queue_offset"}, 10)
    assert duckdb.sql("SELECT count(*) FROM plain").fetchall() == [(120,)]
    assert read[-1] == ({"topic"}, 120)
    [(middle,)] = duckdb.sql(
        "SELECT store_timestamp FROM plain WHERE queue_id = 0 AND queue_offset = 30"
    ).fetchall()
    later = duckdb.sql(
        "SELECT count(*) FROM plain WHERE store_timestamp >= $t", params={"t": middle}
    )
    assert later.fetchall() == [(60,)]
    assert 60 <= read[-1][1] <= 61
    moment = middle.astimezone(UTC)  # Polars compares times of the same zone alone
    by_polars = plain.lazy().filter(pl.col("store_timestamp") >= moment).select(pl.len()).collect()
    assert by_polars.item() == 60
    assert 60 <= read[-1][1] <= 61
    even = plain.lazy().filter(pl.col("tags").is_in(["even"]) & (pl.col("n") < 8)).select("n")
    assert sorted(even.collect()["n"].to_list()) == [0, 1, 4, 5]
    assert duckdb.sql(
        "SELECT count(*) FROM plain a JOIN plain b ON a.n = b.n + 1 WHERE a.queue_id = 0"
    ).fetchall() == [(59,)]


def test_conditions_that_are_handed_down_mean_what_they_mean_to_duckdb(
    tmp_path: Path, unpack_golden: Callable[..., Path]
) -> None:
    store = unpack_golden("5.5.0-stop", tmp_path)
    topic = scan("orders", log=store, decode="json", schema="n INT, s STRUCT<a: INT>")
    whole = topic.to_table()
    assert whole.num_rows == topic.count() == 340
    for condition in (
        "tags IN ('paid', 'created')",
        "tags LIKE 'p%'",
        "tags IS NULL",
        "queue_id BETWEEN 1 AND 2",
        "queue_offset % 7 = 3",
        "queue_id = 1 OR tags = 'paid'",
        "queue_id <> 1 AND queue_offset NOT IN (1, 2, 3)",
        "queue_offset = 5 AND queue_id IN (0, 3)",
        "queue_offset < 10 AND queue_offset > 10",
        "store_timestamp > (SELECT median(store_timestamp) FROM whole)",
        "store_timestamp = (SELECT min(store_timestamp) FROM whole)",
        "store_timestamp >= TIMESTAMPTZ '2026-11-15 15:50:52.1+00'",
        "broker = 'elsewhere'",
        "len(keys) > 1",
        "s.a IS NULL AND NOT (queue_id = 0)",
        "sys_flag IN (0, 1, NULL)",
        "properties['TAGS'] = 'paid'",
    ):
        query = f"SELECT queue_id, queue_offset, tags FROM {{}} WHERE {condition} ORDER BY ALL"
        found = duckdb.sql(query.format("topic")).fetchall()
        assert found == duckdb.sql(query.format("whole")).fetchall(), condition


def test_what_datasets_have_is_answered_here_and_never_by_the_empty_base(
    closed_store: Path,
) -> None:
    inherited = [name for name in dir(ds.Dataset) if not name.startswith("_")]
    assert [name for name in inherited if name not in vars(TopicScan)] == []
    plain = scan("plain", log=closed_store)
    assert plain.count_rows() == 120
    assert plain.count_rows(filter=pc.field("queue_id") == 1) == 60
    table = plain.to_table(columns=["tags"], filter=pc.field("queue_offset") == 0)
    assert table.to_pylist() == [{"tags": "even"}, {"tags": "even"}]
    made = plain.scanner(columns={"next": pc.field("queue_offset") + 1}).to_table()
    assert made["next"].to_pylist() == [*range(1, 61), *range(1, 61)]
    assert sum(batch.num_rows for batch in plain.to_batches(columns=["tags"])) == 120
    assert str(plain.partition_expression) == "true"
    for name in ("filter", "get_fragments", "join", "join_asof", "replace_schema", "sort_by"):
        with pytest.raises(NotImplementedError, match=f"a topic has no {name}: take to_table"):
            getattr(plain, name)(None)
    with pytest.raises(NotImplementedError):
        plain.take([0])
    with pytest.raises(NotImplementedError):
        plain.__reduce__()


def test_what_retention_takes_is_missed_loudly_or_skipped_and_told(
    closed_store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain, skipping = (scan("plain", log=closed_store, on_gap=do) for do in ("fail", "skip"))
    assert plain.count() == skipping.count() == 120
    min((closed_store / "commitlog").iterdir()).unlink()
    with pytest.raises(MessagesGone, match=r"no messages 0 to \d+ any more .* onGap=skip"):
        plain.to_table()
    with pytest.raises(duckdb.Error, match=r"no messages 0 to \d+ any more"):
        duckdb.sql("SELECT body FROM plain").fetchall()
    with pytest.raises(Exception, match=r"no messages 0 to \d+ any more"):
        plain.lazy().select("body").collect()
    left = rows_of(skipping)
    assert 0 < len(left) < 120
    assert skipping.count() == len(left)
    assert "messages skipped topic=plain" in caplog.text
    assert rows_of(scan("plain", log=closed_store)) == left  # who looks now finds the rest alone
    with pytest.raises(MessagesGone):
        scan("plain", log=closed_store, start={"plain": {"broker-a": {0: 0}}})


def test_files_that_go_while_a_read_is_under_way_are_missed_too(
    closed_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reading, "READ_BYTES", 300)
    reader = scan("plain", log=closed_store, batch_rows=1000).to_reader()
    assert reader.read_next_batch().num_rows < 10
    for segment in sorted((closed_store / "commitlog").iterdir())[:2]:
        segment.unlink()
    with pytest.raises(MessagesGone):
        reader.read_all()


@pytest.mark.parametrize(
    ("at", "size"),
    [(1 << 40, 150), ((1 << 63) - 1, 150), (0, -5), (0, -(1 << 31)), (0, 1 << 30), (-1, 150)],
)
@pytest.mark.parametrize("queues", ["0", "01"])
def test_an_entry_that_speaks_of_no_record_is_a_message_that_cannot_be_read(
    closed_store: Path, at: int, size: int, queues: str
) -> None:
    """Whichever way records are read: of one queue, or of several together."""
    for name in queues:
        file = closed_store / "consumequeue" / "plain" / name / f"{0:020}"
        with file.open("r+b") as entries:
            entries.seek(5 * QUEUE_ENTRY_BYTES)
            entries.write(queue_entry(at, size, 0))
    only = pc.field("queue_id") < len(queues)
    bad = (UnreadableMessage, MessagesGone)  # what lies before the log is no more
    plain = scan("plain", log=closed_store)
    for columns in (["tags"], ["body", "properties"]):
        with pytest.raises(bad, match=r"its queue says|no messages 5 to"):
            plain.to_table(columns=columns)
    skipping = scan("plain", log=closed_store, on_bad_message="skip", on_gap="skip")
    left = skipping.to_table(columns=["queue_offset", "queue_id", "body"], filter=only)
    assert left.num_rows == 59 * len(queues)
    assert 5 not in left["queue_offset"].to_pylist()


@pytest.mark.scenario
def test_what_a_scan_showed_is_there_after_the_broker_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two brokers are written to while their directory is read, and are then killed."""
    monkeypatch.setattr(broker_reading, "PATIENCE_MS", 2_000)
    sent = 0
    seen: list[set[tuple[str, int, int, bytes]]] = []

    def look(found: TopicScan) -> set[tuple[str, int, int, bytes]]:
        columns = ["broker", "queue_id", "queue_offset", "body"]
        shown = [tuple(row.values()) for row in found.to_table(columns=columns).to_pylist()]
        assert len(set(shown)) == len(shown) == found.count()
        return set(shown)

    with serving(tmp_path, ["--brokers", "2"]) as running:
        with Admin(running.name_server) as admin:
            admin.topics.create("orders", queues=2)
        with Producer(running.name_server) as producer:
            producer.send("orders", b"0")
            while len(seen) < 3:
                for _ in range(60):
                    sent += 1
                    producer.send("orders", b"%d" % sent)
                shown = look(scan("orders", log=tmp_path / "store"))
                assert {int(body) for *_, body in shown} <= set(range(sent + 1))
                if len({broker for broker, *_ in shown}) == 2:  # what is confirmed grows by and by
                    seen.append(shown)
        through = scan("orders", name_servers=running.name_server, batch_rows=10)
        assert through.count() == sent + 1
        assert len(look(through)) == sent + 1
        reader = through.to_reader()
        assert reader.read_next_batch().num_rows == 10
        running.process.kill()
        running.process.wait()
        with pytest.raises(RocketPipeError, match=r"broker|127"):
            through.to_table()
        # What was under way ends in an error, or had all of it in hand.
        try:
            assert 10 + reader.read_all().num_rows == sent + 1
        except RocketPipeError:
            pass
    left = look(scan("orders", log=tmp_path / "store"))
    for shown in seen:
        assert shown <= left
    assert {broker for broker, *_ in left} == {"broker-a-0", "broker-a-1"}
    with serving(tmp_path, ["--brokers", "2"]) as again:
        found = look(scan("orders", name_servers=again.name_server))
    assert left <= found
    assert len(found) == sent + 1


GROWTH = """
import resource, sys
from rocketpipe.arrow import scan

found = scan("orders", log=sys.argv[1])
reader = found.to_reader()
rows, held = 0, 0
for number, batch in enumerate(reader):
    rows += batch.num_rows
    if number == 3:
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    del batch
print(rows, found.count(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held)
"""


def test_a_longer_topic_takes_no_more_memory(tmp_path: Path) -> None:
    """Of 120 MB that are read one after the other, a small part is held at a time."""
    config = StoreConfig.embedded(tmp_path / "long", segment_bytes=1 << 26)
    store = MessageStore.open(config, disk=Disk(), clock=SystemClock(), store_host=HOST)
    body = bytes(1 << 20)
    for number in range(120):
        store.append([[put(body, topic="orders", queue_id=number % 2)]])
    store.dispatch()
    store.close()
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, str(tmp_path / "long")],
        capture_output=True,
        text=True,
        check=True,
    )
    rows, counted, growth_kib = map(int, done.stdout.split())
    assert rows == counted == 120
    assert growth_kib < 48 << 10


def test_every_column_of_a_message_is_there_with_its_type(closed_store: Path) -> None:
    assert scan("plain", log=closed_store).schema == SCHEMA
    only = scan("plain", log=closed_store, keys=["k7", "k9"], columns=["keys", "queue_id"])
    assert only.schema.names == ["keys", "queue_id"]
    assert only.to_table().to_pylist() == [
        {"keys": ["k7"], "queue_id": 1},
        {"keys": ["k9"], "queue_id": 1},
    ]
    assert only.count() == 2


def test_an_error_is_told_whichever_fields_are_asked_for(closed_store: Path) -> None:
    """Every body has a number, which is no truth."""
    found = scan("plain", log=closed_store, decode="json", schema="n BOOLEAN, m INT")
    told = {"n: 7 does not fit"}
    assert told <= set(found.to_table(columns=["decode_error"])["decode_error"].to_pylist())
    assert told <= set(
        found.to_reader(["m", "decode_error"]).read_all()["decode_error"].to_pylist()
    )
    assert found.to_reader(["decode_error", "m"]).schema.names == ["decode_error", "m"]
    counted = duckdb.sql("SELECT count(*) FROM found WHERE decode_error IS NOT NULL").fetchall()
    assert counted == [(120,)]
    assert found.lazy().select(pl.col("decode_error").count()).collect().item() == 120


def test_messages_whose_topics_are_all_unreadable_are_left_out(tmp_path: Path) -> None:
    config = StoreConfig.embedded(tmp_path / "odd", segment_bytes=1 << 16)
    store = MessageStore.open(config, disk=Disk(), clock=SystemClock(), store_host=HOST)
    store.append([[put(b"one", topic="orders")]])
    store.dispatch()
    store.close()
    log = tmp_path / "odd" / "commitlog" / f"{0:020}"
    log.write_bytes(log.read_bytes().replace(b"\x06orders", b"\x06or\xff\xffrs"))
    columns = ["topic", "queue_offset", "body"]
    for policy, expected in (("skip", []), ("null", [("orders", 0, None)])):
        odd = scan("orders", log=tmp_path / "odd", on_bad_message=policy, columns=columns)
        assert [tuple(row.values()) for row in odd.to_table().to_pylist()] == expected
