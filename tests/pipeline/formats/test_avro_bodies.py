"""Avro bodies as columns."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from tests.schema_registry import SchemaRegistry, framed

from rocketpipe.pipeline.formats.body_schema import BodySchema
from rocketpipe.pipeline.formats.errors import RegistryAway
from rocketpipe.pipeline.formats.registry import ATTEMPTS


def record(*fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Order",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    } | more


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def written(schema: Any, *values: Any) -> list[bytes]:
    parsed = fastavro.parse_schema(schema)
    found = []
    for value in values:
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        found.append(out.getvalue())
    return found


def decoded(
    schema: Any, bodies: list[bytes | None], registry: str | None = None, *names: str
) -> tuple[list[dict[str, Any]], dict[int, str]]:
    how = BodySchema("avro", json.dumps(schema), registry)
    every = how.schema
    fields = [each for each in every if not names or each.name in names]
    errors: dict[int, str] = {}
    columns = how.columns(pa.array(bodies, pa.binary()), fields, errors)
    assert {name: each.type for name, each in columns.items()} == {
        each.name: each.type for each in fields
    }
    return pa.table(columns).to_pylist(), errors


ORDER = record(("city", "string"), ("cents", "int"))


def test_each_body_is_a_row_and_what_is_none_has_a_reason() -> None:
    [oslo, lima] = written(ORDER, {"city": "Oslo", "cents": 5}, {"city": "Lima", "cents": -7})
    bodies = [oslo, b"", lima, lima + b"!", None, lima[:-1], b"\x05abc", b"\xff" * 30]
    rows, errors = decoded(ORDER, bodies)
    assert [row["city"] for row in rows] == ["Oslo", None, "Lima", *[None] * 5]
    assert [row["cents"] for row in rows] == [5, None, -7, *[None] * 5]
    assert errors.keys() == {1, 3, 5, 6, 7}  # one that was lost before is not ours to tell
    assert errors[3] == "not Avro: 1 bytes behind the record"
    assert errors[5] == "not Avro: it ends too early"


def test_values_of_every_type_come_out_as_they_went_in() -> None:
    inner = record(("x", "int"), ("at", logical("long", "timestamp-millis")), name="In")
    other = record(("y", "string"), name="Other")
    schema = record(
        ("day", logical("int", "date")),
        ("millis", logical("long", "timestamp-millis")),
        ("micros", ["null", logical("long", "timestamp-micros")]),
        ("local", logical("long", "local-timestamp-micros")),
        ("price", logical("bytes", "decimal", precision=9, scale=2)),
        ("id", logical("string", "uuid")),
        ("color", {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}),
        ("hash", {"type": "fixed", "name": "Hash", "size": 2}),
        ("raw", "bytes"),
        ("inner", ["null", inner]),
        ("inners", {"type": "array", "items": "In"}),
        ("counts", {"type": "map", "values": "long"}),
        ("mixed", ["null", "string", "int"]),
        ("either", [other, "In"]),
        ("ratio", ["int", "double"]),
        ("clock", logical("int", "time-millis")),
    )
    moment = datetime(2026, 5, 1, 12, 30, 0, 123000, tzinfo=UTC)
    number = UUID(int=7)
    value = {
        "day": date(2026, 5, 1),
        "millis": moment,
        "micros": moment + timedelta(microseconds=1),
        "local": datetime(2026, 5, 1, 12),
        "price": Decimal("-12.34"),
        "id": number,
        "color": "BLUE",
        "hash": b"ab",
        "raw": b"\x00\xff",
        "inner": {"x": 1, "at": moment},
        "inners": [{"x": 2, "at": moment}, {"x": 3, "at": moment}],
        "counts": {"a": 1, "b": 2},
        "mixed": 9,
        "either": ("In", {"x": 4, "at": moment}),
        "ratio": 2,
        "clock": 1000,
    }
    plain = {
        **value,
        "micros": None,
        "inner": None,
        "mixed": "text",
        "either": ("Other", {"y": "z"}),
    }
    parsed_for_writing = json.loads(json.dumps(schema))
    for each in parsed_for_writing["fields"]:
        if each["name"] == "clock":
            each["type"] = "int"
    [row, without], errors = decoded(schema, written(parsed_for_writing, value, plain))
    assert errors == {}
    assert row == value | {
        "id": str(number),
        "counts": [("a", 1), ("b", 2)],
        "mixed": {"member0": None, "member1": 9},
        "either": {"member0": None, "member1": {"x": 4, "at": moment}},
        "ratio": 2.0,
    }
    assert (without["micros"], without["inner"]) == (None, None)
    assert without["mixed"] == {"member0": "text", "member1": None}
    assert without["either"] == {"member0": {"y": "z"}, "member1": None}


def test_a_value_that_spark_cannot_have_makes_its_own_row_bad() -> None:
    schema = record(("at", logical("long", "timestamp-micros")))
    plain = record(("at", "long"))
    times = [{"at": 1}, {"at": 1 << 62}, {"at": 3}, *[{"at": 4}] * 30]
    rows, errors = decoded(schema, written(plain, *times))
    assert errors == {1: "a value does not fit: a time outside the years 1 to 9999"}
    assert [row["at"] is None for row in rows] == [False, True, *[False] * 31]


def test_the_writers_schema_is_found_by_its_id_and_resolved(registry: SchemaRegistry) -> None:
    old = registry.register("orders-value", record(("cents", "int"), ("gone", "string")))
    new = registry.register(
        "orders-value",
        {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "amount", "aliases": ["cents"], "type": "long"},
                {"name": "city", "type": "string", "default": "?"},
            ],
        },
    )
    reader = json.loads(registry.schemas[new - 1]["schema"])
    [first] = written(json.loads(registry.schemas[old - 1]["schema"]), {"cents": 5, "gone": "x"})
    [second] = written(reader, {"amount": 6, "city": "Oslo"})
    bodies = [framed(old, first), framed(new, second), framed(99, second), second, b"\x00"] * 3
    rows, errors = decoded(reader, bodies, registry.url)
    assert rows[:2] == [{"amount": 5, "city": "?"}, {"amount": 6, "city": "Oslo"}]
    assert [errors[row] for row in (2, 3, 4)] == [
        "the registry has no schema 99",
        "no schema id: the first byte is 12, not 0",
        "no schema id: 1 bytes are too few",
    ]
    assert sorted(registry.asked) == [f"/schemas/ids/{each}" for each in (old, new, 99)]


def test_a_writers_schema_that_does_not_fit_makes_bad_rows(registry: SchemaRegistry) -> None:
    millis = record(("at", logical("long", "timestamp-millis")))
    other = registry.register("a", record(("name", "string")))
    unit = registry.register("b", millis)
    proto = registry.register("c", "Cg==", "PROTOBUF")
    bodies = [framed(other, b"\x02a"), framed(unit, b"\x02"), framed(proto, b"\x02")]
    rows, errors = decoded(
        record(("at", logical("long", "timestamp-micros"))), bodies, registry.url
    )
    assert [row["at"] for row in rows] == [None] * 3
    assert "not Avro" in errors[0]
    assert "written as timestamp-millis" in errors[1]
    assert "is PROTOBUF, not AVRO" in errors[2]


def test_a_registry_that_is_away_is_no_fault_of_the_bodies(registry: SchemaRegistry) -> None:
    registry.instead = (503, {}, b"")
    with pytest.raises(RegistryAway, match="HTTP 503 for schema 1"):
        decoded(ORDER, [framed(1, b"\x02a\x02")], registry.url)
    assert len(registry.asked) == ATTEMPTS


def test_only_the_columns_that_are_wanted_are_made() -> None:
    bodies = written(ORDER, {"city": "Oslo", "cents": 5})
    assert decoded(ORDER, bodies, None, "cents") == ([{"cents": 5}], {})
