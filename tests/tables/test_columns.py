"""The columns of a table, and those it gets by itself."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.columns.json_fields import parse_object
from rocketpipe.tables.columns import (
    OF_MESSAGE,
    TableColumns,
    kind_named,
    kind_of,
    merged,
    misfit,
    name_problem,
    rows_with,
    widened,
)
from rocketpipe.tables.spec import TableSpec


def spec(schema: str = "city STRING, cents INT", **fields: Any) -> TableSpec:
    return TableSpec(
        **{"topic": "t", "name_server": "127.0.0.1:1", "decode": "json", "schema": schema} | fields
    )


def test_columns_of_bodies_come_before_those_of_messages() -> None:
    assert TableColumns.of(spec()).schema.names == [
        "city",
        "cents",
        *OF_MESSAGE.names,
        "body_digest",
    ]
    text = spec().with_changes(decode="text", schema=None)
    assert TableColumns.of(text).schema.names[0] == "text"


def test_a_table_that_keeps_properties_has_columns_for_them() -> None:
    columns = TableColumns.of(spec(properties=True))
    assert columns.schema.names[-2:] == ["properties", "born_timestamp"]
    assert "properties MAP<STRING, STRING>" in columns.read_schema
    assert "properties" not in TableColumns.of(spec()).read_schema
    with pytest.raises(ConfigError, match="a column properties of its own"):
        TableColumns.of(spec("Properties STRING", properties=True))


def test_the_day_is_a_column_unless_bodies_have_one() -> None:
    columns = TableColumns.of(spec(partition_by="date"))
    assert columns.has_date
    assert columns.schema.field("date").type == pa.date32()
    own = TableColumns.of(spec("date DATE", partition_by="date"))
    assert not own.has_date
    assert own.schema.names.count("date") == 1


@pytest.mark.parametrize(
    ("schema", "by", "said"),
    [
        ("city", None, "city STRING, cents INT"),
        ("city TEXTS", None, "city STRING, cents INT"),
        ("tags STRING", None, "every message has"),
        ("`a b` STRING", None, "cannot be the name"),
        ("city STRING, City STRING", None, "letter case"),
        ("city STRING", "town", "there is no column 'town'"),
        ("cents DOUBLE", "cents", "only text, whole numbers"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(schema: str, by: str | None, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TableColumns.of(spec(schema, partition_by=by))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("null", None),
        ("true", "bool"),
        ("7", "int64"),
        ("9223372036854775807", "int64"),
        ("9223372036854775808", "string"),
        ("123456789012345678901234567890", "string"),
        ("7.5", "double"),
        ("1e3", "double"),
        ('"7"', "string"),
        ("[1]", "string"),
        ('{"a": 1}', "string"),
    ],
)
def test_the_type_of_a_new_column_is_that_of_its_value(value: str, kind: str | None) -> None:
    found = kind_of(parse_object(f'{{"x": {value}}}'.encode())["x"])
    assert (None if found is None else str(found)) == kind
    if found is not None:
        assert kind_named(str(found)) == found


def test_mixed_values_get_a_type_that_has_room_for_all() -> None:
    assert merged(pa.int64(), pa.float64()) == pa.float64()
    assert merged(pa.int64(), pa.int64()) == pa.int64()
    assert merged(pa.int64(), pa.bool_()) == pa.string()
    assert merged(pa.float64(), pa.string()) == pa.string()


def test_new_columns_are_kept_beside_those_that_were_asked_for() -> None:
    wide = widened(widened(spec(), {"note": pa.string()}), {"n": pa.int64(), "w": pa.bool_()})
    assert TableColumns.of(wide).decoded.names == ["city", "cents", "note", "n", "w"]
    assert wide.schema == spec().schema
    # Named later on, it is where it was named, and once.
    named = wide.with_changes(schema="city STRING, cents INT, note STRING")
    assert TableColumns.of(named).decoded.names == ["city", "cents", "note", "n", "w"]
    assert json.loads(wide.to_json())["added"] == "`note` STRING, `n` BIGINT, `w` BOOLEAN"


@pytest.mark.parametrize("name", ["", "a b", "a=b", "tags", "TAGS", "City", "x\u0007", "x" * 300])
def test_not_every_field_can_be_a_column(name: str) -> None:
    assert name_problem(name, {"city"}) is not None
    assert name_problem("größe_2", {"city"}) is None


def test_columns_may_come_and_none_may_go_or_change() -> None:
    old = pa.schema([("a", pa.int32()), ("b", pa.string())])
    assert misfit(old, pa.schema([("c", pa.int32()), *old])) is None
    assert "left out" in str(misfit(old, pa.schema([("a", pa.int32())])))
    other = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert "a is int32, not int64" in str(misfit(old, other))
    strict = pa.schema([*old, pa.field("c", pa.int32(), nullable=False)])
    assert "NOT NULL" in str(misfit(old, strict))


def test_names_of_a_schema_that_messages_have_are_refused_with_the_way_out() -> None:
    fields = [{"name": "tags", "type": "string"}]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    with pytest.raises(ConfigError, match=r"--schema-file.*'tags'.*another name"):
        TableColumns.of(spec(schema, decode="avro"))
    with pytest.raises(ConfigError, match="is no Avro schema"):
        TableColumns.of(spec("{", decode="avro"))


def test_rows_with_a_nul_are_found_however_deep_it_is() -> None:
    deep = pa.struct([("a", pa.list_(pa.string()))])
    columns = {
        "text": pa.array(["x", "a\0", None, "", "", ""], pa.string()),
        "keys": pa.array(
            [["x"], None, ["a", "\0"], [], [None], ["\0", "\0"]], pa.list_(pa.string())
        ),
        "deep": pa.array([{"a": ["\0"]}, *[None] * 5], deep),
        "named": pa.array(
            [None] * 3 + [[("k\0", 1)]] + [None] * 2, pa.map_(pa.string(), pa.int64())
        ),
        "bytes": pa.array([b"\0"] * 6, pa.binary()),
        "number": pa.array([0] * 6),
    }
    assert rows_with(columns) == {0: "deep", 1: "text", 2: "keys", 3: "named", 5: "keys"}
