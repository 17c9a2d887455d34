"""A message as a row: the columns, and messages into Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from rocketpipe.record.codec import RecordView

SCHEMA: Final = (
    "topic STRING, broker STRING, queue_id INT, queue_offset BIGINT, log_offset BIGINT, "
    "keys ARRAY<STRING>, tags STRING, body BINARY, properties MAP<STRING, STRING>, "
    "born_timestamp TIMESTAMP, store_timestamp TIMESTAMP, message_id STRING, "
    "reconsume_times INT, sys_flag INT"
)

_TIME: Final = pa.timestamp("us", tz="UTC")

_Column = tuple[pa.DataType, Callable[[RecordView, str], Any]]

_COLUMNS: Final[dict[str, _Column]] = {
    "topic": (pa.string(), lambda message, broker: message.topic),
    "broker": (pa.string(), lambda message, broker: broker),
    "queue_id": (pa.int32(), lambda message, broker: message.queue_id),
    "queue_offset": (pa.int64(), lambda message, broker: message.queue_offset),
    "log_offset": (pa.int64(), lambda message, broker: message.log_offset),
    "keys": (pa.list_(pa.string()), lambda message, broker: message.keys),
    "tags": (pa.string(), lambda message, broker: message.tags),
    "body": (pa.binary(), lambda message, broker: message.body),
    "properties": (
        pa.map_(pa.string(), pa.string()),
        lambda message, broker: list(message.properties.items()),
    ),
    "born_timestamp": (_TIME, lambda message, broker: message.born_ms * 1000),
    "store_timestamp": (_TIME, lambda message, broker: message.stored_ms * 1000),
    "message_id": (pa.string(), lambda message, broker: message.message_id),
    "reconsume_times": (pa.int32(), lambda message, broker: message.reconsume_times),
    "sys_flag": (pa.int32(), lambda message, broker: message.sys_flag),
}


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns a read asks for.

    Raises:
        ValueError: If one of them is not a column of messages.
    """
    for name in schema.fieldNames():
        if name not in _COLUMNS:
            raise ValueError(f"no column {name!r}: there are {', '.join(_COLUMNS)}")
    return tuple(schema.fieldNames())


def record_batch(
    messages: Sequence[RecordView], broker: str, columns: Sequence[str]
) -> pa.RecordBatch:
    """Messages of one broker as an Arrow batch with just these columns."""
    arrays = []
    for name in columns:
        kind, value_of = _COLUMNS[name]
        arrays.append(pa.array([value_of(message, broker) for message in messages], type=kind))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
