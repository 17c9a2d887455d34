"""From a part of the plan to rows: through the broker, and straight from its files."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.support.stores import spread_store
from tests.waiting import PATIENCE_S

from rocketpipe import Producer
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.errors import ConnectionLost, RequestRejected
from rocketpipe.model.flags import Compression, with_compression
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.pipeline import reading
from rocketpipe.pipeline.batch import BatchReader
from rocketpipe.pipeline.broker import reading as broker_reading
from rocketpipe.pipeline.broker.offsets import BrokerOffsets
from rocketpipe.pipeline.columns.rows import ERROR_COLUMN, SCHEMA, UnreadableMessage
from rocketpipe.pipeline.log import reading as log_reading
from rocketpipe.pipeline.log.directory import LogDirectory, LogNotFound
from rocketpipe.pipeline.log.offsets import LogOffsets
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.selection import Selection
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.pipeline.planning.gaps import MessagesGone
from rocketpipe.pipeline.planning.offset_reader import OffsetReader
from rocketpipe.pipeline.planning.ranges import QueueRange, ReadPartition
from rocketpipe.pipeline.reading import read_part, together
from rocketpipe.record.codec import RecordView
from rocketpipe.store import roster, set_aside
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing import Cluster
from rocketpipe.testing.simulation.small_store import HOST, StepClock, put, small_store

GOLDEN = Path(__file__).parent.parent / "golden"
NUMBERS = pa.schema([SCHEMA.field(name) for name in ("queue_id", "queue_offset", "body")])
ALL = RowFilter()


def options(**fields: Any) -> ReadOptions:
    return ReadOptions(selection=Selection(topics=("any",)), **fields)


def whole(places: OffsetReader, topic: str) -> ReadPartition:
    ends = places.ends(places.queues(topic))
    ranges = tuple(QueueRange(queue, *ends[queue]) for queue in sorted(ends))
    part = ReadPartition(tuple(each for each in ranges if each.count), places.addresses())
    places.close()
    return part


def rows_of(
    part: ReadPartition, given: ReadOptions, schema: pa.Schema = SCHEMA, wanted: RowFilter = ALL
) -> list[dict[str, Any]]:
    return [row for batch in read_part(part, given, schema, wanted) for row in batch.to_pylist()]


def both_ways(
    servers: Cluster, store_path: Path, topic: str, count: int, **fields: Any
) -> list[tuple[ReadPartition, ReadOptions]]:
    """A topic's part and options through the broker, and from its files once they have it all."""
    until = time.monotonic() + PATIENCE_S
    while True:
        in_files = whole(LogOffsets(store_path), topic)
        if sum(each.count for each in in_files.ranges) >= count:
            break
        assert time.monotonic() < until, "the broker publishes what it has within seconds"
    through = whole(BrokerOffsets(servers.name_server, "spark"), topic)
    assert through.ranges == in_files.ranges
    return [
        (through, options(name_servers=servers.name_server, group="spark", **fields)),
        (in_files, options(path=store_path, **fields)),
    ]


@pytest.mark.parametrize("name", ["4.9.7-stop", "4.9.7-kill", "5.5.0-stop", "5.5.0-kill"])
def test_a_directory_of_apaches_broker_reads_as_that_broker_answered(
    name: str, tmp_path: Path, unpack_golden: Callable[..., Path]
) -> None:
    store = unpack_golden(name, tmp_path)
    told = json.loads((GOLDEN / f"{name}.json").read_text())
    rows = {}
    for topic in sorted({message["topic"] for message in told["messages"]}):
        part = whole(LogOffsets(store), topic)
        for each in part.ranges:
            least, greatest = told["offsets"][f"{topic}@{each.queue.queue_id}"]
            # A delayed message was delivered between the answers and the end.
            assert each.start == least
            assert each.end in (greatest, greatest + (topic == "mixed_TOPIC-1"))
        for row in rows_of(part, options(path=store)):
            rows[row["topic"], row["queue_id"], row["queue_offset"]] = row
    for message in told["messages"]:
        row = rows.pop((message["topic"], message["queue"], message["offset"]))
        assert row["log_offset"] == message["log_offset"]
        assert dict(row["properties"]) == message["properties"]
        assert row["reconsume_times"] == message["reconsume"]
        assert hashlib.sha256(row["body"]).hexdigest() == message["body_sha256"]
    assert {topic for topic, _, _ in rows} <= {"mixed_TOPIC-1"}
    assert len(rows) <= 1


