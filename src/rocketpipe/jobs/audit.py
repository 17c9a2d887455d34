"""Every acknowledged message is there once, in order.

By the topic alone: every offset of a queue, from its oldest to where it ended when the run began,
has one message, no message comes before its predecessor in the log, and no id is there twice. By a
ledger (`rocketpipe.jobs.ledger`): every row of it has its message, one, where the acknowledgement
said, and in the order of the producer.

    missing        offsets of a queue that no message has
    twice          an offset, or an id, that two messages have
    out of order   a message that stands before its predecessor in the log
    lost           acknowledged, and not in the topic
    stored twice   acknowledged once, and there more than once
    elsewhere      acknowledged at a place where it is not
    overtaken      sent later than the one before it in the queue, by the same producer

Ledger rows whose place is older than what the topic still has are counted as aged out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.blocking import Admin
from rocketpipe.client.admin.findings import counted
from rocketpipe.jobs import plots
from rocketpipe.jobs.context import JobContext
from rocketpipe.jobs.ledger import read_ledger
from rocketpipe.jobs.outcome import Outcome
from rocketpipe.jobs.queue_runs import COLUMNS, Coverage, Queue, coverages, span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rocketpipe.client.admin.offsets import Ends

#: So many problems of a kind are listed; all of them are counted.
MOST_LISTED: Final = 1_000

_QUEUES: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        *(
            (name, pa.int64())
            for name in ("first", "end", "messages", "missing", "twice", "out_of_order")
        ),
    ]
)
_PROBLEMS: Final = pa.schema(
    [
        ("problem", pa.string()),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("message", pa.string()),
        ("detail", pa.string()),
    ]
)
_COUNTS: Final = pa.schema([("what", pa.string()), ("count", pa.int64())])


def work(context: JobContext) -> Outcome:
    """Audit topics.

    Raises:
        ConfigError: If the ledger is none.
        RocketPipeError: If a server does not answer.
    """
    topics = context.options.topics
    with Admin(context.name_server) as admin:
        ends = {
            Queue(topic, queue.broker_name, queue.queue_id): each
            for topic in topics
            for queue, each in admin.offsets.ends(topic).items()
        }
    with context.session() as spark:
        columns = ", ".join([*COLUMNS, "message_id", "keys"])
        messages = context.messages(
            spark, list(topics), columns, endingOffsets=_ending(ends), onGap="skip"
        ).persist()
        try:
            context.tell("reading the topics")
            queues = audited(coverages(messages), ends)
            counts, problems = _by_id(messages)
            if context.options.ledger is not None:
                context.tell("comparing with the ledger")
                more = _by_ledger(spark, context, messages, ends)
                counts |= more[0]
                problems += more[1]
        finally:
            messages.unpersist()
    return _outcome(queues, counts, problems)


def _ending(ends: Mapping[Queue, Ends]) -> str:
    found: dict[str, dict[str, dict[str, int]]] = {}
    for queue, each in ends.items():
        brokers = found.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker, {})[str(queue.queue_id)] = int(each.end)
    return json.dumps(found)


def audited(covered: Mapping[Queue, Coverage], ends: Mapping[Queue, Ends]) -> list[dict[str, Any]]:
    """A row for each queue, with the problems of its offsets.

    What ages out while the topic is read is not missing: a queue counts from the first message
    that was there.
    """
    rows = []
    for queue, each in sorted(ends.items()):
        found = covered.get(queue, Coverage())
        first = found.ranges[0][0] if found.ranges else int(each.end)
        missing = found.missing(first, int(each.end))
        where = {**queue._asdict(), "message": None}
        rows.append(
            {
                **queue._asdict(),
                "first": first,
                "end": int(each.end),
                "messages": found.rows,
                "missing": span(missing),
                "twice": span(found.twice),
                "out_of_order": found.disordered,
                "problems": [
                    {"problem": kind, **where, "queue_offset": begin, "detail": f"up to {end - 1}"}
                    for kind, ranges in (("missing", missing), ("twice", found.twice))
                    for begin, end in ranges
                ],
            }
        )
    return rows


def _by_id(messages: DataFrame) -> tuple[dict[str, int], list[dict[str, Any]]]:
    from pyspark.sql import functions as f

    again = (
        messages.groupBy("topic", "message_id")
        .agg(f.count("*").alias("copies"), *_first_place(f))
        .where("copies > 1")
        .select("*", f.expr("concat('there ', copies, ' times')").alias("detail"))
    )
    return _listed({"twice": again.withColumn("message", f.col("message_id"))})


def _by_ledger(
    spark: SparkSession, context: JobContext, messages: DataFrame, ends: Mapping[Queue, Ends]
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Hold a ledger against the messages: counts by kind, and the problems."""
    from pyspark.sql import functions as f

    assert context.options.ledger is not None
    ledger = read_ledger(spark, context.options.ledger, context.options.topics)
    names = messages.select(
        "topic", f.expr("concat('id:', message_id)").alias("name"), *_PLACE
    ).unionByName(
        messages.select("topic", f.explode("keys").alias("one_key"), *_PLACE).select(
            "topic", f.expr("concat('key:', one_key)").alias("name"), *_PLACE
        )
    )
    place = f.struct(*_PLACE)
    found = names.groupBy("topic", "name").agg(f.collect_set(place).alias("places"))
    said = f.struct(*(f.col(each) for each in _PLACE))
    has_place = f.expr("queue_id IS NOT NULL AND queue_offset IS NOT NULL")
    least = spark.createDataFrame(
        [(*queue, int(each.least)) for queue, each in ends.items()],
        "topic STRING, broker STRING, queue_id INT, least BIGINT",
    )
    rows = (
        ledger.withColumn(
            "name", f.expr("coalesce(concat('id:', message_id), concat('key:', key))")
        )
        .withColumn("message", f.expr("coalesce(message_id, key)"))
        .join(found, ["topic", "name"], "left")
        .join(f.broadcast(least), ["topic", "broker", "queue_id"], "left")
        .withColumn("copies", f.expr("coalesce(size(places), 0)"))
        .withColumn("aged", has_place & f.expr("queue_offset < least"))
        .withColumn("said", said)
        .persist()
    )
    try:
        there = rows.where("copies > 0").withColumn("at", f.expr("places[0]"))
        named = there.where("broker IS NOT NULL").where(has_place)
        kinds = {
            "lost": rows.where("copies = 0 AND NOT coalesce(aged, false)").withColumn(
                "detail", f.lit("acknowledged, and not in the topic")
            ),
            "stored twice": there.where("copies > 1").withColumn(
                "detail", f.expr("concat('there ', copies, ' times')")
            ),
            "elsewhere": named.where("NOT array_contains(places, said)").withColumn(
                "detail",
                f.expr("concat('it is at ', at.broker, ' ', at.queue_id, ' ', at.queue_offset)"),
            ),
            "overtaken": _overtaken(there),
        }
        counts, problems = _listed(kinds)
        counts["ledger rows"] = rows.count()
        counts["aged out"] = rows.where("copies = 0 AND aged").count()
    finally:
        rows.unpersist()
    return counts, problems


