"""The Spark side of the demo, a process of its own that may be killed at any moment.

    python -m demo.spark_job '{"name_server": …}'

It streams the flights into two Delta tables, and meanwhile answers questions. Questions come as
lines of JSON, and so go answers and events:

    asked     {"id": 1, "ask": "log"}             answered   {"id": 1, "answer": {…}}
    events    {"event": "streaming"}, {"event": "batch begins", "batch": 3},
              {"event": "half done", "batch": 3}, {"event": "batch done", "batch": 3},
              {"event": "query restarted", "why": "…"}

When its input ends, it stops the query and ends.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.pipeline import launch
from rocketpipe.pipeline.delta import BatchTable
from rocketpipe.pipeline.excuses import excuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

GROUP: Final = "delay-tables"
#: What a body has that the tables need; Spark reads JSON by itself.
BODY: Final = (
    "id INT, time_hour TIMESTAMP, minute INT, carrier STRING, flight INT, tailnum STRING, "
    "origin STRING, dest STRING, dep_time INT, dep_delay INT, arr_delay INT, distance INT"
)
LOOK_AGAIN_S: Final = 0.2
TRIGGER: Final = "2 seconds"
MOST_RESTARTS: Final = 8
RESTART_AFTER_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What the job is told; directories are absolute."""

    name_server: str
    topic: str
    dead_letters: str
    store: str
    place: str
    rows_per_batch: int

    def text(self) -> str:
        """As an argument of the job."""
        return json.dumps(asdict(self))

    @property
    def raw(self) -> BatchTable:
        """A row for each flight."""
        return BatchTable(Path(self.place, "tables", "flights"))

    @property
    def windows(self) -> BatchTable:
        """A row for each carrier and hour."""
        return BatchTable(Path(self.place, "tables", "delays"))

    @property
    def checkpoint(self) -> Path:
        """Where Spark keeps how far the query has come."""
        return Path(self.place, "checkpoint")


