"""Queues and keys that have more than others, who is slow, and when a group will have caught up.

Rates are measured over the run: how far each queue, and each group in it, comes between the first
look and the last one. A group that consumes faster than is produced has caught up after
``lag / (consumed - produced)`` seconds; one that does not, never does. Keys are counted over the
newest messages of each queue, by Spark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.blocking import Admin, NotOnline
from rocketpipe.client.admin.findings import counted
from rocketpipe.jobs import plots
from rocketpipe.jobs.context import JobContext
from rocketpipe.jobs.outcome import Outcome
from rocketpipe.jobs.queue_runs import Queue
from rocketpipe.model.names import is_retry_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketpipe.client.admin.offsets import Ends

#: So many keys of a topic are told.
TOP_KEYS: Final = 50
#: Slow is who handles less than this share of what the others of the group do.
SLOW: Final = 0.5
_LOOKS: Final = 10

_QUEUES: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        ("messages", pa.int64()),
        ("share", pa.float64()),
        ("times_the_mean", pa.float64()),
        ("produced_a_second", pa.float64()),
    ]
)
_LAG: Final = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        ("lag", pa.int64()),
        ("consumed_a_second", pa.float64()),
        ("produced_a_second", pa.float64()),
        ("caught_up_in_s", pa.float64()),
        ("client", pa.string()),
    ]
)
_MEMBERS: Final = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("client", pa.string()),
        ("queues", pa.int64()),
        ("lag", pa.int64()),
        ("consumed_a_second", pa.float64()),
        ("slow", pa.bool_()),
    ]
)
_GROUPS: Final = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("lag", pa.int64()),
        ("consumed_a_second", pa.float64()),
        ("produced_a_second", pa.float64()),
        ("caught_up_in_s", pa.float64()),
    ]
)
_KEYS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.string()),
        ("messages", pa.int64()),
        ("share", pa.float64()),
        ("queues", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Look:
    """How far everything was at a moment."""

    at_s: float
    #: Where each queue that a group reads ended, and how far the group was.
    places: Mapping[tuple[str, Queue], tuple[int, int]]
    ends: Mapping[Queue, Ends]


def work(context: JobContext) -> Outcome:
    """Look at topics and groups for a while, and count keys.

    Raises:
        RocketPipeError: If a server does not answer.
    """
    options = context.options
    with Admin(context.name_server) as admin:
        groups = list(options.groups) or _groups(admin, options.topics)
        topics = list(options.topics) or _topics(admin, groups)
        context.tell(f"measuring for {options.measure_ms / 1000:g} s")
        looks = [_look(admin, groups, topics)]
        begin = time.monotonic()
        for number in range(_LOOKS):
            due = begin + options.measure_ms / 1000 * (number + 1) / _LOOKS
            context.stop.wait(max(0.0, due - time.monotonic()))
            looks.append(_look(admin, groups, topics))
        clients = _clients(admin, groups, topics)
    with context.session() as spark:
        keys = _keys(context, spark, looks[-1].ends)
    return _outcome(looks, clients, keys)


def _groups(admin: Admin, topics: Sequence[str]) -> list[str]:
    if not topics:
        return list(admin.groups.names())
    return sorted({group for topic in topics for group in admin.progress.groups_of(topic)})


def _topics(admin: Admin, groups: Sequence[str]) -> list[str]:
    found = {topic for group in groups for topic in admin.progress.topics_of(group)}
    known = set(admin.topics.names())
    return sorted(topic for topic in found if topic in known and not is_retry_topic(topic))


def _look(admin: Admin, groups: Sequence[str], topics: Sequence[str]) -> Look:
    places = {}
    for group in groups:
        for each in admin.progress.of_group(group).queues:
            if each.queue.topic in topics:
                queue = Queue(each.queue.topic, each.queue.broker_name, each.queue.queue_id)
                places[group, queue] = (int(each.committed), int(each.end))
    ends = {
        Queue(topic, queue.broker_name, queue.queue_id): each
        for topic in topics
        for queue, each in admin.offsets.ends(topic).items()
    }
    return Look(time.monotonic(), places, ends)


def _clients(
    admin: Admin, groups: Sequence[str], topics: Sequence[str]
) -> dict[tuple[str, Queue], str]:
    """Who reads which queue of which group, as far as somebody does."""
    found = {}
    for group in groups:
        for topic in topics:
            try:
                places = admin.clients.places(group, topic)
            except NotOnline:
                continue
            for client, queues in places.items():
                for each in queues:
                    queue = Queue(each.topic, each.broker_name, each.queue_id)
                    found[group, queue] = client
    return found


def _keys(
    context: JobContext, spark: SparkSession, ends: Mapping[Queue, Ends]
) -> list[dict[str, Any]]:
    """The keys that most of the newest messages have."""
    begin: dict[str, dict[str, dict[str, int]]] = {}
    end: dict[str, dict[str, dict[str, int]]] = {}
    for queue, each in ends.items():
        first = max(int(each.least), int(each.end) - context.options.sample)
        for offsets, value in ((begin, first), (end, int(each.end))):
            brokers = offsets.setdefault(queue.topic, {})
            brokers.setdefault(queue.broker, {})[str(queue.queue_id)] = value
    if not begin:
        return []
    from pyspark.sql import functions as f

    messages = context.messages(
        spark,
        sorted(begin),
        "topic, broker, queue_id, keys",
        startingOffsets=json.dumps(begin),
        endingOffsets=json.dumps(end),
        onGap="skip",
    )
    keys = (
        messages.select("topic", "broker", "queue_id", f.explode("keys").alias("key"))
        .groupBy("topic", "key")
        .agg(
            f.count("*").alias("messages"),
            f.count_distinct("broker", "queue_id").alias("queues"),
        )
        .persist()
    )
    found = []
    try:
        for topic in sorted(begin):
            most = keys.where(f.col("topic") == topic).orderBy(f.desc("messages"), "key")
            read = _span(begin[topic], end[topic])
            rows = most.limit(TOP_KEYS).toArrow().to_pylist()
            found += [{**row, "share": row["messages"] / read} for row in rows]
    finally:
        keys.unpersist()
    return found


def _span(begin: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]) -> int:
    return sum(
        end[broker][queue] - first
        for broker, queues in begin.items()
        for queue, first in queues.items()
    )


def caught_up_s(lag: int, consumed: float, produced: float) -> float | None:
    """After how many seconds nothing is left to read, at these rates; None: never."""
    if not lag:
        return 0.0
    return lag / (consumed - produced) if consumed > produced else None


def lag_rows(
    first: Look, last: Look, clients: Mapping[tuple[str, Queue], str]
) -> list[dict[str, Any]]:
    """A row for each queue of each group, those with most to read first."""
    passed = max(last.at_s - first.at_s, 1e-9)
    rows = []
    for (group, queue), (committed, end) in last.places.items():
        before = first.places.get((group, queue), (committed, end))
        consumed, produced = (committed - before[0]) / passed, (end - before[1]) / passed
        lag = max(0, end - committed)
        rows.append(
            {
                "group": group,
                **queue._asdict(),
                "lag": lag,
                "consumed_a_second": consumed,
                "produced_a_second": produced,
                "caught_up_in_s": caught_up_s(lag, consumed, produced),
                "client": clients.get((group, queue)),
            }
        )
    return sorted(rows, key=lambda row: (-row["lag"], row["group"], row["topic"], row["queue_id"]))


def group_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each group and topic; it has caught up when its slowest queue has."""
    found = []
    for group, topic in dict.fromkeys((row["group"], row["topic"]) for row in rows):
        its = [row for row in rows if (row["group"], row["topic"]) == (group, topic)]
        times = [row["caught_up_in_s"] for row in its]
        found.append(
            {
                "group": group,
                "topic": topic,
                "lag": sum(row["lag"] for row in its),
                "consumed_a_second": sum(row["consumed_a_second"] for row in its),
                "produced_a_second": sum(row["produced_a_second"] for row in its),
                "caught_up_in_s": None if None in times else max(times),
            }
        )
    return found


