"""Bodies as text, or as the typed fields of JSON objects.

A batch is parsed at once. If that fails it is parted, again and again, until what cannot be
decoded is found: those rows have NULL in every decoded column and the reason in `ERROR_COLUMN`,
all others what they hold. So one bad body costs some parsing, and never a row or the stream.

    missing field, or null          NULL
    field that nobody asked for     left out
    5 for a DOUBLE                  5.0
    "5" for a number, 5 for text    a bad body: JSON says what it is
    DATE, TIMESTAMP, DECIMAL        text, as ISO 8601 has them; DECIMAL also as "1.50"
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from rocketpipe.pipeline.byte_runs import is_utf8, texts
from rocketpipe.pipeline.rows import ERROR_COLUMN, TEXT_COLUMN

_MAX_REASON: Final = 300


def decoded_columns(
    bodies: pa.Array, decode: str | None, fields: Sequence[pa.Field]
) -> dict[str, pa.Array]:
    """The decoded columns of these bodies, each as the Arrow field says, with the error's."""
    wanted = [field for field in fields if field.name != ERROR_COLUMN]
    errors: dict[int, str] = {}
    if decode == "text":
        columns = {TEXT_COLUMN: _as_text(bodies, errors)}
    else:
        columns = _as_json(bodies, wanted, errors)
    reasons: list[str | None] = [None] * len(bodies) if errors else []
    for row, reason in errors.items():
        reasons[row] = reason[:_MAX_REASON]
    columns[ERROR_COLUMN] = (
        pa.array(reasons, pa.string()) if errors else pa.nulls(len(bodies), pa.string())
    )
    return columns


def _as_text(bodies: pa.Array, errors: dict[int, str]) -> pa.Array:
    if is_utf8(bodies):
        return texts(bodies)
    read: list[str | None] = []
    for row, body in enumerate(bodies.to_pylist()):
        try:
            read.append(body.decode("utf-8"))
        except UnicodeDecodeError as error:
            errors[row] = f"not UTF-8 at byte {error.start}"
            read.append(None)
    return pa.array(read, pa.string())


def _as_json(
    bodies: pa.Array, fields: Sequence[pa.Field], errors: dict[int, str]
) -> dict[str, pa.Array]:
    target = pa.schema(fields)
    rows = np.arange(len(bodies))
    pieces = _parsed(bodies, rows, target, errors)
    if not pieces:
        return {field.name: pa.nulls(len(bodies), field.type) for field in fields}
    if len(pieces) == 1 and pieces[0][0].size == len(bodies):
        return {field.name: pieces[0][1].column(field.name) for field in fields}
    kept = np.concatenate([rows for rows, _ in pieces])
    place = np.full(len(bodies), -1, np.int64)
    place[kept] = np.arange(kept.size)
    index = pa.array(place, mask=place < 0)
    return {
        field.name: pa.concat_arrays(
            [_one_array(batch.column(field.name)) for _, batch in pieces]
        ).take(index)
        for field in fields
    }


Piece = tuple[Any, pa.RecordBatch]


def _parsed(bodies: pa.Array, rows: Any, target: pa.Schema, errors: dict[int, str]) -> list[Piece]:
    """Rows that could be parsed, with their columns; the reasons of all others are noted."""
    try:
        return [(rows, _typed(bodies.to_pylist(), target))]
    except (pa.ArrowException, ValueError):
        pass
    # First what is no JSON at all, which Python tells row by row and faster than bisecting does.
    good = []
    values = bodies.to_pylist()
    for position, body in enumerate(values):
        reason = _syntax_problem(body)
        if reason is None:
            good.append(position)
        else:
            errors[int(rows[position])] = reason
    return _halved([values[at] for at in good], rows[good], target, errors)


def _halved(
    values: list[bytes], rows: Any, target: pa.Schema, errors: dict[int, str]
) -> list[Piece]:
    if not values:
        return []
    try:
        return [(rows, _typed(values, target))]
    except (pa.ArrowException, ValueError) as error:
        if len(values) == 1:
            errors[int(rows[0])] = _told(error)
            return []
    middle = len(values) // 2
    return [
        *_halved(values[:middle], rows[:middle], target, errors),
        *_halved(values[middle:], rows[middle:], target, errors),
    ]


def _typed(values: list[bytes], target: pa.Schema) -> pa.RecordBatch:
    """Parse one object a line, and have each column of its type.

    Raises:
        ArrowException: If one is no object, or has a field of another type.
        ValueError: If there are not as many objects as bodies.
    """
    # A line is an object, so that there is none inside it: blanks mean the same to JSON.
    lines = b"\n".join(values)
    if lines.count(b"\n") != len(values) - 1 or b"\r" in lines:
        values = [value.replace(b"\n", b" ").replace(b"\r", b" ") for value in values]
        lines = b"\n".join(values)
    as_written = pa.schema([pa.field(field.name, _as_written(field.type)) for field in target])
    table = pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 16),
        parse_options=pj.ParseOptions(
            explicit_schema=as_written, unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(values):
        raise ValueError(f"{table.num_rows} objects in {len(values)} bodies")
    columns = [
        pc.cast(_one_array(table.column(field.name)), field.type, safe=True) for field in target
    ]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _as_written(kind: pa.DataType) -> pa.DataType:
    """The type that JSON has for it."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_as_written(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _as_written(field.type)) for field in kind])
    return kind


def _one_array(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column


def _syntax_problem(body: bytes) -> str | None:
    try:
        value = json.loads(body)
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start}"
    except json.JSONDecodeError as error:
        return f"not JSON: {error}"
    except RecursionError:
        return "not JSON: nested too deeply"
    if not isinstance(value, dict):
        return "not a JSON object"
    return None


def _told(error: Exception) -> str:
    return str(error).removeprefix("JSON parse error: ").split("\n", 1)[0]
