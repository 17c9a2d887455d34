"""Protobuf bodies as columns."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.pipeline.formats.proto_files import (
    COMMON,
    ORDERS,
    descriptor_set,
    message,
    serialized,
)
from tests.schema_registry import SchemaRegistry, framed

from rocketpipe.pipeline.formats.body_schema import BodySchema
from rocketpipe.pipeline.formats.protobuf_schema import kept_text

Order = message("shop.Order", ORDERS, COMMON)
TEXT = kept_text(descriptor_set(ORDERS, COMMON), "shop.Order")


def decoded(
    bodies: list[bytes | None], registry: str | None = None, *names: str
) -> tuple[list[dict[str, Any]], dict[int, str]]:
    how = BodySchema("protobuf", TEXT, registry)
    fields = [each for each in how.schema if not names or each.name in names]
    errors: dict[int, str] = {}
    columns = how.columns(pa.array(bodies, pa.binary()), fields, errors)
    assert [each.type for each in columns.values()] == [each.type for each in fields]
    return pa.table(columns).to_pylist(), errors


def test_values_of_every_type_come_out_as_they_went_in() -> None:
    moment = datetime(2026, 5, 1, 12, 30, 0, 123456, tzinfo=UTC)
    order = Order(cents=-5, big=2**64 - 1, small=2**32 - 1, color=1, raw=b"\xff", card="4711")
    order.place.city = "Oslo"
    order.stops.add(city="Lima")
    order.stops.add(city="Pune")
    for number in (900, 7, -3, 12345):
        order.counts[number].city = f"c{number}"
    order.at.FromDatetime(moment)
    order.note.value = ""
    order.more.update({"b": None, "a": [1, "ü"], "c": {}})
    order.ratios.extend([0.5, 2])
    [row, empty], errors = decoded([order.SerializeToString(), b""])
    assert errors == {}
    assert row == {
        "cents": -5,
        "big": Decimal(2**64 - 1),
        "small": 2**32 - 1,
        "color": "BLUE",
        "place": {"city": "Oslo"},
        "stops": [{"city": "Lima"}, {"city": "Pune"}],
        "counts": [(each, {"city": f"c{each}"}) for each in (-3, 7, 900, 12345)],
        "at": moment,
        "note": "",
        "card": "4711",
        "cash": None,
        "raw": b"\xff",
        "more": '{"a":[1.0,"ü"],"b":null,"c":{}}',
        "ratios": [0.5, 2.0],
    }
    absent = {name for name, value in empty.items() if value is None}
    assert absent == {"place", "at", "note", "card", "cash", "more"}
    assert (empty["cents"], empty["color"], empty["stops"], empty["counts"]) == (0, "RED", [], [])


def test_what_is_no_message_has_a_reason() -> None:
    late = Order()
    late.at.seconds = 1 << 40
    unknown = Order(color=9).SerializeToString()
    bodies = [b"\x08\x05", b"\xff" * 9, None, late.SerializeToString(), unknown]
    rows, errors = decoded(bodies, None, "cents", "color", "at")
    assert [row["cents"] for row in rows] == [5, None, None, None, 0]
    assert rows[4]["color"] == "9"
    assert errors.keys() == {1, 3}
    assert errors[1].startswith("not Protobuf: ")
    assert errors[3] == "a value does not fit: a time outside the years 1 to 9999"


def test_a_registered_body_says_which_message_it_is(registry: SchemaRegistry) -> None:
    registry.register("common", serialized(COMMON), "PROTOBUF")
    used = [{"name": "common.proto", "subject": "common", "version": 1}]
    number = registry.register("orders-value", serialized(ORDERS), "PROTOBUF", used)
    avro = registry.register("others", {"type": "string"})
    body = Order(cents=5).SerializeToString()
    bodies = [
        framed(number, body, b"\x02\x02"),  # one index, 1
        framed(number, body, b"\x00"),  # the first message
        framed(number, body, b"\x04\x02\x02"),  # inside of the second, the second
        framed(number, body, b"\x02\x0e"),
        framed(number, body, b"\xff\xff\xff\xff\xff\xff"),
        framed(number, b""),
        framed(avro, body, b"\x00"),
        framed(99, body, b"\x00"),
        b"{}",
    ] * 2
    rows, errors = decoded(bodies, registry.url, "cents")
    assert rows[0] == rows[9] == {"cents": 5}
    assert [errors[row] for row in range(1, 9)] == [
        "it is a shop.Refund, not a shop.Order",
        "it is a shop.Order.Line, not a shop.Order",
        "schema 2 of the registry has no message at [7]",
        "not Protobuf: it does not say which message it is",
        "not Protobuf: it does not say which message it is",
        "schema 3 of the registry is AVRO, not PROTOBUF",
        "the registry has no schema 99",
        "no schema id: 2 bytes are too few",
    ]
    assert sorted(registry.asked) == [f"/schemas/ids/{each}" for each in (number, avro, 99)]


def test_a_registry_of_texts_is_read_by_our_own_file(registry: SchemaRegistry) -> None:
    number = registry.register("orders-value", 'syntax = "proto3";', "PROTOBUF")
    body = Order(cents=5).SerializeToString()
    rows, errors = decoded([framed(number, body, b"\x02\x02")], registry.url, "cents")
    assert (rows, errors) == ([{"cents": 5}], {})
