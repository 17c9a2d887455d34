"""Spark writing to a topic, beside its no-op sink and beside bare batches of the same rows.

no-op      Spark's own sink that drops every row: what it costs to make the rows
encode     our writer's tasks without their sends: rows into the bodies of batch sends
direct     delivery=direct to a broker, which runs as a process of its own
ten rows   the same of ten rows: what Spark takes to plan, start and commit, however few there are
staged     delivery=staged to the same, commit included
batches    the compiled load generator of bench-broker, with batches of 32 to the same broker; its
           messages have as many properties, KEYS among them

The broker's own CPU time a row is told beside the rates: Spark needs more cores than a small
machine has, and then the rates say how cores are shared, and not what the broker could take.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.broker.generator import Generator, RunFailed, Sample, Unavailable, compiled
from benchmarks.broker.peers import ROCKETMQ
from benchmarks.broker.scenarios import choose
from benchmarks.broker.usage import cpu_ns
from benchmarks.spark.turns import Seen, in_turns, ratio, told
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rocketpipe.client.identity import Identity
from rocketpipe.pipeline.columns.encode import KeyRun, encode_rows
from rocketpipe.pipeline.columns.write_rows import rows_by_topic
from rocketpipe.testing.servers import Servers, serving

SCENARIO = "batch-16x1-100"
BATCHES_S = 1.5


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


class Batches:
    """Bare batches to a broker, for a while each time, if the generator can be had."""

    def __init__(self, servers: Servers) -> None:
        self._port = int(servers.broker.rpartition(":")[2])
        self._pid = servers.process.pid
        self.samples: list[Sample] = []

    def run(self) -> None:
        """Send for a while."""
        [scenario] = choose([SCENARIO], quick=False)
        try:
            sample = Generator(compiled()).measure(
                scenario,
                port=self._port,
                protocol=ROCKETMQ["batch"],
                pid=self._pid,
                seconds=BATCHES_S,
                topic="BenchTopic",
                keyed=True,
            )
        except (Unavailable, RunFailed) as error:
            print(f"no bare batches: {error}")
            return
        self.samples.append(sample)


def measure_writes(session: SparkSession, scratch: Path, count: int, rounds: int) -> None:
    """Write in all ways, in turns, and print how they compare."""
    scratch.mkdir()
    session.dataSource.register(EncodeSource)
    frame, few = made(session, count), made(session, 10)
    jobs = itertools.count()
    with serving(scratch, small_files=False) as servers:
        options = {"nameServer": servers.name_server, "topic": "bench"}
        batches = Batches(servers)
        cases = {
            "no-op": lambda: save(frame, "noop"),
            "encode": lambda: save(frame, "encode"),
            "ten rows": lambda: save(few, "rocketpipe", **options, delivery="direct"),
            "direct": lambda: save(frame, "rocketpipe", **options, delivery="direct"),
            "batches": batches.run,
            "staged": lambda: save(frame, "rocketpipe", **options, txn=f"job-{next(jobs)}"),
        }
        seen = in_turns(cases, rounds, lambda: cpu_ns(servers.process.pid) / 1e9)
    frame.unpersist()
    few.unpersist()
    print_writes(count, seen, batches.samples[1:])


def made(session: SparkSession, count: int) -> DataFrame:
    """So many rows in two partitions, in memory."""
    frame = session.range(0, count, 1, 2).selectExpr(
        "rpad(concat('row ', id), 100, '.') AS body",
        "concat('key-', id) AS keys",
        "concat('tag', id % 4) AS tags",
    )
    frame = frame.cache()
    frame.count()
    return frame


def print_writes(count: int, seen: dict[str, Seen], samples: list[Sample]) -> None:
    """Each case, then each target with its verdict."""
    del seen["batches"]
    print(f"\n{'case':12}{'CPU s':>9}{'wall s':>9}{'rows/s':>12}{'broker µs/row':>15}")
    for name, one in seen.items():
        broker_us = f"{1e6 * one.one_s / count:15.2f}" if name in ("direct", "staged") else ""
        rate = "" if name == "ten rows" else f"{count / one.wall_s:12,.0f}{broker_us}"
        print(f"{name:12}{one.cpu_s:9.2f}{one.wall_s:9.2f}{rate}")
    direct, staged = seen["direct"], seen["staged"]
    if samples:
        rate = statistics.median(each.messages_s for each in samples)
        least_us = min(each.cpu_us for each in samples)
        print(f"{'batches':12}{'':18}{rate:12,.0f}{least_us:15.2f}")
    print(f"\n{'compared':52}{'found':>9}{'target':>9}")
    encoder = ratio(seen["no-op"].wall, seen["encode"].wall)
    told("encoder against the no-op sink", encoder, 0.1, at_most=False)
    told("staged against direct", ratio(direct.wall, staged.wall), 0.7, at_most=False)
    told("… the broker's CPU", ratio(direct.one, staged.one), 0.7, at_most=False)
    if len(samples) == len(direct.wall):
        wall_s = [count / each.messages_s for each in samples]
        cpu_s = [each.cpu_us * count / 1e6 for each in samples]
        told("direct against bare batches", ratio(wall_s, direct.wall), 0.7, at_most=False)
        told("… the broker's CPU", ratio(cpu_s, direct.one), 0.7, at_most=False)
        both = zip(direct.wall, seen["ten rows"].wall, strict=True)
        found = ratio(wall_s, (all_s - few_s for all_s, few_s in both))
        print(f"{'… time, without what ten rows take':52}{found:8.2f}x")


def save(frame: DataFrame, sink: str, **options: str) -> None:
    frame.write.format(sink).options(**options).mode("append").save()
