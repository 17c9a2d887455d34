"""Spark reading a topic, beside Spark reading the same rows from Parquet.

log        the store's directory, read without a broker
broker     the same topic through a broker, which runs as a process of its own
tuples     the same log by a source that hands over a tuple for each message
parquet    the same rows and columns, as Spark wrote them; column pruning and all
queues     the same rows in 10 and in 1,000 queues
count      ``count()``: of all columns, of one that costs nothing, and of Parquet

What counts is CPU time of the whole tree of processes (JVM, Python workers, and the broker where
there is one) without the start of Spark. All read into Spark's no-op sink, so every column is made.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.spark.stored import QUEUES, TOPIC, fill
from benchmarks.spark.turns import Seen, ratio, told
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpipe.pipeline.columns.rows import SCHEMA
from rocketpipe.pipeline.log.directory import LogDirectory
from rocketpipe.pipeline.spark_columns import spark_schema
from rocketpipe.record.codec import RecordView

CORE = (
    "topic",
    "queue_id",
    "queue_offset",
    "tags",
    "keys",
    "body",
    "born_timestamp",
    "store_timestamp",
)
TWO = ("queue_offset", "body")
FULL = (*CORE, "properties")
FEW, MANY = 10, 1000
TUPLES_SHARE = 10
SERVE = """
import asyncio, sys
from pathlib import Path
from rocketpipe.testing import cluster
async def main():
    async with cluster(Path(sys.argv[1])) as running:
        print(running.name_server, flush=True)
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


@dataclass(frozen=True)
class Run(InputPartition):
    """Which messages a task of the tuples' source reads."""

    queue_id: int
    end: int


