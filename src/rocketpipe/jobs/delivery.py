"""How messages travel, by what clients tell in the trace topic.

Latency is from when a producer sent a message to when a group's handler first got it, the clocks of
both machines taken as they are. A message is a duplicate if its id was sent more than once, or if
one group has handled it with success more than once.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.blocking import Admin
from rocketpipe.client.admin.findings import counted
from rocketpipe.errors import ConfigError
from rocketpipe.jobs import plots
from rocketpipe.jobs.context import JobContext
from rocketpipe.jobs.outcome import Outcome
from rocketpipe.jobs.times import bucket_seconds, moment_after
from rocketpipe.model.names import TRACE_TOPIC
from rocketpipe.sql.system_tables import SystemTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: So many duplicates are listed; all of them are counted.
MOST_LISTED: Final = 1_000
_HINT: Final = "give producers and consumers trace=True, so that they tell of messages' ways"


def work(context: JobContext) -> Outcome:
    """Tell how messages travel.

    Raises:
        ConfigError: If there is no trace topic.
        RocketPipeError: If a server does not answer.
    """
    options = context.options
    since = (
        {"startingTimestamp": str(int(time.time() * 1000) - options.since_ms)}
        if options.since_ms
        else {}
    )
    with Admin(context.name_server) as admin:
        if options.trace_topic not in admin.topics.names(internal=True):
            raise ConfigError("--trace-topic", f"there is no topic {options.trace_topic}: {_HINT}")
        with context.session() as spark:
            tables = SystemTables(
                spark,
                admin,
                lambda topics, columns: context.messages(
                    spark, [options.trace_topic], columns, **since
                ),
            )
            traces = tables.frame("traces", [TRACE_TOPIC]).persist()
            try:
                return _outcome(traces, options.topics, options.groups)
            finally:
                traces.unpersist()


def _outcome(traces: DataFrame, topics: tuple[str, ...], groups: tuple[str, ...]) -> Outcome:
    from pyspark.sql import functions as f

    sent = traces.where("step = 'published'")
    if topics:
        sent = sent.where(f.col("topic").isin(*topics))
    handled = _handled(traces)
    if groups:
        handled = handled.where(f.col("group").isin(*groups))
    messages = sent.groupBy("topic", "message_id").agg(
        f.min("time").alias("sent"),
        f.min_by("store_host", "time").alias("broker"),
        f.sum(f.expr("CAST(coalesce(success, true) AS INT)")).alias("copies"),
    )
    deliveries = messages.join(handled, "message_id").persist()
    try:
        first = deliveries.groupBy("topic", "group", "broker", "message_id", "sent").agg(
            f.min("began").alias("began"),
            f.max("retries").alias("retries"),
            f.sum(f.col("success").cast("int")).alias("successes"),
        )
        first = first.withColumn("ms", f.expr("(unix_micros(began) - unix_micros(sent)) / 1000.0"))
        latency = _arrow(
            first.groupBy("topic", "group", "broker").agg(f.count("*").alias("messages"), *_ms(f))
        )
        sending = _arrow(
            sent.groupBy("topic", f.col("store_host").alias("broker")).agg(
                f.count("*").alias("sends"),
                f.sum(f.expr("CAST(NOT coalesce(success, true) AS INT)")).alias("failed"),
                *_ms(f, "cost_ms"),
            )
        )
        handling = _arrow(
            deliveries.groupBy("topic", "group").agg(
                f.count("*").alias("deliveries"),
                f.sum(f.expr("CAST(retries > 0 AS INT)")).alias("retries"),
                f.sum(f.expr("CAST(NOT coalesce(success, true) AS INT)")).alias("failed"),
                f.max("retries").alias("most_retries"),
                *_ms(f, "cost_ms"),
            )
        )
        duplicates, many = _duplicates(messages, first)
        over_time, plot = _over_time(first)
    finally:
        deliveries.unpersist()
    rows = latency.to_pylist()
    count = sum(row["messages"] for row in rows)
    worst = max((row["p99_ms"] for row in rows), default=None)
    retries = sum(row["retries"] for row in handling.to_pylist())
    told = "" if worst is None else f", the slowest one of a hundred after {worst:,.0f} ms"
    return Outcome(
        headline=f"{counted(count, 'first delivery').replace('deliverys', 'deliveries')}{told}; "
        f"{counted(retries, 'retry').replace('retrys', 'retries')}, "
        f"{counted(many, 'duplicate')}",
        ok=not many,
        figures={
            "messages": count,
            "worst_p99_ms": worst,
            "retries": retries,
            "duplicates": many,
        },
        tables={
            "latency": latency,
            "handling": handling,
            "sending": sending,
            "duplicates": duplicates,
            "over_time": over_time,
        },
        plots=[
            plots.bars(
                "99 of 100 messages are delivered within, ms",
                {
                    f"{row['topic']} → {row['group']} ({row['broker']})": float(row["p99_ms"])
                    for row in rows[: 4 * plots.COLOURS]
                    if row["p99_ms"] is not None
                },
                name_width=380,
            ),
            *plot,
        ],
    )


def _handled(traces: DataFrame) -> DataFrame:
    """A row for each time that a group's handler was given a message, and how that ended."""
    from pyspark.sql import functions as f

    began = traces.where("step = 'consuming'").select(
        "group", "message_id", "request_id", f.col("time").alias("began"), "retries"
    )
    ended = (
        traces.where("step = 'consumed'")
        .groupBy("message_id", "request_id")
        .agg(f.max("success").alias("success"), f.max("cost_ms").alias("cost_ms"))
    )
    return began.join(ended, ["message_id", "request_id"], "left")


