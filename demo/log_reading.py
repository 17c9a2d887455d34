"""Spark reads the broker's log as a table, while the broker is down.

    python -m demo.log_reading STORE TOPIC SCRATCH

It is a process of its own, started before it is needed: it reads the log as it is then, says a line
of JSON, is asked by a line on its input, answers with a line of JSON, and ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline import launch
from rocketpipe.pipeline.excuses import excuse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_NAME: Final = "log_reading.log"
ROOT: Final = Path(__file__).resolve().parent.parent
#: Spark starts in ten seconds, and in a minute on a machine that is busy with other things.
START_TIMEOUT_S: Final = 180
ANSWER_TIMEOUT_S: Final = 180
ATTEMPTS: Final = 3
LINE_BYTES: Final = 1 << 24
BODY: Final = "id INT, carrier STRING, dep_delay INT"


class LogUnread(RocketPipeError):
    """The log could not be read; the reader's own log says why."""


class LogReader:
    """A Spark that waits for its question; within its ``async with`` it runs."""

    def __init__(
        self,
        store: Path,
        topic: str,
        place: Path,
        command: Sequence[str] = (sys.executable, "-m", "demo.log_reading"),
    ) -> None:
        self._log = place / LOG_NAME
        self._command = [*command, str(store), topic, str(place / "spark")]
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> LogReader:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=LINE_BYTES,
                # It does for a small heap, and leaves the cores to the others.
                env={"JDK_JAVA_OPTIONS": "-XX:+UseSerialGC"} | os.environ,
                start_new_session=True,  # a group of its own, which can be killed as one
            )
        return self

    async def __aexit__(self, *failure: object) -> None:
        process = self._process
        assert process is not None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    async def ready(self) -> None:
        """Wait until Spark is there.

        Raises:
            LogUnread: If it does not come.
        """
        await self._hear(START_TIMEOUT_S)

    async def read(self) -> Any:
        """What the log has, by queue and by carrier.

        Raises:
            LogUnread: If it cannot be read.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # it has ended: so will its output
            self._process.stdin.write(b"read\n")
            await self._process.stdin.drain()
        return await self._hear(ANSWER_TIMEOUT_S)

    async def _hear(self, patience_s: float) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                line = await self._process.stdout.readline()
        if not line:
            raise LogUnread(f"Spark did not read the broker's log: see {self._log}")
        return json.loads(line)


def log_table(spark: SparkSession, store: str, topic: str) -> dict[str, Any]:
    """The topic as a table straight from the log: by queue, and the latest carriers."""
    from pyspark.sql import functions as f

    flight = f.from_json(f.col("body").cast("string"), BODY)
    table = (
        spark.read.format("rocketpipe")
        .schema("queue_id INT, queue_offset BIGINT, body BINARY")
        .option("path", store)
        .option("subscribe", topic)
        .load()
        .withColumn("flight", flight)
        .select("flight.*", "queue_id", "queue_offset")
        .persist()
    )
    try:
        queues = table.groupBy("queue_id").agg(
            f.count("*").alias("rows"),
            f.countDistinct("id").alias("flights"),
            f.min("queue_offset").alias("first"),
            f.max("queue_offset").alias("last"),
            f.sum("id").alias("ids"),
        )
        worst = (
            table.groupBy("carrier")
            .agg(f.count("*").alias("flights"), f.avg("dep_delay").alias("delay"))
            .orderBy(f.desc("delay"))
            .limit(3)
        )
        return {
            "queues": [row.asDict() for row in queues.collect()],
            "worst": [row.asDict() for row in worst.collect()],
        }
    finally:
        table.unpersist()


def main(store: str, topic: str, scratch: str) -> int:
    """Start Spark, wait to be asked, and answer; the number is the exit code."""
    Path(scratch).mkdir(parents=True, exist_ok=True)
    with launch.local_spark(Path(scratch), name="rocketpipe-demo") as spark:
        answer(spark, store, topic)  # so that all of it is warm while the broker is down
        print(json.dumps("ready"), flush=True)
        if sys.stdin.readline():
            print(json.dumps(answer(spark, store, topic)), flush=True)
    return 0


def answer(spark: SparkSession, store: str, topic: str) -> dict[str, Any]:
    """Read the log, more than once if the machine was too busy for Spark's Pythons."""
    for _ in range(ATTEMPTS - 1):
        try:
            return log_table(spark, store, topic)
        except Exception as error:
            if excuse(str(error)) is None:
                raise
    return log_table(spark, store, topic)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
