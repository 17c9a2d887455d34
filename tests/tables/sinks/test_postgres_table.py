"""A table of a PostgreSQL gets the rows of another, and stays what it is to its users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from rocketpipe.tables.errors import NotATable, SpecMismatch
from rocketpipe.tables.sinks.database import Database, TableName
from rocketpipe.tables.sinks.postgres import PostgresSink

Psql = Callable[..., list[tuple[Any, ...]]]

OLD = pa.schema([("number", pa.int32()), pa.field("kind", pa.string(), nullable=False)])
NEW = pa.schema([("number", pa.int64()), ("kind", pa.string()), ("more", pa.date32())])


def filled(address: str, name: str, table_id: str, schema: pa.Schema, *kinds: Any) -> PostgresSink:
    sink = PostgresSink(Database(address), TableName.parse(name), table_id, "/lake", schema)
    sink.prepare(schema)
    for batch, kind in enumerate(kinds):
        copied = sink.rows_to.open(schema, None)
        copied.add(pa.RecordBatch.from_pylist([{"number": batch, "kind": kind}], schema))
        sink.commit(copied.finish(), batch)
    return sink


def test_rows_and_number_come_over_and_indexes_rights_and_views_stay(
    address: str, psql: Psql
) -> None:
    old = filled(address, "orders", "old", OLD, "a")
    psql("ALTER TABLE orders ADD COLUMN note text DEFAULT 'mine'")
    psql("CREATE INDEX by_kind ON orders (kind)")
    psql("CREATE VIEW kinds AS SELECT kind FROM orders")
    new = filled(address, "rocketpipe_new_1", "new", NEW, "b", None)
    old.take_over(new)
    old.take_over(new)  # after a death
    assert psql("SELECT number, kind, note FROM orders ORDER BY 1") == [
        (0, "b", "mine"),
        (1, None, "mine"),
    ]
    assert psql("SELECT kind FROM kinds ORDER BY 1") == [("b",), (None,)]
    assert psql("SELECT count(*) FROM pg_indexes WHERE indexname = 'by_kind'") == [(1,)]
    assert psql("SELECT table_name, table_id, batch, rows FROM rocketpipe_batches") == [
        ("orders", "new", 1, 2)
    ]
    after = PostgresSink(Database(address), TableName.parse("orders"), "new", "/lake", NEW)
    assert after.last_batch() == 1
    after.prepare(NEW)
    assert old.last_batch() is None


def test_what_is_in_the_way_is_said_and_nothing_changes(address: str, psql: Psql) -> None:
    old = filled(address, "orders", "old", OLD, "a")
    new = filled(address, "rocketpipe_new_1", "new", NEW, "b")
    psql("ALTER TABLE orders ADD COLUMN more text")
    with pytest.raises(SpecMismatch, match="it has a column more of yours, which is text"):
        old.take_over(new)
    psql("ALTER TABLE orders DROP COLUMN more")
    psql("UPDATE rocketpipe_batches SET table_id = 'other' WHERE table_name = 'orders'")
    with pytest.raises(NotATable, match="is filled by /lake"):
        old.take_over(new)
    assert psql("SELECT number, kind FROM orders") == [(0, "a")]
    psql("DROP TABLE orders")
    psql("DELETE FROM rocketpipe_batches WHERE table_name = 'orders'")
    old.take_over(new)  # a table that is lost is made anew
    assert psql("SELECT number, kind FROM orders") == [(0, "b")]


def test_a_note_of_before_replays_gets_its_column(address: str, psql: Psql) -> None:
    old = filled(address, "orders", "old", OLD, "a")
    psql("ALTER TABLE rocketpipe_batches DROP COLUMN mended_by")
    assert (old.last_batch(), old.has_named("x")) == (0, False)
    old.prepare(OLD)
    old.add_named([], "x")
    assert old.has_named("x")
