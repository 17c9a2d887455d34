"""A streaming query that dies at one step of a micro-batch, once.

    python killed_query.py NAME_SERVER DIRECTORY STEP [SERVERS_PID]

    latest   the driver's JVM, while the planner looks how far the queues reach
    plan     the driver's JVM, while the planner makes parts
    read     the driver's JVM, while a task reads
    worker   the Python worker that reads
    broker   the process of NameServer and broker, while a task reads; the query lives on
    before   driver and JVM, before the batch is written
    after    driver and JVM, when it is written and Spark is not told
    none     nothing

The sink replaces a directory for each batch, so what is read twice shows only if a batch that is
run again is not the batch it was.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource

from rocketpipe.pipeline import launch

STEPS = ("latest", "plan", "read", "worker", "broker", "before", "after")


def dying_source(step: str, mark: str, jvm: int, servers: int) -> type[DataSource]:
    """Our source, except that it kills at a step of the second batch, if ``mark`` is not there."""

    def die(here: str, victim: int) -> None:
        import os
        import signal
        from pathlib import Path

        if here == step and not Path(mark).exists():
            Path(mark).touch()
            os.kill(victim, signal.SIGKILL)
            if here != "broker":
                os._exit(1)

    class Dying(DataSource):
        @classmethod
        def name(cls) -> str:
            return "dying"

        def schema(self) -> Any:
            from rocketpipe.pipeline.source import RocketPipeSource

            return RocketPipeSource(self.options).schema()

        def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
            from rocketpipe.pipeline.options.read import ReadOptions
            from rocketpipe.pipeline.stream import StreamReader

            class Reader(StreamReader):
                def latestOffset(self, start: Any = None, limit: Any = None) -> Any:  # noqa: N802
                    if start is not None and any(_offsets(start)):
                        die("latest", jvm)
                    return super().latestOffset(start, limit)

                def partitions(self, start: Any, end: Any) -> Any:
                    if any(_offsets(start)):
                        die("plan", jvm)
                    return super().partitions(start, end)

                def read(self, partition: Any) -> Iterator[Any]:
                    import os

                    for batch in super().read(partition):
                        yield batch
                        if any(each.start for each in partition.ranges):
                            die("read", jvm)
                            die("worker", os.getpid())
                            die("broker", servers)

            def _offsets(value: Any) -> list[int]:
                return [
                    number
                    for brokers in value["topics"].values()
                    for queues in brokers.values()
                    for number in queues.values()
                ]

            return Reader(ReadOptions.parse(self.options), schema)

    return Dying


def main(name_server: str, directory: Path, step: str, servers: int = 0) -> None:
    mark = directory / f"died-{step}"
    scratch = directory / f"spark-{os.getpid()}"
    scratch.mkdir()
    with launch.local_spark(scratch, name="killed") as spark:
        jvm: int = spark.sparkContext._gateway.proc.pid
        spark.dataSource.register(dying_source(step, str(mark), jvm, servers))

        def die(here: str) -> None:
            if here == step and not mark.exists():
                mark.touch()
                os.kill(jvm, signal.SIGKILL)
                os._exit(9)

        def write(batch: DataFrame, number: int) -> None:
            if number >= 1:
                die("before")
            batch.write.mode("overwrite").parquet(str(directory / "out" / f"batch={number}"))
            if number >= 1:
                die("after")

        frame = (
            spark.readStream.format("dying")
            .option("nameServer", name_server)
            .option("subscribe", "killed")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "40")
            .option("minPartitions", "2")
            .option("columns", "queue_id,queue_offset,body")
            .load()
        )
        query = frame.writeStream.foreachBatch(write).trigger(availableNow=True)
        query.option("checkpointLocation", str(directory / "kept")).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
