"""Spark writing to a topic, beside its no-op sink and beside bare batches: ratios of one run.

no-op      Spark's own sink that drops every row: what it costs to make the rows
encode     our writer's tasks without their sends: rows into the bodies of batch sends
direct     delivery=direct to a broker, which runs as a process of its own
staged     delivery=staged to the same, commit included
batches    the compiled load generator of bench-broker, with batches of the same broker

    make bench-spark                        runs this after the reads
    python benchmarks/spark_write.py --rows 200000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.broker.generator import Generator, RunFailed, Unavailable, compiled
from benchmarks.broker.peers import ROCKETMQ
from benchmarks.broker.scenarios import choose
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rocketpipe.client.identity import Identity
from rocketpipe.pipeline import launch
from rocketpipe.pipeline.columns.encode import KeyRun, encode_rows
from rocketpipe.pipeline.columns.write_rows import rows_by_topic
from rocketpipe.testing.servers import serving

SCENARIO = "batch-16x1-100"


class EncodeOnly(DataSourceArrowWriter):
    """What our tasks do, but for the sends."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        keys = KeyRun(Identity.of_this_process().unique_keys())
        for batch in iterator:
            for _, rows in rows_by_topic(batch, "bench"):
                for _ in encode_rows(rows, keys, time.time_ns() // 1_000_000).bodies(1 << 20):
                    pass
        return WriterCommitMessage()


class EncodeSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "encode"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return EncodeOnly()


def measured(work: Callable[[], None], rounds: int) -> float:
    """The least seconds that it took; the first time is to warm up."""
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times[1:])


def batches_a_second(address: str, pid: int) -> float | None:
    """What the broker takes of bare batches, if the generator can be had."""
    try:
        generator = Generator(compiled())
        [scenario] = choose([SCENARIO], quick=False)
        port = int(address.rpartition(":")[2])
        sample = generator.measure(
            scenario, port=port, protocol=ROCKETMQ["batch"], pid=pid, seconds=3, topic="BenchTopic"
        )
    except (Unavailable, RunFailed) as error:
        print(f"no bare batches: {error}")
        return None
    return sample.messages_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run(Path(scratch), chosen.rows, chosen.rounds)


def run(scratch: Path, count: int, rounds: int) -> None:
    (scratch / "spark").mkdir()
    (scratch / "servers").mkdir()
    with (
        launch.local_spark(scratch / "spark", name="bench") as spark,
        serving(scratch / "servers") as servers,
    ):
        spark.dataSource.register(EncodeSource)
        frame = spark.range(0, count, 1, 2).selectExpr(
            "rpad(concat('row ', id), 100, '.') AS body",
            "concat('key-', id) AS keys",
            "concat('tag', id % 4) AS tags",
        )
        frame = frame.cache()
        frame.count()
        times: dict[str, float] = {}
        times["no-op"] = measured(lambda: save(frame, "noop"), rounds)
        times["encode"] = measured(lambda: save(frame, "encode"), rounds)
        batches = batches_a_second(servers.broker, servers.process.pid)
        options = {"nameServer": servers.name_server, "topic": "bench"}
        direct = {**options, "delivery": "direct"}
        times["direct"] = measured(lambda: save(frame, "rocketpipe", **direct), rounds)
        jobs = iter(range(1000))
        times["staged"] = measured(
            lambda: save(frame, "rocketpipe", **options, txn=f"job-{next(jobs)}"), rounds
        )
    print(f"\n{'case':12}{'wall s':>9}{'rows/s':>12}")
    for name, seconds in times.items():
        print(f"{name:12}{seconds:9.2f}{count / seconds:12,.0f}")
    if batches is not None:
        print(f"{'batches':12}{'':9}{batches:12,.0f}")
    print(f"\n{'compared':44}{'found':>9}{'target':>9}")
    told("encoder against the no-op sink", times["no-op"] / times["encode"], 0.1)
    if batches is not None:
        told("writes against bare batches", count / times["direct"] / batches, 0.7)


def save(frame: DataFrame, sink: str, **options: str) -> None:
    frame.write.format(sink).options(**options).mode("append").save()


def told(what: str, found: float, least: float) -> None:
    print(f"{what:44}{found:8.2f}x  ≥{least:g}  {'holds' if found >= least else 'MISSED'}")


if __name__ == "__main__":
    main()
