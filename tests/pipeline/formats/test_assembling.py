"""Decoded bodies into columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from rocketpipe.pipeline.formats.assembling import BEHIND_MOMENTS_US, assembled, check_times


def test_what_does_not_fit_is_found_among_many() -> None:
    calls = []

    def make(values: Sequence[Any]) -> list[pa.Array]:
        calls.append(len(values))
        return [pa.array(values, pa.int8())]

    values = [row % 100 for row in range(1000)]
    values[617] = 1000
    rows = list(range(5, 1005))
    errors: dict[int, str] = {}
    [column] = assembled(values, rows, 1010, [pa.field("a", pa.int8())], make, errors).values()
    assert errors.keys() == {622}
    assert column.to_pylist() == [
        *[None] * 5,
        *(None if row == 617 else row % 100 for row in range(1000)),
        *[None] * 5,
    ]
    assert len(calls) < 40


def test_nothing_is_columns_too() -> None:
    columns = assembled([], [], 2, [pa.field("a", pa.int8())], lambda values: [], {})
    assert columns["a"].to_pylist() == [None, None]


def test_times_are_checked_wherever_they_are() -> None:
    late = pa.scalar(BEHIND_MOMENTS_US, pa.timestamp("us"))
    time = pa.array([late])
    early = pa.array([-1_000_000], pa.date32())
    for column in (
        time,
        early,
        pa.ListArray.from_arrays([0, 1], time),
        pa.StructArray.from_arrays([time], ["a"]),
        pa.MapArray.from_arrays([0, 1], pa.array(["k"]), time),
    ):
        with pytest.raises(ValueError, match="outside the years"):
            check_times(column)
    check_times(pa.array([None, BEHIND_MOMENTS_US - 1], pa.timestamp("us")))
