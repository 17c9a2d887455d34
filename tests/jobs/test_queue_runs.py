"""Offsets as runs."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from rocketpipe.jobs.queue_runs import (
    Queue,
    Run,
    coverage,
    gathered,
    joined,
    run_batches,
    runs_of,
    span,
)


def batch(queue_id: int, offsets: list[int], places: list[int] | None = None) -> pa.RecordBatch:
    count = len(offsets)
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["t"] * count,
            "broker": ["a"] * count,
            "queue_id": pa.array([queue_id] * count, pa.int32()),
            "queue_offset": pa.array(offsets, pa.int64()),
            "log_offset": pa.array(places or [each * 100 for each in offsets], pa.int64()),
        }
    )


def test_a_run_ends_where_an_offset_is_missing_or_there_again() -> None:
    offsets = np.array([1, 2, 3, 7, 8, 8])
    assert [run[:2] for run in runs_of(offsets, offsets)] == [(1, 4), (7, 9), (8, 9)]
    assert runs_of(np.array([], np.int64), np.array([], np.int64)) == []


def test_runs_that_go_on_from_each_other_become_one() -> None:
    assert joined([Run(5, 9, 50, 80), Run(0, 5, 0, 40)]) == [Run(0, 9, 0, 80, 0)]
    assert joined([Run(0, 5, 0, 40), Run(5, 9, 30, 80)])[0].disordered == 1


def test_what_is_missing_and_what_is_twice_is_found() -> None:
    found = coverage([Run(0, 10), Run(8, 12), Run(20, 30), Run(21, 22)])
    assert found.rows == 25
    assert found.ranges == ((0, 12), (20, 30))
    assert found.twice == ((8, 10), (21, 22))
    assert found.missing(0, 30) == [(12, 20)]
    assert found.missing(0, 15) == [(12, 15)]
    assert found.missing(5, 35) == [(12, 20), (30, 35)]
    assert found.missing(35, 35) == []
    assert coverage([]).missing(3, 5) == [(3, 5)]
    assert span(found.ranges) == 22


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_order_nothing_is_overlooked(seed: int) -> None:
    chance = random.Random(seed)
    offsets = [chance.randrange(60) for _ in range(50)]
    parts = [offsets[:20], offsets[20:21], offsets[21:]]
    rows = [
        row
        for part in parts
        for each in run_batches([batch(0, part[::2]), batch(0, part[1::2])])
        for row in each.to_pylist()
    ]
    found = gathered(rows)[Queue("t", "a", 0)]
    assert found.rows == 50
    missing = {at for begin, end in found.missing(0, 60) for at in range(begin, end)}
    assert missing == set(range(60)) - set(offsets)
    twice = {at for begin, end in found.twice for at in range(begin, end)}
    assert twice == {at for at in offsets if offsets.count(at) > 1}


def test_queues_are_told_apart_and_disorder_is_counted() -> None:
    batches = [batch(0, [0, 1]), batch(1, [5, 6, 7], [10, 5, 20]), batch(0, [2])]
    (given,) = run_batches(batches)
    found = gathered(given.to_pylist())
    assert found[Queue("t", "a", 0)].ranges == ((0, 3),)
    assert found[Queue("t", "a", 1)].disordered == 1
    assert found[Queue("t", "a", 0)].disordered == 0