class TupleReader(DataSourceReader):
    """A tuple for each message: what a source looks like that does not think of Arrow."""

    def __init__(self, path: Path, schema: StructType) -> None:
        self._path = path
        self._names = schema.names

    def partitions(self) -> list[Run]:
        with LogDirectory(self._path) as directory:
            ends = [directory.ends(TOPIC, number)[1] for number in range(QUEUES)]
        return [Run(number, ends[number] // TUPLES_SHARE) for number in range(QUEUES)]

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
        from datetime import UTC, datetime, timedelta

        zero = datetime(1970, 1, 1, tzinfo=UTC)
        makes: dict[str, Callable[[RecordView], Any]] = {
            "topic": lambda view: view.topic,
            "queue_id": lambda view: view.queue_id,
            "queue_offset": lambda view: view.queue_offset,
            "tags": lambda view: view.tags,
            "keys": lambda view: list(view.keys),
            "body": lambda view: view.body,
            "born_timestamp": lambda view: zero + timedelta(milliseconds=view.born_ms),
            "store_timestamp": lambda view: zero + timedelta(milliseconds=view.stored_ms),
        }
        chosen = [makes[name] for name in self._names]
        with LogDirectory(self._path) as directory:
            queue = directory.queue(TOPIC, partition.queue_id)
            for first in range(0, partition.end, 10_000):
                entries = queue.entries(first, min(first + 10_000, partition.end))
                start, last = int(entries["at"][0]), entries[-1]
                base_end = directory.log.base_of(start) + directory.log.segment_bytes
                data = directory.log.read(
                    start, min(int(last["at"] + last["size"]), base_end) - start
                )
                for at, size, _ in entries.tolist():
                    if at + size <= base_end:
                        view = RecordView(data, at - start, at - start + size)
                    else:
                        view = RecordView(directory.log.read(at, size))
                    yield tuple([make(view) for make in chosen])


class TupleSource(DataSource):
    """What Spark finds under ``tuples``."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> StructType:
        return spark_schema(pa.schema([SCHEMA.field(name) for name in CORE]))

    def reader(self, schema: StructType) -> TupleReader:
        return TupleReader(Path(self.options["path"]), schema)


@contextlib.contextmanager
def broker(root: Path) -> Iterator[str]:
    """A broker over the store, as a process of its own; gives its NameServer."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(30)


def drain(frame: DataFrame) -> None:
    """Make every column of every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def read_cases(
    session: SparkSession, root: Path, directory: Path, rows: int, server: str | None
) -> dict[str, Callable[[], object]]:
    """Everything that is read, by name; Parquet's files are made here, other stores when asked."""
    session.dataSource.register(TupleSource)

    def source(columns: tuple[str, ...], **options: str) -> DataFrame:
        given = options or {"path": str(root)}
        reader = session.read.format("rocketpipe").options(subscribe=TOPIC, **given)
        return (reader.option("columns", ",".join(columns)) if columns else reader).load()

    def from_log(columns: tuple[str, ...], **options: str) -> Callable[[], None]:
        return lambda: drain(source(columns, **options))

    def from_parquet(columns: tuple[str, ...]) -> Callable[[], None]:
        return lambda: drain(session.read.parquet(str(directory / "rows")).select(*columns))

    def from_queues(queues: int) -> Callable[[], None]:
        store = directory / f"queues-{queues}"

        def read() -> None:
            if not store.exists():  # as it warms up
                fill(store, rows, queues)
            drain(source(CORE, path=str(store)))

        return read

    source(FULL).write.parquet(str(directory / "rows"))
    cases: dict[str, Callable[[], object]] = {
        "parquet core": from_parquet(CORE),
        "log core": from_log(CORE),
        "parquet two": from_parquet(TWO),
        "log two": from_log(TWO),
        "parquet with map": from_parquet(FULL),
        "log with map": from_log(FULL),
        "tuples core": lambda: drain(
            session.read.format("tuples").option("path", str(root)).load()
        ),
        **{f"{queues} queues": from_queues(queues) for queues in (FEW, MANY)},
        "count": lambda: source(()).count(),
        "count of one column": lambda: source(("queue_offset",)).count(),
        "count of parquet": lambda: session.read.parquet(str(directory / "rows")).count(),
    }
    if server is not None:
        cases["broker core"] = from_log(CORE, nameServer=server)
    return cases


def print_reads(rows: int, seen: dict[str, Seen]) -> None:
    """Each case, then each target with its verdict."""
    print(f"\n{'case':22}{'CPU s':>9}{'wall s':>9}{'rows/s':>12}{'rows/CPU s':>12}")
    for name, one in seen.items():
        done = rows // TUPLES_SHARE if name.startswith("tuples") else rows
        print(
            f"{name:22}{one.cpu_s:9.2f}{one.wall_s:9.2f}{done / one.wall_s:12,.0f}"
            f"{done / max(one.cpu_s, 0.01):12,.0f}"
        )
    print(f"\n{'compared':52}{'found':>9}{'target':>9}")
    for columns, limit in (("core", 2.0), ("two", 4.0), ("with map", 2.5)):
        log, parquet = seen.get(f"log {columns}"), seen.get(f"parquet {columns}")
        if log and parquet:
            found = ratio(log.cpu, parquet.cpu)
            told(f"CPU of the log against Parquet, {columns}", found, limit, at_most=True)
    core, tuples, by_broker = (seen.get(f"{way} core") for way in ("log", "tuples", "broker"))
    if core and tuples:
        found = TUPLES_SHARE * ratio(tuples.wall, core.wall)
        told("log against tuples", found, 6, at_most=False)
    if core and by_broker:
        told("broker against log", ratio(core.wall, by_broker.wall), 0.5, at_most=False)
    many, few = seen.get(f"{MANY} queues"), seen.get(f"{FEW} queues")
    if many and few:
        told(f"time of {MANY} queues against {FEW}", ratio(many.wall, few.wall), 1.5, at_most=True)
        told(f"CPU of {MANY} queues against {FEW}", ratio(many.cpu, few.cpu), 1.5, at_most=True)
