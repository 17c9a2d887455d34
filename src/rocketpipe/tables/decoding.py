"""Messages into rows of a table, and into its bad rows: an Arrow batch in, two out.

Every message comes out once. It is bad, as a whole, if its body is lost, cannot be decoded, has a
value that does not fit its column or none where the column is NOT NULL, or, by choice, has fields
that are no column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketpipe.pipeline.columns.bodies import decoded_columns
from rocketpipe.pipeline.columns.json_fields import NotAnObject, parse_object
from rocketpipe.pipeline.columns.rows import ERROR_COLUMN
from rocketpipe.pipeline.formats.body_schema import BodySchema
from rocketpipe.tables.columns import (
    BAD_ROWS,
    BODY,
    DIGEST,
    MOST_COLUMNS,
    OF_MESSAGE,
    TableColumns,
    body_schema,
    kind_of,
    merged,
    name_problem,
    rows_with,
)
from rocketpipe.tables.spec import DATE, Decode, Format, NewColumnsRule, TableSpec

_LOST: Final = "the message cannot be read: its bytes are damaged"


@dataclass(frozen=True, slots=True)
class NewField:
    """A field of bodies that is no column: its type so far, and the first message that has it."""

    kind: pa.DataType
    place: str


@dataclass(frozen=True, slots=True)
class Decoding:
    """How bodies become rows; it travels to the tasks."""

    topic: str
    columns: TableColumns
    decode: Decode
    time_zone: str
    new_columns: NewColumnsRule
    #: What the table is: some take less than Arrow has.
    form: Format = "delta"
    #: What bodies in Avro or Protobuf are read by.
    bodies: BodySchema | None = None

    @classmethod
    def of(cls, spec: TableSpec) -> Decoding:
        """What a spec asks for; raises ConfigError as `TableColumns.of`."""
        return cls(
            spec.topic,
            TableColumns.of(spec),
            spec.decode,
            spec.time_zone,
            spec.new_columns,
            spec.format,
            body_schema(spec),
        )


@dataclass(slots=True)
class RowDecoder:
    """Decodes one batch after the other."""

    how: Decoding
    #: With ``new_columns`` of ``add`` and ``fail``: what was seen that is no column.
    new_fields: dict[str, NewField] = field(default_factory=dict)
    _known: Any = None
    _folded: frozenset[str] = frozenset()
    _ours: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        names = self.how.columns.decoded.names
        self._folded = frozenset(name.lower() for name in names)
        self._ours = self.how.columns.ours(self.how.form)
        if self.how.decode == "json" and self.how.new_columns != "ignore":
            self._known = _only(names)

    def split(self, messages: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows, with all columns of the table, and the bad rows.

        ``messages`` have the columns of ``read_schema`` and the digest.

        Raises:
            RegistryError: If the schema registry cannot be asked what an id means.
        """
        decoded, reasons = self._decoded(messages)
        columns: dict[str, pa.Array] = {
            **decoded,
            **{
                name: messages.column(name)
                for name in (*OF_MESSAGE.names, DIGEST, *self.how.columns.more.names)
            },
        }
        if self.how.columns.has_date:
            columns[DATE] = pc.cast(messages.column("store_timestamp"), pa.date32())
        schema = self.how.columns.schema
        if self.how.form == "postgres":
            for row, name in rows_with(columns).items():
                reasons.setdefault(row, f"{name}: has a NUL, which PostgreSQL has no place for")
        if not reasons:
            rows = _batch(columns, schema)
            return rows, _none(BAD_ROWS)
        is_bad = np.zeros(messages.num_rows, np.bool_)
        is_bad[list(reasons)] = True
        bad_rows = pa.array(np.flatnonzero(is_bad))
        good = pa.array(~is_bad)
        rows = _batch({name: column.filter(good) for name, column in columns.items()}, schema)
        taken = {name: messages.column(name).take(bad_rows) for name in (*OF_MESSAGE.names, BODY)}
        errors = pa.array([reasons[row] for row in bad_rows.to_pylist()], pa.string())
        topics = pa.array([self.how.topic] * len(bad_rows), pa.string())
        return rows, _batch({"error": errors, "topic": topics, **taken}, BAD_ROWS)

    def _decoded(self, messages: pa.RecordBatch) -> tuple[Mapping[str, pa.Array], dict[int, str]]:
        bodies = _one(messages.column(BODY)).cast(pa.binary())
        lost = (
            dict.fromkeys(pc.indices_nonzero(bodies.is_null()).to_pylist(), _LOST)
            if bodies.null_count
            else {}
        )
        if self.how.decode == "none":
            return {BODY: bodies}, lost
        decoded = decoded_columns(
            bodies,
            self.how.bodies or self.how.decode,
            list(self.how.columns.decoded),
            zone=UTC if self.how.time_zone == "UTC" else ZoneInfo(self.how.time_zone),
            lost=lost,
        )
        said = decoded.pop(ERROR_COLUMN)
        reasons = {
            row: said[row].as_py() for row in pc.indices_nonzero(said.is_valid()).to_pylist()
        }
        for column in self.how.columns.decoded:
            if not column.nullable and decoded[column.name].null_count:
                for row in pc.indices_nonzero(decoded[column.name].is_null()).to_pylist():
                    reasons.setdefault(row, f"{column.name}: is NULL, and the column is NOT NULL")
        if self._known is not None:
            self._look_for_new(messages, bodies, reasons)
        return decoded, reasons

    def _look_for_new(
        self, messages: pa.RecordBatch, bodies: pa.Array, reasons: dict[int, str]
    ) -> None:
        known = set(self.how.columns.decoded.names)
        for row, body in enumerate(bodies.to_pylist()):
            if row in reasons:
                continue
            try:
                self._known(body)
            except (msgspec.MsgspecError, RecursionError):
                pass
            else:
                continue
            try:
                values = parse_object(body)
            except NotAnObject as error:  # cannot be: it was decoded
                reasons[row] = str(error)
                continue
            strange = {name: value for name, value in values.items() if name not in known}
            problem = self._judged(messages, row, strange)
            if problem is not None:
                reasons[row] = problem

    def _judged(self, messages: pa.RecordBatch, row: int, strange: Mapping[str, Any]) -> str | None:
        """Why a row with these fields is bad, if it is; what may become a column is noted."""
        if not strange:
            return None
        if self.how.new_columns == "quarantine":
            return f"new columns: {', '.join(sorted(strange))}"[:300]
        kinds = {name: kind for name, value in strange.items() if (kind := kind_of(value))}
        if self.how.new_columns == "add":
            for name in kinds:
                problem = name_problem(name, self._folded, self.how.form, self._ours)
                if problem is not None:
                    return problem
        for name, kind in kinds.items():
            seen = self.new_fields.get(name)
            if seen is not None:
                self.new_fields[name] = NewField(merged(seen.kind, kind), seen.place)
            elif len(self.new_fields) <= MOST_COLUMNS:
                self.new_fields[name] = NewField(kind, _place(messages, row))
        return None


def _only(names: list[str]) -> Any:
    """A parser that takes objects with these fields and refuses all others."""
    if any(
        '"' in name or "\\" in name for name in names
    ):  # which msgspec's structs cannot be called
        return _Only(frozenset(names))
    known = msgspec.defstruct(
        "Known",
        [
            (f"field_{number}", msgspec.Raw, msgspec.field(default=msgspec.Raw(b""), name=name))
            for number, name in enumerate(names)
        ],
        forbid_unknown_fields=True,
    )
    return msgspec.json.Decoder(known).decode


class _Only:
    """The same, for names of any kind; slower."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._parse = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def __call__(self, body: bytes) -> None:
        if not self._parse(body).keys() <= self._names:
            raise msgspec.ValidationError("it has another field")


def _place(messages: pa.RecordBatch, row: int) -> str:
    broker, queue, offset = (
        messages.column(name)[row].as_py() for name in ("broker", "queue_id", "queue_offset")
    )
    return f"message {offset} in queue {queue} of broker {broker!r}"


def _batch(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [_one(columns[field.name]).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _one(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
