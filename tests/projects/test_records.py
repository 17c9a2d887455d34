"""What is known of a run, out of what Spark says of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketpipe.projects import records
from rocketpipe.projects.errors import NotWritable
from rocketpipe.projects.folder import Folder
from rocketpipe.projects.graph import Dataset, Flow, Graph, Kind
from rocketpipe.projects.records import Run

FAILED = """Flow 'spark_catalog.shop.paid' has FAILED.
Error: [STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_X] Failed: \
rocketpipe.pipeline.options.text.OptionError: option 'x' is unknown SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ==="""


def progress(flow: str, rows: int, end: int, **more: Any) -> dict[str, Any]:
    """As it stands in Spark's event log."""
    offset = json.dumps({"v": 1, "topics": {"orders": {"a": {"0": end}}}})
    source = {"numInputRows": rows, "endOffset": offset}
    return {"name": flow, "batchDuration": 12, "sources": [source], **more}


def a_run() -> Run:
    run = Run.new("shop", 1_000)
    graph = Graph({"paid": Dataset("paid", Kind.TABLE)}, {"paid": Flow("paid", "paid")})
    run.take_graph(graph)
    return run


def test_a_flow_that_failed_did_not_complete_whatever_comes_first() -> None:
    run = a_run()
    for text in ("is STARTING.", "is RUNNING.", "has COMPLETED."):
        run.take_message(f"Flow spark_catalog.shop.paid {text}")
    run.take_message(FAILED)
    assert run.flows["paid"].state == "failed"
    assert run.flows["paid"].error == "option 'x' is unknown"
    run.take_message("Flow spark_catalog.shop.paid has COMPLETED.")
    assert run.flows["paid"].state == "failed"
    run.take_message("Flow spark_catalog.shop.paid is STARTING.")
    run.take_message("Flow spark_catalog.shop.paid has COMPLETED.")
    assert (run.flows["paid"].state, run.flows["paid"].error) == ("completed", None)
    run.take_message("Flow 'to_out' SKIPPED due to upstream failure(s).")
    assert run.flows["to_out"].state == "skipped"
    run.take_message("Run is COMPLETED.")
    assert set(run.flows) == {"paid", "to_out"}


def test_a_flow_that_cannot_be_resolved_says_why() -> None:
    run = a_run()
    run.take_message(
        "Failed to resolve flow: 'spark_catalog.shop.paid'.\n"
        "Error: [UNRESOLVED_COLUMN] No `x`. SQLSTATE: 42703; line 1 pos 39;\n'Project ['x]\n"
    )
    run.take_message("Failed to resolve flow due to upstream failure: 'spark_catalog.shop.more'.")
    assert run.flows["paid"].error == "[UNRESOLVED_COLUMN] No `x`."
    assert (run.flows["more"].state, run.flows["more"].error) == ("skipped", None)


def test_rows_ends_and_rules_are_added_up_over_batches() -> None:
    run = a_run()
    rule = {
        "rocketpipe expect drop: cents > 0": {
            "values": [10, 3],
            "schema": {"fields": [{"name": "rows"}, {"name": "failed"}]},
        },
        "somebody's own": {"values": [1]},
    }
    run.take_progress(progress("spark_catalog.shop.paid", 10, 10, observedMetrics=rule))
    run.take_progress(progress("spark_catalog.shop.paid", 5, 15, observedMetrics=rule))
    flow = run.flows["paid"]
    assert (flow.rows, flow.batches, flow.ends) == (15, 2, {"orders": {"a": {"0": 15}}})
    (counted,) = run.rules
    assert (counted.flow, counted.rule, counted.action) == ("paid", "cents > 0", "drop")
    assert (counted.rows, counted.failed) == (20, 6)
    run.take_progress({"name": "paid", "sources": [{"endOffset": '{"logOffset":0}'}]})
    assert (flow.batches, flow.state_rows) == (2, 0)


def test_the_rows_of_sparks_state_are_those_of_the_last_batch() -> None:
    run = a_run()
    for rows in (9, 4):
        state = [{"numRowsTotal": rows}, {"numRowsTotal": 1}]
        told = {"durationMs": {"addBatch": 3}, "stateOperators": state}
        run.take_progress(progress("paid", 1, 1, **told))
    assert run.flows["paid"].state_rows == 5
    assert Run.new("shop", 9_000, run).flows["paid"].state_rows == 5


def test_the_last_record_is_found_and_the_next_run_knows_how_far_it_came(shop: Folder) -> None:
    assert records.last(shop) is None
    run = a_run()
    run.take_progress(progress("paid", 7, 7))
    run.finish("completed", 2_000)
    records.save(shop, run)
    found = records.last(shop)
    assert found is not None
    assert found.to_json() == run.to_json()
    after = Run.new("shop", 5_000, found)
    assert (after.flows["paid"].rows, after.flows["paid"].ends) == (0, run.flows["paid"].ends)
    records.save(shop, after)
    (shop.own / "runs" / "99999999T000000-ffffff.json").write_text("{half")
    latest = records.last(shop)
    assert latest is not None
    assert latest.run == after.run


def test_a_clock_that_is_set_back_leaves_the_last_run_the_last(shop: Folder) -> None:
    run = Run.new("shop", 9_000_000)
    for now_ms in (1_000, 1_000, 500):
        records.save(shop, run)
        run = Run.new("shop", now_ms, records.last(shop))
    records.save(shop, run)
    found = records.last(shop)
    assert found is not None
    assert (found.run, found.began_ms) == (run.run, 500)


def test_a_record_that_cannot_be_written_is_told_and_leaves_nothing(shop: Folder) -> None:
    records.save(shop, a_run())
    before = sorted((shop.own / "runs").iterdir())
    full = Run.new("shop", 99_000)
    (shop.own / "runs" / f".{full.run}").symlink_to("/dev/full")
    with pytest.raises(NotWritable, match=r"runs: No space left on device: make it writable, and"):
        records.save(shop, full)
    assert sorted((shop.own / "runs").iterdir()) == before


def test_old_records_go(shop: Folder) -> None:
    for number in range(records.KEPT + 3):
        records.save(shop, Run.new("shop", number * 1_000))
    (shop.own / "runs" / ".20260501T120000-aaaaaa").write_text("{ha")  # who wrote it was killed
    records.forget_old(shop)
    kept = sorted((shop.own / "runs").iterdir())
    assert len(kept) == records.KEPT
    assert kept[0].name.startswith("19700101T000003")
