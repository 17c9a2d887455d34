"""Micro-batches into a table, with deaths between the steps; the frames run without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from rocketpipe.tables.batches import BatchWriter
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.errors import NewColumns, NotShared
from rocketpipe.tables.spec import TableSpec
from rocketpipe.tables.table import FollowedTable

Messages = Callable[..., pa.RecordBatch]
Psql = Callable[..., list[tuple[Any, ...]]]


class Died(BaseException):
    """The driver is no more."""


class Frame:
    """What a writer asks of a frame: each batch of it is a task."""

    def __init__(self, *batches: pa.RecordBatch) -> None:
        self._batches = batches
        self.runs = 0

    def list_files(
        self, task: Callable[[Iterable[Any]], Iterator[Any]]
    ) -> Iterator[tuple[str, str]]:
        self.runs += 1
        for batch in self._batches:
            for listed in task(iter([batch])):
                for row in listed.to_pylist():
                    yield row["kind"], row["facts"]


def writer(place: Path, **fields: Any) -> BatchWriter:
    directory = TableDirectory(place)
    if directory.has_spec:
        table = FollowedTable.open(place)
    else:
        spec = TableSpec(
            **{
                "topic": "orders",
                "name_server": "127.0.0.1:1",
                "decode": "json",
                "schema": "city STRING, cents INT",
            }
            | fields
        )
        table = FollowedTable(directory, spec)
    table.prepare()
    return BatchWriter(table, list_files=lambda frame, task: frame.list_files(task))


def read(place: Path, form: str = "delta") -> list[dict[str, Any]]:
    if form == "delta":
        return DeltaTable(place).to_pyarrow_table().to_pylist()
    if form == "iceberg":
        name = "rows" if (place / "_rocketpipe").exists() else "bad_rows"
        files = place if name == "rows" else place.parent.parent
        catalogue = SqlCatalog("rocketpipe", uri=f"sqlite:///{files}/_rocketpipe/catalog.db")
        return catalogue.load_table(("tables", name)).scan().to_arrow().to_pylist()
    found = [pq.read_table(path) for path in place.glob("batch=*/**/*.parquet")]
    return [row for each in found for row in each.to_pylist()]


def offsets(place: Path, form: str = "delta") -> list[int]:
    return sorted(row["queue_offset"] for row in read(place, form))


@pytest.mark.parametrize("form", ["delta", "parquet", "iceberg"])
def test_a_batch_that_spark_runs_again_is_in_the_table_once(
    tmp_path: Path, messages: Messages, form: str
) -> None:
    fill = writer(tmp_path, format=form)
    frame = Frame(messages([b"{}", b"no"]), messages([b"{}"], first=2))
    fill(frame, 0)
    fill(frame, 0)
    fill(Frame(messages([b"no"], first=3)), 1)
    assert frame.runs == 1
    assert offsets(tmp_path, form) == [0, 2]
    assert offsets(tmp_path / "_rocketpipe" / "bad_rows", form) == [1, 3]
    assert fill.table.rows.last_batch() == 1


@pytest.mark.parametrize("form", ["delta", "parquet", "iceberg"])
@pytest.mark.parametrize("step", ["files", "bad rows", "rows"])
def test_whoever_dies_when_the_rows_are_there_once(
    tmp_path: Path, messages: Messages, monkeypatch: pytest.MonkeyPatch, form: str, step: str
) -> None:
    first = writer(tmp_path, format=form)
    first(Frame(messages([b"{}"])), 0)
    sink = type(first.table.rows)
    commit = sink.commit
    done: list[str] = []

    def dies(self: Any, files: Sequence[Any], batch: int, notes: Any = None) -> bool:
        if step == "files":
            raise Died
        came = commit(self, files, batch, notes)
        done.append("bad rows" if not done else "rows")
        if done[-1] == step:
            raise Died
        return came

    batch = Frame(messages([b"{}", b"no"], first=1))
    with monkeypatch.context() as patched:
        patched.setattr(sink, "commit", dies)
        with pytest.raises(Died):
            first(batch, 1)
    again = writer(tmp_path)
    again(batch, 1)
    again(Frame(messages([b"{}"], first=3)), 2)
    assert offsets(tmp_path, form) == [0, 1, 3]
    assert offsets(tmp_path / "_rocketpipe" / "bad_rows", form) == [2]


def test_files_that_the_driver_does_not_see_are_no_batch(
    tmp_path: Path, messages: Messages
) -> None:
    """As where executors have another disk under the same path."""
    fill = writer(tmp_path)

    class Elsewhere(Frame):
        def list_files(self, task: Any) -> Iterator[tuple[str, str]]:
            yield from list(super().list_files(task))
            for written in tmp_path.rglob("*.parquet"):
                written.unlink()

    fill.list_files = lambda frame, task: list(frame.list_files(task))
    with pytest.raises(NotShared, match="see the same directory under this path"):
        fill(Elsewhere(messages([b"{}"])), 0)
    assert fill.table.rows.last_batch() is None


def test_new_columns_are_added_and_later_rows_fill_them(tmp_path: Path, messages: Messages) -> None:
    fill = writer(tmp_path, new_columns="add")
    fill(Frame(messages([b'{"city": "a"}'])), 0)
    frame = Frame(messages([b'{"n": 1}'], first=1), messages([b'{"n": 2.5, "w": true}'], first=2))
    fill(frame, 1)
    assert frame.runs == 2
    fill(Frame(messages([b'{"n": 3}', b'{"n": "text"}'], first=3)), 2)
    found = {row["queue_offset"]: (row["n"], row["w"]) for row in read(tmp_path)}
    assert found == {0: (None, None), 1: (1.0, None), 2: (2.5, True), 3: (3.0, None)}
    [bad] = read(tmp_path / "_rocketpipe" / "bad_rows")
    assert bad["error"] == 'n: "text" does not fit'
    again = FollowedTable.open(tmp_path)
    assert again.spec.added == "`n` DOUBLE, `w` BOOLEAN"
    files = list(tmp_path.glob("*.parquet"))
    assert len(files) == again.rows.figures()["files"]  # those without the columns are gone


@pytest.mark.parametrize("form", ["delta", "parquet", "iceberg"])
def test_of_new_fields_that_differ_by_case_alone_one_is_a_column(
    tmp_path: Path, messages: Messages, form: str
) -> None:
    fill = writer(tmp_path, new_columns="add", format=form)
    fill(Frame(messages([b'{"Note": 1}']), messages([b'{"note": 2}', b'{"NOTE": 3}'], first=1)), 0)
    assert FollowedTable.open(tmp_path).spec.added == "`NOTE` BIGINT"
    assert [(row["queue_offset"], row["NOTE"]) for row in read(tmp_path, form)] == [(2, 3)]
    bad = read(tmp_path / "_rocketpipe" / "bad_rows", form)
    assert sorted(row["queue_offset"] for row in bad) == [0, 1]
    assert all("note" in row["error"].lower() for row in bad)


def test_a_death_between_the_column_and_its_rows_changes_nothing(
    tmp_path: Path, messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = writer(tmp_path, new_columns="add")

    def dies(*given: Any) -> bool:
        raise Died

    frame = Frame(messages([b'{"n": 1}', b'{"n": "x"}']))
    with monkeypatch.context() as patched:
        patched.setattr(type(fill.table.rows), "commit", dies)
        with pytest.raises(Died):
            fill(frame, 0)
    assert read(tmp_path) == []
    writer(tmp_path)(frame, 0)
    assert sorted(row["n"] for row in read(tmp_path)) == ["1", "x"]


def test_new_columns_may_end_the_query_and_nothing_is_written(
    tmp_path: Path, messages: Messages
) -> None:
    fill = writer(tmp_path, new_columns="fail")
    with pytest.raises(NewColumns, match=r"note \(message 1 in queue 2.*--new-columns add"):
        fill(Frame(messages([b"no", b'{"note": 1}'])), 0)
    assert isinstance(fill.failure, NewColumns)
    assert fill.table.rows.last_batch() is None
    assert fill.table.bad_rows.last_batch() is None
    assert list(tmp_path.rglob("part-*")) == []


def test_names_that_are_values_do_not_become_a_thousand_columns(
    tmp_path: Path, messages: Messages
) -> None:
    fill = writer(tmp_path, new_columns="add")
    with pytest.raises(NewColumns, match="more than 1000 fields"):
        fill(Frame(messages([b'{"u%d": 1}' % number for number in range(1100)])), 0)
    assert fill.table.spec.added is None


@pytest.mark.parametrize(
    ("field", "how"),
    [
        ("date", {"partition_by": "date"}),
        ("Date", {"partition_by": "date"}),
        ("date", {"partition_by": "date", "format": "parquet"}),
        ("batch", {"format": "parquet"}),
        ("Batch", {"format": "parquet"}),
    ],
)
def test_a_field_that_is_called_as_a_column_of_the_table_makes_a_bad_row(
    tmp_path: Path, messages: Messages, field: str, how: dict[str, Any]
) -> None:
    fill = writer(tmp_path, new_columns="add", **how)
    fill(Frame(messages([b'{"%s": "x"}' % field.encode(), b'{"new": 1}'])), 0)
    assert offsets(tmp_path, how.get("format", "delta")) == [1]
    assert fill.table.bad_rows.figures()["rows"] == 1
    fill = writer(tmp_path)  # somebody else goes on
    fill(Frame(messages([b'{"new": 2}'], first=2)), 1)
    assert offsets(tmp_path, how.get("format", "delta")) == [1, 2]


def test_upkeep_comes_every_so_many_batches_and_fails_nothing(
    tmp_path: Path, messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = writer(tmp_path, compact_every=3)
    for batch in range(3):
        fill(Frame(messages([b"{}"], first=batch)), batch)
    assert fill.table.rows.figures()["files"] == 1

    def fails(*given: Any, **named: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(type(fill.table.rows), "upkeep", fails)
    for batch in range(3, 6):
        fill(Frame(messages([b"{}"], first=batch)), batch)
    assert offsets(tmp_path) == list(range(6))


def test_batches_are_told_of(tmp_path: Path, messages: Messages) -> None:
    fill = writer(tmp_path)
    told: list[Any] = []
    fill.tell = told.append
    fill(Frame(messages([b"{}", b"no", b"{}"])), 0)
    assert told == [{"batch": 0, "rows": 2, "bad_rows": 1}]


def test_what_a_batch_had_to_leave_out_is_told(tmp_path: Path, messages: Messages) -> None:
    fill = writer(tmp_path)
    told: list[Any] = []
    fill.tell = told.append
    logged = fill.table.checkpoint.place / "offsets"
    logged.mkdir()
    for batch, text in enumerate(
        [
            '"topics": {"orders": {"a": {"0": 5, "1": 5}}}',
            '"topics": {"orders": {"a": {"0": 9, "1": 2}}}, '
            '"from": {"orders": {"a": {"0": 8, "1": 0}}}',
        ]
    ):
        (logged / str(batch)).write_text(f'v1\n{{}}\n{{"v": 1, {text}}}')
        fill(Frame(messages([b"{}"], first=batch)), batch)
    assert [each["gap"] for each in told if "gap" in each] == [
        "messages 5 to 7 of queue 0 of broker 'a' are gone, and were left out",
        "queue 1 of broker 'a' was made anew since it was read up to 5, and is read from 0 on",
    ]


def test_a_table_of_a_database_is_filled_as_all_others(
    tmp_path: Path, messages: Messages, address: str, psql: Psql
) -> None:
    asked = {"format": "postgres", "database": address, "table": "orders", "new_columns": "add"}
    fill = writer(tmp_path, **asked)
    long = b"x" * 64
    fill(Frame(messages([b'{"city": "a"}', b"no", b'{"city": "n\\u0000"}'])), 0)
    frame = Frame(messages([b'{"note": "n"}', b'{"xmin": 1}', b'{"%s": 1}' % long], first=3))
    fill(frame, 1)
    writer(tmp_path)(frame, 1)
    assert psql("SELECT queue_offset, city, note FROM orders ORDER BY 1") == [
        (0, "a", None),
        (3, None, "n"),
    ]
    bad = psql("SELECT queue_offset, error, body FROM orders_bad_rows ORDER BY 1")
    assert [(row[0], row[1][:25]) for row in bad] == [
        (1, "not JSON: Expecting value"),
        (2, "city: has a NUL, which Po"),
        (4, "field 'xmin' cannot be th"),
        (5, "field 'xxxxxxxxxxxxxxxxxx"),
    ]
    assert bad[1][2] == b'{"city": "n\\u0000"}'
    assert fill.table.rows.figures()["rows"] == 2
    assert psql("SELECT count(*) FROM pg_class WHERE relname LIKE '%stage%'") == [(0,)]
