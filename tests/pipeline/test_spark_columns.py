"""Columns as Spark has them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    CharType,
    IntegerType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampType,
)

from rocketpipe.pipeline.columns.rows import SCHEMA, ColumnError
from rocketpipe.pipeline.options.ddl import parse_schema
from rocketpipe.pipeline.spark_columns import arrow_schema, remembered, remembering, spark_schema

MADE = {"subscribe": "orders", "option.subscribe": "orders", "provider": "rocketpipe"}
EVERY = (
    "a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, h decimal(9, 3), "
    "i string NOT NULL, j binary, k date, l timestamp, m timestamp_ntz, n array<array<int>>, "
    "o map<int, struct<p: decimal(38, 0), q: array<date>>>"
)


def test_arrow_gets_the_types_that_spark_takes() -> None:
    schema = StructType().add("at", TimestampType()).add("n", IntegerType(), nullable=False)
    assert arrow_schema(schema) == pa.schema(
        [
            pa.field("at", pa.timestamp("us", tz="UTC")),
            pa.field("n", pa.int32(), nullable=False),
        ]
    )


def test_there_and_back_nothing_changes() -> None:
    for schema in (SCHEMA, parse_schema(EVERY)):
        assert arrow_schema(spark_schema(schema)) == schema
    inside = StructType().add("x", IntegerType(), nullable=False)
    assert arrow_schema(StructType().add("s", inside)) == parse_schema("s struct<x: int>")


@pytest.mark.parametrize(
    "kind", [NullType(), CharType(3), ArrayType(NullType()), MapType(StringType(), NullType())]
)
def test_what_bodies_never_have_is_refused(kind: object) -> None:
    with pytest.raises(ColumnError, match=r"column 'odd' is .*, which bodies are not read as"):
        arrow_schema(StructType().add("odd", kind))  # type: ignore[arg-type]


def test_columns_remember_the_options_of_their_table_and_a_read_may_give_others() -> None:
    columns = spark_schema(SCHEMA)
    schema = remembering(columns, MADE)
    assert schema.names == SCHEMA.names
    travelled = StructType.fromJson(schema.jsonValue())
    assert remembered(travelled, {}) == {"subscribe": "orders"}
    assert remembered(travelled, {"SUBSCRIBE": "returns"})["subscribe"] == "returns"
    assert remembering(columns, {"subscribe": "orders"}) is columns
    assert remembered(columns, {"subscribe": "orders"}) == {"subscribe": "orders"}
