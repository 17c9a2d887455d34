"""An Iceberg table gets the rows of another in one commit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rocketpipe.tables.sinks import iceberg_takeover
from rocketpipe.tables.sinks.iceberg import IcebergCatalogue, IcebergSink

OLD = pa.schema([("number", pa.int32()), ("kind", pa.string()), ("gone", pa.string())])
NEW = pa.schema([("number", pa.string()), ("kind", pa.string()), ("more", pa.date32())])


def filled(
    root: Path, table_id: str, schema: pa.Schema, by: str | None, **values: object
) -> object:
    sink = IcebergSink(
        root, table_id, by, IcebergCatalogue(root / "_rocketpipe" / "c.db"), ("tables", "rows")
    )
    sink.prepare(schema)
    for batch, kind in enumerate("ab"):
        files = sink.rows_to.open(schema, by)
        row = dict.fromkeys(schema.names) | {"kind": kind} | values
        files.add(pa.RecordBatch.from_pylist([row], schema))
        sink.commit(files.finish(), batch)
    return sink


@pytest.mark.parametrize("has_links", [True, False])
def test_columns_partitions_rows_and_number_come_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:

        def refuse(*given: object) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(iceberg_takeover.os, "link", refuse)
    old = filled(tmp_path / "old", "old", OLD, "kind", number=1)
    new = filled(tmp_path / "new", "new", NEW, "number", number="2")
    assert isinstance(old, IcebergSink)
    assert isinstance(new, IcebergSink)
    before = old._fresh().current_snapshot()
    assert before is not None
    old.take_over(new)
    old.take_over(new)  # after a death
    table = old._fresh()
    assert [each.name for each in table.schema().fields] == ["kind", "number", "more"]
    assert [each.name for each in table.spec().fields] == ["number"]
    rows = table.scan("number = '2'").to_arrow().to_pylist()
    assert sorted((row["number"], row["kind"]) for row in rows) == [("2", "a"), ("2", "b")]
    files = [task.file.file_path for task in table.scan().plan_files()]
    assert all(each.startswith(f"file://{tmp_path}/old/") for each in files)
    was = table.scan(snapshot_id=before.snapshot_id).to_arrow()
    assert sorted(was.column("kind").to_pylist()) == ["a", "b"]  # who has begun to read goes on
    after = IcebergSink(
        tmp_path / "old",
        "new",
        "number",
        IcebergCatalogue(tmp_path / "old" / "_rocketpipe" / "c.db"),
        ("tables", "rows"),
    )
    assert after.last_batch() == 1
    after.prepare(NEW)
    assert old.last_batch() is None


def test_a_table_whose_catalogue_was_lost_is_made_anew(tmp_path: Path) -> None:
    old = filled(tmp_path / "old", "old", OLD, None, number=1)
    new = filled(tmp_path / "new", "new", NEW, "kind", number="2")
    assert isinstance(old, IcebergSink)
    assert isinstance(new, IcebergSink)
    (tmp_path / "old" / "_rocketpipe" / "c.db").unlink()
    old = IcebergSink(
        tmp_path / "old",
        "old",
        None,
        IcebergCatalogue(tmp_path / "old" / "_rocketpipe" / "c.db"),
        ("tables", "rows"),
    )
    old.take_over(new)
    assert old.figures()["rows"] == 2