_PLACE: Final = ("broker", "queue_id", "queue_offset")


def _overtaken(there: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    placed = there.where("sequence IS NOT NULL").select(
        "topic", "producer", "sequence", "message", "at.*"
    )
    queue = Window.partitionBy("topic", "broker", "queue_id", "producer").orderBy("sequence")
    # The furthest that any earlier one came, so that a single straggler is one finding.
    before = f.max("queue_offset").over(queue.rowsBetween(Window.unboundedPreceding, -1))
    return (
        placed.withColumn("before", before)
        .where("queue_offset < before")
        .withColumn("detail", f.expr("concat('sequence ', sequence, ' is before ', before)"))
    )


def _first_place(f: Any) -> list[Any]:
    return [f.min_by(name, "log_offset").alias(name) for name in _PLACE]


def _listed(kinds: Mapping[str, DataFrame]) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """How many there are of each kind, and the first of them."""
    counts, problems = {}, []
    for kind, frame in kinds.items():
        wanted = ["topic", *_PLACE, "message", "detail"]
        first = frame.select(*wanted).limit(MOST_LISTED + 1).toArrow().to_pylist()
        # Only where there are many is it worth a second look to know how many.
        counts[kind] = len(first) if len(first) <= MOST_LISTED else frame.count()
        problems += [{"problem": kind, **each} for each in first[:MOST_LISTED]]
    return counts, problems


def _outcome(
    queues: list[dict[str, Any]], counts: dict[str, int], problems: Iterable[dict[str, Any]]
) -> Outcome:
    by_offset = [problem for queue in queues for problem in queue["problems"]]
    total = sum(queue["messages"] for queue in queues)
    bad = {
        "missing": sum(queue["missing"] for queue in queues),
        "twice": sum(queue["twice"] for queue in queues) + counts.pop("twice"),
        "out of order": sum(queue["out_of_order"] for queue in queues),
    }
    neutral: dict[str, int] = {
        name: counts.pop(name) for name in ("ledger rows", "aged out") if name in counts
    }
    bad |= counts
    wrong = sum(bad.values())
    checked = f"{counted(total, 'message')} in {counted(len(queues), 'queue')}"
    if "ledger rows" in neutral:
        checked += f", held against {counted(neutral['ledger rows'], 'row')} of the ledger"
    kinds = ", ".join(f"{count:,} {name}" for name, count in bad.items() if count)
    rows = [{"what": name, "count": count} for name, count in (bad | neutral).items()]
    return Outcome(
        headline=f"{checked}: {kinds}" if wrong else f"{checked}: each is there once, in order",
        ok=not wrong,
        figures={"messages": total, "problems": wrong, **neutral},
        tables={
            "counts": pa.Table.from_pylist(rows, _COUNTS),
            "problems": pa.Table.from_pylist([*by_offset, *problems], _PROBLEMS),
            "queues": pa.Table.from_pylist(queues, _QUEUES),
        },
        plots=[
            plots.bars(
                "Messages by queue",
                {
                    f"{each['topic']} {each['broker']} {each['queue_id']}": each["messages"]
                    for each in queues
                },
                name_width=240,
            )
        ],
    )
