"""Figures of queries, out of what Spark says of batches."""

from __future__ import annotations

import json
from typing import Any

from rocketpipe.metrics import render
from rocketpipe.pipeline.figures import Figures, batch_of, ends_of, lag_of, name_of


def offset(**queues: int) -> dict[str, Any]:
    ends = {name.removeprefix("q"): end for name, end in queues.items()}
    return {"v": 1, "topics": {"orders": {"broker-a": ends}}}


def progress(**more: Any) -> dict[str, Any]:
    """What a query says of a batch, as far as it matters here."""
    return {
        "id": "0a1b2c3d-0000",
        "name": "paid",
        "timestamp": "2026-05-01T10:00:00.500Z",
        "batchId": 7,
        "batchDuration": 250,
        "durationMs": {"addBatch": 200, "triggerExecution": 250},
        "stateOperators": [
            {"numRowsTotal": 4, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 1},
            {"numRowsTotal": 6, "memoryUsedBytes": 50, "numRowsDroppedByWatermark": 0},
        ],
        "sources": [
            {"numInputRows": 5, "endOffset": offset(q0=10), "latestOffset": offset(q0=12, q1=3)},
            {"numInputRows": 1, "endOffset": offset(q0=11), "latestOffset": offset(q0=12)},
            {"numInputRows": 2, "endOffset": {"part": 3}, "latestOffset": None},
        ],
        **more,
    }


def test_a_batch_has_rows_time_lag_and_state() -> None:
    batch = batch_of(progress())
    assert batch is not None
    assert (batch.query, batch.number, batch.rows, batch.took_ms) == ("paid", 7, 8, 250)
    assert batch.lag == {"orders": 2 + 3}
    assert (batch.state_rows, batch.state_bytes, batch.late_rows) == (10, 150, 1)
    assert batch.at_ms == 1_777_629_600_500
    assert batch.line() == (
        "batch query=paid number=7 rows=8 took_ms=250 lag=5 state_rows=10 late_rows=1"
    )


def test_a_query_that_only_waited_has_no_batch() -> None:
    assert batch_of(progress(durationMs={"latestOffset": 3, "triggerExecution": 3})) is None
    assert batch_of({}) is None


def test_of_other_sources_neither_lag_nor_ends_are_known() -> None:
    batch = batch_of(progress(sources=[{"numInputRows": 3, "endOffset": 5}], stateOperators=[]))
    assert batch is not None
    assert batch.lag == {}
    assert batch.line() == "batch query=paid number=7 rows=3 took_ms=250"
    for strange in (None, 5, "no JSON", "[1]", '{"v": 9, "topics": {}}', {"v": 1, "topics": 3}):
        assert ends_of(strange) == {}


def test_offsets_come_as_json_or_as_its_text() -> None:
    text = json.dumps(offset(q0=10))
    assert ends_of(text) == ends_of(offset(q0=10)) != {}


def test_a_queue_that_is_new_is_behind_by_all_that_is_there() -> None:
    latest = offset(q0=10, q1=50) | {"oldest": {"orders": {"broker-a": {"1": [40, 1]}}}}
    assert lag_of({"endOffset": offset(q0=10), "latestOffset": latest}) == {"orders": 10}
    assert lag_of({"endOffset": offset(q0=10)}) == {}


def test_prometheus_is_told_of_each_query() -> None:
    figures = Figures()
    figures.started("paid")
    assert 'rocketpipe_query_rows_total{query="paid"} 0' in render(figures.families())
    for _ in range(2):
        batch = batch_of(progress())
        assert batch is not None
        figures.take(batch)
    lines = render(figures.families()).splitlines()
    assert {line.partition(" ")[2] for line in lines if line.startswith("rocketpipe_query_rows")}
    told = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert told['rocketpipe_query_active{query="paid"}'] == "1"
    assert told['rocketpipe_query_batches_total{query="paid"}'] == "2"
    assert told['rocketpipe_query_rows_total{query="paid"}'] == "16"
    assert told['rocketpipe_query_batch_seconds_total{query="paid"}'] == "0.5"
    assert told['rocketpipe_query_last_batch_seconds{query="paid"}'] == "0.25"
    assert told['rocketpipe_query_lag{query="paid",topic="orders"}'] == "5"
    assert told['rocketpipe_query_state_rows{query="paid"}'] == "10"


def test_a_query_that_failed_is_a_problem_until_it_starts_again() -> None:
    figures = Figures()
    figures.started("paid")
    figures.ended("paid", "the broker was away")
    assert figures.problem() == "query paid failed: the broker was away"
    assert 'rocketpipe_query_failures_total{query="paid"} 1' in render(figures.families())
    figures.started("paid")
    assert figures.problem() is None
    figures.ended("paid", None)
    assert figures.problem() is None
    assert 'rocketpipe_query_active{query="paid"} 0' in render(figures.families())


def test_a_query_without_a_name_is_known_by_its_id() -> None:
    assert name_of(None, "0a1b2c3d-4444") == "query-0a1b2c3d"
    assert name_of("paid", "0a1b") == "paid"
