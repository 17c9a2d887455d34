"""The rows of a table of PostgreSQL, as tasks read them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rocketpipe.tables.sinks import postgres_rows
from rocketpipe.tables.sinks.database import Database, TableName
from rocketpipe.tables.sinks.postgres import PostgresSink
from rocketpipe.tables.sinks.postgres_rows import Pages
from rocketpipe.tables.stored import UnreadablePart

SCHEMA = pa.schema(
    [
        ("queue_offset", pa.int64()),
        ("keys", pa.list_(pa.string())),
        ("pair", pa.struct([("a", pa.int32())])),
        ("body", pa.binary()),
    ]
)


def filled(address: str, count: int) -> PostgresSink:
    sink = PostgresSink(Database(address), TableName.parse("orders"), "me", "x", SCHEMA)
    sink.prepare(SCHEMA)
    rows: list[dict[str, Any]] = [
        {"queue_offset": number, "keys": ["k"], "pair": {"a": number}, "body": b"x"}
        for number in range(count)
    ]
    copied = sink.rows_to.open(SCHEMA, None)
    copied.add(pa.RecordBatch.from_pylist(rows, SCHEMA))
    sink.commit(copied.finish(), 0)
    return sink


def test_tasks_read_all_pages_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_rows, "_TASK_PAGES", 2)
    monkeypatch.setattr(postgres_rows, "_FETCH_ROWS", 50)
    parts = filled(address, 1000).stored().parts
    assert len(parts) > 3
    found = [row for part in parts for batch in part.read(SCHEMA) for row in batch.to_pylist()]
    assert sorted(row["queue_offset"] for row in found) == list(range(1000))
    assert found[0]["keys"] == ["k"]
    assert found[0]["body"] == b"x"
    assert found[0]["pair"] == {"a": found[0]["queue_offset"]}


def test_a_table_that_is_gone_cannot_be_read(address: str) -> None:
    pages = Pages(Database(address), TableName.parse("gone"), 0)
    with pytest.raises(UnreadablePart, match='relation "gone" does not exist'):
        list(pages.read(SCHEMA))