class Job:
    """The query, and the questions that are answered beside it."""

    def __init__(
        self, spark: SparkSession, settings: Settings, tell: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._tell = tell
        self._restarts = 0

    def run(self, asked: SimpleQueue[str | None]) -> None:
        """Stream and answer until the questions end.

        Raises:
            StreamingQueryException: If the query fails for a reason that has no excuse, or again
                and again.
        """
        query = self._start()
        self._tell({"event": "streaming", "query": query.id, "run": query.runId})
        try:
            while True:
                if not query.isActive:
                    query = self._restart(query)
                try:
                    line = asked.get(timeout=LOOK_AGAIN_S)
                except Empty:
                    continue
                if line is None:
                    return
                self._answer(json.loads(line))
        finally:
            query.stop()

    # The stream

    def _start(self) -> StreamingQuery:
        settings = self._settings
        messages = (
            self._spark.readStream.format("rocketpipe")
            .schema("queue_id INT, queue_offset BIGINT, body BINARY, store_timestamp TIMESTAMP")
            .option("nameServer", settings.name_server)
            .option("subscribe", settings.topic)
            .option("groupId", GROUP)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(settings.rows_per_batch))
            .load()
        )
        return (
            flights_in(messages, "queue_id", "queue_offset", "store_timestamp")
            .writeStream.queryName("delays")
            .option("checkpointLocation", str(settings.checkpoint))
            .trigger(processingTime=TRIGGER)
            .foreachBatch(self._write)
            .start()
        )

    def _restart(self, query: StreamingQuery) -> StreamingQuery:
        failed = query.exception()
        reason = excuse(str(failed))
        self._restarts += 1
        if failed is not None and (reason is None or self._restarts > MOST_RESTARTS):
            raise failed
        self._tell({"event": "query restarted", "why": reason or "it had ended"})
        time.sleep(RESTART_AFTER_S)
        return self._start()

    def _write(self, batch: DataFrame, number: int) -> None:
        from pyspark.sql import functions as f

        self._tell({"event": "batch begins", "batch": number})
        batch.persist()
        try:
            self._settings.raw.append(batch, number)
            self._tell({"event": "half done", "batch": number})  # the worst moment to be killed
            sums = batch.groupBy(
                "carrier", f.window("leaves", "1 hour").getField("start").alias("hour")
            ).agg(
                f.count("*").alias("flights"),
                f.count("dep_time").alias("departed"),
                f.coalesce(f.sum("dep_delay"), f.lit(0)).alias("delay_minutes"),
            )
            self._settings.windows.add_up(
                sums,
                number,
                by=["carrier", "hour"],
                sums=["flights", "departed", "delay_minutes"],
            )
            self._tell({"event": "batch done", "batch": number})
        finally:
            batch.unpersist()

    # The questions

    def _answer(self, question: Mapping[str, Any]) -> None:
        answers = {"log": self.log_table, "dead letters": self.dead_letters}
        for attempt in range(3):
            try:
                self._tell({"id": question["id"], "answer": answers[question["ask"]]()})
            except Exception as error:
                reason = excuse(str(error))
                if reason is None or attempt == 2:
                    said = f"{type(error).__name__}: {error}"
                    self._tell({"id": question["id"], "failed": said[:2000]})
                    return
                self._tell({"event": "question asked again", "why": reason})
            else:
                return

    def log_table(self) -> Mapping[str, Any]:
        """The topic as a table straight from the log: by queue and by carrier."""
        from pyspark.sql import functions as f

        table = flights_in(
            self._spark.read.format("rocketpipe")
            .schema("queue_id INT, queue_offset BIGINT, body BINARY")
            .option("path", self._settings.store)
            .option("subscribe", self._settings.topic)
            .load(),
            "queue_id",
            "queue_offset",
        ).persist()
        try:
            queues = (
                table.groupBy("queue_id")
                .agg(
                    f.count("*").alias("rows"),
                    f.countDistinct("id").alias("flights"),
                    f.min("queue_offset").alias("first"),
                    f.max("queue_offset").alias("last"),
                    f.sum("id").alias("ids"),
                )
                .collect()
            )
            worst = (
                table.groupBy("carrier")
                .agg(f.count("*").alias("flights"), f.avg("dep_delay").alias("delay"))
                .orderBy(f.desc("delay"))
                .limit(3)
                .collect()
            )
        finally:
            table.unpersist()
        return {
            "queues": [row.asDict() for row in queues],
            "worst": [row.asDict() for row in worst],
        }

    def dead_letters(self) -> Mapping[str, Any]:
        """The dead letters as a table: which flights, of whom, and why."""
        from pyspark.sql import functions as f

        letters = (
            self._spark.read.format("rocketpipe")
            .option("nameServer", self._settings.name_server)
            .option("subscribe", self._settings.dead_letters)
            .load()
        )
        table = flights_in(letters, "properties", "reconsume_times").persist()
        try:
            carriers = table.groupBy("carrier").agg(f.countDistinct("id").alias("flights"))
            reasons = table.groupBy(f.col("properties")["DLQ_REASON"].alias("reason")).count()
            return {
                "ids": [row["id"] for row in table.select("id").collect()],
                "carriers": {row["carrier"]: row["flights"] for row in carriers.collect()},
                "reasons": {row["reason"]: row["count"] for row in reasons.collect()},
            }
        finally:
            table.unpersist()


def flights_in(messages: DataFrame, *kept: str) -> DataFrame:
    """The flights that messages carry, beside some of the messages' own columns."""
    from pyspark.sql import functions as f

    flight = f.from_json(f.col("body").cast("string"), BODY)
    leaves = f.expr("flight.time_hour + make_interval(0, 0, 0, 0, 0, flight.minute)")
    return (
        messages.withColumn("flight", flight)
        .withColumn("leaves", leaves)
        .select("flight.*", "leaves", *kept)
        .drop("minute")
    )


def main(argument: str) -> int:
    """Run until the input ends; the number is the exit code."""
    settings = Settings(**json.loads(argument))
    speaking = threading.Lock()
    asked: SimpleQueue[str | None] = SimpleQueue()

    def tell(line: Mapping[str, Any]) -> None:
        with speaking:
            print(json.dumps(line, default=str), flush=True)

    def listen() -> None:
        for line in sys.stdin:
            asked.put(line)
        asked.put(None)

    threading.Thread(target=listen, name="questions", daemon=True).start()
    scratch = Path(settings.place, "spark")
    scratch.mkdir(parents=True, exist_ok=True)
    with launch.local_spark(scratch, name="rocketpipe-demo") as spark:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        Job(spark, settings, tell).run(asked)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
