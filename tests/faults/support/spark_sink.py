"""A program: Spark jobs that write to topics, each of which meets its death at a step of its own.

python spark_sink.py <master> <nameServer> <directory> <case> …

A case is ``kind-plan-fault``. Each has a directory, a topic and a checkpoint of its own. Those who
wait for the driver's death wait for each other, and the last one to arrive kills the JVM: all die
exactly at their step. Run again, the program starts every job again; no fault happens twice.

    task_error, worker_kill      a task raises, or its Python is killed, after some of its rows
    executor_kill                the JVM above that Python is: on a cluster, an executor's
    speculation                  a task is slow, and a second attempt of it runs beside it
    servers_kill                 NameServer and broker, when all is staged and nothing committed
    in_write, before_commit, in_commit, after_commit
                                 the driver is killed, there

On a cluster jobs run one after the other: what is done to an executor is done to one of them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from rocketpipe.pipeline import launch
from rocketpipe.pipeline.source import RocketPipeSource
from rocketpipe.pipeline.writer import (
    BatchWriter,
    StreamArrowWriter,
    batch_writer,
    stream_writer,
)

ROWS = 1200
FILES = 2
#: The micro-batch at which a stream meets its fault.
BATCH = 1
LOCAL = "local[16,4]"
KILLS_DRIVER = ("in_write", "before_commit", "in_commit", "after_commit")
#: A second attempt is made at once of what takes longer than the other half of the tasks.
IF_CLUSTER = {
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}
IN_TASKS = ("task_error", "worker_kill", "executor_kill", "in_write")
#: Whom "servers_kill" kills: all rows are staged by then, and nothing is committed.
SERVERS_PID = "servers.pid"


def once(directory: Path) -> bool:
    """Whether nobody has met the fault of this case before."""
    try:
        os.close(os.open(directory / "fired", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def kill_driver(directory: Path) -> None:
    """Wait for the others, or kill the JVM above this process if there is nobody left."""
    everybody = [case for case in directory.parent.iterdir() if (case / "waits").exists()]
    if all((case / "fired").exists() for case in everybody):
        kill_jvm()
    signal.pause()


def kill_jvm() -> None:
    """Kill the JVM that started this process: that of a local driver, or of an executor."""
    process = os.getpid()
    while process > 1:
        stat = Path(f"/proc/{process}/stat").read_text()
        if "(java)" in stat:
            os.kill(process, signal.SIGKILL)
            break
        process = int(stat.rpartition(")")[2].split()[1])


class Fault:
    """What happens to one case, and when."""

    def __init__(self, options: dict[str, str]) -> None:
        self.what = options.pop("fault")
        self.directory = Path(options.pop("directory"))

    def rows(self, batches: Iterator[Any], batch: int | None) -> Iterator[Any]:
        """The rows of a task, as far as it comes."""
        hit = batch in (None, BATCH) and TaskContext.get().partitionId() == 0
        for number, rows in enumerate(batches):
            yield rows
            if number == 2 and hit and self.what in IN_TASKS and once(self.directory):
                self._strike()
        if hit and self.what == "speculation":
            self._wait_for_the_other()

    def _strike(self) -> None:
        match self.what:
            case "task_error":
                raise RuntimeError("the task dies half way")
            case "worker_kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "executor_kill":
                kill_jvm()
                signal.pause()
            case "in_write":
                kill_driver(self.directory)

    def _wait_for_the_other(self) -> None:
        """Two attempts have sent all their rows before either of them ends."""
        if TaskContext.get().attemptNumber():
            (self.directory / "fired").touch()
            return
        until_s = time.monotonic() + 100
        while not (self.directory / "fired").exists():
            if time.monotonic() > until_s:
                raise RuntimeError("no second attempt was made")
            time.sleep(0.05)

    def commit(self, commit: Any, batch: int | None) -> None:
        """A commit, and what happens around it."""
        deadly = self.what in (*KILLS_DRIVER[1:], "servers_kill")
        hit = batch in (None, BATCH) and deadly and once(self.directory)
        if hit and self.what == "servers_kill":
            os.kill(int((self.directory.parents[1] / SERVERS_PID).read_text()), signal.SIGKILL)
            commit()
            return
        if hit and self.what == "before_commit":
            kill_driver(self.directory)
        if hit and self.what == "in_commit":
            threading.Thread(target=commit, daemon=True).start()
            kill_driver(self.directory)
        commit()
        if hit:
            kill_driver(self.directory)


class DeadlyStream(StreamArrowWriter):
    fault: Fault

    def write(self, iterator: Iterator[Any]) -> Any:
        batch = int(TaskContext.get().getLocalProperty("streaming.sql.batchId"))
        return super().write(self.fault.rows(iterator, batch))

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        write = super().commit
        self.fault.commit(lambda: write(messages, batchId), batchId)


class DeadlyBatch(BatchWriter):
    fault: Fault

    def write(self, iterator: Iterator[Any]) -> Any:
        return super().write(self.fault.rows(iterator, None))

    def commit(self, messages: list[Any]) -> None:
        write = super().commit
        self.fault.commit(lambda: write(messages), None)


class Deadly(RocketPipeSource):
    """Our sink, with a fault in it."""

    @classmethod
    def name(cls) -> str:
        return "deadly"

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        options = dict(self.options)
        fault = Fault(options)
        writer = batch_writer(options, schema, overwrite)
        writer.__class__ = DeadlyBatch
        writer.fault = fault  # type: ignore[attr-defined]
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's
        options = dict(self.options)
        fault = Fault(options)
        writer = stream_writer(options, schema, overwrite)
        writer.__class__ = DeadlyStream
        writer.fault = fault  # type: ignore[union-attr]
        return writer


def shaped(frame: DataFrame, plan: str, again: bool) -> DataFrame:
    """The frame with its rows in partitions, perhaps others than the last time."""
    frame = frame.selectExpr("cast(v AS string) AS body")
    if plan == "rand":
        return frame.repartition(2, f.rand())
    if plan == "resplit":
        return frame.repartition(4 if again else 2)
    return frame.repartition(2)


def run(spark: SparkSession, name_server: str, root: Path, case: str) -> None:
    # A thread of its own has no session, and without one a registered source is not found.
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)
    kind, plan, fault = case.split("-")
    directory = root / "cases" / case
    again = (directory / "fired").exists()
    options = {
        "nameServer": name_server,
        "topic": case,
        "batchBytes": "1024",
        "fault": fault,
        "directory": str(directory),
    }
    rows = str(root / "rows")
    if kind == "stream":
        frame = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).parquet(rows)
        writing = shaped(frame, plan, again).writeStream.format("deadly").options(**options)
        writing = writing.option("checkpointLocation", str(directory / "checkpoint"))
        writing.trigger(availableNow=True).start().awaitTermination()
        return
    frame = shaped(spark.read.parquet(rows), plan, again)
    frame.write.format("deadly").options(**options, txn=case).mode("append").save()


def main(master: str, name_server: str, root: Path, cases: list[str]) -> None:
    launch.prepare_alone()
    (root / "scratch").mkdir(exist_ok=True)
    os.environ["PYSPARK_PYTHON"] = launch.lean_python(root / "scratch")
    builder = SparkSession.builder.master(master).appName("deaths")
    settings = {
        **launch.settings(root / "scratch"),
        **(IF_CLUSTER if master != LOCAL else {}),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        "spark.sql.files.openCostInBytes": "1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(Deadly)
    with ThreadPoolExecutor(len(cases) if master == LOCAL else 1) as pool:
        jobs = {pool.submit(run, spark, name_server, root, case): case for case in cases}
        for job in as_completed(jobs):
            try:
                job.result()
            except Exception:
                traceback.print_exc()
                sys.stderr.write(f"{jobs[job]} did not end\n")
                sys.stderr.flush()
                # Others may wait for this one at their fault.
                spark.sparkContext._gateway.proc.kill()
                os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
