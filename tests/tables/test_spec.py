"""What a table is, and how that is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.tables.spec import TableSpec, group_for


def spec(**fields: Any) -> TableSpec:
    return TableSpec(**{"topic": "orders", "name_server": "127.0.0.1:9876"} | fields)


def json_spec(**fields: Any) -> TableSpec:
    return spec(**{"decode": "json", "schema": "city STRING, cents INT"} | fields)


def test_what_is_kept_comes_back_the_same() -> None:
    kept = json_spec(partition_by="date", new_columns="add", added="`note` STRING", keep_ms=0)
    assert TableSpec.from_json(kept.to_json()) == kept


def test_each_table_has_an_id_of_its_own() -> None:
    assert spec().id != spec().id


@pytest.mark.parametrize("text", ["", "[]", '{"v": 2, "topic": "t"}', '{"v": 1}'])
def test_a_text_that_is_no_spec_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        TableSpec.from_json(text)


def test_a_newer_minor_field_is_passed_over() -> None:
    text = json.dumps({**json.loads(spec().to_json()), "colour": "red"})
    assert TableSpec.from_json(text).topic == "orders"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"topic": "a b"}, "a b"),
        ({"name_server": None}, "a NameServer, or a store"),
        ({"store": "/srv/store"}, "a NameServer, or a store"),
        ({"decode": "json"}, "'city STRING, cents INT'"),
        ({"schema": "city STRING"}, "add --decode json"),
        ({"new_columns": "add"}, "add --decode json"),
        ({"decode": "avro"}, "--schema-file or --registry"),
        ({"registry": "http://a"}, "--decode avro or protobuf"),
        ({"decode": "xml"}, "choose one of none, text, json"),
        ({"format": "csv"}, "choose one of"),
        ({"keep_ms": 60_000}, "longer than your longest query"),
        ({"batch_rows": 0}, "never negative"),
        ({"group": "a b"}, "a b"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        spec(**fields)


def test_brokers_are_told_of_the_group_and_a_store_of_none() -> None:
    by_broker = spec(group="table-orders").source_options()
    assert by_broker["groupId"] == "table-orders"
    assert by_broker["startingOffsets"] == "earliest"
    by_log = spec(name_server=None, store="/srv/store", group="g", start="2026-05-01T00:00:00Z")
    options = by_log.source_options()
    assert options["path"] == "/srv/store"
    assert "groupId" not in options
    assert options["startingTimestamp"] == "2026-05-01T00:00:00Z"


def test_a_group_is_called_as_the_directory_as_far_as_names_go() -> None:
    assert group_for("orders") == "table-orders"
    assert spec(group=group_for("my lake.é" * 50)).group is not None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"table": "a.b.c"}, "known by a name"),
        ({"format": "iceberg", "table": "orders"}, "CATALOGUE.NAMESPACE.NAME"),
        ({"format": "postgres"}, "name the database"),
        ({"format": "postgres", "database": "postgresql://db", "table": "a.b.c"}, "SCHEMA.NAME"),
        ({"format": "postgres", "database": "postgresql://db", "table": "t" * 55}, "too long"),
        (
            {
                "format": "postgres",
                "database": "postgresql://db",
                "table": "t",
                "partition_by": "date",
            },
            "make an index instead",
        ),
        ({"password_file": "secret"}, "is for --to postgresql"),
    ],
)
def test_names_are_for_tables_that_have_one(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TableSpec(topic="orders", name_server="127.0.0.1:1", **fields)
