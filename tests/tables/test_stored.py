"""The rows that a table has, read back."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rocketpipe.tables.stored import PART_BYTES, StoredFile, StoredFiles, UnreadablePart, in_parts

SCHEMA = pa.schema([("n", pa.int32()), ("day", pa.date32()), ("later", pa.string())])


def test_a_file_is_read_with_all_columns_of_the_table(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([1, 2], pa.int64()), "x": ["a", "b"]}), tmp_path / "f")
    file = StoredFile(str(tmp_path / "f"), part={"day": "2026-05-01"})
    [batch] = file.read(SCHEMA)
    assert batch.to_pylist() == [
        {"n": 1, "day": date(2026, 5, 1), "later": None},
        {"n": 2, "day": date(2026, 5, 1), "later": None},
    ]


def test_what_cannot_be_read_is_told_when_the_rest_was(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a b")
    (tmp_path / "none").write_bytes(b"no such file")
    files = [StoredFile(str(tmp_path / name)) for name in ("gone", "none", "a%20b")]
    read = StoredFiles(tuple(files)).read(SCHEMA)
    assert next(read).num_rows == 1
    with pytest.raises(UnreadablePart, match=r"gone.*\(and 1 more\)"):
        next(read)


def test_parts_are_of_about_the_same_size() -> None:
    files = [StoredFile(str(number), PART_BYTES // 3) for number in range(7)]
    assert [len(part.files) for part in in_parts(files)] == [3, 3, 1]
    assert in_parts([]) == ()
