"""A replay of bad rows: what is refused, and its journal; without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.errors import AlreadyFollowed, HalfReplayed, NotATable, SpecMismatch
from rocketpipe.tables.files import WrittenFile
from rocketpipe.tables.replaying import Journal, replay
from rocketpipe.tables.spec import TableSpec
from rocketpipe.tables.table import FollowedTable


@pytest.fixture
def table(tmp_path: Path) -> FollowedTable:
    spec = TableSpec(topic="orders", store=str(tmp_path), decode="json", schema="n INT")
    made = FollowedTable(TableDirectory(tmp_path / "lake"), spec)
    made.prepare()
    return made


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"to": "lake"}, "'lake': choose one of table, topic"),
        ({"to": "table", "error": "("}, "is no regular expression"),
        ({"to": "table", "colour": "red"}, "'colour' is not something"),
        ({"to": "table", "decode": "text"}, "text gives other columns"),
        ({"to": "topic"}, "the table is read from a store"),
    ],
)
def test_what_cannot_be_is_refused(table: FollowedTable, asked: Any, said: str) -> None:
    kept = table.directory.spec_path.read_text()
    with pytest.raises(ConfigError, match=said):
        replay(table.directory.root, **asked)
    assert table.directory.spec_path.read_text() == kept


def test_rows_with_the_properties_of_messages_are_not_made_of_bad_rows(tmp_path: Path) -> None:
    spec = TableSpec(topic="orders", name_server="127.0.0.1:1", decode="text", properties=True)
    table = FollowedTable(TableDirectory(tmp_path / "lake"), spec)
    table.prepare()
    with pytest.raises(ConfigError, match="which bad rows do not have"):
        replay(tmp_path / "lake", to="table")


def test_another_table_is_not_made_of_it(table: FollowedTable, tmp_path: Path) -> None:
    with pytest.raises(SpecMismatch, match="is left out"):
        replay(table.directory.root, to="table", schema="m INT")
    with pytest.raises(NotATable):
        replay(tmp_path, to="table")
    with table.directory.locked(), pytest.raises(AlreadyFollowed):
        replay(table.directory.root, to="table")


def test_a_replay_that_is_under_way_is_kept_and_stops_the_rest(table: FollowedTable) -> None:
    path = table.directory.replay_path
    assert Journal.read(path) is None
    files = {"rows": (WrittenFile("a.parquet", 1, 2, {"city": None}),), "bad": (), "done": ()}
    journal = Journal("replay-1", "table", "orders", None, files, 2)
    journal.write(path)
    assert Journal.read(path) == journal
    with pytest.raises(HalfReplayed, match="finish it with `rocketpipe table replay`"):
        table.check()
    path.write_text("{}")
    with pytest.raises(NotATable, match="is damaged"):
        Journal.read(path)