def member_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each client of a group; slow is who has a lag, and does less than the others."""
    found = []
    for group, topic in dict.fromkeys((row["group"], row["topic"]) for row in rows):
        by_client: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            if (row["group"], row["topic"]) == (group, topic) and row["client"] is not None:
                by_client.setdefault(row["client"], []).append(row)
        rates = {
            client: sum(row["consumed_a_second"] for row in its)
            for client, its in by_client.items()
        }
        for client, its in sorted(by_client.items()):
            lag = sum(row["lag"] for row in its)
            others = [rate for other, rate in rates.items() if other != client]
            found.append(
                {
                    "group": group,
                    "topic": topic,
                    "client": client,
                    "queues": len(its),
                    "lag": lag,
                    "consumed_a_second": rates[client],
                    "slow": bool(lag and others and rates[client] < SLOW * median(others)),
                }
            )
    return found


def queue_rows(first: Look, last: Look) -> list[dict[str, Any]]:
    """A row for each queue: what it has, beside the others of its topic."""
    passed = max(last.at_s - first.at_s, 1e-9)
    totals: dict[str, list[int]] = {}
    for queue, each in last.ends.items():
        totals.setdefault(queue.topic, []).append(each.end - each.least)
    rows = []
    for queue, each in sorted(last.ends.items()):
        messages, total = each.end - each.least, sum(totals[queue.topic])
        before = first.ends.get(queue, each)
        rows.append(
            {
                **queue._asdict(),
                "messages": messages,
                "share": messages / total if total else 0.0,
                "times_the_mean": messages * len(totals[queue.topic]) / total if total else 0.0,
                "produced_a_second": (each.end - before.end) / passed,
            }
        )
    return rows


def _outcome(
    looks: Sequence[Look], clients: Mapping[tuple[str, Queue], str], keys: list[dict[str, Any]]
) -> Outcome:
    rows = lag_rows(looks[0], looks[-1], clients)
    groups, members = group_rows(rows), member_rows(rows)
    queues = queue_rows(looks[0], looks[-1])
    never = [row for row in groups if row["caught_up_in_s"] is None]
    slow = [row for row in members if row["slow"]]
    lag = sum(row["lag"] for row in groups)
    worst = max((row["times_the_mean"] for row in queues), default=0.0)
    last = max((row["caught_up_in_s"] for row in groups if row not in never), default=0.0)
    until = (
        f"{counted(len(never), 'group')} will not have caught up at this rate"
        if never
        else ("all are up to date" if not lag else f"all will have caught up in {last:,.0f} s")
    )
    return Outcome(
        headline=f"{counted(lag, 'message')} to be read: {until}",
        ok=not never and not slow,
        figures={
            "lag": lag,
            "never_caught_up": len(never),
            "slow_clients": len(slow),
            "fullest_queue_times_the_mean": round(worst, 2),
        },
        tables={
            "groups": pa.Table.from_pylist(groups, _GROUPS),
            "lag": pa.Table.from_pylist(rows, _LAG),
            "members": pa.Table.from_pylist(members, _MEMBERS),
            "queues": pa.Table.from_pylist(queues, _QUEUES),
            "keys": pa.Table.from_pylist(keys, _KEYS),
        },
        plots=[
            _lag_plot(looks),
            plots.bars("Messages by queue", _named(queues, "messages"), name_width=240),
            plots.bars(
                "Messages by key, of the newest",
                {f"{row['topic']} {row['key']}": row["messages"] for row in keys[:20]},
                name_width=240,
            ),
        ],
    )


def _named(rows: Sequence[Mapping[str, Any]], value: str) -> dict[str, int]:
    return {f"{row['topic']} {row['broker']} {row['queue_id']}": row[value] for row in rows}


def _lag_plot(looks: Sequence[Look]) -> str:
    names = dict.fromkeys((group, queue.topic) for look in looks for group, queue in look.places)
    series = []
    for number, (group, topic) in enumerate(list(names)[: plots.COLOURS]):
        points = [
            (
                look.at_s - looks[0].at_s,
                float(
                    sum(
                        max(0, end - committed)
                        for (reader, queue), (committed, end) in look.places.items()
                        if (reader, queue.topic) == (group, topic)
                    )
                ),
            )
            for look in looks
        ]
        series.append(plots.Series(f"{group}: {topic}", points, number))
    return plots.lines("Messages that each group has still to read", series)
