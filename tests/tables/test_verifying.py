"""What a table must have, planned from its checkpoint and its topic; without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.support.fake_offsets import FakePlaces

from rocketpipe.errors import ConnectionLost
from rocketpipe.pipeline.log.directory import LogNotFound
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.planning.offset_reader import QueuesUnreachable
from rocketpipe.tables import verifying
from rocketpipe.tables.comparing import Bounds, PlaceRange
from rocketpipe.tables.differences import Finding
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.errors import CheckpointMismatch, HalfReplayed, NotATable
from rocketpipe.tables.spans import Queue, Spans
from rocketpipe.tables.spec import TableSpec
from rocketpipe.tables.table import FollowedTable
from rocketpipe.tables.verifying import VerifyReport, _forget_aged, _Plan, source_of, verify

PLACE = ("a", 0)


@pytest.fixture
def table(tmp_path: Path) -> FollowedTable:
    spec = TableSpec(topic="orders", name_server="127.0.0.1:1")
    made = FollowedTable(TableDirectory(tmp_path / "lake"), spec)
    made.prepare()
    return made


def followed(table: FollowedTable, ends: dict[str, int], batch: int = 0) -> None:
    """Have Spark's checkpoint say how far a table has come."""
    offset = {"v": 1, "topics": {"orders": {"a": ends}}}
    for log, text in {"offsets": f"v1\n{{}}\n{json.dumps(offset)}\n", "commits": "v1\n{}"}.items():
        (table.checkpoint.place / log).mkdir(parents=True, exist_ok=True)
        (table.checkpoint.place / log / str(batch)).write_text(text)
    table.rows.commit([], batch)


Planned = Callable[..., _Plan]


@pytest.fixture
def planned(table: FollowedTable, monkeypatch: pytest.MonkeyPatch) -> Planned:
    def made(places: FakePlaces) -> _Plan:
        monkeypatch.setattr(verifying, "open_offsets", lambda options: places)
        options = ReadOptions.parse(source_of(table))
        return _Plan.of(table, table.rows.last_batch(), options)

    return made


def test_a_table_must_have_what_was_read_of_each_queue(
    table: FollowedTable, planned: Planned
) -> None:
    followed(table, {"0": 40, "1": 7})
    begins = {Queue("orders", "a", 0): 5, Queue("orders", "a", 1): 0}
    Spans(begins).write(table.directory.spans_path)
    plan = planned(FakePlaces({"orders/a/0": (0, 50), "orders/a/1": (0, 7), "orders/a/2": (3, 9)}))
    assert plan.bounds == {PLACE: Bounds(5, 5, 40), ("a", 1): Bounds(0, 0, 7)}
    assert [(each.start, each.end) for each in plan.ranges] == [(5, 40), (0, 7)]
    assert (plan.messages, plan.older, plan.behind) == (42, 0, 16)


def test_what_the_topic_has_no_more_is_known_by_its_place(
    table: FollowedTable, planned: Planned
) -> None:
    followed(table, {"0": 40})
    queue = Queue("orders", "a", 0)
    Spans({queue: 5}, {queue: ((10, 20),)}).write(table.directory.spans_path)
    plan = planned(FakePlaces({"orders/a/0": (30, 50)}))
    assert plan.places == [PlaceRange(PLACE, 5, 10), PlaceRange(PLACE, 20, 30)]
    assert (plan.messages, plan.older, plan.behind) == (10, 15, 10)
    plan = planned(FakePlaces({"orders/a/0": (45, 50)}))
    assert (plan.messages, plan.older) == (0, 25)
    assert plan.bounds == {PLACE: Bounds(5, 40, 40)}


def test_a_table_that_does_not_know_where_it_began_is_compared_with_what_there_is(
    table: FollowedTable, planned: Planned
) -> None:
    followed(table, {"0": 40})
    plan = planned(FakePlaces({"orders/a/0": (30, 50)}))
    assert plan.bounds == {PLACE: Bounds(None, 30, 40)}
    assert plan.places == []


def test_buckets_that_differ_are_read_again_and_no_others(
    table: FollowedTable, planned: Planned
) -> None:
    followed(table, {"0": 40, "1": 40})
    plan = planned(FakePlaces({"orders/a/0": (2, 40), "orders/a/1": (0, 40)}))
    [part] = plan.within({PLACE: frozenset({0, 4})}, 3)
    assert [(each.queue.queue_id, each.start, each.end) for each in part.ranges] == [  # type: ignore[union-attr]
        (0, 2, 8),
        (0, 32, 40),
    ]


def test_a_broker_that_is_away_is_not_taken_for_one_that_has_nothing(
    table: FollowedTable, planned: Planned
) -> None:
    followed(table, {"0": 40})
    with pytest.raises(QueuesUnreachable):
        planned(FakePlaces({"orders/b/0": (0, 5)}))


def test_a_checkpoint_that_is_not_the_tables_is_told(table: FollowedTable) -> None:
    followed(table, {"0": 4})
    (table.checkpoint.place / "table").write_text("another")
    with pytest.raises(CheckpointMismatch, match="is another table's"):
        verify(table.directory.root)
    table.checkpoint.remove()
    with pytest.raises(CheckpointMismatch, match="was lost or is an older copy"):
        verify(table.directory.root)


def test_what_cannot_be_verified_is_told_before_spark_starts(
    table: FollowedTable, tmp_path: Path
) -> None:
    place = table.directory.root
    with pytest.raises(NotATable, match="is no table that follows a topic"):
        verify(tmp_path)
    with pytest.raises(ConnectionLost):
        verify(place)
    with pytest.raises(LogNotFound):
        verify(place, store=tmp_path)
    table.directory.spans_path.write_text("[]")
    with pytest.raises(NotATable, match=r"spans\.json is damaged"):
        verify(place)
    table.directory.replay_path.write_text("{}")
    with pytest.raises(HalfReplayed):
        verify(place)


def test_what_ages_out_meanwhile_is_not_extra(
    table: FollowedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = FakePlaces({"orders/a/0": (30, 50)})
    monkeypatch.setattr(verifying, "open_offsets", lambda options: places)
    findings = [
        Finding("extra", "a", 0, 2, 3),  # before the table began
        Finding("extra", "a", 0, 20, 24),
        Finding("extra", "a", 0, 28, 33),
        Finding("missing", "a", 0, 20, 21),
    ]
    counts = Counter({"extra": 13, "missing": 2})
    bounds = {PLACE: Bounds(5, 10, 40)}
    _forget_aged(counts, findings, bounds, ReadOptions.parse(source_of(table)))
    assert counts == {"extra": 6, "missing": 2}
    assert findings == [
        Finding("extra", "a", 0, 2, 3),
        Finding("extra", "a", 0, 30, 33),
        Finding("missing", "a", 0, 20, 21),
    ]


@pytest.mark.parametrize(
    ("wrong", "lost", "is_equal"), [({}, (), True), ({"twice": 1}, (), False), ({}, ("f",), False)]
)
def test_a_report_is_equal_if_nothing_is_wrong(wrong: Any, lost: Any, is_equal: bool) -> None:
    assert VerifyReport("orders", 1, 0, 1, 0, 0, 0, wrong, (), lost).is_equal is is_equal
