"""Protobuf messages as columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.pipeline.formats.proto_files import (
    COMMON,
    NODES,
    ORDERS,
    descriptor_set,
    file,
    serialized,
)

from rocketpipe.pipeline.formats.errors import BodySchemaError
from rocketpipe.pipeline.formats.protobuf_schema import (
    descriptor_of,
    file_of,
    files_in,
    kept_text,
    main_message,
    pool_of,
    schema_of,
    set_of,
)
from rocketpipe.pipeline.options.ddl import sql_type


def test_every_field_has_its_column() -> None:
    text = kept_text(descriptor_set(ORDERS, COMMON), "shop.Order")
    assert sql_type(pa.struct(list(schema_of(descriptor_of(text))))) == (
        "struct<cents:int,big:decimal(20,0),small:bigint,color:string,place:struct<city:string>,"
        "stops:array<struct<city:string>>,counts:map<int,struct<city:string>>,at:timestamp,"
        "note:string,card:string,cash:boolean,raw:binary,more:string,ratios:array<double>>"
    )


def test_what_is_no_message_is_refused() -> None:
    whole = descriptor_set(ORDERS, COMMON)
    with pytest.raises(BodySchemaError, match=r"no message 'shop\.Nothing'"):
        descriptor_of(kept_text(whole, "shop.Nothing"))
    with pytest.raises(BodySchemaError, match=r"is not MESSAGE:BASE64"):
        descriptor_of("syntax = proto3;")
    with pytest.raises(BodySchemaError, match="--include_imports"):
        descriptor_of(kept_text(descriptor_set(ORDERS), "shop.Order"))
    for content in (b"", b'syntax = "proto3";', b"\xff" * 9):
        with pytest.raises(BodySchemaError, match="protoc --include_imports"):
            files_in(content, "orders.proto")
    for name, said in (("Node", "contains itself"), ("Empty", "no fields")):
        with pytest.raises(BodySchemaError, match=said):
            schema_of(descriptor_of(kept_text(descriptor_set(NODES), name)))
    wrong = file(COMMON)
    wrong.message_type[0].field[0].type = 11
    wrong.message_type[0].field[0].type_name = ".none.such"
    with pytest.raises(BodySchemaError, match=r"common\.proto"):
        pool_of([wrong])


def test_the_message_is_named_or_the_only_one() -> None:
    assert main_message([file(COMMON)], None) == "shop.Place"
    assert main_message([file(ORDERS)], "shop.Order") == "shop.Order"
    with pytest.raises(BodySchemaError, match=r"--message.*shop\.Refund, shop\.Order"):
        main_message([file(COMMON), file(ORDERS)], None)


def test_a_file_of_a_registry_is_told_from_text() -> None:
    found = file_of(serialized(COMMON), "other.proto")
    assert found is not None
    assert found.name == "other.proto"
    assert files_in(set_of([found]), "x")[0].package == "shop"
    assert file_of('syntax = "proto3"; message A {}', "x") is None
