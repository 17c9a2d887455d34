"""Columns of a frame that become the bodies of messages, by ``encode``.

A column that has the name of a part of messages (``keys``, ``tags``, …) is that part; all others
are fields of the body. Or the body is one column of the frame, a STRUCT called ``body``: then its
fields may have any name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from rocketpipe.pipeline.columns.write_rows import PARTS, BadColumn, BadRow
from rocketpipe.pipeline.formats.body_schema import BodySchema, SchemaSource
from rocketpipe.pipeline.formats.registry import registry_at
from rocketpipe.pipeline.formats.writing import (
    Write,
    avro_optional,
    avro_writer,
    json_writer,
    plain,
    protobuf_writer,
)
from rocketpipe.pipeline.options.encoding import Encoding

BODY: Final = "body"


@dataclass(frozen=True, slots=True)
class BodyFields:
    """Which columns become bodies, and how; it travels to tasks."""

    format: str
    #: The fields that bodies get, with the types that they have there.
    fields: pa.Schema
    #: The schema of Avro or Protobuf.
    text: str = ""
    #: What each body begins with.
    head: bytes = b""
    is_struct: bool = False

    @classmethod
    def of(cls, encoding: Encoding, schema: StructType, topic: str | None) -> BodyFields:
        """What a frame of these columns gives.

        Raises:
            BadColumn: If its columns are not those of the bodies' schema.
            BodySchemaError: If there is no such schema, or it cannot be written.
            RegistryError: If the registry does not answer.
        """
        struct, is_struct = _given(schema)
        given = _arrow_schema(struct)
        loaded, head = (None, b"") if encoding.source is None else _loaded(encoding.source, topic)
        wanted = encoding.schema if loaded is None else loaded.schema
        fields = given if wanted is None else _matched(given, wanted, loaded, is_struct)
        made = cls(
            encoding.encode,
            fields,
            "" if loaded is None else loaded.text,
            head,
            is_struct,
        )
        _check_casts(given, made.fields)
        assert made.write is not None  # what is wrong with the schema shows here
        return made

    @property
    def write(self) -> Write:
        """Makes a body."""
        return _writer(self.format, self.text, self.head, self.fields)

    def messages(self, batch: pa.RecordBatch, first_row: int = 0) -> pa.RecordBatch:
        """The same rows, as messages to send: their bodies, and the parts that they name.

        Raises:
            BadRow: If one has no such body; rows count from ``first_row``.
        """
        columns = [self._column(batch, field, first_row) for field in self.fields]
        write, names = self.write, self.fields.names
        bodies: list[bytes] = []
        for values in zip(*columns, strict=True):
            try:
                bodies.append(write(dict(zip(names, values, strict=True))))
            except Exception as error:
                row = first_row + len(bodies)
                raise BadRow(BODY, row, f"cannot be {self.format}: {_said(error)}") from error
        parts = [name for name in batch.schema.names if name in PARTS]
        return pa.RecordBatch.from_arrays(
            [pa.array(bodies, pa.binary()), *(batch.column(name) for name in parts)],
            names=[BODY, *parts],
        )

    def _column(self, batch: pa.RecordBatch, field: pa.Field, first_row: int) -> list[Any]:
        column = (
            batch.column(BODY).field(field.name) if self.is_struct else batch.column(field.name)
        )
        if self.is_struct and batch.column(BODY).null_count:
            row = int(batch.column(BODY).is_null().to_numpy(zero_copy_only=False).argmax())
            raise BadRow(BODY, first_row + row, "is NULL: filter such rows out")
        try:
            values = column.cast(field.type).to_pylist()
        except pa.ArrowInvalid as error:
            raise BadRow(field.name, first_row, f"or of one behind it: {_said(error)}") from error
        fix = plain(field.type)
        return values if fix is None else [fix(value) for value in values]


def _arrow_schema(schema: StructType) -> pa.Schema:
    """Columns as Arrow has them; moments are those of UTC, which later Sparks want to be told."""
    told: dict[str, Any] = {}
    if "timezone" in signature(to_arrow_schema).parameters:
        told["timezone"] = "UTC"
    return to_arrow_schema(schema, **told)


def as_sent(schema: StructType) -> StructType:
    """The columns of what is sent, of a frame whose others become its bodies."""
    parts = [field for field in schema.fields if field.name in PARTS]
    return StructType([StructField(BODY, BinaryType()), *parts])


def _given(schema: StructType) -> tuple[StructType, bool]:
    fields = [field for field in schema.fields if field.name not in PARTS]
    if len(fields) == 1 and fields[0].name == BODY and isinstance(fields[0].dataType, StructType):
        return fields[0].dataType, True
    if not fields:
        raise BadColumn(BODY, "would be empty: select the columns that it is made of")
    return StructType(fields), False


def _loaded(source: SchemaSource, topic: str | None) -> tuple[BodySchema, bytes]:
    loaded = source.load(topic)
    if loaded.registry is None:
        return loaded, b""
    found = registry_at(loaded.registry).version(source.subject or f"{topic}-value")
    assert found.number is not None  # a version has one
    return loaded, b"\0" + found.number.to_bytes(4, "big")


def _matched(
    given: pa.Schema, wanted: pa.Schema, schema: BodySchema | None, is_struct: bool
) -> pa.Schema:
    """The fields of bodies that a frame has, with the types that bodies have."""
    for name in given.names:
        if name not in wanted.names:
            raise BadColumn(name, f"is no field of the bodies' schema: {', '.join(wanted.names)}")
    there = set(given.names)
    for name in wanted.names:
        if name in PARTS and not is_struct:
            raise BadColumn(
                name,
                "is a field of the bodies and a part of messages: give the fields as one column, "
                "struct(…) AS body",
            )
    if schema is not None and schema.format == "avro":
        missing = set(wanted.names) - there - avro_optional(schema.text)
        if missing:
            raise BadColumn(min(missing), "is missing: the bodies' schema has no default for it")
    return pa.schema([field for field in wanted if field.name in there])


def _check_casts(given: pa.Schema, wanted: pa.Schema) -> None:
    for field in wanted:
        there = given.field(field.name).type
        try:
            pa.nulls(0, there).cast(field.type)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise BadColumn(
                field.name, f"is {there}, which cannot be {field.type}: cast it"
            ) from None


@lru_cache(maxsize=16)
def _writer(kind: str, text: str, head: bytes, fields: pa.Schema) -> Write:
    if kind == "json":
        return json_writer(fields)
    return avro_writer(text, head) if kind == "avro" else protobuf_writer(text, head)


def _said(error: Exception) -> str:
    words: Sequence[str] = str(error).strip().splitlines()
    return words[0][:200] if words else type(error).__name__
