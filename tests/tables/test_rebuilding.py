"""A table anew: what is refused, what is left over, and the exchange; without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.errors import AlreadyFollowed, NotATable, RebuildFailed
from rocketpipe.tables.rebuilding import _Site, _start, _wanted, exchange, rebuild
from rocketpipe.tables.spans import Queue
from rocketpipe.tables.spec import TableSpec


def spec(**fields: Any) -> TableSpec:
    return TableSpec(
        **{
            "topic": "orders",
            "name_server": "127.0.0.1:1",
            "decode": "json",
            "schema": "n INT",
            **fields,
        }
    )


def test_what_is_no_table_or_is_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATable, match="is no table"):
        rebuild(tmp_path)
    directory = TableDirectory(tmp_path / "lake")
    directory.write(spec())
    with directory.locked(), pytest.raises(AlreadyFollowed, match="is being written by process"):
        rebuild(tmp_path / "lake")
    with pytest.raises(ConfigError, match="'topic' is not something that can be chosen"):
        rebuild(tmp_path / "lake", topic="visits")
    assert [each.name for each in tmp_path.iterdir()] == ["lake"]


def test_a_table_that_others_know_by_its_name_keeps_it(tmp_path: Path) -> None:
    TableDirectory(tmp_path / "lake").write(spec(format="iceberg"))
    with pytest.raises(ConfigError, match="makes the same table anew: its format cannot be"):
        rebuild(tmp_path / "lake", format="delta")


def test_a_new_table_is_the_old_one_but_for_what_is_asked() -> None:
    old = spec(added="`note` STRING", partition_by="date")
    new = _wanted(old, {"schema": "n BIGINT", "partition_by": None})
    assert new.id != old.id
    assert (new.schema, new.added, new.partition_by) == ("n BIGINT", "`note` STRING", "date")
    assert _wanted(old, {"decode": "text"}).schema is None
    with pytest.raises(ConfigError, match="no column 'town'"):
        _wanted(old, {"partition_by": "town"})


def test_a_new_table_may_be_of_a_schema_in_a_file(tmp_path: Path) -> None:
    fields = [{"name": "n", "type": "int"}]
    (tmp_path / "n.avsc").write_text(json.dumps({"type": "record", "name": "N", "fields": fields}))
    new = _wanted(spec(), {"decode": "avro", "schema_file": str(tmp_path / "n.avsc")})
    assert new.schema == (tmp_path / "n.avsc").read_text()
    nobody = "http://127.0.0.1:1"
    framed = new.with_changes(registry=nobody)
    back = _wanted(framed, {"decode": "json", "schema": "n INT"})
    assert (back.schema, back.registry) == ("n INT", None)


def test_a_table_that_began_late_begins_there_again() -> None:
    begins = {Queue("orders", "a", 1): 7, Queue("orders", "a", 0): 5}
    assert _start(spec(), begins) == "earliest"
    start = _start(spec(start="latest"), begins)
    assert json.loads(start) == {"orders": {"a": {"0": 5, "1": 7}}}
    assert spec(start=start).source_options()["startingOffsets"] == start


def test_two_directories_change_names(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one" / "other").exists()
    assert (tmp_path / "other" / "one").exists()
    with pytest.raises(RebuildFailed, match="cannot exchange two directories"):
        exchange(tmp_path / "one", tmp_path / "none")


def test_what_a_rebuild_leaves_is_gone_on_with_or_thrown_away(tmp_path: Path) -> None:
    directory = TableDirectory(tmp_path / "lake")
    old, build = spec(), spec(new_columns="add")
    directory.write(old)
    site = _Site(directory)
    assert site.prepare(old.id, build) is False
    half = TableDirectory(site.new)
    half.write(half.read().with_changes(added="`note` STRING", group="told"))
    (site.new / "some.parquet").touch()
    site.clear()  # the next run: nothing was exchanged
    assert site.prepare(old.id, build) is True
    assert (site.new / "some.parquet").exists()
    assert (half.read().id, half.read().added) == (build.id, "`note` STRING")
    assert half.read().group is None
    assert site.prepare(old.id, spec(schema="n BIGINT", new_columns="add")) is False
    assert not (site.new / "some.parquet").exists()
    assert site.prepare("another table", build) is False


@pytest.mark.parametrize("is_renamed", [False, True])
def test_after_the_exchange_nothing_but_the_new_table_is_left(
    tmp_path: Path, is_renamed: bool
) -> None:
    directory = TableDirectory(tmp_path / "lake")
    directory.write(spec())
    site = _Site(directory)
    site.prepare(directory.read().id, spec())
    new_id = TableDirectory(site.new).read().id
    exchange(directory.root, site.new)
    if is_renamed:
        site.new.rename(site._old)
        (site._old / "_rocketpipe" / "table.json").unlink()  # on its way out
    _Site(directory).clear()
    assert [each.name for each in tmp_path.iterdir()] == ["lake"]
    assert directory.read().id == new_id
    assert sorted(each.name for each in (tmp_path / "lake" / "_rocketpipe").iterdir()) == [
        "table.json"
    ]


def test_who_waits_for_the_lock_of_a_table_that_was_exchanged_is_told(tmp_path: Path) -> None:
    directory = TableDirectory(tmp_path / "lake")
    directory.write(spec())
    other = TableDirectory(tmp_path / "other")
    other.write(spec())
    with other.locked(), directory.locked():
        exchange(directory.root, other.root)
        with pytest.raises(AlreadyFollowed):
            with TableDirectory(tmp_path / "lake").locked():
                pass
