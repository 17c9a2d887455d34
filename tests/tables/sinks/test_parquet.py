"""Directories of Parquet that take a batch once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rocketpipe.tables.errors import TooManyParts
from rocketpipe.tables.files import WrittenFile
from rocketpipe.tables.sinks.parquet import ParquetSink

SCHEMA = pa.schema([("number", pa.int64()), ("day", pa.string())])


def written(sink: ParquetSink, *numbers: int, day: str = "d1") -> list[WrittenFile]:
    files = sink.rows_to.open(SCHEMA, "day")
    files.add(pa.RecordBatch.from_pydict({"number": numbers, "day": [day] * len(numbers)}, SCHEMA))
    return files.finish()


def numbers(root: Path) -> list[int]:
    return sorted(pq.read_table(root).column("number").to_pylist())


def made(tmp_path: Path) -> ParquetSink:
    sink = ParquetSink(tmp_path / "t", tmp_path / "t" / "_rocketpipe" / "staging" / "rows")
    sink.prepare(SCHEMA)
    return sink


def test_a_batch_is_a_directory_with_its_number(tmp_path: Path) -> None:
    sink = made(tmp_path)
    assert sink.last_batch() is None
    assert sink.commit(written(sink, 1, 2), 0)
    assert sink.commit([], 1)
    assert sink.commit(written(sink, 3), 2)
    assert sink.last_batch() == 2
    assert numbers(tmp_path / "t") == [1, 2, 3]
    found = pq.read_table(tmp_path / "t")
    assert {"batch", "day"} <= set(found.column_names)
    assert {"rows": 3, "files": 2}.items() <= sink.figures().items()


def test_a_batch_that_comes_again_is_left_out(tmp_path: Path) -> None:
    sink = made(tmp_path)
    sink.commit(written(sink, 1), 0)
    assert not sink.commit(written(sink, 1), 0)
    assert numbers(tmp_path / "t") == [1]


def test_what_an_attempt_left_is_not_renamed_with_the_rest(tmp_path: Path) -> None:
    sink = made(tmp_path)
    written(sink, 7)  # by a task that was given up
    sink.commit(written(sink, 1), 0)
    assert numbers(tmp_path / "t") == [1]
    sink.prepare(SCHEMA)
    assert not Path(sink.rows_to.path).exists()


def test_files_that_were_not_committed_are_in_no_table(tmp_path: Path) -> None:
    sink = made(tmp_path)
    sink.commit(written(sink, 1), 0)
    written(sink, 2)
    assert numbers(tmp_path / "t") == [1]
    assert sink.upkeep(keep_ms=0, compact=True) == {}


def test_readers_find_the_value_of_a_partition_in_its_directory(tmp_path: Path) -> None:
    sink = made(tmp_path)
    for batch, day in enumerate(["a b/c=%", "../é"]):
        sink.commit(written(sink, batch, day=day), batch)
    found = pq.read_table(tmp_path / "t").select(["number", "day"]).to_pylist()
    assert {row["number"]: row["day"] for row in found} == {0: "a b/c=%", 1: "../é"}
    with pytest.raises(TooManyParts, match="too long for a directory"):
        written(sink, 3, day="long" * 100)


def stored(sink: ParquetSink) -> list[dict[str, object]]:
    found = [batch for part in sink.stored().parts for batch in part.read(SCHEMA)]
    rows = [row for batch in found for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["number"]))


def test_a_value_of_the_partition_column_is_read_back_as_it_was(tmp_path: Path) -> None:
    sink = made(tmp_path)
    files = sink.rows_to.open(SCHEMA, "day")
    values = ["New York", "a/b=c", None, "x%20y", "d1"]
    files.add(pa.RecordBatch.from_pydict({"number": list(range(5)), "day": values}, SCHEMA))
    sink.commit(files.finish(), 0)
    assert [row["day"] for row in stored(sink)] == values
    found = pq.read_table(tmp_path / "t", partitioning="hive").to_pylist()
    assert {row["number"]: row["day"] for row in found} == dict(enumerate(values))
    assert sink.stored().last_batch == 0


def test_files_are_added_and_replaced_once_by_name_whoever_dies(tmp_path: Path) -> None:
    sink = made(tmp_path)
    sink.commit(written(sink, 1, 2), 0)
    sink.commit(written(sink, 3), 1)
    more = written(sink, 4, 5) + written(sink, 6)
    assert not sink.has_named("replay-1")
    last = tmp_path / "t" / "batch=00000001" / "day=d1"
    (Path(sink.rows_to.path) / more[0].path).rename(last / "replay-1-0.parquet")  # and then it died
    assert sink.has_named("replay-1")
    for _ in range(2):
        sink.add_named(more, "replay-1")
        assert numbers(tmp_path / "t") == [1, 2, 3, 4, 5, 6]
    assert sink.figures()["rows"] == 6
    rest = written(sink, 9)
    for _ in range(2):
        sink.replace_named(rest, "replay-2")
        assert numbers(tmp_path / "t") == [9]
    assert (sink.figures()["rows"], sink.last_batch()) == (1, 1)
    sink.replace_named([], "replay-3")
    assert (sink.figures()["rows"], sink.last_batch()) == (0, 1)


def test_a_table_without_a_batch_takes_files_by_name(tmp_path: Path) -> None:
    sink = made(tmp_path)
    sink.add_named(written(sink, 1), "replay-1")
    assert numbers(tmp_path / "t") == [1]
