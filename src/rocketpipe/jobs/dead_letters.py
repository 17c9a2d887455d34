"""What groups have given up: by kind of error, with samples, and over time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.blocking import Admin
from rocketpipe.client.admin.findings import counted
from rocketpipe.errors import ConfigError
from rocketpipe.jobs import plots
from rocketpipe.jobs.context import JobContext
from rocketpipe.jobs.error_text import kind_of_error
from rocketpipe.jobs.outcome import Outcome
from rocketpipe.jobs.times import bucket_seconds, moment_after
from rocketpipe.model.names import DLQ_PREFIX
from rocketpipe.sql.system_tables import SystemTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: So many letters of a kind are shown, and so much of a body.
SAMPLES: Final = 3
_BODY_BYTES: Final = 200
#: So many kinds of error are told one by one.
MOST_KINDS: Final = 500
_DRAWN: Final = plots.COLOURS

_LETTER: Final = (
    "kind STRING, `group` STRING, origin STRING, reason STRING, attempts INT, broker STRING, "
    "queue_id INT, queue_offset BIGINT, stored TIMESTAMP, message_id STRING, keys STRING, "
    "body STRING"
)
_TIME: Final = pa.timestamp("us", tz="UTC")
_ARROW: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("group", pa.string()),
        ("origin", pa.string()),
        ("reason", pa.string()),
        ("attempts", pa.int32()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("stored", _TIME),
        ("message_id", pa.string()),
        ("keys", pa.string()),
        ("body", pa.string()),
    ]
)


def work(context: JobContext) -> Outcome:
    """Tell of the dead letters of all groups, or of some.

    Raises:
        ConfigError: If a group has none, as there is no topic of them.
        RocketPipeError: If a server does not answer.
    """
    options = context.options
    with Admin(context.name_server) as admin:
        there = [each for each in admin.topics.names(internal=True) if each.startswith(DLQ_PREFIX)]
        wanted = {f"{DLQ_PREFIX}{group}" for group in options.groups}
        topics = [each for each in there if not wanted or each in wanted]
        if wanted - set(there):
            group = min(wanted - set(there)).removeprefix(DLQ_PREFIX)
            have = ", ".join(each.removeprefix(DLQ_PREFIX) for each in there[:5]) or "none"
            raise ConfigError(
                "--group", f"{group} has no dead letters; groups that have some: {have}"
            )
        if not topics:
            return Outcome(headline="there are no dead letters", figures={"letters": 0})
        since = (
            {"startingTimestamp": str(int(time.time() * 1000) - options.since_ms)}
            if options.since_ms
            else {}
        )
        with context.session() as spark:
            tables = SystemTables(
                spark,
                admin,
                lambda found, columns: context.messages(spark, found, columns, **since),
            )
            letters: Any = tables.frame("dead_letters", topics)
            kept = letters.mapInArrow(_letter_batches, _LETTER).persist()
            try:
                return _outcome(kept)
            finally:
                kept.unpersist()


def _letter_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Letters with the kind of their error, in Spark's tasks."""
    for batch in batches:
        rows = [_letter(row) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, _ARROW)


def _letter(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("group", "origin", "reason", "attempts", "broker")},
        **{name: row[name] for name in ("queue_id", "queue_offset", "message_id")},
        "kind": kind_of_error(row["reason"]),
        "stored": row["store_timestamp"],
        "keys": " ".join(row["keys"] or ()),
        "body": (row["body"] or b"")[:_BODY_BYTES].decode("utf-8", "replace"),
    }


def _outcome(letters: DataFrame) -> Outcome:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    kinds = (
        letters.groupBy("kind", "group", "origin")
        .agg(
            f.count("*").alias("letters"),
            f.min("stored").alias("first"),
            f.max("stored").alias("last"),
            f.max("attempts").alias("most_attempts"),
        )
        .orderBy(f.desc("letters"), "kind", "group")
        .limit(MOST_KINDS)
        .toArrow()
    )
    newest = Window.partitionBy("kind", "group").orderBy(f.desc("stored"), f.desc("queue_offset"))
    samples = (
        letters.withColumn("row", f.row_number().over(newest))
        .where(f.col("row") <= SAMPLES)
        .drop("row")
        .orderBy("kind", "group", f.desc("stored"))
        .limit(MOST_KINDS)
        .toArrow()
    )
    spread = letters.agg(f.min("stored"), f.max("stored"), f.count("*")).toArrow().to_pylist()[0]
    begin, end, total = spread.values()
    by_kind: dict[str, int] = {}
    for row in kinds.to_pylist():
        by_kind[row["kind"]] = by_kind.get(row["kind"], 0) + row["letters"]
    over_time, plot = _over_time(letters, begin, end, by_kind)
    groups = {row["group"] for row in kinds.to_pylist()}
    head = f"{counted(total, 'dead letter')} of {counted(len(groups), 'group')}"
    return Outcome(
        headline=f"{head}: {counted(len(by_kind), 'kind')} of error"
        if total
        else "there are no dead letters",
        ok=not total,
        figures={"letters": total, "kinds": len(by_kind), "groups": len(groups)},
        tables={"kinds": kinds, "samples": samples, "over_time": over_time},
        plots=[plots.bars("Dead letters by kind of error", by_kind, name_width=420), *plot],
    )


def _over_time(
    letters: DataFrame, begin: datetime | None, end: datetime | None, by_kind: dict[str, int]
) -> tuple[pa.Table, list[str]]:
    from pyspark.sql import functions as f

    if begin is None or end is None:
        empty = pa.schema([("time", _TIME), ("kind", pa.string()), ("letters", pa.int64())])
        return pa.Table.from_pylist([], empty), []
    wide = bucket_seconds((end - begin).total_seconds())
    slot = f.timestamp_seconds(f.floor(f.unix_timestamp("stored") / wide) * wide)
    table = (
        letters.groupBy(slot.alias("time"), "kind")
        .agg(f.count("*").alias("letters"))
        .orderBy("time", "kind")
        .toArrow()
    )
    first = datetime.fromtimestamp(begin.timestamp() // wide * wide, UTC)
    slots = int((end - first).total_seconds() // wide) + 1
    series = []
    for number, kind in enumerate(sorted(by_kind, key=lambda each: -by_kind[each])[:_DRAWN]):
        counts = [0.0] * slots
        for row in table.to_pylist():
            if row["kind"] == kind:
                counts[int((row["time"] - first).total_seconds() // wide)] = float(row["letters"])
        points = [(each * wide, count) for each, count in enumerate(counts)]
        series.append(plots.Series(plots.clipped(kind, 80), points, number))
    title = f"Dead letters over time, each point {moment_after(None)(wide)}"
    return table, [plots.lines(title, series, moment=moment_after(first))]
