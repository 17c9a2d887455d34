"""What is known of a cluster beside its topics, as tables under ``rocketpipe``.

    groups        a row for each group
    lag           a row for each queue in which a group has a place
    delayed       messages that wait for their moment
    dead_letters  messages that groups have given up, of all groups
    traces        what clients told of messages' ways, a row for each step

The first three are asked of the brokers by this process; the others are topics, which Spark reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.blocking import Admin
from rocketpipe.errors import NoRoute, RecordError
from rocketpipe.model import properties, trace
from rocketpipe.model.names import DLQ_PREFIX, TRACE_TOPIC, is_retry_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The namespace that these tables are in.
NAMESPACE: Final = "rocketpipe"

_TIME: Final = pa.timestamp("us", tz="UTC")
_GROUPS: Final = pa.schema(
    [("group", pa.string()), ("members", pa.int32()), ("topics", pa.int32()), ("lag", pa.int64())]
)
_LAG: Final = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        ("committed", pa.int64()),
        ("end_offset", pa.int64()),
        ("lag", pa.int64()),
    ]
)
_DELAYED: Final = pa.schema(
    [("due", _TIME), ("topic", pa.string()), ("message_id", pa.string()), ("broker", pa.string())]
)
_DEAD: Final = (
    f"substring(topic, {len(DLQ_PREFIX) + 1}) AS `group`",
    f"coalesce(properties['{properties.DLQ_ORIGIN_TOPIC}'], "
    f"properties['{properties.RETRY_TOPIC}']) AS origin",
    "reconsume_times AS attempts",
    f"properties['{properties.DLQ_REASON}'] AS reason",
    "broker",
    "queue_id",
    "queue_offset",
    "store_timestamp",
    "message_id",
    "keys",
    "tags",
    "properties",
    "body",
)
_DEAD_COLUMNS: Final = (
    "topic, broker, queue_id, queue_offset, store_timestamp, message_id, keys, tags, properties, "
    "reconsume_times, body"
)
_DEAD_TYPES: Final = (
    "`group` STRING, origin STRING, attempts INT, reason STRING, broker STRING, queue_id INT, "
    "queue_offset BIGINT, store_timestamp TIMESTAMP, message_id STRING, keys ARRAY<STRING>, "
    "tags STRING, properties MAP<STRING, STRING>, body BINARY"
)
_TRACE_FIELDS: Final = {
    "group": "STRING",
    "topic": "STRING",
    "message_id": "STRING",
    "request_id": "STRING",
    "tags": "STRING",
    "keys": "STRING",
    "store_host": "STRING",
    "body_bytes": "BIGINT",
    "cost_ms": "BIGINT",
    "retries": "INT",
    "success": "BOOLEAN",
    "outcome": "STRING",
    "transaction_id": "STRING",
    "state": "STRING",
}
_TRACE_TYPES: Final = "step STRING, time TIMESTAMP, " + ", ".join(
    f"`{name}` {kind}" for name, kind in _TRACE_FIELDS.items()
)
_STEPS: Final = {
    trace.Published: "published",
    trace.Consuming: "consuming",
    trace.Consumed: "consumed",
    trace.TransactionEnded: "transaction ended",
    trace.Recalled: "recalled",
}
#: So many waiting messages are asked for; the table has no more.
_MOST_DELAYED: Final = 1_000_000

#: Reads topics: ``read(topics, columns)``.
Read = Callable[[list[str], str], "DataFrame"]


class SystemTables:
    """Makes frames of what is known of a cluster."""

    def __init__(self, spark: SparkSession, admin: Admin, read: Read) -> None:
        self._spark = spark
        self._admin = admin
        self._read = read

    def frame(self, name: str, topics: Iterable[str]) -> DataFrame:
        """The table of this name, which is one of ``NAMES``; ``topics`` are all there are.

        Raises:
            RocketPipeError: If a server does not answer.
        """
        if name == "dead_letters":
            return self._dead_letters([each for each in topics if each.startswith(DLQ_PREFIX)])
        if name == "traces":
            return self._traces(TRACE_TOPIC in set(topics))
        gather, schema = _GATHERED[name]
        rows = pa.Table.from_pylist(list(gather(self._admin)), schema)
        return self._spark.createDataFrame(rows)

    def _dead_letters(self, topics: list[str]) -> DataFrame:
        if not topics:
            return self._spark.createDataFrame([], _DEAD_TYPES)
        return self._read(topics, _DEAD_COLUMNS).selectExpr(*_DEAD)

    def _traces(self, is_there: bool) -> DataFrame:
        if not is_there:
            return self._spark.createDataFrame([], _TRACE_TYPES)
        return self._read([TRACE_TOPIC], "body").mapInArrow(_trace_batches, _TRACE_TYPES)


def _groups(admin: Admin) -> Iterator[dict[str, Any]]:
    for name in admin.groups.names():
        progress = admin.progress.of_group(name)
        topics = {each.queue.topic for each in progress.queues}
        yield {
            "group": name,
            "members": len(admin.groups.members(name)),
            "topics": sum(not is_retry_topic(topic) for topic in topics),
            "lag": progress.lag if topics else None,
        }


def _lag(admin: Admin) -> Iterator[dict[str, Any]]:
    for name in admin.groups.names():
        for topic in admin.progress.topics_of(name):
            try:
                places = admin.offsets.known_of_group(name, topic)
            except NoRoute:
                continue
            for queue, place in places.items():
                yield {
                    "group": name,
                    "topic": topic,
                    "broker": queue.broker_name,
                    "queue_id": queue.queue_id,
                    "committed": place and place.committed,
                    "end_offset": place and place.end,
                    "lag": place and place.lag,
                }


def _delayed(admin: Admin) -> Iterator[dict[str, Any]]:
    for each in admin.waiting.timed(limit=_MOST_DELAYED):
        yield {
            "due": each.due_ms * 1000,
            "topic": each.topic,
            "message_id": each.message_id,
            "broker": each.broker,
        }


_GATHERED: Final[dict[str, tuple[Callable[[Admin], Iterator[dict[str, Any]]], pa.Schema]]] = {
    "groups": (_groups, _GROUPS),
    "lag": (_lag, _LAG),
    "delayed": (_delayed, _DELAYED),
}
#: Every table there is in the namespace.
NAMES: Final = ("groups", "lag", "dead_letters", "traces", "delayed")


def _trace_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Bodies of trace messages as rows, in Spark's tasks."""
    types = {"STRING": pa.string(), "INT": pa.int32(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_()}
    schema = pa.schema(
        [
            ("step", pa.string()),
            ("time", _TIME),
            *((name, types[kind]) for name, kind in _TRACE_FIELDS.items()),
        ]
    )
    for batch in batches:
        rows = [row for body in batch.column(0).to_pylist() for row in trace_rows(body or b"")]
        yield pa.RecordBatch.from_pylist(rows, schema)


def trace_rows(body: bytes) -> list[dict[str, Any]]:
    """What one trace message tells; nothing if it cannot be read."""
    try:
        records = trace.decode(body.decode())
    except (RecordError, UnicodeDecodeError):
        return []
    return [_trace_row(record) for record in records]


def _trace_row(record: trace.TraceRecord) -> dict[str, Any]:
    row = {name: getattr(record, name, None) for name in _TRACE_FIELDS}
    outcome = row["outcome"]
    return {
        **row,
        "step": _STEPS[type(record)],
        "time": None if record.time_ms is None else record.time_ms * 1000,
        "outcome": None if outcome is None else outcome.name.lower(),
    }
