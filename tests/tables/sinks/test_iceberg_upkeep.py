"""What an Iceberg table needs from time to time."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from rocketpipe.tables.files import WrittenFile
from rocketpipe.tables.sinks import iceberg_upkeep
from rocketpipe.tables.sinks.iceberg import IcebergCatalogue, IcebergSink
from rocketpipe.tables.spec import DAY_MS

SCHEMA = pa.schema([("number", pa.int64()), ("day", pa.date32())])
DAYS = (date(2026, 1, 1), date(2026, 1, 2))


def filled(root: Path, batches: int = 6) -> IcebergSink:
    catalogue = IcebergCatalogue(root / "_rocketpipe" / "catalog.db")
    sink = IcebergSink(root, "me", "day", catalogue, ("tables", "rows"))
    sink.prepare(SCHEMA)
    for batch in range(batches):
        sink.commit(written(sink, batch, DAYS[batch % 2]), batch)
    return sink


def written(sink: IcebergSink, number: int, day: date) -> list[WrittenFile]:
    files = sink.rows_to.open(SCHEMA, "day")
    files.add(pa.RecordBatch.from_pydict({"number": [number], "day": [day]}, SCHEMA))
    return files.finish()


def numbers(sink: IcebergSink, where: str = "number >= 0") -> list[int]:
    return sorted(sink._fresh().scan(where).to_arrow().column("number").to_pylist())


def grow_old(root: Path) -> None:
    for path in root.rglob("*"):
        if path.suffix in (".parquet", ".avro"):
            os.utime(path, (0, 0))


def test_small_files_of_a_partition_become_one_and_readers_keep_theirs(tmp_path: Path) -> None:
    sink = filled(tmp_path)
    sink.prepare(pa.schema([*SCHEMA, ("note", pa.string())]))
    grow_old(tmp_path)
    reader = sink._fresh().scan()
    files = list(reader.plan_files())
    assert sink.upkeep(keep_ms=DAY_MS, compact=True) == {
        "files_before": 6,
        "files": 2,
        "removed": 0,
    }
    assert numbers(sink) == list(range(6))
    assert numbers(sink, "day = '2026-01-02'") == [1, 3, 5]
    assert sink.figures()["files"] == 2
    assert all(Path(each.file.file_path.removeprefix("file://")).exists() for each in files)
    assert reader.to_arrow().num_rows == 6
    assert sink.last_batch() == 5
    assert not sink.commit(written(sink, 5, DAYS[0]), 5)
    assert sink.commit(written(sink, 6, DAYS[0]), 6)
    assert numbers(sink) == list(range(7))


def test_what_no_snapshot_has_goes_when_nobody_can_read_it_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = filled(tmp_path)
    sink.upkeep(keep_ms=0, compact=True)
    lost = tmp_path / written(sink, 99, DAYS[0])[0].path
    young = tmp_path / written(sink, 98, DAYS[0])[0].path
    ours = tmp_path / "_rocketpipe" / "bad_rows" / "part-x.parquet"
    ours.parent.mkdir(parents=True)
    ours.touch()
    grow_old(tmp_path)
    young.touch()
    monkeypatch.setattr(iceberg_upkeep, "_MOST_SNAPSHOTS", 1)
    done = sink.upkeep(keep_ms=DAY_MS, compact=False)
    assert done["removed"] >= 7  # six that were compacted, the lost one, and old manifests
    assert not lost.exists()
    assert young.exists()
    assert ours.exists()
    assert len(sink._fresh().metadata.snapshots) == 1
    assert numbers(sink) == list(range(6))
    assert sink.last_batch() == 5


def test_a_compaction_that_meets_a_batch_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = filled(tmp_path, batches=4)
    stale = sink._fresh()
    sink.commit(written(sink, 4, DAYS[0]), 4)
    work = iceberg_upkeep.IcebergUpkeep(tmp_path, lambda: stale, "day")
    with pytest.raises(Exception, match="branch main has changed"):
        work.compact()
    assert numbers(sink) == list(range(5))
    assert len(list(tmp_path.glob("day=*/*.parquet"))) == 5


def test_upkeep_may_be_asked_to_keep_all(tmp_path: Path) -> None:
    sink = filled(tmp_path, batches=2)
    assert sink.upkeep(keep_ms=0, compact=False) == {}
    assert len(sink._fresh().metadata.snapshots) == 2
