"""The columns of a read: those there are, and those asked for."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from rocketpipe.pipeline.columns.rows import (
    SCHEMA,
    ColumnError,
    UnreadableMessage,
    arrow_schema,
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
    fields = StructType().add("city", StringType()).add("amount", DoubleType())
    given = options(decode="json", decode_schema=fields, columns=("amount", "decode_error", "tags"))
    assert schema_of(given).names == ["amount", "decode_error", "tags"]


def test_a_field_that_messages_have_already_is_refused() -> None:
    fields = StructType().add("keys", StringType())
    with pytest.raises(ColumnError, match="column 'keys' of decodeSchema"):
        schema_of(options(decode="json", decode_schema=fields))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (StructType().add("colour", StringType()), "column 'colour' is unknown: there are topic,"),
        (
            StructType().add("Topic", StringType()),
            "column 'Topic' is unknown: did you mean 'topic'",
        ),
        (StructType().add("value", StringType()), "column 'value' is unknown: did you mean 'body'"),
        (StructType().add("offset", LongType()), "did you mean 'queue_offset'"),
        (StructType().add("queue_offset", IntegerType()), "is bigint, not int: ask for that"),
        (StructType().add("tags", StringType(), nullable=False), "column 'tags' may be NULL"),
        (StructType().add("unique_key", StringType(), nullable=False), "may be NULL"),
    ],
)
def test_a_schema_that_messages_cannot_fill_is_refused(schema: StructType, reason: str) -> None:
    with pytest.raises(ColumnError, match=reason):
        check_columns(schema)


def test_where_bodies_are_json_other_columns_are_their_fields() -> None:
    schema = StructType([SCHEMA["topic"]]).add("city", StringType())
    check_columns(schema, options(decode="json"))
    with pytest.raises(
        ColumnError, match=r"column 'city' is unknown: there are .* text, decode_er"
    ):
        check_columns(schema, options(decode="text"))
    with pytest.raises(ColumnError, match="which bodies are not read as"):
        check_columns(
            StructType().add("m", MapType(IntegerType(), StringType())), options(decode="json")
        )
    check_columns(StructType().add("m", MapType(StringType(), LongType())), options(decode="json"))
    with pytest.raises(ColumnError, match="column 'city' may be NULL"):
        check_columns(
            StructType().add("city", StringType(), nullable=False), options(decode="json")
        )
    with pytest.raises(OptionError, match="'decodeSchema' is missing: name the fields"):
        check_columns(StructType().add("decode_error", StringType()), options(decode="json"))
    for columns in ((), ("body", "decode_error")):
        with pytest.raises(OptionError, match="'decodeSchema' is missing: name the fields"):
            schema_of(options(decode="json", columns=columns))


def test_arrow_gets_the_types_that_spark_takes() -> None:
    schema = StructType([SCHEMA["keys"]]).add("at", TimestampType()).add("n", IntegerType())
    assert arrow_schema(schema) == pa.schema(
        [
            pa.field("keys", pa.list_(pa.string())),
            pa.field("at", pa.timestamp("us", tz="UTC")),
            pa.field("n", pa.int32()),
        ]
    )


@pytest.mark.parametrize(
    "error", [ColumnError("tags", "is odd"), UnreadableMessage("broker-a", 1, 7, "no zlib")]
)
def test_an_error_comes_whole_out_of_a_task(error: Exception) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
