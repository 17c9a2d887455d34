"""Messages into Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructType

from rocketpipe.model.flags import Compression, with_compression
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.properties import encode_bytes
from rocketpipe.pipeline.rows import (
    BATCH_BYTES,
    BATCH_ROWS,
    SCHEMA,
    ColumnError,
    UnreadableMessage,
    check_columns,
    record_batches,
)
from rocketpipe.record.codec import RecordView, encode_record
from rocketpipe.record.compression import compress


def stored(**parts: Any) -> RecordView:
    """A record as a broker would hand it over."""
    host = Host.parse("127.0.0.1:10911")
    message: dict[str, Any] = {
        "topic": "orders",
        "body": b"hello",
        "queue_id": 2,
        "queue_offset": 7,
        "log_offset": 4096,
        "born_ms": 1_700_000_000_123,
        "born_host": host,
        "stored_ms": 1_700_000_000_456,
        "store_host": host,
    }
    return RecordView(encode_record(StoredMessage(**message | parts)))


def only(*columns: str) -> StructType:
    return StructType([SCHEMA[column] for column in columns])


def rows_of(*messages: RecordView, schema: StructType = SCHEMA) -> list[dict[str, Any]]:
    batches = record_batches(messages, "broker-a", schema)
    return [row for batch in batches for row in batch.to_pylist()]


def test_every_column_has_what_the_record_has() -> None:
    named = {"KEYS": "A1 B2", "TAGS": "paid", "UNIQ_KEY": "0123", "colour": "red"}
    message = stored(raw_properties=encode_bytes(named), reconsume_times=3, sys_flag=8)
    [row] = rows_of(message)
    assert list(row) == SCHEMA.names
    assert row == {
        "topic": "orders",
        "broker": "broker-a",
        "queue_id": 2,
        "queue_offset": 7,
        "log_offset": 4096,
        "keys": ["A1", "B2"],
        "tags": "paid",
        "body": b"hello",
        "properties": list(named.items()),
        "born_timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC),
        "store_timestamp": datetime(2023, 11, 14, 22, 13, 20, 456_000, UTC),
        "message_id": "0123",
        "reconsume_times": 3,
        "sys_flag": 8,
    }


def test_a_message_without_properties_has_no_tag_no_keys_and_its_place_as_id() -> None:
    message = stored()
    [row] = rows_of(message)
    assert row["tags"] is None
    assert row["keys"] == []
    assert row["properties"] == []
    assert row["message_id"] == message.offset_id


@pytest.mark.parametrize("kind", list(Compression))
def test_a_compressed_body_comes_inflated(kind: Compression) -> None:
    body = b"so much text " * 1000
    message = stored(body=compress(body, kind), sys_flag=with_compression(0, kind))
    assert rows_of(message, schema=only("body")) == [{"body": body}]


@pytest.mark.parametrize("born_ms", [-(1 << 63), (1 << 63) - 1, 253_402_300_800_000])
def test_a_time_that_spark_cannot_show_is_null(born_ms: int) -> None:
    [row] = rows_of(stored(born_ms=born_ms))
    assert row["born_timestamp"] is None
    assert row["store_timestamp"] is not None


def test_the_last_moment_that_spark_can_show_is_shown() -> None:
    [row] = rows_of(stored(born_ms=253_402_300_799_999), schema=only("born_timestamp"))
    assert row["born_timestamp"] == datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)


def test_only_the_columns_asked_for_are_made_in_the_order_asked_for() -> None:
    damaged = stored(body=b"not zlib at all", sys_flag=with_compression(0, Compression.ZLIB))
    # The body is not asked for, so nobody looks at it.
    assert rows_of(damaged, schema=only("queue_offset", "topic")) == [
        {"queue_offset": 7, "topic": "orders"}
    ]


def test_a_column_that_is_never_null_may_be_declared_so() -> None:
    schema = StructType().add("queue_offset", SCHEMA["queue_offset"].dataType, nullable=False)
    check_columns(schema)
    [batch] = record_batches([stored()], "broker-a", schema)
    assert batch.schema == pa.schema([pa.field("queue_offset", pa.int64(), nullable=False)])


def test_a_body_that_does_not_inflate_is_named_with_its_place() -> None:
    damaged = stored(body=b"not zlib at all", sys_flag=with_compression(0, Compression.ZLIB))
    with pytest.raises(
        UnreadableMessage, match=r"message 7 in queue 2 of broker 'broker-a' .* zlib"
    ) as caught:
        rows_of(stored(queue_offset=6), damaged)
    assert (caught.value.queue_id, caught.value.queue_offset) == (2, 7)


def test_a_batch_is_closed_at_its_number_of_rows_before_more_is_asked_for() -> None:
    taken: list[int] = []

    def messages() -> Iterator[RecordView]:
        for offset in range(BATCH_ROWS + 1):
            taken.append(offset)
            yield stored(queue_offset=offset)

    batches = record_batches(messages(), "broker-a", only("queue_offset"))
    assert next(batches).num_rows == BATCH_ROWS
    assert len(taken) == BATCH_ROWS
    assert next(batches).to_pydict() == {"queue_offset": [BATCH_ROWS]}
    assert next(batches, None) is None


def test_a_batch_is_closed_at_its_size_however_small_the_bodies_travelled() -> None:
    body = bytes(BATCH_BYTES // 2)
    small = stored(
        body=compress(body, Compression.ZLIB), sys_flag=with_compression(0, Compression.ZLIB)
    )
    assert small.size < 10_000
    sizes = [batch.num_rows for batch in record_batches([small] * 5, "broker-a", only("body"))]
    assert sizes == [2, 2, 1]


def test_no_messages_make_no_batch() -> None:
    assert rows_of() == []


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (StructType().add("colour", StringType()), "column 'colour' is unknown: there are topic,"),
        (StructType().add("Topic", StringType()), "column 'Topic' is unknown"),
        (StructType().add("queue_offset", IntegerType()), "is bigint, not int: ask for that"),
        (StructType().add("tags", StringType(), nullable=False), "column 'tags' may be NULL"),
    ],
)
def test_a_schema_that_messages_cannot_fill_is_refused(schema: StructType, reason: str) -> None:
    with pytest.raises(ColumnError, match=reason):
        check_columns(schema)


def test_the_whole_schema_is_accepted() -> None:
    check_columns(SCHEMA)
