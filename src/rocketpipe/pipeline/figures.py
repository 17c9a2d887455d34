"""What streaming queries tell of their batches, as figures and as Prometheus reads them.

Where the words come from does not matter: a listener of a session, or Spark's event log. Lag is as
that of a consumer group: the topics' ends when the batch was planned, less where it ended.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.metrics import Family, Kind, Series
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

if TYPE_CHECKING:
    from rocketpipe.pipeline.planning.offsets import StreamOffset

#: What a query is called that has no name.
_NAMELESS: Final = "query-"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, as Spark tells of it."""

    query: str
    number: int
    rows: int
    took_ms: int
    #: Messages that were there and were not read, by topic; empty if no topic was read.
    lag: Mapping[str, int]
    state_rows: int
    state_bytes: int
    #: Rows that came too late for the watermark.
    late_rows: int
    at_ms: int

    def line(self) -> str:
        """What the log says of it."""
        words = [f"batch query={self.query} number={self.number} rows={self.rows}"]
        words.append(f"took_ms={self.took_ms}")
        if self.lag:
            words.append(f"lag={sum(self.lag.values())}")
        if self.state_rows or self.late_rows:
            words.append(f"state_rows={self.state_rows} late_rows={self.late_rows}")
        return " ".join(words)


@dataclass(slots=True)
class QueryFigures:
    """All batches of a query together, and the last one."""

    rows: int = 0
    batches: int = 0
    took_ms: int = 0
    late_rows: int = 0
    failures: int = 0
    is_active: bool = True
    #: Why it ended, if it failed.
    trouble: str | None = None
    last: Batch | None = None
    lag: dict[str, int] = field(default_factory=dict)


