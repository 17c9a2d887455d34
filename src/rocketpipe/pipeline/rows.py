"""A message as a row: the columns, and messages into Arrow batches.

A body is given as it was sent: inflated, if it travelled compressed. Times are those of the
producer (born) and of the broker (store). Producers write their time themselves, so it may be
anything: one outside the years 1 to 9999, which Spark cannot show, is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rocketpipe.errors import RecordError, RocketPipeError
from rocketpipe.record.codec import RecordView

BATCH_ROWS: Final = 1024
BATCH_BYTES: Final = 4 * 1024 * 1024
"""A batch is closed once it has reached either, so a task holds little more than this."""

_SHOWABLE_MS: Final = range(-62_135_596_800_000, 253_402_300_800_000)

_TEXT: Final = (StringType(), pa.string())
_INT: Final = (IntegerType(), pa.int32())
_LONG: Final = (LongType(), pa.int64())
_BINARY: Final = (BinaryType(), pa.binary())
_TIME: Final = (TimestampType(), pa.timestamp("us", tz="UTC"))
_TEXTS: Final = (ArrayType(StringType()), pa.list_(pa.string()))
_TEXT_BY_TEXT: Final = (MapType(StringType(), StringType()), pa.map_(pa.string(), pa.string()))

_Column = tuple[tuple[DataType, pa.DataType], Callable[[RecordView, str], Any]]

_COLUMNS: Final[dict[str, _Column]] = {
    "topic": (_TEXT, lambda message, broker: message.topic),
    "broker": (_TEXT, lambda message, broker: broker),
    "queue_id": (_INT, lambda message, broker: message.queue_id),
    "queue_offset": (_LONG, lambda message, broker: message.queue_offset),
    "log_offset": (_LONG, lambda message, broker: message.log_offset),
    "keys": (_TEXTS, lambda message, broker: message.keys),
    "tags": (_TEXT, lambda message, broker: message.tags),
    "body": (_BINARY, lambda message, broker: message.body),
    "properties": (_TEXT_BY_TEXT, lambda message, broker: list(message.properties.items())),
    "born_timestamp": (_TIME, lambda message, broker: _microseconds(message.born_ms)),
    "store_timestamp": (_TIME, lambda message, broker: _microseconds(message.stored_ms)),
    "message_id": (_TEXT, lambda message, broker: message.message_id),
    "reconsume_times": (_INT, lambda message, broker: message.reconsume_times),
    "sys_flag": (_INT, lambda message, broker: message.sys_flag),
}

SCHEMA: Final = StructType([StructField(name, kind) for name, ((kind, _), _) in _COLUMNS.items()])
"""Every column there is, in order."""

_MAY_BE_NULL: Final = frozenset({"tags", "born_timestamp", "store_timestamp"})


class ColumnError(RocketPipeError, ValueError):
    """A schema asks for what messages do not have; the text says what they have."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column!r} {reason}")
        self.column = column
        self.reason = reason


class UnreadableMessage(RocketPipeError):
    """A message that cannot be made a row, and where it is."""

    def __init__(self, broker: str, queue_id: int, queue_offset: int, reason: str) -> None:
        super().__init__(
            f"message {queue_offset} in queue {queue_id} of broker {broker!r} "
            f"cannot be read: {reason}"
        )
        self.broker = broker
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.reason = reason


def check_columns(schema: StructType) -> None:
    """Refuse a schema whose columns are not all columns of messages, of just their types.

    Raises:
        ColumnError: If one is unknown, of another type, or NOT NULL where messages may lack it.
    """
    for field in schema.fields:
        if field.name not in _COLUMNS:
            raise ColumnError(field.name, f"is unknown: there are {', '.join(_COLUMNS)}")
        kind = SCHEMA[field.name].dataType
        if field.dataType != kind:
            raise ColumnError(
                field.name,
                f"is {kind.simpleString()}, not {field.dataType.simpleString()}: "
                "ask for that, then cast it",
            )
        if not field.nullable and field.name in _MAY_BE_NULL:
            raise ColumnError(field.name, "may be NULL: leave out NOT NULL")


def record_batches(
    messages: Iterable[RecordView], broker: str, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Messages of one broker as Arrow batches of limited size, with just the schema's columns.

    Raises:
        UnreadableMessage: If a record is damaged, or its body does not inflate.
    """
    getters = [_COLUMNS[name][1] for name in schema.names]
    inflates = "body" in schema.names
    rows: list[list[Any]] = []
    held_bytes = 0
    for message in messages:
        try:
            rows.append([value_of(message, broker) for value_of in getters])
            held_bytes += message.size + (len(message.body) if inflates else 0)
        except RecordError as error:
            raise UnreadableMessage(
                broker, message.queue_id, message.queue_offset, error.reason
            ) from error
        if len(rows) >= BATCH_ROWS or held_bytes >= BATCH_BYTES:
            yield _batch(rows, schema)
            rows, held_bytes = [], 0
    if rows:
        yield _batch(rows, schema)


def _batch(rows: Sequence[Sequence[Any]], schema: StructType) -> pa.RecordBatch:
    fields = [
        pa.field(field.name, _COLUMNS[field.name][0][1], nullable=field.nullable)
        for field in schema.fields
    ]
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(values, type=field.type) for values, field in zip(columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _microseconds(ms: int) -> int | None:
    return ms * 1000 if ms in _SHOWABLE_MS else None
