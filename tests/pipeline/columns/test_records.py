"""Whole batches of records into columns: the same as record by record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import RecordError
from rocketpipe.model.flags import Compression, with_compression
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.properties import UNIQ_KEY, encode_bytes
from rocketpipe.pipeline.columns.records import DamagedRecord, Records, walk
from rocketpipe.pipeline.columns.rows import SCHEMA
from rocketpipe.record.codec import RecordView, encode_record, view_records
from rocketpipe.record.compression import compress
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.upkeep.log_scan import LogFiles, Scanned, scan

V4 = Host.parse("10.0.0.7:10911")
V6 = Host.parse("[2001:db8::7]:10911")

# Names that are looked for, names that begin like them, and pieces that are none.
NAMES = st.sampled_from(
    [
        b"TAGS",
        b"KEYS",
        b"UNIQ_KEY",
        b"UNIQ_KEYS",
        b"TAG",
        b"KEYS2",
        b"colour",
        b"",
        b"\xc3\xa9",
        b"k",
    ]
)
VALUES = st.sampled_from(
    [
        b"",
        b"paid",
        b"A1 B2",
        b" A1  B2 ",
        b"\x01",
        b"x\x01y",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xe5\x9f\x8e",
    ]
) | st.binary(max_size=12)
PIECES = st.builds(
    lambda name, mark, value: name + mark + value, NAMES, st.sampled_from([b"\x01", b""]), VALUES
)
PROPERTIES = st.builds(
    lambda pieces, end: b"\x02".join(pieces) + end,
    st.lists(PIECES, max_size=6),
    st.sampled_from([b"\x02", b""]),
)
LONG = (1 << 63) - 1


@st.composite
def messages(draw: st.DrawFn) -> StoredMessage:
    """A message as somebody may have stored it."""
    body, sys_flag = draw(st.binary(max_size=40)), draw(st.sampled_from([0, 2, 8, 1 << 12]))
    kind = draw(st.sampled_from([None, None, *Compression]))
    if kind is not None:
        body, sys_flag = compress(body, kind), with_compression(sys_flag, kind)
    times = st.sampled_from([-LONG, 0, 1_700_000_000_123, 253_402_300_800_000, LONG])
    return StoredMessage(
        topic=draw(
            st.sampled_from(
                ["orders", "t", "a-longer-topic", "topic-18-characters", "é", "x" * 130]
            )
        ),
        body=body,
        raw_properties=draw(PROPERTIES),
        queue_id=draw(st.integers(0, 9)),
        queue_offset=draw(st.integers(0, LONG)),  # type: ignore[arg-type]
        log_offset=draw(st.integers(0, LONG)),  # type: ignore[arg-type]
        sys_flag=sys_flag,
        born_ms=draw(times),
        born_host=draw(st.sampled_from([V4, V6])),
        stored_ms=draw(times),
        store_host=draw(st.sampled_from([V4, V6])),
        reconsume_times=draw(st.integers(0, 16)),
        long_topic=draw(st.sampled_from([None, True])),
    )


def stored(**parts: Any) -> StoredMessage:
    given_parts: dict[str, Any] = {
        "topic": "orders",
        "body": b"hello",
        "queue_id": 2,
        "queue_offset": 7,
        "log_offset": 4096,
        "born_ms": 1_700_000_000_123,
        "born_host": V4,
        "stored_ms": 1_700_000_000_456,
        "store_host": V4,
    }
    return StoredMessage(**given_parts | parts)


def slowly(view: RecordView) -> dict[str, Any]:
    """A row as the codec gives it."""

    def shown(ms: int) -> Any:
        if not -62_135_596_800_000 <= ms < 253_402_300_800_000:
            return None
        return pa.scalar(ms * 1000, pa.timestamp("us", tz="UTC")).as_py()

    return {
        "topic": view.topic,
        "broker": "broker-a",
        "queue_id": view.queue_id,
        "queue_offset": view.queue_offset,
        "log_offset": view.log_offset,
        "keys": list(view.keys),
        "tags": view.tags,
        "body": view.body,
        "properties": list(view.properties.items()),
        "born_timestamp": shown(view.born_ms),
        "store_timestamp": shown(view.stored_ms),
        "message_id": view.message_id,
        "unique_key": view.properties.get(UNIQ_KEY),
        "reconsume_times": view.reconsume_times,
        "sys_flag": view.sys_flag,
    }


def at_once(records: Records) -> list[dict[str, Any]]:
    columns = [records.column(name, "broker-a") for name in SCHEMA.names]
    rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    rows.validate(full=True)
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def walked(*stored_messages: StoredMessage) -> Records:
    body = b"".join(map(encode_record, stored_messages))
    return Records(body, *walk(body))


@given(st.lists(messages(), min_size=1, max_size=6))
def test_a_batch_has_what_the_codec_gives_record_by_record(several: list[StoredMessage]) -> None:
    body = b"".join(map(encode_record, several))
    assert at_once(Records(body, *walk(body))) == [slowly(view) for view in view_records(body)]


@given(st.lists(messages(), min_size=2, max_size=6), st.data())
def test_some_records_of_a_buffer_are_the_same_as_those_alone(
    several: list[StoredMessage], data: st.DataObject
) -> None:
    rows = data.draw(st.sets(st.integers(0, len(several) - 1)))
    chosen = walked(*several).take(np.array(sorted(rows), np.int64))
    assert chosen.count == len(rows)
    if rows:
        assert at_once(chosen) == at_once(walked(*(several[row] for row in sorted(rows))))


@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_damage_is_told_and_never_followed(
    several: list[StoredMessage], data: st.DataObject
) -> None:
    body = bytearray(b"".join(map(encode_record, several)))
    for _ in range(3):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected: Any = [slowly(view) for view in view_records(bytes(body))]
    except RecordError:
        with pytest.raises(RecordError):
            at_once(Records(bytes(body), *walk(bytes(body))))
    else:
        assert at_once(Records(bytes(body), *walk(bytes(body)))) == expected


@pytest.mark.parametrize("name", ["4.9.7-stop", "5.5.0-kill"])
def test_what_apaches_broker_stored_reads_the_same_at_once(
    name: str, tmp_path: Path, unpack_golden: Callable[..., Path]
) -> None:
    store = unpack_golden(name, tmp_path, "commitlog")
    with LogFiles(Disk(), store / "commitlog") as files:
        records = [each.record for each in scan(files) if isinstance(each, Scanned)]
    body = b"".join(records)
    assert len(records) > 300
    assert at_once(Records(body, *walk(body))) == [slowly(view) for view in view_records(body)]


def test_no_records_make_empty_columns() -> None:
    assert Records(b"", *walk(b"")).count == 0
    assert Records(b"", *walk(b"")).queue_offsets.tolist() == []


def test_a_name_given_twice_counts_once_with_the_last_value_among_many_names() -> None:
    many = b"".join(b"name-%d\x01value\x02" % number for number in range(60))
    records = walked(
        stored(raw_properties=many),
        stored(raw_properties=b"a\x011\x02b\x012\x02a\x013\x02"),
        stored(raw_properties=many + b"name-7\x01last\x02"),
    )
    maps = [dict(row["properties"]) for row in at_once(records)]
    assert maps[1] == {"a": "3", "b": "2"}
    assert maps[2] == maps[0] | {"name-7": "last"}


def test_a_damaged_record_is_named_by_its_place() -> None:
    body = bytearray(b"".join(encode_record(stored(queue_offset=at)) for at in range(3)))
    body[len(body) // 3 + 90] ^= 1  # in the body of the second
    with pytest.raises(DamagedRecord, match="CRC") as caught:
        at_once(Records(bytes(body), *walk(bytes(body))))
    assert (caught.value.row, caught.value.queue_id, caught.value.queue_offset) == (1, 2, 1)


def test_a_body_that_nobody_asks_for_is_not_looked_at() -> None:
    damaged = walked(stored(body=b"no zlib", sys_flag=with_compression(0, Compression.ZLIB)))
    assert damaged.column("queue_offset").to_pylist() == [7]
    with pytest.raises(DamagedRecord, match="zlib"):
        damaged.column("body")


def test_records_are_parted_by_what_their_bodies_inflate_to() -> None:
    packed = compress(b"x" * 10_000, Compression.ZLIB)
    flag = with_compression(0, Compression.ZLIB)
    several = [stored(body=b"plain"), *(stored(body=packed, sys_flag=flag) for _ in range(5))]
    parts = list(walked(*several, stored(body=b"end")).parted(20_000))
    assert [part.count for part in parts] == [3, 2, 2]
    bodies = [body for part in parts for body in part.column("body").to_pylist()]
    assert bodies == [b"plain", *[b"x" * 10_000] * 5, b"end"]


def test_records_without_compressed_bodies_stay_together() -> None:
    together = walked(stored(), stored())
    assert list(together.parted(1)) == [together]


def test_properties_that_are_alike_in_every_row_are_read_so() -> None:
    several = [
        stored(raw_properties=encode_bytes({"TAGS": "a", "KEYS": f"k{number}", "UNIQ_KEY": "0A"}))
        for number in range(50)
    ]
    assert [row["keys"] for row in at_once(walked(*several))] == [[f"k{n}"] for n in range(50)]
    twice = stored(raw_properties=b"a\x011\x02a\x012\x02")
    assert [dict(row["properties"]) for row in at_once(walked(twice, twice))] == [{"a": "2"}] * 2