class Figures:
    """The figures of queries, by name; threads may tell and ask at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, QueryFigures] = {}

    def started(self, query: str) -> None:
        """A query has started, or started again."""
        with self._lock:
            figures = self._queries.setdefault(query, QueryFigures())
            figures.is_active, figures.trouble = True, None

    def take(self, batch: Batch) -> None:
        """A query has told of a batch."""
        with self._lock:
            figures = self._queries.setdefault(batch.query, QueryFigures())
            figures.rows += batch.rows
            figures.batches += 1
            figures.took_ms += batch.took_ms
            figures.late_rows += batch.late_rows
            figures.last = batch
            figures.lag = dict(batch.lag) or figures.lag

    def ended(self, query: str, trouble: str | None) -> None:
        """A query has ended; ``trouble`` is what it failed with, if it did."""
        with self._lock:
            figures = self._queries.setdefault(query, QueryFigures())
            figures.is_active, figures.trouble = False, trouble
            figures.failures += trouble is not None

    def problem(self) -> str | None:
        """What keeps a query from its work, if something does."""
        with self._lock:
            for name, figures in self._queries.items():
                if figures.trouble is not None:
                    return f"query {name} failed: {figures.trouble}"
        return None

    def families(self) -> Iterator[Family]:
        """All of it, for Prometheus."""
        with self._lock:
            queries = list(self._queries.items())
        for name, kind, text, attribute in _OF_QUERY:
            yield Family(
                f"rocketpipe_query_{name}",
                kind,
                text,
                [Series(float(attribute(each)), {"query": query}) for query, each in queries],
            )
        for name, kind, text, attribute in _OF_BATCH:
            yield Family(
                f"rocketpipe_query_{name}",
                kind,
                text,
                [
                    Series(float(attribute(each.last)), {"query": query})
                    for query, each in queries
                    if each.last is not None
                ],
            )
        yield Family(
            "rocketpipe_query_lag",
            Kind.GAUGE,
            "Messages of a topic that were not read when the last batch was planned.",
            [
                Series(lag, {"query": query, "topic": topic})
                for query, each in queries
                for topic, lag in each.lag.items()
            ],
        )


_OF_QUERY: Final[Any] = (
    ("active", Kind.GAUGE, "Whether the query runs.", lambda each: each.is_active),
    ("failures_total", Kind.COUNTER, "How often it failed.", lambda each: each.failures),
    ("batches_total", Kind.COUNTER, "Batches that are done.", lambda each: each.batches),
    ("rows_total", Kind.COUNTER, "Rows that batches read.", lambda each: each.rows),
    (
        "batch_seconds_total",
        Kind.COUNTER,
        "Time that batches took, in seconds.",
        lambda each: each.took_ms / 1000,
    ),
    (
        "late_rows_total",
        Kind.COUNTER,
        "Rows that came too late for the watermark.",
        lambda each: each.late_rows,
    ),
)
_OF_BATCH: Final[Any] = (
    ("last_batch", Kind.GAUGE, "Number of the last batch.", lambda each: each.number),
    ("last_batch_rows", Kind.GAUGE, "Rows of the last batch.", lambda each: each.rows),
    (
        "last_batch_seconds",
        Kind.GAUGE,
        "What the last batch took, in seconds.",
        lambda each: each.took_ms / 1000,
    ),
    (
        "last_batch_timestamp_seconds",
        Kind.GAUGE,
        "When the last batch began, in seconds since 1970.",
        lambda each: each.at_ms / 1000,
    ),
    ("state_rows", Kind.GAUGE, "Rows that Spark keeps as state.", lambda each: each.state_rows),
    (
        "state_bytes",
        Kind.GAUGE,
        "Memory that the state takes, in bytes.",
        lambda each: each.state_bytes,
    ),
)


def batch_of(progress: Mapping[str, Any], query: str | None = None) -> Batch | None:
    """The batch that a query's progress tells of; None if it only says that nothing came.

    Of several reads of one topic the one that is behind tells the lag.
    """
    durations = progress.get("durationMs") or {}
    if "addBatch" not in durations:
        return None
    sources = list(progress.get("sources") or ())
    operators = list(progress.get("stateOperators") or ())
    lag: dict[str, int] = {}
    for source in sources:
        for topic, behind in lag_of(source).items():
            lag[topic] = max(lag.get(topic, 0), behind)
    return Batch(
        query=query or name_of(progress.get("name"), progress.get("id")),
        number=int(progress.get("batchId", 0)),
        rows=sum(int(source.get("numInputRows") or 0) for source in sources),
        took_ms=int(progress.get("batchDuration") or durations.get("triggerExecution") or 0),
        lag=lag,
        state_rows=_sum(operators, "numRowsTotal"),
        state_bytes=_sum(operators, "memoryUsedBytes"),
        late_rows=_sum(operators, "numRowsDroppedByWatermark"),
        at_ms=_ms(progress.get("timestamp")),
    )


def name_of(name: object, query_id: object) -> str:
    """What a query is called; one without a name by the beginning of its id."""
    return str(name) if name else f"{_NAMELESS}{str(query_id)[:8]}"


def ends_of(offset: object) -> dict[MessageQueue, QueueOffset]:
    """Where a read of topics ended; empty for other sources."""
    found = _offset(offset)
    return dict(found.ends) if found else {}


def lag_of(source: Mapping[str, Any]) -> dict[str, int]:
    """By topic, what a source had not read when its batch was planned; empty if not known."""
    read, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
    if read is None or latest is None:
        return {}
    lag: dict[str, int] = dict.fromkeys({queue.topic for queue in latest.ends}, 0)
    for queue, end in latest.ends.items():
        begin = read.ends.get(queue)
        if begin is None:
            begin = QueueOffset(
                max(0, latest.oldest[queue].offset if queue in latest.oldest else 0)
            )
        lag[queue.topic] += max(0, end - begin)
    return lag


def _offset(value: object) -> StreamOffset | None:
    """An offset of ours; listeners are given JSON, the event log has it as text."""
    # Commands that tell of runs are there without Spark too.
    from rocketpipe.pipeline.planning.offsets import StreamOffset, UnreadableOffset

    try:
        return StreamOffset.from_json(json.loads(value) if isinstance(value, str) else value)
    except (ValueError, UnreadableOffset):
        return None


def _sum(operators: list[Mapping[str, Any]], name: str) -> int:
    return sum(int(each.get(name) or 0) for each in operators)


def _ms(timestamp: object) -> int:
    try:
        when = datetime.fromisoformat(str(timestamp))
    except ValueError:
        return 0
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
