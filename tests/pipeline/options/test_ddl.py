"""Schemas as text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rocketpipe.pipeline.options.ddl import SchemaTextError, parse_schema, sql_schema, sql_type
from rocketpipe.pipeline.spark_columns import spark_schema


def test_columns_as_sql_writes_them() -> None:
    schema = parse_schema(
        "city STRING, `odd ``name` Int NOT NULL, at timestamp, price DECIMAL(10, 2),"
        "tags array<string>, by map<string, array<bigint>>, where struct<lat: double, lon double>"
    )
    place = pa.struct([("lat", pa.float64()), ("lon", pa.float64())])
    assert schema == pa.schema(
        [
            pa.field("city", pa.string()),
            pa.field("odd `name", pa.int32(), nullable=False),
            pa.field("at", pa.timestamp("us", tz="UTC")),
            pa.field("price", pa.decimal128(10, 2)),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("by", pa.map_(pa.string(), pa.list_(pa.int64()))),
            pa.field("where", place),
        ]
    )
    assert parse_schema(sql_schema(schema)) == schema
    assert parse_schema(spark_schema(schema).json()) == schema
    nullable = pa.schema([field.with_nullable(True) for field in schema if "`" not in field.name])
    assert parse_schema(spark_schema(nullable).simpleString()) == nullable
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
        ("[", "is not understood"),
        ('{"type": "struct", "fields": [{"name": "a"}]}', "no schema as JSON"),
        ('{"type": "struct", "fields": [{"name": "a", "type": "int int"}]}', "behind the type"),
        ('{"type": "struct", "fields": [{"name": "a", "type": "void"}]}', "'void' is not known"),
        ('{"type":' * 5000, "no schema as JSON"),
    ],
)
def test_what_is_no_schema_says_where(text: str, said: str) -> None:
    with pytest.raises(SchemaTextError, match=said):
        parse_schema(text)


@pytest.mark.parametrize(
    "text",
    [
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(38,2)"),
        *("string", "binary", "date", "timestamp", "timestamp_ntz", "array<map<int,binary>>"),
        "struct<`odd ``one`:array<int>,b:struct<c:date>>",
    ],
)
def test_a_type_is_called_what_spark_calls_it(text: str) -> None:
    [field] = parse_schema(f"a {text}")
    assert sql_type(field.type) == text
    [there] = spark_schema(pa.schema([field])).fields
    assert there.dataType.simpleString() == text.replace("`odd ``one`", "odd `one")


def test_a_type_that_sql_has_no_name_for_goes_by_the_one_of_arrow() -> None:
    assert sql_type(pa.large_string()) == "large_string"
