"""Rows into PostgreSQL by COPY: each task into a table of its own, which is no part of ours yet.

Its name is new each time, and it comes to be with all its rows or not at all, so what an attempt
that died has written is in nobody's way. It is not logged: a server that crashes empties it, which
the driver sees by the count.

    BOOLEAN                  boolean            STRING           text
    TINYINT, SMALLINT        smallint           BINARY           bytea
    INT, BIGINT              integer, bigint    DATE             date
    FLOAT, DOUBLE            real, double       TIMESTAMP        timestamptz, or timestamp
    DECIMAL(p, s)            numeric(p, s)      ARRAY of these   an array; of others jsonb
    STRUCT, MAP              jsonb
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketpipe.tables.columns import NO_NUL, NUL
from rocketpipe.tables.files import WrittenFile
from rocketpipe.tables.sinks.database import Database, TableName

#: What is turned into text at once, in bytes of Arrow.
_SLICE_BYTES: Final = 16 << 20
_ESCAPES: Final = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_TYPES: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp with time zone",
    pa.timestamp("us"): "timestamp without time zone",
}


@dataclass(frozen=True, slots=True)
class StagingTables:
    """Where tasks copy to; it travels to them, and holds no secret."""

    database: Database
    schema: str | None
    #: What the names of the tables begin with.
    prefix: str
    #: Whether a server that crashes still has them.
    is_logged: bool = False

    def open(self, schema: pa.Schema, partition_by: str | None) -> CopiedRows:
        """Begin to copy the rows of a task."""
        return CopiedRows(self, schema)


class CopiedRows:
    """A table of one task's rows, which is there when it is whole."""

    def __init__(self, to: StagingTables, schema: pa.Schema) -> None:
        self._to = to
        self._schema = schema
        self._name = f"{to.prefix}{uuid.uuid4().hex[:16]}"
        self._stack = ExitStack()
        self._copy: Any = None
        self._rows = 0
        self._size = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Copy rows.

        Raises:
            DatabaseAway: If the server is, or goes away.
            DatabaseRefused: If it refuses them.
        """
        if not batch.num_rows:
            return
        with self._to.database.explained():
            if self._copy is None:
                self._copy = self._begun()
            for part in _slices(batch):
                text = copy_text(part)
                self._copy.write(text)
                self._size += len(text)
        self._rows += batch.num_rows

    def finish(self) -> list[WrittenFile]:
        """Have the table there; gives its name, if there were rows."""
        if self._copy is None:
            return []
        with self._to.database.explained():
            self._stack.close()
        return [WrittenFile(self._name, self._size, self._rows)]

    def discard(self) -> None:
        """Have no such table."""
        given_up = RuntimeError("given up")
        with suppress(Exception):
            self._stack.__exit__(RuntimeError, given_up, None)

    def _begun(self) -> Any:
        from psycopg import sql

        connection = self._stack.enter_context(self._to.database.opened())
        self._stack.enter_context(connection.transaction())
        name = TableName(self._to.schema, self._name).quoted
        columns = sql.SQL(", ").join(column_of(each) for each in self._schema)
        kind = sql.SQL("" if self._to.is_logged else "UNLOGGED")
        connection.execute(sql.SQL("CREATE {} TABLE {} ({})").format(kind, name, columns))
        copy = connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(name))
        return self._stack.enter_context(copy)


def column_of(field: pa.Field) -> Any:
    """A column as CREATE TABLE names it."""
    from psycopg import sql

    rule = sql.SQL("") if field.nullable else sql.SQL(" NOT NULL")
    return sql.SQL("{} {}{}").format(sql.Identifier(field.name), sql.SQL(type_of(field.type)), rule)


def type_of(kind: pa.DataType) -> str:
    """The type of a column, as PostgreSQL's ``format_type`` writes it."""
    if kind in _TYPES:
        return _TYPES[kind]
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if _is_array(kind):
        return f"{type_of(kind.value_type)}[]"
    return "jsonb"


def copy_text(batch: pa.RecordBatch) -> bytes:
    """Rows as the text format of COPY has them."""
    columns = [_texts(column) for column in batch.columns]
    joined = pc.binary_join_element_wise(
        *columns, "\t", null_handling="replace", null_replacement="\\N"
    )
    lines = pc.binary_join_element_wise(joined, "", "\n")
    _, offsets, values = lines.buffers()
    end = int(np.frombuffer(offsets, np.int32)[len(lines)])
    return bytes(memoryview(values)[:end])


def _is_array(kind: pa.DataType) -> bool:
    if not pa.types.is_list(kind):
        return False
    of = kind.value_type
    return bool((of in _TYPES and of != pa.binary()) or pa.types.is_decimal(of))


def _texts(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind):
        return _escaped(_without_nul(column))
    if pa.types.is_binary(kind):
        values = column.to_pylist()
        return pa.array(
            [None if each is None else f"\\\\x{each.hex()}" for each in values], pa.string()
        )
    if _is_array(kind):
        return _escaped(_arrays(column))
    if kind in _TYPES or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    values = [None if each is None else _json(each, kind) for each in column.to_pylist()]
    return _escaped(pa.array(values, pa.string()))


def _arrays(column: pa.Array) -> pa.Array:
    """Lists as PostgreSQL writes arrays: ``{"a","b"}``."""
    items = column.flatten()
    if pa.types.is_string(items.type):
        for one, other in (("\\", "\\\\"), ('"', '\\"')):
            items = pc.replace_substring(_without_nul(items), one, other)
        items = pc.binary_join_element_wise('"', items, '"', "")
    items = pc.fill_null(items.cast(pa.string()), "NULL")
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    starts = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))])
    lists = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), items)
    texts = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))


def _escaped(texts: pa.Array) -> pa.Array:
    for one, other in _ESCAPES:
        texts = pc.replace_substring(texts, one, other)
    return texts


def _without_nul(texts: pa.Array) -> pa.Array:
    return pc.replace_substring(texts, NUL, NO_NUL)


def _json(value: Any, kind: pa.DataType) -> str:
    return json.dumps(_plain(value, kind), ensure_ascii=False)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A value as JSON has it; what JSON has no word for is text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if pa.types.is_map(kind):
        return {_plain(name, kind.key_type): _plain(each, kind.item_type) for name, each in value}
    if isinstance(value, list):
        return [_plain(each, kind.value_type) for each in value]
    if isinstance(value, dict):
        return {
            each.name.replace(NUL, NO_NUL): _plain(value[each.name], each.type) for each in kind
        }
    return str(value).replace(NUL, NO_NUL)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts of a batch, none of which is large unless a row is."""
    if batch.nbytes <= _SLICE_BYTES or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _slices(batch.slice(0, half))
    yield from _slices(batch.slice(half))
