"""Records into bodies; what comes out is read by what reads bodies."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.formats.proto_files import COMMON, ORDERS, descriptor_set

from rocketpipe.pipeline.columns.bodies import decoded_columns
from rocketpipe.pipeline.formats.body_schema import BodySchema
from rocketpipe.pipeline.formats.errors import BodySchemaError
from rocketpipe.pipeline.formats.protobuf_schema import kept_text
from rocketpipe.pipeline.formats.writing import (
    avro_optional,
    avro_writer,
    json_writer,
    plain,
    protobuf_writer,
)

MOMENT = datetime(2026, 5, 1, 12, 30, 0, 123456, tzinfo=UTC)
KINDS = pa.schema(
    [
        ("city", pa.string()),
        ("cents", pa.int64()),
        ("rate", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("stops", pa.list_(pa.struct([("n", pa.int32()), ("x", pa.float64())]))),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("none", pa.string()),
    ]
)
RAW = pa.schema([("raw", pa.binary())])
RECORD = {
    "city": "Östersund",
    "cents": -(2**53) - 1,
    "rate": float("-inf"),
    "price": Decimal("12.30"),
    "day": date(2026, 11, 17),
    "at": MOMENT,
    "stops": [{"n": 1, "x": None}, {"n": None, "x": float("nan")}],
    "counts": {"a": 1},
    "none": None,
}


def of_arrow(value: Any) -> Any:
    """As Arrow gives it back: maps are lists of pairs, and NaN is not itself."""
    if isinstance(value, dict) and value.keys() == {"a"}:
        return list(value.items())
    return repr(value) if isinstance(value, list) else value


def test_json_is_read_back_as_it_was() -> None:
    body = json_writer(KINDS)(RECORD)
    assert json_writer(RAW)({"raw": b"\0\xff"}) == b'{"raw":"AP8="}'  # as Spark's to_json does
    assert "none" not in json.loads(body)
    assert json.loads(body)["price"] == 12.3
    columns = decoded_columns(pa.array([body], pa.binary()), "json", list(KINDS), zone=UTC, lost={})
    assert columns.pop("decode_error").to_pylist() == [None]
    found = {name: column[0].as_py() for name, column in columns.items()}
    assert {k: of_arrow(v) for k, v in RECORD.items()} == {
        name: of_arrow(dict(value) if name == "counts" else value) for name, value in found.items()
    }


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "city", "type": "string"},
        {"name": "cents", "type": ["null", "long"]},
        {"name": "rate", "type": "float", "default": 1.5},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
}


def decoded(schema: BodySchema, body: bytes) -> dict[str, Any]:
    errors: dict[int, str] = {}
    fields = list(schema.schema)
    columns = schema.columns(pa.array([body], pa.binary()), fields, errors)
    assert errors == {}
    return {name: column[0].as_py() for name, column in columns.items()}


def test_avro_is_read_back_as_it_was() -> None:
    text = json.dumps(AVRO)
    record = {
        **{name: RECORD[name] for name in ("city", "price", "day", "at", "counts")},
        "cents": None,
        "color": "BLUE",
    }
    body = avro_writer(text, b"")(record)
    found = decoded(BodySchema("avro", text), body)
    assert found == {**record, "counts": [("a", 1)], "rate": 1.5}
    assert avro_writer(text, b"\0\0\0\0\x07")(record) == b"\0\0\0\0\x07" + body
    assert avro_optional(text) == {"cents", "rate"}
    with pytest.raises(Exception, match="GREEN"):
        avro_writer(text, b"")({**record, "color": "GREEN"})


def test_a_union_of_several_types_is_refused() -> None:
    fields = [{"name": "a", "type": {"type": "array", "items": ["null", "string", "int"]}}]
    text = json.dumps({"type": "record", "name": "U", "fields": fields})
    with pytest.raises(BodySchemaError, match="a union of several types"):
        avro_writer(text, b"")
    numbers = text.replace('"string", "int"', '"long", "int"')
    assert avro_writer(numbers, b"")({"a": [5, None]})


def test_protobuf_is_read_back_as_it_was() -> None:
    text = kept_text(descriptor_set(ORDERS, COMMON), "shop.Order")
    record = {
        "cents": -5,
        "big": Decimal(2**64 - 1),
        "small": 7,
        "color": "BLUE",
        "place": {"city": None},
        "stops": [{"city": "Lima"}, {"city": "Pune"}],
        "counts": {3: {"city": "x"}},
        "at": datetime(1970, 1, 1, tzinfo=UTC),
        "note": "",
        "card": "4711",
        "cash": None,
        "raw": b"\xff",
        "more": '{"a":[1,"ü"]}',
        "ratios": [0.5],
    }
    body = protobuf_writer(text, b"")(record)
    found = decoded(BodySchema("protobuf", text), body)
    assert found == {
        **record,
        "place": {"city": ""},
        "counts": [(3, {"city": "x"})],
        "more": '{"a":[1.0,"ü"]}',
    }
    # The second message of its file, as clients of registries write it.
    assert protobuf_writer(text, b"\0\0\0\0\x07")(record) == b"\0\0\0\0\x07\x02\x02" + body
    for wrong, said in (({"color": "GREEN"}, "none of its names"), ({"ratios": [None]}, "NULL")):
        with pytest.raises(ValueError, match=said):
            protobuf_writer(text, b"")(wrong)


def test_maps_are_dicts_wherever_they_are() -> None:
    inner = pa.map_(pa.string(), pa.int32())
    fix = plain(pa.struct([("a", pa.list_(inner)), ("b", pa.int32())]))
    assert fix is not None
    assert fix({"a": [[("x", 1)], None], "b": 2}) == {"a": [{"x": 1}, None], "b": 2}
    assert fix(None) is None
    assert plain(pa.list_(pa.int32())) is None
