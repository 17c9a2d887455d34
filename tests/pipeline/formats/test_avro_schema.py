"""Avro schemas as columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketpipe.pipeline.formats.avro_schema import AvroSchema, conflict, inlined
from rocketpipe.pipeline.formats.errors import BodySchemaError
from rocketpipe.pipeline.options.ddl import sql_type


def record(*fields: Any, name: str = "Order") -> str:
    return json.dumps(
        {
            "type": "record",
            "name": name,
            "fields": [{"name": f"f{at}", "type": each} for at, each in enumerate(fields)],
        }
    )


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("bytes", "binary"),
        ("null", "string"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        (logical("string", "uuid"), "string"),
        (logical("int", "date"), "date"),
        (logical("int", "time-millis"), "int"),
        (logical("long", "time-micros"), "bigint"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "timestamp-nanos"), "timestamp"),
        (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
        (logical("bytes", "decimal", precision=9, scale=2), "decimal(9,2)"),
        (logical("bytes", "decimal", precision=50, scale=2), "binary"),
        (logical("long", "of-my-own"), "bigint"),
        (["null", "int"], "int"),
        (["int", "null", "long"], "bigint"),
        (["float", "long"], "double"),
        (["int", "string"], "struct<member0:int,member1:string>"),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        (
            {"type": "map", "values": {"type": "array", "items": "long"}},
            "map<string,array<bigint>>",
        ),
        (
            {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]},
            "struct<x:int>",
        ),
    ],
)
def test_every_type_has_its_column(kind: Any, shown: str) -> None:
    assert sql_type(AvroSchema.of(record(kind)).schema.field("f0").type) == shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no Avro schema"),
        ('"string"', "not of a record"),
        ('{"type": "record", "name": "A", "fields": []}', "no fields"),
        (record("nothing"), "is no Avro schema"),
        (record({"type": "array", "items": "null"}), "take no bytes"),
        (
            record(["string", {"type": "enum", "name": "E", "symbols": ["A"]}]),
            "values of string and enum cannot be told apart",
        ),
        (record("int", ["null", "Order"]), "f1: type Order contains itself"),
        ('{"type":' * 5000, "is no Avro schema"),
    ],
)
def test_what_cannot_be_columns_is_refused_in_a_line(text: str, said: str) -> None:
    with pytest.raises(BodySchemaError, match=said) as raised:
        AvroSchema.of(text)
    assert "\n" not in str(raised.value)


def test_types_may_be_used_by_name() -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
    struct = AvroSchema.of(record(inner, "In", {"type": "array", "items": "In"})).schema
    assert struct.field("f1").type == struct.field("f0").type
    assert sql_type(struct.field("f2").type) == "array<struct<x:int>>"


def test_what_a_schema_uses_of_others_is_put_in_once() -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
    text = inlined(record("In", ["null", "In"]), {"In": json.dumps(inner)})
    assert sql_type(AvroSchema.of(text).schema.field("f1").type) == "struct<x:int>"


def test_a_field_that_means_another_thing_is_told() -> None:
    millis, micros = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
    one, other = AvroSchema.of(record(millis)), AvroSchema.of(record(micros))
    said = conflict(one, other)
    assert said == "f0 was written as timestamp-millis, and is to be read as timestamp-micros"
    assert conflict(one, one) is None
    assert conflict(one, AvroSchema.of(record("long"))) is None
