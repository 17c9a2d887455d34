"""A topic in a query of Polars': the columns it needs, and of conditions what saves reading.

A predicate is JSON to who asks for it, in a form that is Polars' own. What is understood of it
narrows what is read; all of it is then asked of every row, so what is not understood costs time and
nothing else.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from rocketpipe.pipeline.planning.filters import RowFilter

#: Reads what is wanted, of these columns or of all.
Batches: TypeAlias = Callable[[RowFilter, Sequence[str] | None], Iterator[pa.RecordBatch]]

#: Polars' operators by what Spark calls them, and with their sides exchanged.
_OPERATORS: Final = {
    "Eq": ("EqualTo", "EqualTo"),
    "Gt": ("GreaterThan", "LessThan"),
    "GtEq": ("GreaterThanOrEqual", "LessThanOrEqual"),
    "Lt": ("LessThan", "GreaterThan"),
    "LtEq": ("LessThanOrEqual", "GreaterThanOrEqual"),
}
_AND: Final = ("And", "LogicalAnd")


def lazy_frame(schema: pa.Schema, asked: RowFilter, batches: Batches) -> pl.LazyFrame:
    """A frame that reads when it is collected, each time anew; ``asked`` holds for all rows."""

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        wanted = asked if predicate is None else narrowed(asked, predicate)
        left = n_rows
        for batch in batches(wanted, with_columns):
            frame = pl.DataFrame(batch)
            if with_columns is not None:
                frame = frame.select(with_columns)
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame
            if left == 0:
                return

    of_frame = pl.DataFrame(schema.empty_table()).schema
    return register_io_source(read, schema=of_frame, is_pure=True)


def narrowed(wanted: RowFilter, predicate: pl.Expr) -> RowFilter:
    """What is needed if this has to hold too, as far as it is understood."""
    try:
        node = json.loads(predicate.meta.serialize(format="json"))
    except Exception:  # another version may have no such form any more
        return wanted
    return _narrowed(wanted, node)


def _narrowed(wanted: RowFilter, node: Any) -> RowFilter:
    match node:
        case {"BinaryExpr": {"left": left, "op": operator, "right": right}} if operator in _AND:
            return _narrowed(_narrowed(wanted, left), right)
        case {"BinaryExpr": {"left": {"Column": str(column)}, "op": str(operator), "right": other}}:
            return _where(wanted, column, _OPERATORS.get(operator, ("",))[0], other)
        case {"BinaryExpr": {"left": other, "op": str(operator), "right": {"Column": str(column)}}}:
            return _where(wanted, column, _OPERATORS.get(operator, ("",))[-1], other)
        case {
            "Function": {
                "input": [{"Column": str(column)}, others],
                "function": {"Boolean": {"IsIn": _}},
            }
        }:
            return _where(wanted, column, "In", others)
    return wanted


def _where(wanted: RowFilter, column: str, operator: str, other: Any) -> RowFilter:
    """A column beside what may be worked out without any row."""
    text = json.dumps(other)
    if not operator or '"Column"' in text:
        return wanted
    try:
        expression = pl.Expr.deserialize(io.BytesIO(text.encode()), format="json")
        value = pl.select(expression).item()
    except Exception:
        return wanted
    if operator == "In":
        values = value.to_list() if isinstance(value, pl.Series) else [None]
        value = None if None in values else values  # NULL may be one of them, or equal to none
    return wanted if value is None else wanted.where(operator, column, value)
