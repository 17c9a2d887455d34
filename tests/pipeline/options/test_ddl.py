"""Schemas as text."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from rocketpipe.pipeline.options.ddl import SchemaTextError, parse_schema


def test_columns_as_sql_writes_them() -> None:
    schema = parse_schema(
        "city STRING, `odd ``name` Int NOT NULL, at timestamp, price DECIMAL(10, 2),"
        "tags array<string>, by map<string, array<bigint>>, where struct<lat: double, lon double>"
    )
    place = StructType().add("lat", DoubleType()).add("lon", DoubleType())
    assert schema == (
        StructType()
        .add("city", StringType())
        .add("odd `name", IntegerType(), nullable=False)
        .add("at", TimestampType())
        .add("price", DecimalType(10, 2))
        .add("tags", ArrayType(StringType()))
        .add("by", MapType(StringType(), ArrayType(LongType())))
        .add("where", place)
    )
    assert parse_schema(schema.json()) == schema
    plain = StructType().add("city", StringType()).add("where", place)
    assert parse_schema(plain.simpleString()) == plain
    assert parse_schema("struct string, b int").names == ["struct", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no column"),
        ("a", "where a name or type should"),
        ("a strin", "'strin' is not known"),
        ("a string b int", "where ',' should"),
        ("a int,, b int", "where a name or type should"),
        ("a int, a int", "there twice"),
        ("a array<int", "where '>' should"),
        ("a map<int>", "where ',' should"),
        ("a decimal(40, 2)", "no such digits"),
        ("a decimal(x)", "not a number"),
        ("a int NOT nil", "NULL is missing"),
        ("a int; b int", "is not understood"),
        ("a " + "array<" * 100 + "int", "nested more than"),
        ("struct<a int", "where '>' should|where ',' should"),
        ("struct<a int>, b int", "',' stands behind the struct"),
        ("struct<>", "names no column"),
        ("StructType([StructField('a', IntegerType(), True)])", r"give schema\.json\(\)"),
        ('{"type": "struc"}', "no schema as JSON"),
        ("{", "no schema as JSON"),
    ],
)
def test_what_is_no_schema_says_where(text: str, said: str) -> None:
    with pytest.raises(SchemaTextError, match=said):
        parse_schema(text)
