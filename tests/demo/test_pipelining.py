"""The process that runs the pipeline, with a program in its place that behaves as told."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from demo.pipelining import FLIGHTS, MOST_STARTS, FlightsPipeline, PipelineFailed

# Counts its starts in a file, begins a batch in the checkpoint, and has passes; the first
# ``deaths`` starts end at once.
PROGRAM = """
import json, pathlib, sys, time
starts = pathlib.Path("starts")
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
if len(starts.read_text()) <= int(sys.argv[1]): sys.exit(7)
flow = pathlib.Path("storage/_checkpoints/spark_catalog/flights/flights/flights/0")
for part in ("offsets", "commits"): (flow / part).mkdir(parents=True, exist_ok=True)
(flow / "offsets" / "0").touch()
(flow / "commits" / "0").touch()
def tell(**line): print(json.dumps(line), flush=True)
tell(state="failed", error="rocketpipe.errors.NoRoute: no broker")
if len(starts.read_text()) == 1: (flow / "offsets" / "1").touch()
else: (flow / "commits" / "1").touch()
tell(state="completed", error=None)
try: time.sleep(600)
except KeyboardInterrupt: sys.exit(130)
"""
FAILED = "a pass of the pipeline failed, and the next goes on: the broker was away"


def child(place: Path, deaths: int = 0) -> tuple[FlightsPipeline, list[str]]:
    told: list[str] = []
    command = (sys.executable, "-c", PROGRAM, str(deaths))
    return FlightsPipeline(place, "n:1", told.append, command), told


async def test_a_kill_in_a_batch_is_followed_by_a_new_start(tmp_path: Path) -> None:
    pipeline, told = child(tmp_path)
    running = asyncio.create_task(pipeline.run())
    await pipeline.passed()
    assert await pipeline.kill_in_batch()
    assert pipeline.batches == 1
    await pipeline.passed()
    assert (pipeline.kills, pipeline.passes, pipeline.batches) == (1, 2, 2)
    assert not await pipeline.kill_in_batch(within_s=0.1)
    killed = "the pipeline and its Spark were killed with SIGKILL, within batch 1"
    assert told == [FAILED, killed, FAILED] == pipeline.history
    await pipeline.stop()
    await running


async def test_what_dies_is_started_again_a_few_times(tmp_path: Path) -> None:
    pipeline, told = child(tmp_path, deaths=2)
    running = asyncio.create_task(pipeline.run())
    await pipeline.passed()
    assert told == ["the pipeline ended with code 7; started again"] * 2 + [FAILED]
    await pipeline.stop()
    await running
    pipeline, _ = child(tmp_path / "hopeless", deaths=99)
    with pytest.raises(PipelineFailed, match=rf"ended {MOST_STARTS} times: see"):
        await pipeline.run()


async def test_nothing_runs_on_when_the_demo_is_cancelled(tmp_path: Path) -> None:
    pipeline, _ = child(tmp_path)
    running = asyncio.create_task(pipeline.run())
    await pipeline.passed()
    process = pipeline._process
    assert process is not None
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert process.returncode is not None


async def test_a_pipeline_that_has_not_run_has_nothing(tmp_path: Path) -> None:
    pipeline, _ = child(tmp_path)
    assert (pipeline.open_batch(), pipeline.batches, pipeline.count()) == (None, 0, 0)
    assert not pipeline.has_passed(0, 0)


async def test_a_table_is_read_from_its_files(tmp_path: Path) -> None:
    pipeline, _ = child(tmp_path)
    place = pipeline.root / "storage" / "tables" / "flights.db" / FLIGHTS
    place.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), place / "a.parquet")
    pq.write_table(pa.table({"id": [3]}), place / "b.parquet")
    assert pipeline.table(FLIGHTS).column("id").to_pylist() == [1, 2, 3]
    assert pipeline.count() == 3
