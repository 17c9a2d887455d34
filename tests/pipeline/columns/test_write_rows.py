"""Frames that can be sent, and those that cannot."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from rocketpipe.client.producer.selectors import java_hash_of
from rocketpipe.pipeline.columns import write_rows
from rocketpipe.pipeline.columns.write_rows import (
    BadColumn,
    BadRow,
    Rows,
    arrow_batch,
    check_columns,
    rows_by_topic,
)

MAP = pa.map_(pa.string(), pa.string())


def schema(ddl: str) -> StructType:
    kinds = {
        "binary": "binary",
        "string": "string",
        "int": "integer",
        "long": "long",
        "double": "double",
        "array": {"type": "array", "elementType": "string", "containsNull": True},
        "map": {
            "type": "map",
            "keyType": "string",
            "valueType": "string",
            "valueContainsNull": True,
        },
    }
    fields = [
        {"name": name, "type": kinds[kind], "nullable": True, "metadata": {}}
        for name, kind in (part.split(":") for part in ddl.split())
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


def one(topic: str | None = "orders", **columns: Any) -> Rows:
    [(_, rows)] = rows_by_topic(pa.record_batch(columns), topic)
    return rows


def test_every_column_and_type_that_can_be_sent_is_let_through() -> None:
    check_columns(
        schema("topic:string body:binary keys:array tags:string properties:map queue_key:long"),
        None,
    )
    check_columns(schema("body:string keys:string queue_key:string delay_level:int"), "orders")


@pytest.mark.parametrize(
    ("ddl", "topic", "column", "hint"),
    [
        ("tags:string", "orders", "body", "is missing"),
        ("body:binary", None, "topic", "is missing"),
        ("body:double", "orders", "body", r"not binary or string: .*CAST\(body AS STRING\)"),
        ("body:map", "orders", "body", r"map<string,string>, .*to_json\(body\) AS body"),
        ("body:binary tag:string", "orders", "tag", "did you mean 'tags'"),
        ("body:binary broker:string", "orders", "broker", "is unknown"),
        ("value:binary", "orders", "value", "did you mean 'body'"),
        ("body:binary headers:map", "orders", "headers", "did you mean 'properties'"),
        ("body:binary delay_level:string", "orders", "delay_level", "not a whole number"),
    ],
)
def test_a_frame_that_cannot_be_sent_is_refused_by_column(
    ddl: str, topic: str | None, column: str, hint: str
) -> None:
    with pytest.raises(BadColumn, match=hint) as caught:
        check_columns(schema(ddl), topic)
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("columns", "column", "row", "hint"),
    [
        ({"body": ["a", None]}, "body", 11, "is NULL"),
        ({"body": ["a", ""]}, "body", 11, "is empty"),
        ({"body": ["x" * (4 << 20), "x" * ((4 << 20) + 1)]}, "body", 11, "4194304 are the most"),
        ({"body": ["a", "b"], "topic": ["t", "no good"]}, "topic", 11, "not one of"),
        ({"body": ["a", "b"], "tags": ["\x01", "t"]}, "tags", 10, "separator"),
        ({"body": ["a", "b"], "tags": ["t", " "]}, "tags", 11, "is blank"),
        ({"body": ["a", "b"], "keys": ["t", "u v"]}, "keys", 11, "separates keys"),
        ({"body": ["a", "b"], "keys": [["t", "u"], ["v", None]]}, "keys", 11, "NULL among"),
        ({"body": ["a", "b"], "keys": [None, ["v w"]]}, "keys", 11, "separates keys"),
        (
            {"body": ["a", "b"], "properties": pa.array([[], [("UNIQ_KEY", "x")]], MAP)},
            "properties",
            11,
            "RocketMQ's own",
        ),
        (
            {"body": ["a", "b"], "properties": pa.array([None, [("n", "\x02")]], MAP)},
            "properties",
            11,
            "a value has 0x02",
        ),
        ({"body": ["a", "b"], "delay_level": [1, -1]}, "delay_level", 11, "1 or more"),
        ({"body": ["a", "b"], "delay_level": [18, 99]}, "delay_level", 11, "18 .* is the last"),
        ({"body": ["a", "b", "c"], "tags": [None, "x||y", "z"]}, "tags", 11, "has one tag"),
    ],
)
def test_a_row_that_is_no_message_is_named_with_its_column(
    columns: dict[str, Any], column: str, row: int, hint: str
) -> None:
    with pytest.raises(BadRow, match=hint) as caught:
        list(rows_by_topic(pa.record_batch(columns), "orders", 10))
    assert (caught.value.column, caught.value.row) == (column, row)


def test_rows_without_a_topic_go_to_the_default_or_are_refused() -> None:
    batch = pa.record_batch({"body": ["a", "b", "c", "d"], "topic": ["x", None, "y", "x"]})
    found = {topic: rows.body.to_pylist() for topic, rows in rows_by_topic(batch, "y")}
    assert found == {"x": [b"a", b"d"], "y": [b"b", b"c"]}
    with pytest.raises(BadRow, match="is NULL"):
        list(rows_by_topic(batch, None))


def test_queue_keys_choose_as_java_does_and_a_null_chooses_nothing() -> None:
    rows = one(body=["a", "b", "c"], queue_key=["order-1", None, "жук"])
    assert rows.hashes is not None
    assert rows.hashes.tolist() == [abs(java_hash_of("order-1")), -1, abs(java_hash_of("жук"))]
    rows = one(body=["a", "b"], queue_key=pa.array([-(1 << 40), None], pa.int64()))
    assert rows.hashes is not None
    assert rows.hashes.tolist() == [abs(java_hash_of(-(1 << 40))), -1]
    assert one(body=["a"], queue_key=pa.array([None], pa.string())).hashes is None


def test_keys_and_properties_become_texts_also_in_a_slice() -> None:
    batch = pa.record_batch(
        {
            "body": ["0", "1", "2", "3"],
            "keys": [["z"], ["a", "b"], None, []],
            "properties": pa.array(
                [[("z", "z")], [("n", "1"), ("m", "2")], None, [("n", None), ("o", "3")]], MAP
            ),
            "delay_level": pa.array([3, 0, None, 2], pa.int32()),
        }
    ).slice(1)
    [(_, rows)] = rows_by_topic(batch, "orders")
    assert rows.keys.to_pylist() == [b"a b", None, None]  # type: ignore[union-attr]
    assert rows.properties.to_pylist() == [  # type: ignore[union-attr]
        b"n\x011\x02m\x012\x02",
        b"",
        b"o\x013\x02",
    ]
    assert rows.levels.to_pylist() == [None, None, 2]  # type: ignore[union-attr]


def test_wide_types_are_taken_too() -> None:
    rows = one(
        body=pa.array([b"a"], pa.large_binary()),
        tags=pa.array(["t"], pa.large_string()),
        keys=pa.array([["k"]], pa.large_list(pa.large_string())),
    )
    assert (rows.body.to_pylist(), rows.keys.to_pylist()) == ([b"a"], [b"k"])  # type: ignore[union-attr]


def test_a_long_batch_is_taken_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_rows, "SLICE_BYTES", 10)
    batch = pa.record_batch({"body": ["x" * 4, "y" * 4, "z" * 30, "u", "v"]})
    found = [rows for _, rows in rows_by_topic(batch, "orders", 100)]
    assert [len(rows) for rows in found] == [2, 1, 2]
    assert [rows.number(0) for rows in found] == [100, 102, 103]


def test_rows_handed_over_one_by_one_are_the_same_batch() -> None:
    columns = schema("body:string keys:array properties:map queue_key:int")
    batch = arrow_batch([("a", ["k"], {"n": "1"}, 7), ("b", None, None, None)], columns)
    [(_, rows)] = rows_by_topic(batch, "orders")
    assert rows.body.to_pylist() == [b"a", b"b"]
    assert rows.keys.to_pylist() == [b"k", None]  # type: ignore[union-attr]
    assert rows.properties.to_pylist() == [b"n\x011\x02", b""]  # type: ignore[union-attr]
    assert rows.hashes is not None
    assert rows.hashes.tolist() == [7, -1]
