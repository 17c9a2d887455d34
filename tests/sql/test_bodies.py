"""What a text says of the bodies of a topic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpipe.pipeline.formats.errors import BodySchemaError
from rocketpipe.pipeline.options.ddl import SchemaTextError
from rocketpipe.sql.bodies import TopicBodies

NOTE = json.dumps({"type": "record", "name": "N", "fields": [{"name": "text", "type": "string"}]})


def test_columns_are_of_json_and_can_be_inserted() -> None:
    found = TopicBodies.of("city STRING, cents INT", "orders")
    assert found.options == {"decode": "json", "decodeSchema": "city STRING, cents INT"}
    assert found.columns == ("city", "cents")
    assert found.insertable == "city STRING, cents INT"
    with pytest.raises(SchemaTextError):
        TopicBodies.of("city TEXTILE", "orders")


def test_a_schema_of_avro_travels_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "note.avsc").write_text(NOTE)
    by_file = TopicBodies.of(f"avro:{tmp_path / 'note.avsc'}", "notes")
    assert by_file == TopicBodies.of(f"avro:{NOTE}", "notes", has_files=False)
    assert by_file == TopicBodies(
        {"decode": "avro", "decodeSchema": NOTE},
        ("text",),
        "text string",
        {"encode": "avro", "encodeSchema": NOTE},
    )
    nobody = "http://127.0.0.1:1"
    framed = TopicBodies.of(f"avro:{NOTE}", "notes", registry=f"{nobody}/")
    assert framed.options["schemaRegistry"] == nobody
    assert framed.encoding == {"encode": "avro", "schemaRegistry": nobody}
    with pytest.raises(BodySchemaError, match="a topic names no files"):
        TopicBodies.of(f"avro:{tmp_path / 'note.avsc'}", "notes", has_files=False)
