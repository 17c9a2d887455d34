"""Bodies as text, as the typed fields of JSON objects, or by a schema of theirs, a batch at a time.

``json_fields`` is the definition: it reads one body and says what did not fit. Here a batch is
parsed at once where that cannot come out otherwise. Arrow's reader takes objects one after the
other out of one buffer, wherever they begin and end: so each body is first proven to be one whole
object by itself, by a parser that builds nothing. Only then is the n-th object the n-th body.

    flat, and all in order         read in one compiled pass: ``flat_json``
    not one object by itself       read alone, as the definition has it
    the batch does not parse       parted, until what is short enough is read row by row
    MAP, or a zone of one's own    row by row: Arrow reads neither

Either way a row has what its own body holds, or NULL and the reason in `ERROR_COLUMN`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from rocketpipe.pipeline.columns.byte_runs import is_utf8, texts
from rocketpipe.pipeline.columns.flat_json import flat_columns
from rocketpipe.pipeline.columns.json_fields import (
    BEHIND_MOMENTS_US,
    FIRST_MOMENT_US,
    MAX_DEPTH,
    FieldReader,
    NotAnObject,
    is_too_deep,
)
from rocketpipe.pipeline.columns.rows import ERROR_COLUMN, TEXT_COLUMN
from rocketpipe.pipeline.formats.body_schema import BodySchema

_MAX_REASON: Final = 300
#: A batch that does not parse is parted in so many, until parts are so short.
_PARTS: Final = 8
_ROW_BY_ROW: Final = 256
#: Arrow counts the bytes of a block in 32 bits.
_MAX_BLOCK: Final = 1 << 30
_DAY_US: Final = 86_400_000_000
#: Of 18 hours or more: Arrow takes up to a day.
_FAR_OFFSET: Final = r"[T ][0-9:.]+[+-](1[89]|2)"


class _Object(msgspec.Struct):
    """Any JSON object: none of its fields is asked for, all are passed over."""


_prove: Final = msgspec.json.Decoder(_Object).decode


def decoded_columns(
    bodies: pa.Array,
    decode: str | BodySchema | None,
    fields: Sequence[pa.Field],
    *,
    zone: tzinfo = UTC,
    lost: Mapping[int, str] | None = None,
) -> dict[str, pa.Array]:
    """The decoded columns of these bodies, each as the Arrow field says, with the error's.

    ``lost`` are the rows that have no body, and why.

    Raises:
        RegistryError: If the schema registry cannot be asked what an id means.
    """
    wanted = [field for field in fields if field.name != ERROR_COLUMN]
    errors: dict[int, str] = dict(lost or {})
    if decode == "text":
        columns = {TEXT_COLUMN: _as_text(bodies, errors)}
    elif isinstance(decode, BodySchema):
        columns = decode.columns(bodies, wanted, errors)
    else:
        columns = _Batch(bodies, wanted, zone, errors).columns()
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
            read.append(None if body is None else body.decode("utf-8"))
        except UnicodeDecodeError as error:
            errors[row] = f"not UTF-8 at byte {error.start}"
            read.append(None)
    return pa.array(read, pa.string())


#: Numbers of rows, as an array of numpy's.
Rows = Any


class _Batch:
    """The JSON bodies of one batch, and what has been read of them so far."""

    def __init__(
        self, bodies: pa.Array, fields: Sequence[pa.Field], zone: tzinfo, errors: dict[int, str]
    ) -> None:
        self._bodies = bodies
        self._schema = pa.schema(fields)
        self._zone = zone
        self._errors = errors
        self._reader = FieldReader(fields, zone)
        #: Rows, in any order, and their columns.
        self._pieces: list[tuple[Rows, pa.RecordBatch]] = []

    @cached_property
    def _values(self) -> list[bytes | None]:
        values: list[bytes | None] = self._bodies.to_pylist()
        return values

    def columns(self) -> dict[str, pa.Array]:
        """Each field of each row."""
        count = len(self._bodies)
        rows = self._plain(np.arange(count))
        if not rows.size:
            pass
        elif is_utf8(self._bodies) and all(_is_read_at_once(each.type) for each in self._schema):
            proven = self._proven(rows)
            self._row_by_row(rows[~proven])
            self._at_once(rows[proven])
        else:
            self._row_by_row(rows)
        if len(self._pieces) == 1 and self._pieces[0][0].size == count:
            # All of them, and so in order.
            [(_, batch)] = self._pieces
            return {name: batch.column(name) for name in self._schema.names}
        place = np.full(count, -1, np.int64)
        kept = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in self._pieces)])
        place[kept] = np.arange(kept.size)
        index = pa.array(place, mask=place < 0)
        return {
            field.name: pa.concat_arrays(
                [pa.nulls(0, field.type), *(batch.column(field.name) for _, batch in self._pieces)]
            ).take(index)
            for field in self._schema
        }

    def _plain(self, rows: Rows) -> Rows:
        """Read what is plain; gives the rows that are left."""
        found = flat_columns(self._bodies, self._schema)
        if found is None:
            return rows
        batch, read = found
        if read.all():
            self._pieces.append((rows, batch))
        else:
            self._pieces.append((rows[read], batch.filter(pa.array(read))))
        return rows[~read]

    def _proven(self, rows: Rows) -> Any:
        """Which bodies are one whole object each, and not too deep for any parser."""
        values = self._of(rows)
        try:
            for value in values:
                _prove(value)  # type: ignore[arg-type]  # None is refused as well
        except (msgspec.MsgspecError, RecursionError, TypeError):
            good = np.fromiter(map(_is_object, values), np.bool_, len(values))
        else:
            good = np.ones(len(values), np.bool_)
        # Only these have room to be nested too deep.
        lengths = pc.fill_null(pc.binary_length(self._bodies), 0).to_numpy()[rows]
        for place in np.flatnonzero(lengths > 2 * MAX_DEPTH).tolist():
            body = values[place]
            if body is not None and is_too_deep(body):
                good[place] = False
        return good

    def _of(self, rows: Rows) -> list[bytes | None]:
        """A list of one's own of the bodies of some rows."""
        if rows.size == len(self._values):
            return self._values.copy()
        return [self._values[row] for row in rows.tolist()]

    def _at_once(self, rows: Rows) -> None:
        """Read proven rows with as few calls as that takes."""
        if not rows.size:
            return
        try:
            self._pieces.append((rows, self._parsed(self._of(rows))))
            return
        except (pa.ArrowException, ValueError):
            pass
        if rows.size <= _ROW_BY_ROW:
            self._row_by_row(rows)
            return
        for some in np.array_split(rows, _PARTS):
            self._at_once(some)

    def _parsed(self, values: list[Any]) -> pa.RecordBatch:
        """Parse bodies that are proven to be one object each.

        Raises:
            ArrowException: If one is no JSON after all, or has a value that does not fit as it is.
            ValueError: If they are too many, or Arrow found more or fewer than there are.
        """
        values.append(b"")  # a line's end behind the last, so that no block is parted inside one
        lines = b"\n".join(values)
        if len(lines) > _MAX_BLOCK:
            raise ValueError("more than a block holds")
        table = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 16),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema(
                    [pa.field(field.name, _as_written(field.type)) for field in self._schema]
                ),
                unexpected_field_behavior="ignore",
            ),
        )
        if table.num_rows != len(values) - 1:
            raise ValueError(f"{table.num_rows} objects in {len(values) - 1} bodies")
        columns = [
            self._typed(_one_array(table.column(field.name)), field.type) for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _typed(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        """From the type that Arrow read to the one that was asked for; raises as ``_parsed``."""
        if column.type == kind:
            if _has_decimals(kind):
                column.validate(full=True)  # it was not asked whether their digits have room
            return column
        if pa.types.is_floating(kind):
            return column.cast(kind, safe=False)
        if not pa.types.is_timestamp(kind) or kind.tz is None:
            return _shown(pc.cast(column, kind, safe=True))
        if pc.any(pc.match_substring_regex(column, _FAR_OFFSET)).as_py():
            raise ValueError("an offset that may be too far")
        try:
            return _shown(pc.cast(column, kind, safe=True))
        except pa.ArrowInvalid:
            if self._zone is not UTC:
                raise
            # Perhaps all of them name no offset.
            return _shown(pc.cast(column, pa.timestamp("us"), safe=True)).cast(kind)

    def _row_by_row(self, rows: Rows) -> None:
        """Read as the definition says; what has no fields is noted and left out."""
        kept: list[int] = []
        read: list[list[Any]] = []
        for row in rows.tolist():
            body = self._values[row]
            if body is None:
                continue
            try:
                values, misfits = self._reader.read(body)
            except NotAnObject as error:
                self._errors[row] = str(error)
                continue
            if misfits is not None:
                self._errors[row] = misfits
            kept.append(row)
            read.append(values)
        if not kept:
            return
        columns = [
            _from_python(list(values), field.type)
            for values, field in zip(zip(*read, strict=True), self._schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._pieces.append((np.array(kept, np.int64), batch))


def _is_object(body: bytes | None) -> bool:
    try:
        _prove(body)  # type: ignore[arg-type]
    except (msgspec.MsgspecError, RecursionError, TypeError):
        return False
    return True


def _is_read_at_once(kind: pa.DataType) -> bool:
    """Whether Arrow reads it as the definition does, or refuses."""
    types = pa.types
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_float32(kind):
        return True
    return _is_plain(kind)


def _is_plain(kind: pa.DataType) -> bool:
    """Whether it is one of JSON's own types, or made of them."""
    types = pa.types
    if types.is_list(kind):
        return _is_plain(kind.value_type)
    if types.is_struct(kind):
        return all(_is_plain(field.type) for field in kind)
    plain = (
        types.is_boolean,
        types.is_integer,
        types.is_float64,
        types.is_string,
        types.is_decimal,
    )
    return any(is_it(kind) for is_it in plain)


def _as_written(kind: pa.DataType) -> pa.DataType:
    """The type that JSON has for it."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_float32(kind):
        return pa.float64()
    return kind


def _shown(times: pa.Array) -> pa.Array:
    """The same times, if Spark can show them all; raises ValueError otherwise."""
    days = pa.types.is_date(times.type)
    unit_us, number = (_DAY_US, pa.int32()) if days else (1, pa.int64())
    ends = pc.min_max(times.cast(number)).as_py()
    if ends["min"] is not None and not (
        ends["min"] * unit_us >= FIRST_MOMENT_US and ends["max"] * unit_us < BEHIND_MOMENTS_US
    ):
        raise ValueError("a year that cannot be shown")
    return times


def _has_decimals(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _has_decimals(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_decimals(field.type) for field in kind)
    return bool(pa.types.is_decimal(kind))


def _one_array(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column


def _from_python(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_float32(kind):
        return pa.array(values, pa.float64()).cast(kind, safe=False)
    return pa.array(values, kind)
