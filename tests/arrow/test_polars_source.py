"""What a query of Polars' leaves to be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pytest

from rocketpipe.arrow.polars_source import lazy_frame, narrowed
from rocketpipe.pipeline.planning.filters import ALL, RowFilter

AT = datetime(2026, 1, 1, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)
column = pl.col


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (column("queue_id") == 1, RowFilter(queue_ids=frozenset({1}))),
        (pl.lit(1) == column("queue_id"), RowFilter(queue_ids=frozenset({1}))),
        (column("queue_id").is_in([1, 2]), RowFilter(queue_ids=frozenset({1, 2}))),
        (column("tags").is_in(["a", None], nulls_equal=True), RowFilter()),
        (column("queue_offset").is_in([4, None]), RowFilter()),
        (column("topic") == "orders", RowFilter(topics=frozenset({"orders"}))),
        (column("tags").is_in(["a", "b"]), RowFilter(tags=frozenset({"a", "b"}))),
        (column("queue_offset") > 5, RowFilter(offsets=(6, ALL[1]))),
        (pl.lit(5) > column("queue_offset"), RowFilter(offsets=(0, 5))),
        ((column("queue_offset") >= 5) & (column("queue_offset") < 9), RowFilter(offsets=(5, 9))),
        (column("store_timestamp") >= AT, RowFilter(stored_ms=(AT_MS, ALL[1]))),
        (column("store_timestamp") < pl.datetime(2026, 1, 1, time_zone="UTC"),
         RowFilter(stored_ms=(0, AT_MS + 1))),
        ((column("queue_id") == 1) & (column("n") > 7), RowFilter(queue_ids=frozenset({1}))),
        ((column("queue_id") == 1) | (column("n") > 7), RowFilter()),
        (column("queue_id") != 1, RowFilter()),
        (~(column("queue_id") == 1), RowFilter()),
        (column("queue_id") == column("n"), RowFilter()),
        (column("queue_id") == pl.lit(None, pl.Int32), RowFilter()),
        (column("queue_offset") > 5.5, RowFilter()),
        (column("tags").str.starts_with("a"), RowFilter()),
    ],
)  # fmt: skip
def test_what_is_understood_narrows_and_all_else_does_not(
    predicate: pl.Expr, expected: RowFilter
) -> None:
    assert narrowed(RowFilter(), predicate) == expected


def test_every_row_is_asked_again_and_no_more_are_read_than_wanted() -> None:
    asked: list[tuple[RowFilter, Sequence[str] | None]] = []
    given: list[int] = []
    schema = pa.schema([("queue_id", pa.int32()), ("n", pa.int64()), ("tags", pa.string())])
    schema = schema.append(pa.field("unasked", pa.string()))

    def batches(wanted: RowFilter, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        asked.append((wanted, columns))
        for first in range(0, 100, 10):
            given.append(first)
            rows = range(first, first + 10)
            whole = pa.record_batch(
                [
                    pa.array([n % 3 for n in rows]),
                    pa.array(rows),
                    pa.array([f"t{n}" for n in rows]),
                    pa.nulls(10, pa.string()),
                ],
                schema=schema,
            )
            yield whole if columns is None else whole.select(columns)

    frame = lazy_frame(schema, RowFilter(keys=frozenset({"k"})), batches)
    assert frame.collect().height == 100
    assert frame.collect_schema().names() == schema.names
    found = frame.filter(pl.col("queue_id") == 1, pl.col("n") > 90).select("tags").collect()
    assert found["tags"].to_list() == ["t91", "t94", "t97"]
    wanted, columns = asked[-1]
    assert wanted == RowFilter(keys=frozenset({"k"}), queue_ids=frozenset({1}))
    assert set(columns or ()) == {"queue_id", "n", "tags"}
    given.clear()
    assert frame.head(15).collect().height == 15
    assert given == [0, 10]
