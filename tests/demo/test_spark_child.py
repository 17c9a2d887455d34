"""The process that looks after Spark, with a program in Spark's place that behaves as told."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from demo.spark_child import MOST_STARTS, SparkChild, SparkFailed
from demo.spark_job import Settings

# Counts its starts in a file, streams, begins a batch, and answers; the first ``deaths`` starts end
# when they are asked.
PROGRAM = """
import json, pathlib, sys, time
place = pathlib.Path(json.loads(sys.argv[-1])["place"])
starts = place / "starts"
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
died = len(starts.read_text())
def tell(**line): print(json.dumps(line), flush=True)
if died <= int(sys.argv[1]) and sys.argv[2] == "early": sys.exit(7)
tell(event="streaming")
tell(event="batch done", batch=0)
tell(event="batch begins", batch=1)
tell(event="half done", batch=1)
for line in sys.stdin:
    if died <= int(sys.argv[1]): sys.exit(7)
    asked = json.loads(line)
    if asked["ask"] == "what": tell(id=asked["id"], answer={"start": died})
    elif asked["ask"] == "done":
        tell(event="batch done", batch=1)
        tell(event="query restarted", why="a Python worker was ended")
        tell(id=asked["id"], answer=None)
    else: tell(id=asked["id"], failed="ValueError: no such question")
"""


def child(place: Path, deaths: int = 0, when: str = "asked") -> tuple[SparkChild, list[str]]:
    settings = Settings("n:1", "flights", "%DLQ%x", str(place / "store"), str(place), 10)
    told: list[str] = []
    command = (sys.executable, "-c", PROGRAM, str(deaths), when)
    return SparkChild(settings, told.append, command), told


async def test_it_answers_and_tells_what_it_did(tmp_path: Path) -> None:
    spark, told = child(tmp_path)
    running = asyncio.create_task(spark.run())
    assert await spark.ask("what") == {"start": 1}
    assert not spark.is_between_batches
    with pytest.raises(SparkFailed, match="no such question"):
        await spark.ask("else")
    await spark.ask("done")
    assert spark.batches == 2
    assert spark.is_between_batches
    assert not await spark.kill_in_batch(within_s=0)
    assert told == ["query restarted: a Python worker was ended"] == spark.history
    await spark.stop()
    await running


async def test_a_kill_in_a_batch_is_followed_by_a_new_start(tmp_path: Path) -> None:
    spark, told = child(tmp_path)
    running = asyncio.create_task(spark.run())
    assert await spark.kill_in_batch()
    await spark.streaming()
    assert await spark.ask("what") == {"start": 2}
    assert spark.kills == 1
    assert told == ["the Spark query was killed with SIGKILL, within a batch"]
    await spark.stop()
    await running


async def test_what_dies_when_asked_is_started_and_asked_again(tmp_path: Path) -> None:
    spark, told = child(tmp_path, deaths=2)
    running = asyncio.create_task(spark.run())
    assert await spark.ask("what") == {"start": 3}
    assert told == ["the Spark process ended with code 7; started again"] * 2
    await spark.stop()
    await running


async def test_what_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    spark, told = child(tmp_path, deaths=99, when="early")
    with pytest.raises(SparkFailed, match=rf"ended {MOST_STARTS} times: see"):
        await spark.run()
    assert len(told) == MOST_STARTS - 1


async def test_nothing_runs_on_when_the_demo_is_cancelled(tmp_path: Path) -> None:
    spark, _ = child(tmp_path)
    running = asyncio.create_task(spark.run())
    await spark.streaming()
    process = spark._process
    assert process is not None
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert process.returncode is not None


def test_settings_reach_the_job_as_one_argument(tmp_path: Path) -> None:
    spark, _ = child(tmp_path)
    assert Settings(**json.loads(spark.settings.text())) == spark.settings
