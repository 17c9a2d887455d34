"""Schemas of bodies in Avro and Protobuf, kept with the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.schema_registry import SchemaRegistry

from rocketpipe.errors import ConfigError
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.errors import SpecMismatch
from rocketpipe.tables.following import asked_spec
from rocketpipe.tables.schemas import with_schema
from rocketpipe.tables.table import FollowedTable


def record(*fields: tuple[str, str]) -> dict[str, Any]:
    made = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields]
    return {"type": "record", "name": "Order", "fields": made}


def test_a_table_keeps_its_schema_until_another_is_asked_for(tmp_path: Path) -> None:
    directory = TableDirectory(tmp_path / "orders")
    with SchemaRegistry() as registry:
        registry.register("orders-value", record(("city", "string")))
        asked = {"decode": "avro", "registry": registry.url}
        made = asked_spec(directory, "orders", asked)
        assert made.schema == json.dumps(record(("city", "string")))
        FollowedTable(directory, made).prepare()
        registry.register("orders-value", record(("city", "string"), ("cents", "int")))
        assert asked_spec(directory, None, {}) == made
        changed = asked_spec(directory, None, {"registry": registry.url})
    FollowedTable(directory, changed).check()
    assert FollowedTable(directory, changed).schema.names[:2] == ["city", "cents"]
    (tmp_path / "other.avsc").write_text(json.dumps(record(("cents", "long"))))
    other = asked_spec(directory, None, {"schema_file": str(tmp_path / "other.avsc")})
    assert other.registry == registry.url
    with pytest.raises(SpecMismatch, match="column city is left out"):
        FollowedTable(directory, other).check()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"decode": "json", "schema_file": "a"}, "--schema-file.*is for Avro and Protobuf"),
        ({"registry": "http://a"}, "--registry.*is for Avro and Protobuf"),
        ({"decode": "avro", "schema": "{}", "schema_file": "a"}, "not both"),
        ({"decode": "avro", "schema_file": "none.avsc"}, "cannot be read"),
        ({"decode": "avro", "registry": "http://me:secret@a"}, "ROCKETPIPE_REGISTRY_AUTH"),
        ({"decode": "avro", "schema": "{}", "registry": "http://me:secret@a"}, "REGISTRY_AUTH"),
        ({"decode": "avro", "subject": "a"}, "--schema-file"),
    ],
)
def test_what_does_not_go_together_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        with_schema(asked, "orders", None)
