"""Rows of a table by its files' footers."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rocketpipe.projects.table_files import count_rows, files_of


def part(place: Path, rows: int) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": list(range(rows))}), place)
    return json.dumps({"path": place.as_uri(), "size": 1, "action": "add"})


def test_of_a_view_all_files_count_that_are_not_hidden(tmp_path: Path) -> None:
    assert count_rows(None) is None
    assert count_rows(tmp_path / "nothing") is None
    part(tmp_path / "t/city=Oslo/part-0.parquet", 3)
    part(tmp_path / "t/_temporary/part-1.parquet", 5)
    (tmp_path / "t/_SUCCESS").touch()
    assert count_rows(tmp_path / "t") == 3
    (tmp_path / "t/part-2.parquet").write_text("no parquet")
    assert count_rows(tmp_path / "t") is None


def test_of_a_stream_those_count_that_its_log_names(tmp_path: Path) -> None:
    table = tmp_path / "a table"
    log = table / "_spark_metadata"
    log.mkdir(parents=True)
    lines = [part(table / f"part-{number}.parquet", number + 1) for number in range(4)]
    part(table / "part-of-a-batch-that-died.parquet", 100)
    (log / "0").write_text(f"v1\n{lines[0]}\n")
    (log / "1.compact").write_text(f"v1\n{lines[1]}\n{lines[2]}\n")
    (log / "2").write_text(f"v1\n{lines[3]}\n")
    (log / ".2.crc").touch()
    assert [file.name for file in files_of(table)] == [
        "part-1.parquet",
        "part-2.parquet",
        "part-3.parquet",
    ]
    assert count_rows(table) == 2 + 3 + 4
