"""Spark's conditions as what need be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)
from tests.pipeline.support.fake_offsets import queue

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.pipeline.planning.filters import ALL, RowFilter
from rocketpipe.pipeline.planning.ranges import QueueRange

NOON = datetime(2026, 5, 1, 12, 0, 0, 1500, tzinfo=UTC)
NOON_MS = 1_777_636_800_001


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (EqualTo(("topic",), "a"), RowFilter(topics=frozenset("a"))),
        (EqualNullSafe(("tags",), "x"), RowFilter(tags=frozenset("x"))),
        (In(("tags",), ("x", "y")), RowFilter(tags=frozenset("xy"))),
        (In(("queue_id",), (1, 2)), RowFilter(queue_ids=frozenset({1, 2}))),
        (EqualTo(("queue_offset",), 7), RowFilter(offsets=(7, 8))),
        (In(("queue_offset",), (9, 3)), RowFilter(offsets=(3, 10))),
        (GreaterThan(("queue_offset",), 7), RowFilter(offsets=(8, ALL[1]))),
        (LessThan(("queue_offset",), 7), RowFilter(offsets=(0, 7))),
        (LessThanOrEqual(("queue_offset",), 7), RowFilter(offsets=(0, 8))),
        (GreaterThanOrEqual(("store_timestamp",), NOON), RowFilter(stored_ms=(NOON_MS, ALL[1]))),
        (LessThan(("store_timestamp",), NOON), RowFilter(stored_ms=(0, NOON_MS + 1))),
        (Not(EqualTo(("topic",), "a")), RowFilter()),
        (IsNotNull(("tags",)), RowFilter()),
        (StringContains(("topic",), "a"), RowFilter()),
        (EqualTo(("properties", "topic"), "a"), RowFilter()),
        (EqualTo(("queue_offset",), "7"), RowFilter()),
        (EqualTo(("queue_id",), True), RowFilter()),
        (EqualTo(("body",), b"x"), RowFilter()),
    ],
)
def test_a_condition_narrows_what_it_is_about(condition: Filter, wanted: RowFilter) -> None:
    assert RowFilter().narrowed([condition]) == wanted


@pytest.mark.parametrize(
    ("condition", "settled"),
    [
        (EqualTo(("topic",), "a"), True),
        (EqualNullSafe(("queue_id",), 3), True),
        (EqualTo(("queue_offset",), 7), True),
        (GreaterThan(("queue_offset",), 7), True),
        (LessThanOrEqual(("queue_offset",), -1), True),
        (IsNotNull(("queue_offset",)), True),
        (IsNotNull(("tags",)), False),
        (EqualTo(("tags",), "x"), False),
        (In(("queue_offset",), (9, 3)), False),
        (GreaterThan(("queue_id",), 1), False),
        (EqualTo(("queue_id",), True), False),
        (EqualTo(("queue_id",), "1"), False),
        (GreaterThanOrEqual(("store_timestamp",), NOON), False),
        (Not(EqualTo(("topic",), "a")), False),
        (EqualTo(("properties", "topic"), "a"), False),
    ],
)
def test_spark_need_not_look_again_where_a_condition_says_exactly_which_places(
    condition: Filter, settled: bool
) -> None:
    assert RowFilter.settles(condition) is settled


def test_what_is_wanted_is_told_in_a_line() -> None:
    assert RowFilter().text() == ""
    wanted = RowFilter(queue_ids=frozenset({2, 1}), offsets=(0, 0), keys=frozenset("k"))
    assert wanted.text() == "queue_id:[1, 2] queue_offset:[0, 0] keys:['k']"


def test_conditions_narrow_together() -> None:
    wanted = RowFilter(keys=frozenset("k")).narrowed(
        [
            GreaterThanOrEqual(("queue_offset",), 3),
            LessThan(("queue_offset",), 8),
            In(("topic",), ("a", "b")),
            EqualTo(("topic",), "b"),
        ]
    )
    assert wanted == RowFilter(topics=frozenset("b"), offsets=(3, 8), keys=frozenset("k"))
    assert (
        RowFilter().narrowed([EqualTo(("topic",), "a"), EqualTo(("topic",), "b")]).topics == set()
    )


def test_a_moment_in_another_zone_is_the_same_moment() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=-7)))
    assert RowFilter().narrowed([GreaterThan(("store_timestamp",), there)]).stored_ms == (
        NOON_MS,
        ALL[1],
    )


@pytest.mark.parametrize(
    ("offsets", "left"), [((0, 4), (3, 4)), ((5, 6), (5, 6)), ((8, 99), (8, 9)), ((20, 30), (9, 9))]
)
def test_a_range_is_cut_to_what_is_wanted(offsets: tuple[int, int], left: tuple[int, int]) -> None:
    whole = QueueRange(queue("a/b/0"), QueueOffset(3), QueueOffset(9))
    cut = RowFilter(offsets=offsets).cut(whole)
    assert (cut.start, cut.end) == left
    assert RowFilter(topics=frozenset("z")).cut(whole).count == 0
    assert RowFilter(queue_ids=frozenset({1})).cut(whole).count == 0
