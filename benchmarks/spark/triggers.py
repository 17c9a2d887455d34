"""One trigger of a stream with next to no data: ours, a trivial Python source's, and Spark's own.

They run in turns with the same sink, so that whatever else the machine does hits each of them, and
Spark's own progress report says how long each trigger took.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.spark.stored import TOPIC
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

ROWS = 200
_FIRST, _LAST = 5, 25


class Counting(DataSourceStreamReader):
    """The least that a stream in Python does: a number that grows, and one partition."""

    def __init__(self, schema: StructType) -> None:
        self._end = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"at": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        self._end += ROWS
        return {"at": self._end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        first, last = partition.value
        yield pa.RecordBatch.from_arrays([pa.array([b"x" * 30] * (last - first))], ["body"])


class TrivialSource(DataSource):
    """What Spark finds under ``trivial``."""

    @classmethod
    def name(cls) -> str:
        return "trivial"

    def schema(self) -> str:
        return "body BINARY"

    def streamReader(self, schema: StructType) -> Counting:  # noqa: N802 - Spark's name
        return Counting(schema)


def triggers_ms(session: SparkSession, root: Path, scratch: Path, rounds: int) -> dict[str, float]:
    """What a trigger takes by Spark's own report: ours, a trivial source's, Spark's own."""
    session.dataSource.register(TrivialSource)
    streams = {
        "ours": session.readStream.format("rocketpipe")
        .options(path=str(root), subscribe=TOPIC, startingOffsets="earliest", columns="body")
        .option("maxOffsetsPerTrigger", str(ROWS))
        .load(),
        "trivial": session.readStream.format("trivial").load(),
        "Spark's own": session.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=str(ROWS), numPartitions="1")
        .load(),
    }
    took: dict[str, list[dict[str, int]]] = {name: [] for name in streams}
    for turn in range(rounds):
        for name, stream in streams.items():
            took[name] += _took(f"{name}-{turn}", stream, scratch)
    for name, each in took.items():
        steps = {step: statistics.median(one.get(step, 0) for one in each) for step in each[0]}
        listed = ", ".join(f"{step} {ms:g}" for step, ms in sorted(steps.items()))
        print(f"a trigger of {name}, in ms: {listed}")
    return {
        name: statistics.median(one["triggerExecution"] for one in each)
        for name, each in took.items()
    }


def _took(name: str, stream: DataFrame, scratch: Path, tries: int = 3) -> list[dict[str, int]]:
    query = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", str(scratch / f"checkpoint-{name}"))
        .start()
    )
    try:
        while query.lastProgress is None or query.lastProgress["batchId"] < _LAST:
            if query.exception() is not None and tries:
                # On a busy machine a Python process may not come up in Spark's ten seconds.
                return _took(f"{name}-again", stream, scratch, tries - 1)
            if query.exception() is not None:
                raise SystemExit(f"the stream failed: {query.exception()}")
            time.sleep(0.1)
        return [
            progress["durationMs"]
            for progress in query.recentProgress
            if progress["batchId"] >= _FIRST and progress["numInputRows"]
        ]
    finally:
        query.stop()
