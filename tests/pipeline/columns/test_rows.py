"""The columns of a read: those there are, and those asked for."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from rocketpipe.pipeline.columns.rows import (
    SCHEMA,
    ColumnError,
    UnreadableMessage,
    check_body_types,
    check_columns,
    schema_of,
)
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.selection import Selection
from rocketpipe.pipeline.options.text import OptionError


def options(**fields: Any) -> ReadOptions:
    return ReadOptions(selection=Selection(topics=("orders",)), path=None, **fields)


def test_without_a_wish_every_column_comes() -> None:
    assert schema_of(options()) == SCHEMA
    first, *_, last = SCHEMA.names
    assert (first, last, len(SCHEMA.names)) == ("topic", "sys_flag", 15)
    assert "unique_key" in SCHEMA.names
    check_columns(SCHEMA)


def test_only_the_columns_asked_for_come_in_the_order_asked_for() -> None:
    lean = schema_of(options(columns=("body", "queue_offset")))
    assert lean.names == ["body", "queue_offset"]
    with pytest.raises(ColumnError, match="column 'colour' is unknown: there are topic,"):
        schema_of(options(columns=("colour",)))


def test_what_is_decoded_stands_behind_the_columns_of_a_message() -> None:
    assert schema_of(options(decode="text")).names == [*SCHEMA.names, "text", "decode_error"]
    fields = pa.schema([("city", pa.string()), ("amount", pa.float64())])
    given = options(decode="json", decode_schema=fields, columns=("amount", "decode_error", "tags"))
    assert schema_of(given).names == ["amount", "decode_error", "tags"]


def test_a_field_that_messages_have_already_is_refused() -> None:
    fields = pa.schema([("keys", pa.string())])
    with pytest.raises(ColumnError, match="column 'keys' of decodeSchema"):
        schema_of(options(decode="json", decode_schema=fields))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (pa.schema([("colour", pa.string())]), "column 'colour' is unknown: there are topic,"),
        (
            pa.schema([("Topic", pa.string())]),
            "column 'Topic' is unknown: did you mean 'topic'",
        ),
        (pa.schema([("value", pa.string())]), "column 'value' is unknown: did you mean 'body'"),
        (pa.schema([("offset", pa.int64())]), "did you mean 'queue_offset'"),
        (pa.schema([("queue_offset", pa.int32())]), "is bigint, not int: ask for that"),
        (pa.schema([pa.field("tags", pa.string(), nullable=False)]), "column 'tags' may be NULL"),
        (pa.schema([pa.field("unique_key", pa.string(), nullable=False)]), "may be NULL"),
    ],
)
def test_a_schema_that_messages_cannot_fill_is_refused(schema: pa.Schema, reason: str) -> None:
    with pytest.raises(ColumnError, match=reason):
        check_columns(schema)


def test_where_bodies_are_json_other_columns_are_their_fields() -> None:
    schema = pa.schema([SCHEMA.field("topic"), ("city", pa.string())])
    check_columns(schema, options(decode="json"))
    with pytest.raises(
        ColumnError, match=r"column 'city' is unknown: there are .* text, decode_er"
    ):
        check_columns(schema, options(decode="text"))
    with pytest.raises(ColumnError, match="which bodies are not read as"):
        check_columns(pa.schema([("m", pa.map_(pa.int32(), pa.string()))]), options(decode="json"))
    check_columns(pa.schema([("m", pa.map_(pa.string(), pa.int64()))]), options(decode="json"))
    with pytest.raises(ColumnError, match="column 'city' may be NULL"):
        check_columns(
            pa.schema([pa.field("city", pa.string(), nullable=False)]), options(decode="json")
        )
    with pytest.raises(OptionError, match="'decodeSchema' is missing: name the fields"):
        check_columns(pa.schema([("decode_error", pa.string())]), options(decode="json"))
    for columns in ((), ("body", "decode_error")):
        with pytest.raises(OptionError, match="'decodeSchema' is missing: name the fields"):
            schema_of(options(decode="json", columns=columns))


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_string(), pa.timestamp("ms"), pa.list_(pa.binary()), pa.uint8()],
)
def test_a_type_that_json_is_not_read_as_is_refused(kind: pa.DataType) -> None:
    schema = pa.schema([("f", kind), SCHEMA.field("body")])
    with pytest.raises(ColumnError, match=r"column 'f' is .*, which bodies are not read as"):
        check_body_types(schema)
    assert check_body_types(pa.schema([("f", pa.binary())]), from_json=False).names == ["f"]


@pytest.mark.parametrize(
    "error", [ColumnError("tags", "is odd"), UnreadableMessage("broker-a", 1, 7, "no zlib")]
)
def test_an_error_comes_whole_out_of_a_task(error: Exception) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
