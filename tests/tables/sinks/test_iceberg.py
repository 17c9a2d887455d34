"""Iceberg tables that take a batch once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg.catalog
import pytest
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.delta import BatchConflict
from rocketpipe.tables.errors import NotATable, SpecMismatch
from rocketpipe.tables.files import WrittenFile
from rocketpipe.tables.sinks.iceberg import IcebergCatalogue, IcebergSink

SCHEMA = pa.schema([("number", pa.int64()), ("kind", pa.string())])


def sink(root: Path, by: str | None = None, table_id: str = "me") -> IcebergSink:
    catalogue = IcebergCatalogue(root / "_rocketpipe" / "catalog.db")
    return IcebergSink(root, table_id, by, catalogue, ("tables", "rows"))


def made(root: Path, by: str | None = None) -> IcebergSink:
    new = sink(root, by)
    new.prepare(SCHEMA)
    return new


def written(to: IcebergSink, *numbers: int, kind: str | None = "a") -> list[WrittenFile]:
    files = to.rows_to.open(SCHEMA, to._partition_by)
    files.add(
        pa.RecordBatch.from_pydict({"number": numbers, "kind": [kind] * len(numbers)}, SCHEMA)
    )
    return files.finish()


def table(to: IcebergSink) -> Table:
    return to._fresh()


def numbers(to: IcebergSink) -> list[int]:
    return sorted(table(to).scan().to_arrow().column("number").to_pylist())


def test_a_batch_is_one_commit_with_its_number(tmp_path: Path) -> None:
    to = made(tmp_path)
    assert to.last_batch() is None
    assert to.figures()["rows"] == 0
    assert to.commit(written(to, 1, 2), 0, {"rocketpipe.rows": "2"})
    assert to.commit([], 1)  # all of its messages were bad
    assert sink(tmp_path).last_batch() == 1
    first, second = table(to).metadata.snapshots
    assert first.summary is not None
    assert first.summary["rocketpipe.batch"] == "0"
    assert first.summary["rocketpipe.table"] == "me"
    assert first.summary["rocketpipe.rows"] == "2"
    assert second.summary is not None
    assert numbers(to) == [1, 2]
    assert {"rows": 2, "files": 1}.items() <= to.figures().items()


def test_a_batch_that_comes_again_is_left_out_and_its_files_go(tmp_path: Path) -> None:
    to = made(tmp_path)
    to.commit(written(to, 1), 0)
    to.commit(written(to, 2), 1)
    for batch in (0, 1):
        again = written(to, 1, 2)
        assert not to.commit(again, batch)
        assert not (tmp_path / again[0].path).exists()
    assert numbers(to) == [1, 2]
    assert to.last_batch() == 1


def meeting(to: IcebergSink, monkeypatch: pytest.MonkeyPatch, others: Callable[[], None]) -> None:
    """Have others write between the look and the commit, once."""
    load = to._fresh

    def stale() -> Table:
        monkeypatch.setattr(to, "_fresh", load)
        looked = load()
        others()
        return looked

    monkeypatch.setattr(to, "_fresh", stale)


@pytest.mark.parametrize("rows", [(1,), ()])
def test_a_second_driver_with_the_same_batch_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: tuple[int, ...]
) -> None:
    first, second = made(tmp_path), sink(tmp_path)
    first.commit(written(first, 0), 0)
    meeting(second, monkeypatch, lambda: (first.commit(written(first, 1), 1), None)[1])
    lost = written(second, *rows)
    assert not second.commit(lost, 1)
    assert numbers(first) == [0, 1]
    assert [each.path for each in lost if (tmp_path / each.path).exists()] == []


def test_a_driver_that_is_behind_does_not_set_the_number_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, behind = made(tmp_path), sink(tmp_path)
    ahead.commit(written(ahead, 0), 0)

    def others() -> None:
        ahead.commit(written(ahead, 1), 1)
        ahead.commit([], 2)

    meeting(behind, monkeypatch, others)
    assert not behind.commit([], 1)
    assert ahead.last_batch() == 2


def test_a_commit_of_somebody_else_is_met_and_the_batch_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = made(tmp_path)
    other = table(to)

    def others() -> None:
        other.append(pa.table({"number": [70], "kind": ["x"]}, SCHEMA))

    meeting(to, monkeypatch, others)
    assert to.commit(written(to, 1), 0)
    assert numbers(to) == [1, 70]


def test_whoever_lets_commits_be_repeated_does_not_double_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = made(tmp_path), sink(tmp_path)
    with table(first).transaction() as change:
        change.set_properties({"commit.retry.num-retries": "4"})
    meeting(second, monkeypatch, lambda: (first.commit(written(first, 1), 0), None)[1])
    assert not second.commit(written(second, 1), 0)
    assert numbers(first) == [1]


def test_a_commit_whose_answer_was_lost_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = made(tmp_path)
    append = to._write

    def answered_by_nobody(*given: Any) -> None:
        append(*given)
        raise CommitStateUnknownException("the connection is gone")

    monkeypatch.setattr(to, "_write", answered_by_nobody)
    assert to.commit(written(to, 1), 0)
    assert numbers(to) == [1]

    def never_heard(*given: Any) -> None:
        raise CommitStateUnknownException("the connection is gone")

    monkeypatch.setattr(to, "_write", never_heard)
    with pytest.raises(BatchConflict, match="batch 1 was not written"):
        to.commit(written(to, 2), 1)


@pytest.mark.parametrize("kind", ["a b/c=%", "long" * 2000, None, ""])
def test_partitions_are_of_the_manifest_and_any_text(tmp_path: Path, kind: str | None) -> None:
    to = made(tmp_path, "kind")
    to.commit([*written(to, 1, kind=kind), *written(to, 2)], 0)
    wanted = "kind IS NULL" if kind is None else f"kind = '{kind}'"
    assert table(to).scan(wanted).to_arrow().column("number").to_pylist() == [1]
    assert table(to).scan("kind = 'a'").to_arrow().column("number").to_pylist() == [2]


def test_columns_can_be_added_and_nothing_else(tmp_path: Path) -> None:
    to = made(tmp_path)
    to.commit(written(to, 1), 0)
    wider = pa.schema([*SCHEMA, ("note", pa.string())])
    to.prepare(wider)
    to.prepare(wider)
    files = to.rows_to.open(wider, None)
    files.add(pa.RecordBatch.from_pydict({"number": [2], "kind": ["a"], "note": ["n"]}, wider))
    to.commit(files.finish(), 1)
    found = table(to).scan().to_arrow().to_pylist()
    assert {row["number"]: row["note"] for row in found} == {1: None, 2: "n"}
    with pytest.raises(SpecMismatch, match="number is left out: give the columns that it has"):
        to.prepare(pa.schema([("kind", pa.string())]))


def test_every_type_of_a_body_is_kept(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("tiny", pa.int8()),
            pa.field("short", pa.int16()),
            pa.field("real", pa.float32()),
            pa.field("price", pa.decimal128(10, 2)),
            pa.field("at", pa.timestamp("us", tz="UTC")),
            pa.field("local", pa.timestamp("us")),
            pa.field("day", pa.date32()),
            pa.field("bytes", pa.binary()),
            pa.field("texts", pa.list_(pa.string())),
            pa.field("pair", pa.struct([("a", pa.int8()), ("b", pa.list_(pa.int64()))])),
            pa.field("named", pa.map_(pa.string(), pa.float64())),
            pa.field("sure", pa.int32(), nullable=False),
        ]
    )
    to = sink(tmp_path, "day")
    to.prepare(schema)
    to.prepare(schema)
    row = dict.fromkeys(schema.names) | {
        "tiny": 1,
        "texts": ["x", None],
        "pair": {"a": 1, "b": [2]},
        "named": [("k", 1.5)],
        "sure": 7,
    }
    files = to.rows_to.open(schema, "day")
    files.add(pa.RecordBatch.from_pylist([row], schema))
    to.commit(files.finish(), 0)
    assert table(to).scan().to_arrow().to_pylist() == [row]


def test_a_table_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    made(tmp_path)
    other = sink(tmp_path, table_id="other")
    with pytest.raises(NotATable, match=r"tables\.rows: is a table already"):
        other.check_free()
    with pytest.raises(NotATable, match="is another table"):
        other.prepare(SCHEMA)


def test_a_catalogue_is_one_that_pyiceberg_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "company.db"
    monkeypatch.setenv("PYICEBERG_CATALOG__COMPANY__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__COMPANY__URI", f"sqlite:///{file}")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # read when it was loaded
    catalogue = IcebergCatalogue(tmp_path / "unused.db", "company")
    to = IcebergSink(tmp_path / "t", "me", None, catalogue, ("sales", "orders"))
    to.check_free()
    to.prepare(SCHEMA)
    to.commit(written(to, 1), 0)
    assert numbers(to) == [1]
    assert file.exists()
    assert not (tmp_path / "unused.db").exists()
    with pytest.raises(ConfigError, match="PYICEBERG_CATALOG__NOBODY__URI"):
        IcebergCatalogue(tmp_path / "unused.db", "nobody").load()


def test_rows_beside_the_batches_are_there_once_by_their_name(tmp_path: Path) -> None:
    to = made(tmp_path, "kind")
    to.commit([*written(to, 1), *written(to, 2, kind="b")], 0)
    more = written(to, 3)
    [part] = to.written(more)
    assert [batch.column("number").to_pylist() for batch in part.read(SCHEMA)] == [[3]]
    assert not to.has_named("replay-1")
    for _ in range(2):
        to.add_named(more, "replay-1")
        assert to.has_named("replay-1")
        assert numbers(to) == [1, 2, 3]
    instead = written(to, 4)
    for _ in range(2):
        to.replace_named(instead, "replay-2")
        assert numbers(to) == [4]
    to.replace_named([], "replay-3")
    assert (numbers(to), to.figures()["rows"], to.last_batch()) == ([], 0, 0)
