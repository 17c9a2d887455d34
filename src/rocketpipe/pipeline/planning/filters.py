"""What a query asks of the rows, as far as it saves reading them.

Spark hands over the conditions of a WHERE that are all to hold. Each that tells something of topic,
queue, offset, store time or tag narrows what is read. Those that say exactly which queues and
offsets are meant need no second look, and Spark shows them as pushed; the others stay with Spark,
which looks at every row again. So a condition that is not understood here costs time and nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.pipeline.planning.ranges import QueueRange

#: A run of numbers: the first, and the one after the last.
Span = tuple[int, int]

ALL: Final[Span] = (0, 1 << 63)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows are needed; None where a column may have any value."""

    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    offsets: Span | None = None
    stored_ms: Span | None = None
    #: Rows with other tags, or none, are not needed.
    tags: frozenset[str] | None = None
    #: Rows that have none of these keys are not needed.
    keys: frozenset[str] | None = None

    def narrowed(self, filters: Iterable[object]) -> RowFilter:
        """What is needed if these filters of Spark's have to hold too."""
        wanted = self
        for condition in filters:
            column = list(getattr(condition, "attribute", ()))
            if len(column) == 1:
                value = getattr(condition, "value", None)
                wanted = wanted.where(type(condition).__name__, column[0], value)
        return wanted

    def where(self, operator: str, column: str, value: Any) -> RowFilter:
        """What is needed if this has to hold too; ``operator`` is called as Spark's filter is."""
        narrow = _NARROWING.get(operator)
        return self if narrow is None else narrow(self, column, value)

    @staticmethod
    def settles(condition: object) -> bool:
        """Whether `narrowed` leaves no row for which this filter of Spark's does not hold."""
        kind, column = type(condition).__name__, list(getattr(condition, "attribute", ()))
        value = getattr(condition, "value", None)
        match column:
            case ["topic" | "queue_id" | "queue_offset"] if kind == "IsNotNull":
                return True
            case ["topic"]:
                return kind in _EXACT and _all_are(str, [value])
            case ["queue_id"]:
                return kind in _EXACT and _all_are(int, [value])
            case ["queue_offset"]:
                return kind in _EXACT | _BOUNDS and _all_are(int, [value])
        return False

    def text(self) -> str:
        """For a log: what is asked for, column by column; empty if it is everything."""
        told = {
            "topic": self.topics and sorted(self.topics),
            "queue_id": self.queue_ids and sorted(self.queue_ids),
            "queue_offset": self.offsets and list(self.offsets),
            "stored_ms": self.stored_ms and list(self.stored_ms),
            "tags": self.tags and sorted(self.tags),
            "keys": self.keys and sorted(self.keys),
        }
        return " ".join(f"{name}:{value}" for name, value in told.items() if value)

    def wants_queue(self, topic: str, queue_id: int) -> bool:
        """Whether any row of this queue can be needed."""
        return (self.topics is None or topic in self.topics) and (
            self.queue_ids is None or queue_id in self.queue_ids
        )

    def cut(self, whole: QueueRange) -> QueueRange:
        """What of a range can be needed; perhaps nothing, with ``start`` at ``end``."""
        if not self.wants_queue(whole.queue.topic, whole.queue.queue_id):
            return replace(whole, end=whole.start)
        first, after = self.offsets or ALL
        start = min(max(whole.start, first), whole.end)
        end = max(min(whole.end, after), start)
        return QueueRange(whole.queue, QueueOffset(start), QueueOffset(end))


def _one_of(wanted: RowFilter, column: str, values: Iterable[Any]) -> RowFilter:
    known = [value for value in values if value is not None]
    match column:
        case "topic" if _all_are(str, known):
            return replace(wanted, topics=_common(wanted.topics, known))
        case "tags" if _all_are(str, known):
            return replace(wanted, tags=_common(wanted.tags, known))
        case "queue_id" if _all_are(int, known):
            return replace(wanted, queue_ids=_common(wanted.queue_ids, known))
        case "queue_offset" | "store_timestamp" if known:
            least = _at_least(wanted, column, min(known))
            return _at_most(least, column, max(known))
    return wanted


def _equal(wanted: RowFilter, column: str, value: Any) -> RowFilter:
    return _one_of(wanted, column, [value])


def _at_least(wanted: RowFilter, column: str, value: Any) -> RowFilter:
    number = _number(column, value)
    return wanted if number is None else _between(wanted, column, (number, ALL[1]))


def _above(wanted: RowFilter, column: str, value: Any) -> RowFilter:
    exact = column == "queue_offset" and isinstance(value, int)
    return _at_least(wanted, column, value + 1 if exact else value)


def _below(wanted: RowFilter, column: str, value: Any) -> RowFilter:
    exact = column == "queue_offset" and isinstance(value, int)
    return _at_most(wanted, column, value - 1 if exact else value)


def _at_most(wanted: RowFilter, column: str, value: Any) -> RowFilter:
    # Times are kept in milliseconds: what a moment cuts in two is needed.
    number = _number(column, value)
    return wanted if number is None else _between(wanted, column, (0, number + 1))


def _between(wanted: RowFilter, column: str, span: Span) -> RowFilter:
    if column == "queue_offset":
        return replace(wanted, offsets=_overlap(wanted.offsets, span))
    return replace(wanted, stored_ms=_overlap(wanted.stored_ms, span))


def _number(column: str, value: Any) -> int | None:
    if column == "queue_offset" and isinstance(value, int) and not isinstance(value, bool):
        return value
    if column == "store_timestamp" and isinstance(value, datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        since: timedelta = value - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return None


def _overlap(known: Span | None, span: Span) -> Span:
    first, after = known or ALL
    first = max(first, span[0])
    return first, max(first, min(after, span[1]))


def _common(known: frozenset[Any] | None, values: Iterable[Any]) -> frozenset[Any]:
    return frozenset(values) if known is None else known & frozenset(values)


def _all_are(kind: type, values: Iterable[Any]) -> bool:
    return all(isinstance(value, kind) and not isinstance(value, bool) for value in values)


# By name: the oldest Spark that is served has no such classes.
_NARROWING: Final[dict[str, Callable[[RowFilter, str, Any], RowFilter]]] = {
    "EqualTo": _equal,
    "EqualNullSafe": _equal,
    "In": _one_of,
    "GreaterThan": _above,
    "GreaterThanOrEqual": _at_least,
    "LessThan": _below,
    "LessThanOrEqual": _at_most,
}
_EXACT: Final = frozenset({"EqualTo", "EqualNullSafe"})
_BOUNDS: Final = frozenset({"GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"})