def _duplicates(messages: DataFrame, first: DataFrame) -> tuple[pa.Table, int]:
    from pyspark.sql import functions as f

    found = (
        messages.where("copies > 1")
        .select(
            f.lit("sent").alias("what"),
            "topic",
            f.lit(None).cast("string").alias("group"),
            "message_id",
            "copies",
        )
        .unionByName(
            first.where("successes > 1").select(
                f.lit("handled").alias("what"),
                "topic",
                "group",
                "message_id",
                f.col("successes").alias("copies"),
            )
        )
    )
    table = found.orderBy(f.desc("copies"), "message_id").limit(MOST_LISTED + 1).toArrow()
    many = table.num_rows if table.num_rows <= MOST_LISTED else found.count()
    return table.slice(0, MOST_LISTED), many


def _over_time(first: DataFrame) -> tuple[pa.Table, list[str]]:
    from pyspark.sql import functions as f

    begin, end = first.agg(f.min("sent"), f.max("sent")).toArrow().to_pylist()[0].values()
    wide = 60 if begin is None else bucket_seconds((end - begin).total_seconds())
    slot = f.timestamp_seconds(f.floor(f.unix_timestamp("sent") / wide) * wide).alias("time")
    table = _arrow(first.groupBy(slot).agg(f.count("*").alias("messages"), *_ms(f)), "time")
    if begin is None:
        return table, []
    start = datetime.fromtimestamp(begin.timestamp() // wide * wide, UTC)
    series = [
        plots.Series(
            name,
            [
                ((row["time"] - start).total_seconds(), float(row[name]))
                for row in table.to_pylist()
            ],
            number,
        )
        for number, name in enumerate(("p50_ms", "p95_ms", "p99_ms"))
    ]
    title = "From sent to handled, ms, by when it was sent"
    return table, [plots.lines(title, series, moment=moment_after(start))]


def _ms(f: Any, column: str = "ms") -> list[Any]:
    shares = [("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99)]
    found = [
        f.percentile_approx(column, share, 10_000).cast("double").alias(name)
        for name, share in shares
    ]
    return [*found, f.max(column).cast("double").alias("max_ms")]


def _arrow(frame: DataFrame, by: str = "max_ms") -> pa.Table:
    from pyspark.sql import functions as f

    return frame.orderBy(f.desc_nulls_last(by) if by == "max_ms" else f.asc(by)).toArrow()
