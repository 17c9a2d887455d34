"""A table opened, and whether it can be followed on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.tables.checkpoint import Checkpoint
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.errors import CheckpointMismatch, NotATable, SpecMismatch
from rocketpipe.tables.sinks.delta import DeltaSink
from rocketpipe.tables.spans import Queue, Spans
from rocketpipe.tables.spec import TableSpec
from rocketpipe.tables.table import FollowedTable


def table(place: Path, **fields: Any) -> FollowedTable:
    spec = TableSpec(
        **{
            "topic": "orders",
            "name_server": "127.0.0.1:1",
            "decode": "json",
            "schema": "city STRING, cents INT",
        }
        | fields
    )
    return FollowedTable(TableDirectory(place), spec)


@pytest.mark.parametrize("form", ["delta", "parquet", "iceberg"])
def test_a_table_that_was_made_is_found_in_its_directory(tmp_path: Path, form: str) -> None:
    made = table(tmp_path / "lake", format=form)
    made.check()
    made.prepare()
    found = FollowedTable.open(tmp_path / "lake")
    assert found.spec == made.spec
    assert found.rows.figures()["rows"] == found.bad_rows.figures()["rows"] == 0
    found.check()


@pytest.mark.parametrize("part", ["rows", "bad_rows", "checkpoint"])
def test_a_table_that_was_half_made_is_made_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def dies(*given: object) -> None:
        raise KeyboardInterrupt

    made = table(tmp_path / "lake")
    step = {"rows": DeltaSink, "bad_rows": DeltaSink, "checkpoint": Checkpoint}[part]
    with monkeypatch.context() as patched:
        if part == "bad_rows":
            made.directory.write(made.spec)
            made.rows.prepare(made.schema)
        patched.setattr(step, "claim" if part == "checkpoint" else "prepare", dies)
        with pytest.raises(KeyboardInterrupt):
            made.prepare()
    again = FollowedTable.open(tmp_path / "lake")
    again.check()
    again.prepare()
    assert again.spec == made.spec
    assert again.bad_rows.figures()["version"] == again.rows.figures()["version"] == 0


def test_a_column_that_readers_have_beside_those_of_bodies_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="batch is what tables of parquet call something else"):
        table(tmp_path / "new", schema="Batch INT", format="parquet").check()
    table(tmp_path / "new", schema="Batch INT").check()
    with pytest.raises(ConfigError, match="but for letter case"):
        table(tmp_path / "new", schema="Date STRING", partition_by="date").check()
    table(tmp_path / "day", partition_by="date").prepare()
    there = FollowedTable.open(tmp_path / "day").spec
    other = FollowedTable(
        TableDirectory(tmp_path / "day"),
        there.with_changes(schema=f"{there.schema}, date DATE"),
    )
    with pytest.raises(SpecMismatch, match="date is the day of storing"):
        other.check()


def test_a_table_grows_by_columns_and_by_nothing_else(tmp_path: Path) -> None:
    table(tmp_path).prepare()
    there = FollowedTable.open(tmp_path).spec
    wider = table(tmp_path, schema="city STRING, cents INT, note STRING", id=there.id)
    wider.check()
    wider.prepare()
    assert "note" in FollowedTable.open(tmp_path).schema.names
    other = table(tmp_path, schema="city STRING, cents STRING", id=there.id)
    with pytest.raises(SpecMismatch, match="cents is int32, not string"):
        other.check()
    assert FollowedTable.open(tmp_path).spec == wider.spec


def test_a_table_without_its_checkpoint_is_not_followed(tmp_path: Path) -> None:
    made = table(tmp_path)
    made.prepare()
    made.rows.commit([], 0)
    with pytest.raises(CheckpointMismatch, match="checkpoint was lost"):
        made.check()
    shutil.rmtree(tmp_path / "_delta_log")
    made.check()


def test_a_batch_that_is_half_done_is_ended_before_the_table_is_changed(tmp_path: Path) -> None:
    made = table(tmp_path)
    made.prepare()
    made.bad_rows.commit([], 0)
    made.check()
    with pytest.raises(SpecMismatch, match="half done: follow it once as it was"):
        table(tmp_path, schema="city STRING, cents INT, x INT", id=made.spec.id).check()


def test_a_directory_of_something_else_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "photo.png").touch()
    with pytest.raises(NotATable, match="photo"):
        table(tmp_path).check()
    with pytest.raises(NotATable, match="is no table that follows a topic"):
        FollowedTable.open(tmp_path)


def test_what_a_table_took_of_its_topic_is_kept_with_each_batch(tmp_path: Path) -> None:
    made = table(tmp_path / "lake")
    made.prepare()
    made.note_batch(0)  # of which Spark knows nothing
    assert made.spans == Spans()
    offsets = made.checkpoint.place / "offsets"
    offsets.mkdir()
    for batch, text in enumerate(
        [
            '"topics": {"orders": {"a": {"0": 5}}}, "from": {"orders": {"a": {"0": 2}}}',
            '"topics": {"orders": {"a": {"0": 9}}}, "from": {"orders": {"a": {"0": 8}}}',
        ]
    ):
        (offsets / str(batch)).write_text(f'v1\n{{}}\n{{"v": 1, {text}}}')
        made.note_batch(batch)
        made.rows.commit([], batch)
    queue = Queue("orders", "a", 0)
    assert made.spans == Spans({queue: 2}, {queue: ((5, 8),)})
    wider = FollowedTable(
        made.directory, made.spec.with_changes(schema="city STRING, cents INT, tip INT")
    )
    wider.prepare()
    assert wider.spans.since == {"tip": {queue: 9}}
