"""What conditions of Arrow's leave to be read: never less than they want."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpipe.arrow.conditions import columns_of, narrowed
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.columns.rows import SCHEMA
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.pipeline.planning.ranges import QueueRange

RANGES = [
    QueueRange(
        MessageQueue(topic="orders", broker_name="a", queue_id=number),
        QueueOffset(0),
        QueueOffset(100),
    )
    for number in range(3)
]
AT = datetime(2026, 1, 1, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)
field = pc.field


def left(condition: pc.Expression) -> dict[int, tuple[int, int]]:
    _, ranges = narrowed(RowFilter(), condition, SCHEMA, RANGES)
    return {each.queue.queue_id: (each.start, each.end) for each in ranges}


def every(start: int = 0, end: int = 100) -> dict[int, tuple[int, int]]:
    return dict.fromkeys(range(3), (start, end))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (field("queue_offset") >= 50, every(50)),
        (field("queue_offset") == 7, every(7, 8)),
        (field("queue_offset") == 0, every(0, 1)),
        (field("queue_offset").isin([7, 9, 20]), every(7, 21)),
        ((field("queue_id") == 1) & (field("queue_offset") < 60), {1: (0, 60)}),
        ((field("queue_id") == 1) | (field("queue_offset") < 60), every()),
        (field("queue_id").isin([0, 2]), {0: (0, 100), 2: (0, 100)}),
        (field("topic") == "returns", {}),
        (field("broker") != "a", {}),
        (field("queue_offset") > 1000, {}),
        ((field("queue_offset") == 7) | (field("tags") == "x"), every()),
        (field("tags") == "x", every()),
        (pc.add(field("queue_offset"), 1) == 8, every()),
        (~(field("queue_offset") < 90), every(90)),
    ],
)
def test_queues_and_offsets_that_cannot_be_meant_are_left_out(
    condition: pc.Expression, expected: dict[int, tuple[int, int]]
) -> None:
    assert left(condition) == expected


def test_moments_are_narrowed_unless_rows_without_one_may_be_meant() -> None:
    at = pa.scalar(AT, SCHEMA.field("store_timestamp").type)
    stored = field("store_timestamp")

    def moments(condition: pc.Expression) -> tuple[int, int] | None:
        return narrowed(RowFilter(), condition, SCHEMA, RANGES)[0].stored_ms

    first, after = moments(stored >= at) or (0, 0)
    assert first in (AT_MS, AT_MS - 1)
    assert after > 1 << 61
    first, after = moments((stored < at) & stored.is_valid()) or (0, 0)
    assert first < 0
    assert after in (AT_MS, AT_MS + 1)
    assert moments(stored.is_null()) is None
    assert moments((stored >= at) | stored.is_null()) is None


def test_the_columns_of_a_condition_are_known() -> None:
    assert columns_of((field("tags") == "x") & (field("queue_id") > 1), SCHEMA) == [
        "queue_id",
        "tags",
    ]
    assert columns_of(pc.scalar(True), SCHEMA) == []


numbers = st.integers(-5, 110)
compared = st.sampled_from(["<", "<=", "==", "!=", ">=", ">"])


def _leaf(column: str, operator: str, number: int) -> pc.Expression:
    one, other = field(column), pc.scalar(number)
    return {
        "<": one < other,
        "<=": one <= other,
        "==": one == other,
        "!=": one != other,
        ">=": one >= other,
        ">": one > other,
    }[operator]


conditions = st.recursive(
    st.builds(_leaf, st.sampled_from(["queue_offset", "queue_id"]), compared, numbers),
    lambda inner: st.one_of(
        st.builds(lambda one, other: one & other, inner, inner),
        st.builds(lambda one, other: one | other, inner, inner),
        st.builds(lambda one: ~one, inner),
    ),
    max_leaves=5,
)
ROWS = pa.table(
    {
        "queue_id": pa.array([number // 100 for number in range(300)], pa.int32()),
        "queue_offset": pa.array([number % 100 for number in range(300)], pa.int64()),
    }
)


@settings(max_examples=60, deadline=None)
@given(conditions)
def test_no_row_that_is_meant_is_left_out(condition: pc.Expression) -> None:
    ranges = left(condition)
    for row in ROWS.filter(condition).to_pylist():
        start, end = ranges[row["queue_id"]]
        assert start <= row["queue_offset"] < end
