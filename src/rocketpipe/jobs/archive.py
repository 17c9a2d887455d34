"""Topics kept for as long as one likes: tables by day, each message once, and verified.

    DIR/data/orders/          a table that follows the topic, by day (`rocketpipe.tables`)
    DIR/data/begins.json      {"orders": {"broker-a": {"0": 17}}}: where each queue began

A run goes on where the last one ended, wherever that was. Then every offset of every queue, from
the first that was ever archived up to where the queue ended when the run began, has to be in the
table once; what is not is a finding.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.blocking import Admin
from rocketpipe.client.admin.findings import counted
from rocketpipe.jobs import plots
from rocketpipe.jobs.context import JobContext
from rocketpipe.jobs.outcome import Outcome
from rocketpipe.jobs.plots import Series
from rocketpipe.jobs.queue_runs import Coverage, Queue, coverages, span
from rocketpipe.tables.following import follow, own_group
from rocketpipe.tables.spec import DATE, group_for
from rocketpipe.tables.table import FollowedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rocketpipe.client.admin.offsets import Ends

_TOPICS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("new_rows", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("damaged", pa.int64()),
        ("missing", pa.int64()),
        ("twice", pa.int64()),
        ("table", pa.string()),
    ]
)
_QUEUES: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        *((name, pa.int64()) for name in ("begin", "verified_to", "rows", "missing", "twice")),
    ]
)
_PROBLEMS: Final = pa.schema(
    [
        ("problem", pa.string()),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        ("first", pa.int64()),
        ("end", pa.int64()),
        ("still_in_topic", pa.bool_()),
    ]
)
_DAYS: Final = pa.schema([("topic", pa.string()), ("day", pa.date32()), ("rows", pa.int64())])

Begins = dict[Queue, int]


def work(context: JobContext) -> Outcome:
    """Archive what topics have, and verify what is archived.

    Raises:
        UnknownTopic: If there is no such topic.
        TableError: If what is in the directory is no such archive.
        FollowFailed: If messages aged out before they were archived, or Spark failed.
        RocketPipeError: If a server does not answer.
    """
    with Admin(context.name_server) as admin:
        # Before anything is read: all of this has to be there in the end.
        ends = {topic: _ends(admin, topic) for topic in context.options.topics}
    begins_file = context.data / "begins.json"
    begins = _read_begins(begins_file)
    results = []
    with context.session() as spark:
        for topic in context.options.topics:
            if context.stop.is_set():
                break
            results.append(_archive(context, spark, topic, ends[topic], begins))
            _write_begins(begins_file, begins)
    return _outcome(results)


def _ends(admin: Admin, topic: str) -> dict[Queue, Ends]:
    return {
        Queue(topic, queue.broker_name, queue.queue_id): ends
        for queue, ends in admin.offsets.ends(topic).items()
    }


def _archive(
    context: JobContext,
    spark: SparkSession,
    topic: str,
    ends: Mapping[Queue, Ends],
    begins: Begins,
) -> dict[str, Any]:
    options = context.options
    place = context.data / topic.replace("%", "+").replace("|", "!")
    is_new = not (place / "_rocketpipe" / "table.json").exists()
    group = None
    if is_new:
        group = own_group(context.name_server, group_for(f"archive-{topic}"), topic, place)
    context.tell(f"{topic}: archiving")
    report = follow(
        topic,
        to=place,
        once=True,
        spark=spark,
        stop=context.stop,
        name_server=context.name_server,
        properties=True,
        partition_by=DATE,
        format=options.format,
        start=options.start,
        on_gap=options.on_gap,
        group=group,
    )
    context.tell(f"{topic}: verifying")
    table = FollowedTable.open(place)
    rows = table_frame(spark, table, place)
    damaged = table_frame(spark, table, table.directory.bad_rows)
    covered = {} if rows is None else coverages(_places(rows, damaged, topic))
    for queue, found in covered.items():
        begins.setdefault(queue, found.ranges[0][0])
    if table.spec.start == "earliest" and is_new:
        for queue, each in ends.items():
            begins[queue] = min(begins.get(queue, each.least), each.least)
    return {
        "topic": topic,
        "new_rows": report.rows,
        "damaged": table.bad_rows.figures()["rows"],
        "figures": table.rows.figures(),
        "table": str(place),
        "queues": verified(covered, ends, begins),
        "days": [] if rows is None else _days(rows),
    }


def table_frame(spark: SparkSession, table: FollowedTable, root: Path) -> DataFrame | None:
    """The rows of a table, or of its bad rows, by the files that it names; None if it has none."""
    if table.spec.format == "delta":
        from deltalake import DeltaTable

        files = DeltaTable(str(root)).file_uris()
    else:
        files = [str(each) for each in sorted(root.glob("batch=*")) if any(each.rglob("*.parquet"))]
    # Spark takes directories for those of several tables unless it is told where the table is.
    return spark.read.option("basePath", str(root)).parquet(*files) if files else None


def _places(rows: DataFrame, damaged: DataFrame | None, topic: str) -> DataFrame:
    from pyspark.sql import functions as f

    wanted = ("broker", "queue_id", "queue_offset")
    found = rows.select(*wanted)
    if damaged is not None:
        found = found.unionByName(damaged.select(*wanted))
    # The archive does not say where in the log a message stood: offsets are its order.
    return found.withColumn("topic", f.lit(topic)).withColumn("log_offset", f.col("queue_offset"))


def _days(rows: DataFrame) -> list[dict[str, Any]]:
    from pyspark.sql import functions as f

    day = f.to_date("store_timestamp").alias("day")
    counts = rows.groupBy(day).agg(f.count("*").alias("rows")).orderBy("day")
    return list(counts.toArrow().to_pylist())


def verified(
    covered: Mapping[Queue, Coverage], ends: Mapping[Queue, Ends], begins: Mapping[Queue, int]
) -> list[dict[str, Any]]:
    """A row for each queue: what has to be there, and what of it is missing or twice."""
    rows = []
    for queue in sorted({*covered, *ends}):
        found = covered.get(queue, Coverage())
        # Of a queue that no broker has any more, the archive is all there is.
        last = found.ranges[-1][1] if found.ranges else 0
        end = int(ends[queue].end) if queue in ends else last
        least = int(ends[queue].least) if queue in ends else end
        begin = min(begins.get(queue, end), end)
        missing = found.missing(begin, end)
        rows.append(
            {
                **queue._asdict(),
                "begin": begin,
                "verified_to": end,
                "rows": found.rows,
                "missing": span(missing),
                "twice": span(found.twice),
                "problems": [
                    *(_problem("missing", queue, each, least) for each in missing),
                    *(_problem("twice", queue, each, least) for each in found.twice),
                ],
            }
        )
    return rows


def _problem(kind: str, queue: Queue, where: tuple[int, int], least: int) -> dict[str, Any]:
    return {
        "problem": kind,
        **queue._asdict(),
        "first": where[0],
        "end": where[1],
        "still_in_topic": where[0] >= least,
    }


def _outcome(results: list[dict[str, Any]]) -> Outcome:
    queues = [queue for each in results for queue in each["queues"]]
    problems = [problem for queue in queues for problem in queue["problems"]]
    days = [{"topic": each["topic"], **day} for each in results for day in each["days"]]
    topics = [
        {
            **{name: each[name] for name in ("topic", "new_rows", "damaged", "table")},
            "rows": each["figures"]["rows"],
            "bytes": each["figures"]["bytes"],
            "missing": sum(queue["missing"] for queue in each["queues"]),
            "twice": sum(queue["twice"] for queue in each["queues"]),
        }
        for each in results
    ]
    new = sum(each["new_rows"] for each in topics)
    rows = sum(each["rows"] for each in topics)
    bad = sum(each["missing"] + each["twice"] + each["damaged"] for each in topics)
    archived = f"{counted(new, 'message')} more archived, {rows:,} in all"
    return Outcome(
        headline=f"{archived}: every one is there once"
        if not bad
        else f"{archived}: {bad:,} are missing, twice or damaged",
        ok=not bad,
        figures={
            "new_rows": new,
            "rows": rows,
            "missing": sum(each["missing"] for each in topics),
            "twice": sum(each["twice"] for each in topics),
            "damaged": sum(each["damaged"] for each in topics),
        },
        tables={
            "topics": pa.Table.from_pylist(topics, _TOPICS),
            "problems": pa.Table.from_pylist(problems, _PROBLEMS),
            "queues": pa.Table.from_pylist(queues, _QUEUES),
            "days": pa.Table.from_pylist(days, _DAYS),
        },
        plots=[
            plots.bars(
                "Messages archived, by topic",
                {each["topic"]: each["rows"] for each in topics},
                name_width=200,
            ),
            _over_days(results),
        ],
    )


def _over_days(results: list[dict[str, Any]]) -> str:
    known = [day["day"] for each in results for day in each["days"] if day["day"] is not None]
    first = min(known, default=datetime.now(UTC).date())
    series = [
        Series(
            each["topic"],
            [
                ((day["day"] - first).days * 86_400.0, float(day["rows"]))
                for day in each["days"]
                if day["day"] is not None
            ],
            number % plots.COLOURS,
        )
        for number, each in enumerate(results)
    ]
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()
    return plots.lines(
        "Messages archived, by the day on which they were stored",
        series,
        moment=lambda at_s: datetime.fromtimestamp(begin + at_s, UTC).strftime("%d %b"),
    )


def _read_begins(path: Path) -> Begins:
    try:
        kept = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return {
        Queue(topic, broker, int(queue_id)): begin
        for topic, brokers in kept.items()
        for broker, queues in brokers.items()
        for queue_id, begin in queues.items()
    }


def _write_begins(path: Path, begins: Begins) -> None:
    kept: dict[str, dict[str, dict[str, int]]] = {}
    for queue, begin in sorted(begins.items()):
        brokers = kept.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker, {})[str(queue.queue_id)] = begin
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(kept, indent=1))
    draft.replace(path)
