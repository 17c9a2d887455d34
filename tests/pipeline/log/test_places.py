"""Rows of which only their places are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.support.stores import spread_store

from rocketpipe.pipeline.columns.rows import SCHEMA
from rocketpipe.pipeline.log.directory import LogDirectory
from rocketpipe.pipeline.log.offsets import LogOffsets
from rocketpipe.pipeline.log.places import asks_places_only
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.selection import Selection
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.pipeline.planning.gaps import MessagesGone
from rocketpipe.pipeline.planning.ranges import QueueRange, ReadPartition
from rocketpipe.pipeline.reading import read_part

NAMES = ("topic", "broker", "queue_id", "queue_offset", "log_offset")
PLACES = pa.schema([SCHEMA.field(name) for name in NAMES])
WITH_FLAG = pa.schema([*PLACES, SCHEMA.field("sys_flag")])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of three queues, in several segments."""
    return spread_store(tmp_path / "store", 90, 3)


def options(**fields: Any) -> ReadOptions:
    return ReadOptions(selection=Selection(topics=("any",)), **fields)


def part_of(root: Path) -> ReadPartition:
    places = LogOffsets(root)
    ends = places.ends(places.queues("plain"))
    places.close()
    ranges = [QueueRange(queue, *ends[queue]) for queue in sorted(ends)]
    return ReadPartition(tuple(each for each in ranges if each.count), {})


def rows_of(root: Path, schema: pa.Schema, **fields: Any) -> list[dict[str, Any]]:
    batches = list(read_part(part_of(root), options(path=root, **fields), schema, RowFilter()))
    assert all(batch.num_rows for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The queues one after the other: of records they may come in the order of the log."""
    return sorted(rows, key=lambda row: row["queue_id"])


@pytest.mark.parametrize("batch_rows", [7, 30, 45, 1000])
def test_places_are_those_of_the_records(root: Path, batch_rows: int) -> None:
    found = rows_of(root, PLACES, batch_rows=batch_rows)
    read = rows_of(root, WITH_FLAG, batch_rows=batch_rows)
    assert in_order(found) == in_order([{name: row[name] for name in NAMES} for row in read])
    assert len(found) == 90


def test_no_record_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogDirectory, "read_into", None)
    only = pa.schema([SCHEMA.field("queue_offset")])
    assert [row["queue_offset"] for row in rows_of(root, only)] == [*range(30)] * 3


def test_what_is_gone_is_a_gap(root: Path) -> None:
    part = part_of(root)
    min((root / "commitlog").iterdir()).unlink()
    with pytest.raises(MessagesGone):
        list(read_part(part, options(path=root), PLACES, RowFilter()))
    for schema in (PLACES, WITH_FLAG):
        given = options(path=root, on_gap="skip")
        batches = read_part(part, given, schema, RowFilter())
        assert 0 < sum(batch.num_rows for batch in batches) < 90


def test_records_are_read_where_they_decide_which_rows_there_are() -> None:
    target, all_rows = PLACES, RowFilter()
    assert asks_places_only(target, options(), all_rows)
    assert asks_places_only(target, options(on_bad_message="null"), all_rows)
    assert not asks_places_only(target, options(on_bad_message="skip"), all_rows)
    assert not asks_places_only(WITH_FLAG, options(), all_rows)
    for wanted in (
        RowFilter(tags=frozenset("a")),
        RowFilter(keys=frozenset("k")),
        RowFilter(stored_ms=(0, 5)),
    ):
        assert not asks_places_only(target, options(), wanted)
