"""Spark reading a topic, beside Spark reading the same rows from Parquet: ratios of one run.

log        the store's directory, read without a broker
broker     the same topic through a broker, which runs as a process of its own
tuples     the same log by a source that hands over a tuple for each message
parquet    the same rows and columns, as Spark wrote them; column pruning and all

What counts is CPU time of the whole tree of processes (JVM, Python workers, and the broker where
there is one) without the start of Spark; each case is run once to warm up, then in turns, and
its least counts. All read into Spark's no-op sink, so every column is made. One trigger of a stream
is timed by Spark's own progress report.

    make bench-spark                             2,000,000 rows of about 200 bytes
    make bench-spark BENCH="--rows 200000"       quicker, and rougher
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpipe.clock import SystemClock
from rocketpipe.model.host import Host
from rocketpipe.pipeline import launch
from rocketpipe.pipeline.columns.rows import SCHEMA
from rocketpipe.pipeline.log.directory import LogDirectory
from rocketpipe.record.codec import RecordView
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "bench"
QUEUES = 4
TAGS = ("created", "paid", "shipped", "cancelled")
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
TICKS = os.sysconf("SC_CLK_TCK")
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


@dataclass
class Seen:
    """What one case took: CPU and wall-clock seconds, the least of its rounds."""

    cpu_s: float = float("inf")
    wall_s: float = float("inf")


def fill(root: Path, rows: int) -> float:
    """Write a store; gives the mean size of a record."""
    host = Host.parse("127.0.0.1:10911").pack()
    store = MessageStore.open(
        StoreConfig.embedded(root, segment_bytes=1 << 28, queue_file_bytes=6_000_000),
        disk=Disk(),
        clock=SystemClock(),
        store_host=host,
    )
    for first in range(0, rows, 500):
        numbers = range(first, min(first + 500, rows))
        store.append([[_message(number, host)] for number in numbers])
        store.dispatch()
    store.close()
    (root / "config").mkdir(exist_ok=True)
    table = {
        TOPIC: {"topicName": TOPIC, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6}
    }
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    with LogDirectory(root) as directory:
        ends = [directory.ends(TOPIC, number)[1] for number in range(QUEUES)]
        total = sum(directory.queue(TOPIC, n).bytes_of(0, ends[n]) for n in range(QUEUES))
    assert sum(ends) == rows
    return total / rows


def _message(number: int, host: bytes) -> Put:
    names = f"KEYS\x01order-{number}\x02TAGS\x01{TAGS[number % len(TAGS)]}\x02"
    return Put(
        topic=TOPIC,
        queue_id=number // 50 % QUEUES,
        body=b'{"id":%d,"p":%d.5}' % (number, number % 977),
        properties=f"{names}UNIQ_KEY\x017F0000012A9FDEAD{number:016X}\x02".encode(),
        flag=0,
        sys_flag=0,
        born_ms=1_700_000_000_000 + number,
        born_host=host,
    )


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
        return StructType([SCHEMA[name] for name in CORE])

    def reader(self, schema: StructType) -> TupleReader:
        return TupleReader(Path(self.options["path"]), schema)


class Processes:
    """CPU time of everything below this process, looked at now and then.

    Spark's workers come and go, and nobody is told what one used that has gone: so what was seen of
    each last is kept. This process itself only waits, and is left out.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], float] = {}
        self._below = {os.getpid()}
        self._stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.cpu_s()

    def close(self) -> None:
        """Look no more."""
        self._stop.set()

    def cpu_s(self) -> float:
        """Seconds that all of them have used."""
        for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):  # noqa: PTH208 - names do
            with contextlib.suppress(OSError):
                text = Path("/proc", name, "stat").read_text()
                fields = text[text.rindex(")") + 2 :].split()
                if int(fields[1]) in self._below:
                    self._below.add(int(name))
                    # A number may be given again, but not with the same start.
                    self._seen[int(name), fields[19]] = sum(map(int, fields[11:13])) / TICKS
        return sum(self._seen.copy().values())


def peak_worker_mb() -> int:
    """The most memory that a Python worker of Spark's ever had resident."""
    peak = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is needed
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError, ValueError):
                command = Path("/proc", name, "cmdline").read_bytes()
                if b"pyspark" in command and b"java" not in command:
                    status = Path("/proc", name, "status").read_text()
                    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
                    peak = max(peak, int(line.split()[1]) // 1024)
    return peak


@contextlib.contextmanager
def spark_session(scratch: Path) -> Iterator[SparkSession]:
    """Spark with its usual compilers: a benchmark runs long enough for them to pay."""
    from pyspark.sql import SparkSession

    launch.prepare_alone()
    builder = SparkSession.builder.master("local[2]").appName("bench-spark")
    for name, value in launch.settings(scratch).items():
        if name != "spark.driver.extraJavaOptions":
            builder = builder.config(name, value)
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


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


def in_turns(cases: dict[str, Callable[[], None]], rounds: int) -> dict[str, Seen]:
    """Run each once to warm up, then all in turns."""
    processes = Processes()
    seen = {name: Seen() for name in cases}
    for turn in range(rounds + 1):
        for name, work in cases.items():
            cpu_s, wall_s = processes.cpu_s(), time.perf_counter()
            work()
            wall_s, cpu_s = time.perf_counter() - wall_s, processes.cpu_s() - cpu_s
            if turn:
                one = seen[name]
                one.cpu_s, one.wall_s = min(one.cpu_s, cpu_s), min(one.wall_s, wall_s)
    processes.close()
    return seen


def trigger_ms(name: str, stream: DataFrame, scratch: Path) -> float:
    """What a trigger with one partition and next to no data takes, by Spark's own report."""
    query = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", str(scratch / f"checkpoint-{name}"))
        .start()
    )
    try:
        while query.lastProgress is None or query.lastProgress["batchId"] < 25:
            if query.exception() is not None:
                raise SystemExit(f"the stream failed: {query.exception()}")
            time.sleep(0.1)
        took = [
            progress["durationMs"]
            for progress in query.recentProgress
            if progress["batchId"] >= 5 and progress["numInputRows"]
        ]
    finally:
        query.stop()
    parts = {name: statistics.median(one.get(name, 0) for one in took) for name in took[0]}
    steps = ", ".join(f"{step} {ms:g}" for step, ms in sorted(parts.items()))
    print(f"a trigger of {name}, in ms: {steps}")
    return parts["triggerExecution"]