def test_rows_are_the_same_through_the_broker_and_from_its_files(
    servers: Cluster, store_path: Path, send: Any, send_raw: Any
) -> None:
    send("both", [b"%d" % number for number in range(300)], tags="new", keys=["A", "B"])
    flag = with_compression(0, Compression.ZLIB)
    send_raw("both", zlib.compress(b"packed" * 1000), sys_flag=flag, born_timestamp=-(1 << 60))
    send_raw("both", b"odd", properties="a\x011\x02a\x012")
    through, in_files = (
        rows_of(*way) for way in both_ways(servers, store_path, "both", 302, batch_rows=70)
    )
    assert through == in_files
    assert len(through) == 302
    bodies = [row["body"] for row in through]
    assert sorted(bodies) == sorted([*(b"%d" % n for n in range(300)), b"packed" * 1000, b"odd"])


def test_only_what_is_wanted_comes_either_way(
    servers: Cluster, store_path: Path, send: Any
) -> None:
    # Two tags that Java hashes alike: the text has to be compared too.
    send("wanted", [b"1", b"2"], tags="Aa", keys=["k1"])
    send("wanted", [b"3"], tags="BB", keys=["k2", "k3"])
    send("wanted", [b"4", b"5"])
    for part, given in both_ways(servers, store_path, "wanted", 5):

        def bodies(
            wanted: RowFilter, part: ReadPartition = part, given: ReadOptions = given
        ) -> list[bytes]:
            return sorted(row["body"] for row in rows_of(part, given, NUMBERS, wanted))

        assert bodies(RowFilter(tags=frozenset({"Aa"}))) == [b"1", b"2"]
        assert bodies(RowFilter(tags=frozenset({"BB", "none"}))) == [b"3"]
        assert bodies(RowFilter(tags=frozenset({"a | b"}))) == []
        assert bodies(RowFilter(keys=frozenset({"k3", "k1"}))) == [b"1", b"2", b"3"]
        assert bodies(RowFilter(offsets=(1, 5))) == sorted(
            row["body"] for row in rows_of(part, given, NUMBERS) if row["queue_offset"] >= 1
        )
        assert bodies(RowFilter(stored_ms=(0, 5))) == []
        assert len(bodies(RowFilter(stored_ms=(5, 1 << 62)))) == 5


def test_a_part_of_a_queue_is_read_from_its_first_offset_to_before_its_last(
    servers: Cluster, store_path: Path, send_raw: Any
) -> None:
    for number in range(20):
        send_raw("middle", b"%d" % number)
    for part, given in both_ways(servers, store_path, "middle", 20):
        cut = QueueRange(part.ranges[0].queue, QueueOffset(5), QueueOffset(9))
        rows = rows_of(ReadPartition((cut, cut), part.addresses), given, NUMBERS)
        bodies = sorted(row["body"] for row in rows)
        assert bodies == sorted([b"5", b"6", b"7", b"8"] * 2)


def test_offsets_that_a_queue_does_not_have_are_one_gap_either_way(
    servers: Cluster, store_path: Path, send_raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_reading, "_MAX_COUNT", 2)  # in stretches, which know nothing of it
    send_raw("shorter", b"only one")
    for part, given in both_ways(servers, store_path, "shorter", 1):
        longer = QueueRange(part.ranges[0].queue, QueueOffset(0), QueueOffset(4))
        beyond = ReadPartition((longer,), part.addresses)
        with pytest.raises(MessagesGone) as caught:
            rows_of(beyond, given, NUMBERS)
        assert (caught.value.gap.first, caught.value.gap.following) == (1, 4)
        skipping = options(
            path=given.path, name_servers=given.name_servers, group="spark", on_gap="skip"
        )
        assert [row["body"] for row in rows_of(beyond, skipping, NUMBERS)] == [b"only one"]


