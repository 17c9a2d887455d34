"""Bodies in Avro as columns.

A body is one record in Avro's binary form, and nothing behind it. Written with a registry, it
begins with the id of the schema it was written by; fields are then matched to the reader's by name
or alias, those that the writer did not have get their default, and numbers are widened, as Avro
says. Without a registry writer and reader have the same schema.

fastavro reads bodies one by one, and is the definition; those of the reader's own schema are read
all together where that comes out alike (``avro_vectors``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rocketpipe.pipeline.formats.assembling import Piece, assembled, check_times
from rocketpipe.pipeline.formats.avro_schema import AvroSchema, conflict, inlined
from rocketpipe.pipeline.formats.avro_vectors import Records, octets_of
from rocketpipe.pipeline.formats.errors import BodySchemaError, NotRegistered
from rocketpipe.pipeline.formats.registry import HEAD_BYTES, Registered, Registry, registry_at

_MOST_WRITERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Writer:
    """How bodies of one schema are read: by what, or why not."""

    schema: Any
    reader: Any
    problem: str | None = None


class AvroBodies:
    """Decodes one batch after the other."""

    def __init__(self, text: str, registry: str | None, fields: Sequence[pa.Field]) -> None:
        """Read by a schema, as these columns of it.

        Raises:
            BodySchemaError: If the schema is none, or fastavro is not installed.
        """
        from fastavro import schemaless_reader

        self._read: Any = schemaless_reader
        self._schema = AvroSchema.of(text)
        self._fields = list(fields)
        self._plans = [self._schema.columns[field.name][1:] for field in fields]
        self._registry: Registry | None = None if registry is None else registry_at(registry)
        self._writers: dict[int, _Writer] = {}
        self._own = self._writer_of(self._schema)
        self._records: Records | None = None
        if not any(fix for _, _, fix in self._schema.columns.values()):
            kinds = {name: kind for name, (_, kind, _) in self._schema.columns.items()}
            with suppress(NotImplementedError):
                self._records = Records(self._schema.parsed, kinds)
        names = self._schema.names_records
        self._naming = {"return_record_name": names, "return_record_name_override": names}

    def columns(self, bodies: pa.Array, errors: dict[int, str]) -> dict[str, pa.Array]:
        """Each field of each row; rows that have none are noted with the reason.

        Raises:
            RegistryError: If the registry cannot be asked what an id means.
        """
        records: list[Any] = []
        rows: list[int] = []
        own = self._own
        done = self._at_once(bodies)
        rest: Any = np.arange(len(bodies))
        if done:
            rest = np.setdiff1d(rest, np.concatenate([where for where, _ in done]))
        for row, body in zip(rest.tolist(), bodies.take(pa.array(rest)).to_pylist(), strict=True):
            if body is None:
                continue
            writer = own
            if self._registry is not None:
                if len(body) < HEAD_BYTES or body[0]:
                    errors[row] = no_id(body)
                    continue
                writer = self._writer(int.from_bytes(body[1:HEAD_BYTES], "big"))
                if writer.problem is not None:
                    errors[row] = writer.problem
                    continue
            source = BytesIO(body)
            if self._registry is not None:
                source.seek(HEAD_BYTES)
            try:
                record = self._read(source, writer.schema, writer.reader, **self._naming)
            except Exception as error:  # whatever bytes that are no record lead to
                errors[row] = f"not Avro: {_said(error)}"
                continue
            if source.tell() != len(body):
                errors[row] = f"not Avro: {len(body) - source.tell()} bytes behind the record"
                continue
            rows.append(row)
            records.append(record)
        return assembled(records, rows, len(bodies), self._fields, self._arrays, errors, done)

    def _at_once(self, bodies: pa.Array) -> list[Piece]:
        """The rows that are read all together, and their columns; others are to be read alone."""
        found = octets_of(bodies) if len(bodies) else None
        if found is None or self._records is None:
            return []
        data, start, end = found
        rows = np.flatnonzero(np.asarray(bodies.is_valid()))
        if self._registry is not None:
            rows = rows[(end[rows] - start[rows] >= HEAD_BYTES) & (data[start[rows]] == 0)]
            ids = _ids(data, start[rows])
            known = [each for each in np.unique(ids).tolist() if self._is_own(each)]
            rows = rows[np.isin(ids, known)]
            start = start + HEAD_BYTES
        try:
            columns, good = self._records.read(data, start[rows], end[rows])
            kept = pa.array(good)
            made = [columns[field.name].filter(kept) for field in self._fields]
            made = [self._typed(*each) for each in zip(made, self._fields, strict=True)]
        except (pa.ArrowException, ValueError):  # a value that is found by reading them alone
            return []
        return [(rows[good], made)]

    def _is_own(self, number: int) -> bool:
        writer = self._writer(number)
        return writer.problem is None and writer.reader is None

    def _arrays(self, records: Sequence[Mapping[str, Any]]) -> list[pa.Array]:
        found = []
        for field, (kind, fix) in zip(self._fields, self._plans, strict=True):
            name = field.name
            values = [record[name] for record in records]
            if fix is not None:
                values = [fix(value) for value in values]
            found.append(self._typed(pa.array(values, kind), field))
        return found

    def _typed(self, column: pa.Array, field: pa.Field) -> pa.Array:
        """The same values in the type that Spark has; raises if one does not fit it."""
        if column.type != field.type:
            column = column.cast(field.type, safe=not _has_nanos(column.type))
        check_times(column)
        return column

    def _writer(self, number: int) -> _Writer:
        known = self._writers.get(number)
        if known is not None:
            return known
        assert self._registry is not None
        try:
            registered = self._registry.by_id(number)
        except NotRegistered:
            # Not kept: it may be registered by the time the next batch is read.
            return _Writer(None, None, f"the registry has no schema {number}")
        try:
            text = self_contained(self._registry, registered)
            writer = self._writer_of(AvroSchema.of(text, f"schema {number} of the registry"))
        except BodySchemaError as error:
            writer = _Writer(None, None, str(error))
        if len(self._writers) >= _MOST_WRITERS:
            self._writers.clear()
        self._writers[number] = writer
        return writer

    def _writer_of(self, schema: AvroSchema) -> _Writer:
        problem = conflict(schema, self._schema)
        reader = None if schema.parsed == self._schema.parsed else self._schema.parsed
        return _Writer(schema.parsed, reader, problem)


def self_contained(registry: Registry, schema: Registered) -> str:
    """The text of an Avro schema, with all that it uses in it.

    Raises:
        BodySchemaError: If it is of another kind.
        RegistryError: If the registry cannot be asked.
    """
    if schema.kind != "AVRO":
        raise BodySchemaError("the registry's schema", f"is {schema.kind}, not AVRO")
    used = {name: each.text for name, each in registry.references(schema).items()}
    return inlined(schema.text, used)


def _ids(data: Any, start: Any) -> Any:
    """The four bytes behind the first of each, as a number."""
    octets = data[start[:, None] + np.arange(1, HEAD_BYTES)]
    return np.ascontiguousarray(octets).view(">u4").ravel()


def no_id(body: bytes) -> str:
    """Why a body does not begin with a schema's id."""
    if len(body) < HEAD_BYTES:
        return f"no schema id: {len(body)} bytes are too few"
    return f"no schema id: the first byte is {body[0]}, not 0"


def _has_nanos(kind: pa.DataType) -> bool:
    return "[ns" in str(kind)


def _said(error: Exception) -> str:
    if isinstance(error, (EOFError, IndexError)):
        return "it ends too early"
    if type(error).__name__ == "SchemaResolutionError":
        return f"its schema does not fit the reader's ({error})"
    return f"{error or type(error).__name__}".splitlines()[0]
