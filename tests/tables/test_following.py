"""What is asked of a table, and what is refused before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketpipe.errors import ConfigError, ConnectionLost
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.errors import NotATable
from rocketpipe.tables.following import asked_spec, follow

JSON: dict[str, Any] = {"decode": "json", "schema": "city STRING, cents INT"}


def test_a_new_table_is_read_from_this_machine_in_the_name_of_its_directory(
    tmp_path: Path,
) -> None:
    spec = asked_spec(TableDirectory(tmp_path / "orders"), "orders", JSON)
    assert (spec.name_server, spec.group) == ("127.0.0.1:9876", "table-orders")


def test_a_table_that_is_there_is_as_it_was_unless_asked(tmp_path: Path) -> None:
    directory = TableDirectory(tmp_path / "orders")
    made = asked_spec(directory, "orders", {**JSON, "name_server": "127.0.0.1:1", "keep_ms": 0})
    directory.write(made)
    assert asked_spec(directory, None, {}) == made
    changed = asked_spec(directory, "orders", {"store": "old-store", "schema": None})
    assert changed.name_server is None
    assert changed.store == str(Path("old-store").absolute())
    assert changed.schema == made.schema
    assert asked_spec(directory, None, {"name_server": "127.0.0.1:2"}).store is None


@pytest.mark.parametrize("strange", ["id", "added", "colour"])
def test_what_no_table_has_is_refused(tmp_path: Path, strange: str) -> None:
    with pytest.raises(ConfigError, match=f"{strange!r} is not something"):
        asked_spec(TableDirectory(tmp_path), "orders", {strange: "x"})


def test_a_new_table_needs_a_topic(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name the topic to follow"):
        asked_spec(TableDirectory(tmp_path), None, JSON)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({**JSON, "schema": "city TEXTS"}, ConfigError),
        ({**JSON, "partition_by": "town"}, ConfigError),
        ({**JSON, "name_server": "127.0.0.1:1"}, ConnectionLost),
    ],
)
def test_what_is_wrong_shows_before_anything_is_written(
    tmp_path: Path, asked: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        follow("orders", to=tmp_path / "lake", once=True, **asked)
    assert not (tmp_path / "lake").exists()


def test_a_directory_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "photo.png").touch()
    with pytest.raises(NotATable, match="choose a directory that is empty"):
        follow("orders", to=tmp_path, once=True, **JSON)
    assert [each.name for each in tmp_path.iterdir()] == ["photo.png"]
