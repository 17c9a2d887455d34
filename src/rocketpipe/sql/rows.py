"""The rows of a frame, as they come.

A partition at a time is at the driver, of a topic 64 MB of the log: tasks pack each of their Arrow
batches into one value, so that all types stay as Arrow has them. Columns of types that Arrow does
not have come as Spark's text of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.sql.errors import StatementFailed
from rocketpipe.sql.statements import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

#: Up to so many rows are taken at once, which is faster: Spark reads no further than it must.
MOST_AT_ONCE: Final = 10_000

_PACKED: Final = "rows BINARY"
_VARIANT: Final = "variant"


def rows_of(frame: DataFrame, limit: int | None) -> Iterator[dict[str, Any]]:
    """Rows by the names of their columns, and one more than ``limit`` if there are more.

    Raises:
        StatementFailed: If there is a date that Python cannot have.
    """
    if limit is not None and limit <= MOST_AT_ONCE:
        batches: Iterable[pa.RecordBatch] = frame.limit(limit + 1).toArrow().to_batches()
    else:
        batches = _streamed(frame)
    rows = (row for batch in batches for row in _values(batch))
    return rows if limit is None else islice(rows, limit + 1)


def arrow_frame(frame: DataFrame) -> DataFrame:
    """The same with one name for each column, and no type that Arrow does not have."""
    names = _distinct(frame.columns)
    if names != frame.columns:
        frame = frame.toDF(*names)
    strange = {field.name for field in frame.schema.fields if not _fits(field.dataType)}
    if not strange:
        return frame
    return frame.select(
        *(
            frame[quoted(name)].cast("string").alias(name) if name in strange else quoted(name)
            for name in names
        )
    )


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: each batch as one value."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        packed = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_arrays([packed], ["rows"])


def _streamed(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    names = frame.columns
    plain: Any = frame.toDF(*(f"c{number}" for number in range(len(names))))  # PySpark quotes none
    for row in plain.mapInArrow(pack, _PACKED).toLocalIterator():
        with pa.ipc.open_stream(row[0]) as stream:
            yield from (batch.rename_columns(names) for batch in stream)


def _values(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    columns = [_listed(column) for column in batch.columns]
    return (dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True))


def _listed(column: pa.Array) -> list[Any]:
    try:
        try:
            values: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
        except TypeError:  # keys of a map that are no keys in Python
            values = column.to_pylist()
        return values
    except (OverflowError, ValueError) as error:
        raise StatementFailed(
            f"a value cannot be shown ({error}): CAST dates and times before the year 1 AS STRING"
        ) from error


def _fits(kind: DataType) -> bool:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    if _VARIANT in kind.simpleString():
        return False  # Arrow would have its bytes
    try:
        to_arrow_type(kind, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
    except (PySparkException, ValueError):
        return False
    return True


def _distinct(names: Sequence[str]) -> list[str]:
    """Names as they are, numbered where one comes again."""
    found: list[str] = []
    for name in names:
        number, unused = 1, name
        while unused in found:
            number += 1
            unused = f"{name}_{number}"
        found.append(unused)
    return found