def triggers_ms(session: SparkSession, root: Path, scratch: Path) -> tuple[float, float]:
    """A trigger of ours, and one of a source that is part of Spark: what it takes in any case."""
    ours = (
        session.readStream.format("rocketpipe")
        .options(path=str(root), subscribe=TOPIC, startingOffsets="earliest", columns="body")
        .option("maxOffsetsPerTrigger", "200")
        .load()
    )
    sparks = (
        session.readStream.format("rate-micro-batch")
        .options(rowsPerBatch="200", numPartitions="1")
        .load()
    )
    return trigger_ms("ours", ours, scratch), trigger_ms("Spark's own", sparks, scratch)


def main() -> None:
    """Fill a store, read it in all ways, print how they compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-broker", action="store_true", help="leave the broker out")
    parser.add_argument("--no-stream", action="store_true", help="leave the trigger out")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as directory:
        run(chosen, Path(directory))


def run(chosen: argparse.Namespace, directory: Path) -> None:
    root, rows = directory / "store", chosen.rows
    mean = fill(root, rows)
    print(f"{rows:,} rows of {mean:.0f} bytes in {QUEUES} queues")
    with spark_session(directory) as session, contextlib.ExitStack() as stack:
        session.dataSource.register(TupleSource)

        def from_log(columns: tuple[str, ...], **options: str) -> Callable[[], None]:
            reader = session.read.format("rocketpipe").options(
                subscribe=TOPIC, columns=",".join(columns), **(options or {"path": str(root)})
            )
            return lambda: drain(reader.load())

        def from_parquet(columns: tuple[str, ...]) -> Callable[[], None]:
            return lambda: drain(session.read.parquet(str(directory / "rows")).select(*columns))

        full = session.read.format("rocketpipe").options(
            path=str(root), subscribe=TOPIC, columns=",".join(FULL)
        )
        full.load().write.parquet(str(directory / "rows"))
        cases = {
            "parquet core": from_parquet(CORE),
            "log core": from_log(CORE),
            "parquet two": from_parquet(TWO),
            "log two": from_log(TWO),
            "parquet with map": from_parquet(FULL),
            "log with map": from_log(FULL),
            "tuples core": lambda: drain(
                session.read.format("tuples").option("path", str(root)).load()
            ),
        }
        if not chosen.no_broker:
            server = stack.enter_context(broker(root))
            cases["broker core"] = from_log(CORE, nameServer=server)
        seen = in_turns(cases, chosen.rounds)
        peak_mb = peak_worker_mb()
        trigger = None if chosen.no_stream else triggers_ms(session, root, directory)
    print_table(rows, seen, peak_mb, trigger)


def print_table(
    rows: int, seen: dict[str, Seen], peak_mb: int, trigger: tuple[float, float] | None
) -> None:
    """Each case, then each target with its verdict."""
    print(f"\n{'case':20}{'CPU s':>9}{'wall s':>9}{'rows/s':>12}{'rows/CPU s':>12}")
    rates = {}
    for name, one in seen.items():
        done = rows // TUPLES_SHARE if name.startswith("tuples") else rows
        rates[name] = done / one.wall_s
        print(
            f"{name:20}{one.cpu_s:9.2f}{one.wall_s:9.2f}{rates[name]:12,.0f}"
            f"{done / one.cpu_s:12,.0f}"
        )
    print(f"\n{'compared':44}{'found':>9}{'target':>9}")

    def told(what: str, found: float, limit: float, *, at_most: bool, unit: str = "x") -> None:
        holds = found <= limit if at_most else found >= limit
        sign = "≤" if at_most else "≥"
        print(f"{what:44}{found:8.2f}{unit}{sign:>3}{limit:g}  {'holds' if holds else 'MISSED'}")

    for columns, limit in (("core", 3.0), ("two", 4.0), ("with map", 2.5)):
        ratio = seen[f"log {columns}"].cpu_s / seen[f"parquet {columns}"].cpu_s
        told(f"CPU of the log against Parquet, {columns}", ratio, limit, at_most=True)
    told("log against tuples", rates["log core"] / rates["tuples core"], 6, at_most=False)
    if "broker core" in rates:
        told("broker against log", rates["broker core"] / rates["log core"], 0.5, at_most=False)
    if trigger is not None:
        ours, sparks = trigger
        told("a trigger beyond the data, one partition", ours, 220, at_most=True, unit=" ms")
        print(f"{'the same of a source that is Spark itself':44}{sparks:8.2f} ms")
    told("most memory of a Python worker", peak_mb, 512, at_most=True, unit=" MB")


if __name__ == "__main__":
    main()
