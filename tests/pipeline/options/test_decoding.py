"""The options that say what bodies hold."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from tests.schema_registry import SchemaRegistry

from rocketpipe.pipeline.columns.rows import ColumnError, check_columns, schema_of
from rocketpipe.pipeline.formats.errors import BodySchemaError
from rocketpipe.pipeline.options.decoding import Decoding
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.text import OptionError

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "city", "type": "string"}, {"name": "raw", "type": "bytes"}],
}


def options(**given: str) -> ReadOptions:
    return ReadOptions.parse({"nameServer": "127.0.0.1:1", "subscribe": "orders", **given})


def test_a_schema_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    read = options(decode="AVRO", schemaFile=str(file))
    assert read.body_schema is None  # nothing is opened for the options' sake
    read = read.resolved()
    assert read.body_schema is not None
    assert read.body_schema.registry is None
    schema = schema_of(read)
    assert schema.field("raw").type == pa.binary()
    check_columns(schema, read)
    only = schema_of(options(decode="avro", schemaFile=str(file), columns="city").resolved())
    assert only.names == ["city"]
    with pytest.raises(ColumnError, match="'town' is unknown"):
        schema_of(options(decode="avro", schemaFile=str(file), columns="town").resolved())


def test_a_schema_is_the_latest_of_its_subject() -> None:
    with SchemaRegistry() as registry:
        registry.register("orders-value", ORDER | {"fields": ORDER["fields"][:1]})
        registry.register("orders-value", ORDER)
        registry.register("others", ORDER | {"fields": ORDER["fields"][1:]})
        read = options(decode="avro", schemaRegistry=registry.url).resolved()
        assert read.decode_schema is not None
        assert read.decode_schema.names == ["city", "raw"]
        read = options(decode="avro", schemaRegistry=registry.url, schemaSubject="others")
        assert read.resolved().decode_schema.names == ["raw"]  # type: ignore[union-attr]
        with pytest.raises(BodySchemaError, match="no subject 'carts-value'"):
            options(decode="avro", schemaRegistry=registry.url, subscribe="carts").resolved()
        with pytest.raises(BodySchemaError, match="several topics are read"):
            options(decode="avro", schemaRegistry=registry.url, subscribe="a,b").resolved()
        with pytest.raises(BodySchemaError, match="is AVRO, not PROTOBUF"):
            options(decode="protobuf", schemaRegistry=registry.url).resolved()


def test_fields_that_are_called_as_those_of_messages_are_told(tmp_path: Path) -> None:
    text = json.dumps(ORDER).replace("city", "tags")
    with pytest.raises(ColumnError, match="'tags' of the schema is one that messages have"):
        schema_of(options(decode="avro", decodeSchema=text).resolved())
    read = options(decode="avro", decodeSchema=text, columns="tags,raw").resolved()
    assert schema_of(read).names == ["tags", "raw"]  # the message's own
    check_columns(schema_of(read), read)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decode": "xml"}, "choose one of json, text, avro, protobuf"),
        ({"decode": "avro"}, "'schemaFile' is missing"),
        ({"decode": "json", "schemaFile": "a"}, "is for Avro and Protobuf"),
        ({"schemaRegistry": "http://a"}, "is for Avro and Protobuf"),
        ({"decode": "avro", "schemaFile": "a", "decodeSchema": "b"}, "leave one of them out"),
        ({"decode": "avro", "schemaFile": "a", "schemaSubject": "b"}, "of the registry"),
        ({"decode": "avro", "schemaFile": "a", "messageName": "b"}, "of a Protobuf file"),
        ({"decode": "avro", "schemaFile": "a", "timeZone": "UTC"}, "is for JSON bodies"),
    ],
)
def test_options_that_do_not_go_together(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Decoding.parse({name.lower(): value for name, value in given.items()})
