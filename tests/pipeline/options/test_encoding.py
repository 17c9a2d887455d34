"""The options that say what bodies are made of."""

from __future__ import annotations

import pytest

from rocketpipe.pipeline.options.encoding import Encoding
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.options.write import WriteOptions


def options(**given: str) -> WriteOptions:
    return WriteOptions.parse({"nameServer": "127.0.0.1:1", "topic": "orders", **given})


def test_without_it_bodies_are_given() -> None:
    assert options().encoding is None


def test_json_has_the_columns_of_the_frame_or_those_that_are_named() -> None:
    assert options(encode="JSON").encoding == Encoding("json")
    named = options(encode="json", encodeSchema="city STRING, n INT").encoding
    assert named is not None
    assert named.schema is not None
    assert named.schema.names == ["city", "n"]


def test_avro_and_protobuf_name_their_schema() -> None:
    found = options(encode="protobuf", schemaFile="a.desc", messageName="shop.Order").encoding
    assert found is not None
    assert found.source is not None
    assert (found.source.file, found.source.message) == ("a.desc", "shop.Order")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"encode": "xml"}, "xml"),
        ({"encode": "avro"}, "'schemaFile' is missing"),
        ({"encodeSchema": "n INT"}, 'add .option\\("encode", "avro"\\)'),
        ({"encode": "json", "schemaFile": "a.avsc"}, "is for Avro and Protobuf"),
        ({"encode": "json", "encodeSchema": "n INTEL"}, "is wrong"),
        (
            {"encode": "avro", "schemaFile": "a.avsc", "schemaRegistry": "http://r:1"},
            "leave the other one out",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        options(**given)