def test_bodies_are_decoded_and_bad_ones_keep_their_row(
    servers: Cluster, store_path: Path, send: Any
) -> None:
    send("decoded", [b'{"city": "Oslo"}', b"{oops"])
    schema = pa.schema(
        [SCHEMA.field("queue_offset"), ("city", pa.string()), ("decode_error", pa.string())]
    )
    for part, given in both_ways(servers, store_path, "decoded", 2, decode="json"):
        rows = rows_of(part, given, schema)
        assert sorted((row["city"] or "", row["decode_error"] is None) for row in rows) == [
            ("", False),
            ("Oslo", True),
        ]


def test_a_body_that_does_not_inflate_is_named_with_its_place_either_way(
    servers: Cluster, store_path: Path, send_raw: Any
) -> None:
    send_raw("damaged", b"fine")
    send_raw("damaged", b"not zlib at all", sys_flag=with_compression(0, Compression.ZLIB))
    for way in both_ways(servers, store_path, "damaged", 2):
        with pytest.raises(UnreadableMessage, match="message 1 in queue 0 of broker 'broker-a'"):
            rows_of(*way)


def test_a_bad_message_is_null_skipped_or_kept_aside_as_the_option_says(
    servers: Cluster, store_path: Path, send_raw: Any, tmp_path: Path
) -> None:
    flag = with_compression(0, Compression.ZLIB)
    for number in range(6):
        send_raw("bad-ones", zlib.compress(b'{"n": %d}' % number), sys_flag=flag)
        send_raw("bad-ones", b"not zlib at all", sys_flag=flag, properties="TAGS\x01odd")
    schema = pa.schema(
        [*NUMBERS, SCHEMA.field("tags"), ("n", pa.int32()), (ERROR_COLUMN, pa.string())]
    )
    good = [None if at % 2 else at // 2 for at in range(12)]
    for way, (part, given) in enumerate(
        both_ways(servers, store_path, "bad-ones", 12, decode="json", batch_rows=5)
    ):
        rows = rows_of(part, replace(given, on_bad_message="null"), schema)
        assert [row["queue_offset"] for row in rows] == list(range(12))
        assert [row["n"] for row in rows] == good
        assert all((row["body"] is None) == (row["n"] is None) for row in rows)
        assert {row["tags"] for row in rows if row["body"] is None} == {"odd"}
        assert "zlib" in rows[1][ERROR_COLUMN]
        rows = rows_of(part, replace(given, on_bad_message="skip"), schema)
        assert [row["n"] for row in rows] == [0, 1, 2, 3, 4, 5]
        kept = tmp_path / f"kept-{way}"
        keeping = replace(given, on_bad_message="quarantine", quarantine=kept)
        for _ in range(2):  # a task that is tried again keeps nothing twice
            assert [row["n"] for row in rows_of(part, keeping, schema)] == [0, 1, 2, 3, 4, 5]
        files = sorted(path.name for path in (kept / "bad-ones").iterdir())
        odd = sorted(
            f"broker-a-0-{at}.{end}" for at in range(1, 12, 2) for end in ("json", "record")
        )
        assert files == odd
        told = json.loads((kept / "bad-ones" / "broker-a-0-3.json").read_text())
        assert (told["queue_offset"], "zlib" in told["reason"]) == (3, True)
        record = RecordView((kept / "bad-ones" / "broker-a-0-3.record").read_bytes())
        assert (record.queue_offset, record.stored_body) == (3, b"not zlib at all")


def test_a_bad_message_that_cannot_be_kept_aside_is_not_dropped(
    servers: Cluster, store_path: Path, send_raw: Any, tmp_path: Path
) -> None:
    send_raw("unkept", b"not zlib", sys_flag=with_compression(0, Compression.ZLIB))
    (tmp_path / "file").write_bytes(b"")
    part, given = both_ways(servers, store_path, "unkept", 1)[0]
    keeping = replace(given, on_bad_message="quarantine", quarantine=tmp_path / "file")
    with pytest.raises(UnreadableMessage, match="it is not kept in"):
        rows_of(part, keeping, NUMBERS)


def test_a_body_that_only_lacks_a_library_here_is_no_bad_message(
    servers: Cluster, store_path: Path, send_raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    zstandard = pytest.importorskip("zstandard")
    body = zstandard.ZstdCompressor().compress(b"fine")
    send_raw("no-library", body, sys_flag=with_compression(0, Compression.ZSTD))
    part, given = both_ways(servers, store_path, "no-library", 1)[0]
    skipping = replace(given, on_bad_message="skip")
    assert [row["body"] for row in rows_of(part, skipping, NUMBERS)] == [b"fine"]
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UnreadableMessage, match="pip install"):
        rows_of(part, skipping, NUMBERS)


async def test_a_read_needs_no_group_that_somebody_made(tmp_path: Path) -> None:
    """As brokers are run where groups are made by hand."""
    async with name_server(NamesrvConfig(port=0)) as namesrv:
        config = BrokerConfig(
            data=tmp_path,
            name_servers=(namesrv,),
            port=0,
            auto_create_groups=False,
            store=StoreConfig.embedded(tmp_path),
        )
        async with broker(config):
            async with Producer(namesrv) as producer:
                for number in range(8):
                    await producer.send("no-group", b"%d" % number)

            def read(**options: str) -> list[bytes]:
                given = {"nameServer": namesrv, "subscribe": "no-group", **options}
                reader = BatchReader(ReadOptions.parse(given), NUMBERS)
                batches = [batch for part in reader.partitions() for batch in reader.read(part)]
                return sorted(row["body"] for batch in batches for row in batch.to_pylist())

            assert await asyncio.to_thread(read) == [b"%d" % number for number in range(8)]
            with pytest.raises(RequestRejected, match=r"group \[made-by-nobody\] does not exist"):
                await asyncio.to_thread(read, groupId="made-by-nobody")


def test_many_portions_and_batches_make_the_same_rows(
    servers: Cluster, store_path: Path, send_raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_reading, "PORTION_BYTES", 300)
    monkeypatch.setattr(log_reading, "READ_BYTES", 300)
    monkeypatch.setattr(reading, "BATCH_BYTES", 150)
    flag = with_compression(0, Compression.ZLIB)
    for number in range(12):
        send_raw("portions", zlib.compress(b"%03d" % number * 33), sys_flag=flag)
        send_raw("portions-between", b"x" * 100)
    for part, given in both_ways(servers, store_path, "portions", 12, max_pull_bytes=500):
        batches = list(read_part(part, given, NUMBERS, ALL))
        assert len(batches) == 12  # of two inflated bodies each would be too long
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert [row["body"] for row in rows] == [b"%03d" % n * 33 for n in range(12)]


@pytest.mark.parametrize("count", [1, 7, 4096])
def test_stretches_that_are_asked_for_together_come_in_order(
    servers: Cluster, store_path: Path, send_raw: Any, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Whatever of a stretch has no room in an answer comes before the next stretch."""
    monkeypatch.setattr(broker_reading, "_MAX_COUNT", count)
    monkeypatch.setattr(broker_reading, "PORTION_BYTES", 2000)
    topic = f"stretches-{count}"
    bodies = [b"%03d" % number * (1 + number * 37 % 101) for number in range(90)]
    for body in bodies:
        send_raw(topic, body)
    part, given = both_ways(servers, store_path, topic, 90, max_pull_bytes=700)[0]
    assert [row["body"] for row in rows_of(part, given, NUMBERS)] == bodies


def test_closing_a_read_early_leaves_nothing_behind(
    servers: Cluster, store_path: Path, send_raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_reading, "PORTION_BYTES", 1)
    for number in range(200):
        send_raw("early", b"%d" % number)
    for part, given in both_ways(servers, store_path, "early", 200, max_pull_bytes=500):
        batches = read_part(part, given, NUMBERS, ALL)
        next(batches)
        batches.close()


def test_a_broker_that_stays_away_is_told_after_some_time(
    monkeypatch: pytest.MonkeyPatch, servers: Cluster, send_raw: Any
) -> None:
    monkeypatch.setattr(broker_reading, "PATIENCE_MS", 0)
    queue = MessageQueue(topic="away", broker_name="broker-z", queue_id=0)
    part = ReadPartition(
        (QueueRange(queue, QueueOffset(0), QueueOffset(1)),), {"broker-z": "127.0.0.1:1"}
    )
    with pytest.raises(ConnectionLost):
        rows_of(part, options(name_servers=servers.name_server), NUMBERS)


def test_an_address_that_is_no_more_is_asked_for_anew(
    servers: Cluster, store_path: Path, send_raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_reading, "AGAIN_MS", 1)
    send_raw("moved", b"here")
    part, given = both_ways(servers, store_path, "moved", 1)[0]
    stale = ReadPartition(part.ranges, dict.fromkeys(part.addresses, "127.0.0.1:1"))
    assert [row["body"] for row in rows_of(stale, given, NUMBERS)] == [b"here"]


@pytest.fixture
def closed_store(tmp_path: Path) -> Path:
    """A store of two queues whose records lie among each other, in several segments."""
    return spread_store(tmp_path / "closed", 120, 2)


def bodies_of(rows: Sequence[dict[str, Any]]) -> list[int]:
    return [int(row["body"]) for row in rows]


def test_records_far_apart_and_in_several_segments_are_gathered(
    closed_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reading, "_MAX_BETWEEN", 0)
    rows = rows_of(whole(LogOffsets(closed_store), "plain"), options(path=closed_store), NUMBERS)
    assert bodies_of(rows) == [*range(120)]  # for fewer reads, as the log has them


def test_short_ranges_of_several_queues_make_one_batch(closed_store: Path) -> None:
    part = whole(LogOffsets(closed_store), "plain")
    queues = [*range(0, 120, 2), *range(1, 120, 2)]
    cases = (
        (120, [120], [*range(120)]),
        (119, [60, 60], queues),
        (50, [50, 10, 50, 10], queues),
    )
    for batch_rows, sizes, numbers in cases:
        given = options(path=closed_store, batch_rows=batch_rows)
        batches = list(read_part(part, given, NUMBERS, ALL))
        assert [batch.num_rows for batch in batches] == sizes
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert bodies_of(rows) == numbers


def test_tags_are_looked_for_in_short_ranges_of_several_queues(tmp_path: Path) -> None:
    config = small_store(tmp_path / "tagged", FlushMode.ASYNC)
    store = MessageStore.open(
        config, disk=Disk(), clock=StepClock(), store_host=HOST, threads=False
    )
    for number in range(60):
        tag = b"TAGS\x01%d\x02" % (number % 3)
        store.append([[put(b"%d" % number, queue_id=number % 4, properties=tag)]])
    store.dispatch()
    store.close()
    part = whole(LogOffsets(tmp_path / "tagged"), "plain")
    given = options(path=tmp_path / "tagged")
    (batch,) = read_part(part, given, NUMBERS, RowFilter(tags=frozenset({"1", "2"})))
    assert bodies_of(batch.to_pylist()) == [number for number in range(60) if number % 3]


def test_ranges_share_a_batch_as_long_as_they_fit() -> None:
    def spans(*counts: int) -> list[list[int]]:
        queues = [
            MessageQueue(topic="t", broker_name="b", queue_id=number)
            for number in range(len(counts))
        ]
        ranges = [
            QueueRange(queue, QueueOffset(5), QueueOffset(5 + count))
            for queue, count in zip(queues, counts, strict=True)
        ]
        return [[each.count for each in some] for some in together(ranges, 10)]

    assert spans(3, 3, 4, 1, 30, 2, 9) == [[3, 3, 4], [1], [30], [2], [9]]
    assert spans() == []


def test_what_retention_took_after_the_plan_is_a_gap(closed_store: Path) -> None:
    part = whole(LogOffsets(closed_store), "plain")
    first, second, *_ = sorted((closed_store / "commitlog").iterdir())
    first.unlink()
    left = LogOffset(int(second.name))
    with pytest.raises(MessagesGone) as caught:
        rows_of(part, options(path=closed_store), NUMBERS)
    assert caught.value.gap.first == 0
    rows = rows_of(part, options(path=closed_store, on_gap="skip"), NUMBERS)
    with LogDirectory(closed_store) as directory:
        assert directory.log.first_offset == left
        kept = [range(directory.ends("plain", number)[0], 60) for number in (0, 1)]
    assert bodies_of(rows) == [2 * at for at in kept[0]] + [2 * at + 1 for at in kept[1]]


def test_what_retention_takes_during_a_task_is_a_gap(
    closed_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task has looked at the directory, and read some of it, when files go."""
    monkeypatch.setattr(log_reading, "READ_BYTES", 300)
    part = whole(LogOffsets(closed_store), "plain")
    segments = sorted((closed_store / "commitlog").iterdir())
    assert len(segments) > 3
    for policy in ("fail", "skip"):
        given = options(path=closed_store, on_gap=policy, batch_rows=1000)
        batches = read_part(part, given, NUMBERS, ALL)
        rows = next(batches).to_pylist()
        seen = len(rows)
        for segment in segments[:2]:
            segment.rename(segment.with_suffix(".gone"))
        if policy == "fail":
            with pytest.raises(MessagesGone) as caught:
                list(batches)
            assert caught.value.gap.count > 0
            for segment in segments[:2]:
                segment.with_suffix(".gone").rename(segment)
    rows += [row for batch in batches for row in batch.to_pylist()]
    with LogDirectory(closed_store) as directory:
        left = [range(directory.ends("plain", number)[0], 60) for number in (0, 1)]
    offsets = [(row["queue_id"], row["queue_offset"]) for row in rows]
    assert 0 < left[0].start < 60
    # What was read from the file that is open may come; nothing is missing behind the gap.
    expected = [(number, at) for number in (0, 1) for at in left[number]]
    assert [place for place in offsets if place in set(expected)] == expected
    assert offsets[:seen] == [(0, at) for at in range(seen)]
    assert all(int(row["body"]) == 2 * row["queue_offset"] + row["queue_id"] for row in rows)


@pytest.mark.parametrize("at", [30, 95], ids=["its place", "its body"])
@pytest.mark.parametrize("policy", ["null", "skip", "quarantine"])
def test_a_record_that_is_damaged_in_the_log_goes_alone(
    closed_store: Path, tmp_path: Path, at: int, policy: Any
) -> None:
    segment = min((closed_store / "commitlog").iterdir())
    data = bytearray(segment.read_bytes())
    data[at] ^= 4
    segment.write_bytes(data)
    part = whole(LogOffsets(closed_store), "plain")
    kept = tmp_path / "kept" if policy == "quarantine" else None
    given = options(path=closed_store, on_bad_message=policy, quarantine=kept)
    rows = rows_of(part, given)
    assert len(rows) == 120 - (policy != "null")
    if policy == "null":
        [bad] = [row for row in rows if row["body"] is None]
        assert (bad["topic"], bad["queue_id"], bad["queue_offset"]) == ("plain", 0, 0)
    assert sorted(int(row["body"]) for row in rows if row["body"]) == list(range(1, 120))
    if kept is not None:
        record = (kept / "plain" / "broker-a-0-0.record").read_bytes()
        assert record == bytes(data[: len(record)])


@pytest.mark.parametrize("at", [30, 95], ids=["its place", "its body"])
def test_a_bit_that_flipped_in_the_log_is_never_shown(closed_store: Path, at: int) -> None:
    segment = min((closed_store / "commitlog").iterdir())
    data = bytearray(segment.read_bytes())
    data[at] ^= 4
    segment.write_bytes(data)
    part = whole(LogOffsets(closed_store), "plain")
    with pytest.raises(UnreadableMessage, match="message 0 in queue 0"):
        rows_of(part, options(path=closed_store), NUMBERS)


def test_a_log_that_a_task_cannot_see_is_told_so(tmp_path: Path) -> None:
    queue = MessageQueue(topic="any", broker_name="broker-a", queue_id=0)
    part = ReadPartition((QueueRange(queue, QueueOffset(0), QueueOffset(1)),), {})
    with pytest.raises(LogNotFound, match="executors see"):
        rows_of(part, options(path=tmp_path / "elsewhere"), NUMBERS)


@pytest.mark.spark
def test_spark_gets_the_same_rows_either_way_lean_and_decoded(
    spark: SparkSession, servers: Cluster, store_path: Path, send: Any
) -> None:
    bodies = [b'{"city": "Oslo", "n": %d}' % number for number in range(500)]
    send("spark-both", [*bodies, b"{oops"], tags="new", keys=["A", "B"])
    both_ways(servers, store_path, "spark-both", 501)
    whole_frames, decoded = [], []
    for where in ({"nameServer": servers.name_server}, {"path": str(store_path)}):
        reader = spark.read.format("rocketpipe").options(subscribe="spark-both", **where)
        whole_frames.append(sorted(map(str, reader.load().collect())))
        typed = reader.option("decode", "json").schema(
            "queue_offset BIGINT, n INT, decode_error STRING"
        )
        decoded.append(typed.load().selectExpr("sum(n)", "count(*)", "count(decode_error)").first())
    assert whole_frames[0] == whole_frames[1]
    assert len(whole_frames[0]) == 501
    assert decoded == [(sum(range(500)), 501, 1)] * 2


@pytest.mark.spark
def test_spark_reads_a_directory_of_apaches_broker(
    spark: SparkSession, tmp_path: Path, unpack_golden: Callable[..., Path]
) -> None:
    store = unpack_golden("5.5.0-kill", tmp_path)
    told = json.loads((GOLDEN / "5.5.0-kill.json").read_text())["messages"]
    frame = spark.read.format("rocketpipe").options(path=str(store), subscribe="orders").load()
    found = frame.selectExpr("queue_id", "queue_offset", "sha2(body, 256)", "properties").collect()
    assert sorted((row[0], row[1], row[2], sorted(row[3].items())) for row in found) == sorted(
        (one["queue"], one["offset"], one["body_sha256"], sorted(one["properties"].items()))
        for one in told
        if one["topic"] == "orders"
    )


def test_the_stores_of_several_brokers_are_read_as_one_also_of_one_that_left(
    tmp_path: Path,
) -> None:
    known = roster.begun("b", taken=True).grown(2)
    known.save(tmp_path)
    for member in known.brokers:
        store = MessageStore.open(
            small_store(member.root(tmp_path), FlushMode.ASYNC),
            disk=Disk(),
            clock=StepClock(),
            store_host=HOST,
            threads=False,
        )
        store.append([[put(member.name.encode())]])
        store.close()
    places = LogOffsets(tmp_path)
    found = places.ends(places.queues("plain"))
    places.close()
    ranges = tuple(QueueRange(each, *ends) for each, ends in found.items())
    schema = pa.schema([SCHEMA.field("broker"), SCHEMA.field("body")])

    def rows() -> set[tuple[str, bytes]]:
        part = ReadPartition(ranges, {})
        batches = read_part(part, options(path=tmp_path), schema, ALL)
        return {(row["broker"], row["body"]) for each in batches for row in each.to_pylist()}

    assert rows() == {("b", b"b"), ("b-1", b"b-1")}
    # A batch that was planned before it left is read as it was planned.
    known.with_leaving("b-1", delete=False).save(tmp_path)
    set_aside.finish_leaving(tmp_path)
    assert rows() == {("b", b"b"), ("b-1", b"b-1")}
