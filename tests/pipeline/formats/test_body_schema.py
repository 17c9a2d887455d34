"""Where the schema of bodies comes from."""

from __future__ import annotations

import builtins
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.formats.proto_files import COMMON, ORDERS, descriptor_set, serialized
from tests.schema_registry import SchemaRegistry

from rocketpipe.pipeline.formats.body_schema import BodySchema, SchemaSource
from rocketpipe.pipeline.formats.errors import BodySchemaError
from rocketpipe.pipeline.options.ddl import sql_schema, sql_type

ORDER = json.dumps(
    {"type": "record", "name": "Order", "fields": [{"name": "city", "type": "string"}]}
)


def test_the_schema_itself_travels(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(ORDER)
    loaded = SchemaSource("avro", file=str(tmp_path / "order.avsc")).load("orders")
    (tmp_path / "order.avsc").unlink()
    assert sql_schema(pickle.loads(pickle.dumps(loaded)).schema) == "city string"
    assert loaded == BodySchema("avro", ORDER)


def test_a_compiled_file_has_one_message_or_says_which(tmp_path: Path) -> None:
    path = tmp_path / "orders.desc"
    path.write_bytes(descriptor_set(COMMON, ORDERS))
    loaded = SchemaSource("protobuf", file=str(path), message="shop.Refund").load("orders")
    assert sql_schema(loaded.schema) == "cents int"
    again = SchemaSource("protobuf", text=loaded.text).load("orders")
    assert again == loaded
    with pytest.raises(BodySchemaError, match="--message"):
        SchemaSource("protobuf", file=str(path)).load("orders")


def test_what_a_registered_schema_uses_comes_with_it(registry: SchemaRegistry) -> None:
    registry.register("common", serialized(COMMON), "PROTOBUF")
    used = [{"name": "common.proto", "subject": "common", "version": 1}]
    registry.register("orders-value", serialized(ORDERS), "PROTOBUF", used)
    source = SchemaSource("protobuf", registry=registry.url, message="shop.Order")
    assert sql_type(source.load("orders").schema.field("place").type) == "struct<city:string>"
    registry.register("place", ORDER)
    using = {"type": "record", "name": "Cart", "fields": [{"name": "order", "type": "Order"}]}
    used = [{"name": "Order", "subject": "place", "version": 1}]
    registry.register("carts-value", using, references=used)
    loaded = SchemaSource("avro", registry=registry.url).load("carts")
    assert sql_schema(loaded.schema) == "order struct<city:string>"
    registry.register("texts-value", 'syntax = "proto3";', "PROTOBUF")
    with pytest.raises(BodySchemaError, match="as text alone: compile it ahead"):
        SchemaSource("protobuf", registry=registry.url).load("texts")


#: A schema registry that nobody asks here.
PEER = "http://r"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("city STRING, cents INT", None),
        (f"avro:{ORDER}", SchemaSource("avro", text=ORDER, registry=PEER)),
        ("avro: a b.avsc ", SchemaSource("avro", file="a b.avsc", registry=PEER)),
        ("avro:registry", SchemaSource("avro", registry=PEER)),
        (
            "protobuf:registry subject=s message=m.M",
            SchemaSource("protobuf", registry=PEER, subject="s", message="m.M"),
        ),
        (
            "protobuf:o.desc message=m.M",
            SchemaSource("protobuf", file="o.desc", registry=PEER, message="m.M"),
        ),
    ],
)
def test_a_source_may_be_one_text(text: str, expected: SchemaSource | None) -> None:
    assert SchemaSource.parse(text, PEER) == expected


def test_what_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BodySchemaError, match="--registry URL"):
        SchemaSource.parse("avro:registry", None)
    with pytest.raises(BodySchemaError, match="write avro:FILE"):
        SchemaSource.parse("avro:", None)
    with pytest.raises(BodySchemaError, match=r"none\.avsc: cannot be read \(No such file"):
        SchemaSource("avro", file=str(tmp_path / "none.avsc")).load(None)
    (tmp_path / "binary.avsc").write_bytes(b"\xff\xff")
    with pytest.raises(BodySchemaError, match="is no text"):
        SchemaSource("avro", file=str(tmp_path / "binary.avsc")).load(None)
    with pytest.raises(BodySchemaError, match="--schema-file"):
        SchemaSource("avro").load(None)
    real = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name == "fastavro":
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BodySchemaError, match="pip install fastavro"):
        SchemaSource("avro", text=ORDER + " ").load(None)
