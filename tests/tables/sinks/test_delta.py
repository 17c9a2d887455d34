"""Delta tables that take a batch once."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from rocketpipe.pipeline.delta import BatchConflict
from rocketpipe.tables.errors import SpecMismatch
from rocketpipe.tables.files import Folder, PartFiles, WrittenFile
from rocketpipe.tables.sinks.delta import DeltaSink
from rocketpipe.tables.spec import DAY_MS

SCHEMA = pa.schema([("number", pa.int64()), ("kind", pa.string())])


def written(root: Path, *numbers: int, kind: str = "a", by: str | None = None) -> list[WrittenFile]:
    files = PartFiles(Folder(str(root)), SCHEMA, by)
    files.add(
        pa.RecordBatch.from_pydict({"number": numbers, "kind": [kind] * len(numbers)}, SCHEMA)
    )
    return files.finish()


def numbers(root: Path) -> list[int]:
    return sorted(DeltaTable(root).to_pyarrow_table().column("number").to_pylist())


def made(root: Path, by: str | None = None) -> DeltaSink:
    sink = DeltaSink(root, "me", by)
    sink.prepare(SCHEMA)
    return sink


def test_a_batch_is_one_commit_with_its_number(tmp_path: Path) -> None:
    sink = made(tmp_path)
    assert sink.last_batch() is None
    assert sink.commit(written(tmp_path, 1, 2), 0, {"rocketpipe.rows": "2"})
    assert sink.commit([], 1)  # all of its messages were bad
    table = DeltaTable(tmp_path)
    assert (table.version(), table.transaction_version("me"), sink.last_batch()) == (2, 1, 1)
    assert table.history()[1]["rocketpipe.rows"] == "2"
    assert numbers(tmp_path) == [1, 2]
    assert {"rows": 2, "files": 1, "version": 2}.items() <= sink.figures().items()


def test_a_batch_that_comes_again_is_left_out_and_its_files_go(tmp_path: Path) -> None:
    sink = made(tmp_path)
    sink.commit(written(tmp_path, 1), 0)
    sink.commit(written(tmp_path, 2), 1)
    for batch in (0, 1):
        again = written(tmp_path, 1, 2)
        assert not sink.commit(again, batch)
        assert not (tmp_path / again[0].path).exists()
    assert numbers(tmp_path) == [1, 2]
    assert sink.last_batch() == 1


def test_files_that_were_not_committed_are_in_no_table(tmp_path: Path) -> None:
    sink = made(tmp_path)
    lost = written(tmp_path, 7)  # and here the driver died
    sink.commit(written(tmp_path, 7), 0)
    assert numbers(tmp_path) == [7]
    assert (tmp_path / lost[0].path).exists()


def test_a_second_driver_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = made(tmp_path)
    stale = DeltaTable(tmp_path)
    sink.commit(written(tmp_path, 1), 0)
    other = DeltaSink(tmp_path, "me")
    monkeypatch.setattr(other, "_open", lambda: stale)  # it looked before the first one wrote
    with pytest.raises(BatchConflict, match="batch 0 was not written"):
        other.commit(written(tmp_path, 1), 0)
    assert numbers(tmp_path) == [1]


def test_partitions_are_of_the_log_and_any_text(tmp_path: Path) -> None:
    sink = made(tmp_path, "kind")
    files = [*written(tmp_path, 1, kind="a b/c=%", by="kind"), *written(tmp_path, 2, by="kind")]
    sink.commit(files, 0)
    found = DeltaTable(tmp_path).to_pyarrow_table().to_pylist()
    assert {row["number"]: row["kind"] for row in found} == {1: "a b/c=%", 2: "a"}


def test_columns_can_be_added_and_nothing_else(tmp_path: Path) -> None:
    sink = made(tmp_path)
    sink.commit(written(tmp_path, 1), 0)
    sink.prepare(pa.schema([*SCHEMA, ("note", pa.string())]))
    sink.prepare(pa.schema([*SCHEMA, ("note", pa.string())]))
    assert DeltaTable(tmp_path).to_pyarrow_table().column_names == ["number", "kind", "note"]
    assert sink.last_batch() == 0
    with pytest.raises(SpecMismatch, match="number is left out: give the columns that it has"):
        sink.prepare(pa.schema([("kind", pa.string())]))


def test_upkeep_compacts_and_leaves_readers_what_they_read(tmp_path: Path) -> None:
    sink = made(tmp_path)
    for batch in range(6):
        sink.commit(written(tmp_path, batch), batch)
    reader = DeltaTable(tmp_path).to_pyarrow_dataset()
    lost = tmp_path / written(tmp_path, 99)[0].path
    ours = tmp_path / "_rocketpipe" / "kept.parquet"
    ours.parent.mkdir()
    ours.touch()
    for old in (lost, ours):
        os.utime(old, (0, 0))  # left by a driver that died long ago
    done = sink.upkeep(keep_ms=DAY_MS, compact=True)
    assert (done["files_before"], done["files"]) == (6, 1)
    assert sorted(reader.to_table().column("number").to_pylist()) == list(range(6))
    assert not lost.exists()
    assert ours.exists()
    assert numbers(tmp_path) == list(range(6))
    assert sink.figures()["files"] == 1
    assert sink.last_batch() == 5
    assert not sink.commit(written(tmp_path, 5), 5)
    assert sink.commit(written(tmp_path, 6), 6)


def test_upkeep_may_be_asked_to_keep_all(tmp_path: Path) -> None:
    sink = made(tmp_path)
    sink.commit(written(tmp_path, 1), 0)
    lost = tmp_path / written(tmp_path, 99)[0].path
    os.utime(lost, (0, 0))
    assert sink.upkeep(keep_ms=0, compact=False) == {}
    assert lost.exists()


def test_files_are_added_and_replaced_once_by_name(tmp_path: Path) -> None:
    sink = made(tmp_path)
    sink.commit(written(tmp_path, 1, 2), 3)
    more = written(tmp_path, 4, 5)
    assert not sink.has_named("replay-1")
    for _ in range(2):
        sink.add_named(more, "replay-1")
        assert numbers(tmp_path) == [1, 2, 4, 5]
    assert sink.has_named("replay-1")
    rest = written(tmp_path, 9)
    for _ in range(2):
        sink.replace_named(rest, "replay-2")
        assert numbers(tmp_path) == [9]
    sink.replace_named([], "replay-3")
    assert numbers(tmp_path) == []
    assert sink.last_batch() == 3
    assert sink.commit(written(tmp_path, 7), 4)


def test_rows_are_read_back_with_the_partition_column_also_after_compaction(
    tmp_path: Path,
) -> None:
    sink = made(tmp_path, by="kind")
    for batch, kind in enumerate(["New York", "a/b=c", "New York", "x%20y"]):
        sink.commit(written(tmp_path, batch, kind=kind, by="kind"), batch)
    wanted = {0: "New York", 1: "a/b=c", 2: "New York", 3: "x%20y"}
    for _ in range(2):
        found = sink.stored()
        rows = [
            row for part in found.parts for batch in part.read(SCHEMA) for row in batch.to_pylist()
        ]
        assert {row["number"]: row["kind"] for row in rows} == wanted
        assert found.last_batch == 3
        sink.upkeep(keep_ms=0, compact=True)
    assert DeltaSink(tmp_path / "none", "me").stored().parts == ()
