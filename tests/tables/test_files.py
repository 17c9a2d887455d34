"""The files that tasks write."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rocketpipe.tables import files
from rocketpipe.tables.decoding import Decoding
from rocketpipe.tables.errors import TooManyParts
from rocketpipe.tables.files import FileList, FileTask, Folder, remove
from rocketpipe.tables.spec import TableSpec

Messages = Callable[..., pa.RecordBatch]


def task(tmp_path: Path, **fields: Any) -> FileTask:
    spec = TableSpec(
        **{
            "topic": "orders",
            "name_server": "127.0.0.1:1",
            "decode": "json",
            "schema": "city STRING, cents INT",
        }
        | fields
    )
    return FileTask(
        Decoding.of(spec), Folder(str(tmp_path / "rows")), Folder(str(tmp_path / "bad"))
    )


def run(the_task: FileTask, batches: Sequence[pa.RecordBatch]) -> FileList:
    listed = [row for batch in the_task(iter(batches)) for row in batch.to_pylist()]
    return FileList.read((row["kind"], row["facts"]) for row in listed)


def test_a_task_writes_rows_and_bad_rows_and_lists_them(tmp_path: Path, messages: Messages) -> None:
    found = run(
        task(tmp_path),
        [messages([b'{"cents": 5}', b"no"]), messages([b'{"cents": 7}'], first=2)],
    )
    [rows], [bad] = found.rows, found.bad_rows
    assert (rows.rows, bad.rows, rows.part) == (2, 1, {})
    path = tmp_path / "rows" / rows.path
    assert path.stat().st_size == rows.size
    assert pq.read_table(path).column("cents").to_pylist() == [5, 7]
    stats = json.loads(rows.stats)
    assert stats["numRecords"] == 2
    assert (stats["minValues"]["queue_offset"], stats["maxValues"]["queue_offset"]) == (0, 2)
    remove(tmp_path / "rows", found.rows)
    assert not path.exists()


def test_a_value_of_the_partition_column_is_a_file(tmp_path: Path, messages: Messages) -> None:
    bodies = [b'{"city": "Oslo"}', b'{"city": "a/../b"}', b"{}", b'{"city": "Oslo"}']
    found = run(task(tmp_path, partition_by="city"), [messages(bodies)])
    assert {each.part["city"]: each.rows for each in found.rows} == {
        "Oslo": 2,
        "a/../b": 1,
        None: 1,
    }
    for each in found.rows:
        path = (tmp_path / "rows" / each.path).resolve()
        assert path.is_relative_to(tmp_path / "rows")
        assert "city" not in pq.read_schema(path).names
    days = run(task(tmp_path, partition_by="date"), [messages([b"{}"], day=2)])
    assert [each.part for each in days.rows] == [{"date": "2026-05-02"}]
    flags = task(tmp_path, partition_by="f", schema="f BOOLEAN")
    [flag] = run(flags, [messages([b'{"f": true}'])]).rows
    assert flag.part == {"f": "true"}


def test_too_many_values_of_the_partition_column_leave_nothing(
    tmp_path: Path, messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_PARTS", 5)
    monkeypatch.setattr(files, "BUFFER_BYTES", 1)
    batches = [messages([b'{"city": "c%d"}' % number]) for number in range(6)]
    with pytest.raises(TooManyParts, match="more than 5 values in one task: partition by date"):
        run(task(tmp_path, partition_by="city"), batches)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


def test_rows_are_written_when_they_are_enough(
    tmp_path: Path, messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [messages([b"{}"] * 10, first=10 * number) for number in range(4)]
    [one] = run(task(tmp_path), batches).rows
    assert pq.read_metadata(tmp_path / "rows" / one.path).num_row_groups == 1
    monkeypatch.setattr(files, "BUFFER_BYTES", batches[0].nbytes)
    [four] = run(task(tmp_path), batches).rows
    assert pq.read_metadata(tmp_path / "rows" / four.path).num_row_groups > 1
    assert four.rows == one.rows == 40
    assert json.loads(four.stats)["maxValues"]["queue_offset"] == 39


def test_a_task_without_rows_writes_nothing(tmp_path: Path, messages: Messages) -> None:
    assert run(task(tmp_path), []) == FileList()
    assert not (tmp_path / "rows").exists()


def test_new_fields_of_all_tasks_are_put_together(tmp_path: Path, messages: Messages) -> None:
    the_task = task(tmp_path, new_columns="add")
    listed = [
        row
        for bodies in ([b'{"n": 1}'], [b'{"n": 1.5, "m": 1}'])
        for batch in the_task(iter([messages(bodies)]))
        for row in batch.to_pylist()
    ]
    found = FileList.read((row["kind"], row["facts"]) for row in listed)
    assert {name: str(each.kind) for name, each in found.new_fields.items()} == {
        "m": "int64",
        "n": "double",
    }
