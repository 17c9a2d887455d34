"""The columns of a table: those of the bodies, then those that every message has of itself.

    decode=json     the columns of the schema, then those that were added
    decode=avro, protobuf
                    the columns of their schema
    decode=text     text STRING
    decode=none     body BINARY
    all of them     broker, queue_id, queue_offset, store_timestamp, message_id, keys, tags, and
                    body_digest BIGINT, which is xxhash64 of the body as Spark computes it
    with properties properties MAP<STRING, STRING>, born_timestamp TIMESTAMP
    by date         date DATE, the day of store_timestamp in UTC

(broker, queue_id, queue_offset) is where the message stands in its topic: no two rows have the
same. A message is a row of the table or one of its bad rows, never both:

    error STRING, topic, broker, queue_id, queue_offset, store_timestamp, message_id, keys, tags,
    body BINARY

A field that gets a column of its own (``new_columns=add``) has the type of all its values in the
batch where it is first seen:

    true, false                               BOOLEAN
    whole numbers of 64 bits                  BIGINT
    numbers, not all of them whole            DOUBLE
    text, arrays, objects, whole numbers      STRING, arrays and objects as the JSON of them
    beyond 64 bits, or kinds mixed
    nothing but null                          no column yet
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rocketpipe.errors import ConfigError, RocketPipeError
from rocketpipe.pipeline.columns.json_fields import Number
from rocketpipe.pipeline.columns.rows import ERROR_COLUMN, TEXT_COLUMN, check_body_types
from rocketpipe.pipeline.formats.body_schema import BodySchema
from rocketpipe.pipeline.formats.errors import BodySchemaError
from rocketpipe.pipeline.options.ddl import SchemaTextError, parse_schema
from rocketpipe.tables.spec import DATE, Format, TableSpec

BODY: Final = "body"
DIGEST: Final = "body_digest"
ERROR: Final = "error"

_TIME: Final = pa.timestamp("us", tz="UTC")
#: What every row has of its message.
OF_MESSAGE: Final = pa.schema(
    [
        pa.field("broker", pa.string()),
        pa.field("queue_id", pa.int32()),
        pa.field("queue_offset", pa.int64()),
        pa.field("store_timestamp", _TIME),
        pa.field("message_id", pa.string()),
        pa.field("keys", pa.list_(pa.string())),
        pa.field("tags", pa.string()),
    ]
)
#: What the connector is asked for at least, in the words of SQL.
READ_SCHEMA: Final = (
    "broker STRING, queue_id INT, queue_offset BIGINT, store_timestamp TIMESTAMP, "
    "message_id STRING, keys ARRAY<STRING>, tags STRING, body BINARY"
)
#: What rows have beside these where a table keeps properties.
WITH_PROPERTIES: Final = pa.schema(
    [
        pa.field("properties", pa.map_(pa.string(), pa.string())),
        pa.field("born_timestamp", _TIME),
    ]
)
_NOTHING_MORE: Final = pa.schema([])
_READ_PROPERTIES: Final = "properties MAP<STRING, STRING>, born_timestamp TIMESTAMP"
BAD_ROWS: Final = pa.schema(
    [
        pa.field(ERROR, pa.string()),
        pa.field("topic", pa.string()),
        *OF_MESSAGE,
        pa.field(BODY, pa.binary()),
    ]
)
#: What readers of plain Parquet have beside its columns: the number of the batch.
BATCH: Final = "batch"
#: What to do about columns that do not fit those of the table.
ONLY_MORE: Final = "give the columns that it has, and more if you like, or choose another directory"
#: The most columns of bodies that a table gets by itself.
MOST_COLUMNS: Final = 1_000

_RESERVED: Final = frozenset({*OF_MESSAGE.names, DIGEST, ERROR_COLUMN})
#: What Delta and Parquet take in a name; more is possible with a mapping that few readers know.
_REFUSED_IN_NAMES: Final = re.compile(r"[ ,;{}()\n\t=`]")
#: What every table of PostgreSQL has of its own.
_OF_POSTGRES: Final = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_DDL: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
}


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a table, as Arrow has them."""

    #: Those that come from bodies.
    decoded: pa.Schema
    #: Whether the day of storing is a column.
    has_date: bool
    partition_by: str | None
    #: What rows have of a message beside what every table has.
    more: pa.Schema = _NOTHING_MORE

    @classmethod
    def of(cls, spec: TableSpec) -> TableColumns:
        """The columns that a spec asks for.

        Raises:
            ConfigError: If its schema is none, or does not go with the rest.
        """
        decoded = _decoded(spec)
        by = spec.partition_by
        has_date = by == DATE and DATE not in decoded.names
        if has_date and DATE in map(str.lower, decoded.names):
            raise ConfigError(
                "--partition-by",
                f"{DATE} is a column of the schema but for letter case: rename that, or choose "
                "another column",
            )
        if by is not None and not has_date:
            if by not in decoded.names and by not in OF_MESSAGE.names:
                there = ", ".join([DATE, *decoded.names, *OF_MESSAGE.names])
                raise ConfigError("--partition-by", f"there is no column {by!r}: there are {there}")
            whole = pa.schema([*decoded, *OF_MESSAGE])
            if not _can_part(whole.field(by).type):
                raise ConfigError(
                    "--partition-by",
                    f"{by} is {whole.field(by).type}: only text, whole numbers, booleans and "
                    "dates make good directories",
                )
        more = WITH_PROPERTIES if spec.properties else _NOTHING_MORE
        taken = {name.lower() for name in decoded.names} & set(more.names)
        if taken:
            raise ConfigError(
                "--properties",
                f"the schema has a column {min(taken)} of its own: rename that, or leave "
                "--properties out",
            )
        return cls(decoded, has_date, by, more)

    @property
    def schema(self) -> pa.Schema:
        """All of them, in order."""
        date = [pa.field(DATE, pa.date32())] if self.has_date else []
        digest = pa.field(DIGEST, pa.int64())
        return pa.schema([*self.decoded, *OF_MESSAGE, digest, *self.more, *date])

    def ours(self, form: Format) -> frozenset[str]:
        """Names of columns that rows of this table have, and that are of no body."""
        day = [DATE] if self.has_date else []
        batch = [BATCH] if form == "parquet" else []
        return frozenset((*self.more.names, *day, *batch))

    @property
    def read_schema(self) -> str:
        """What the connector is asked for, in the words of SQL."""
        return f"{READ_SCHEMA}, {_READ_PROPERTIES}" if self.more.names else READ_SCHEMA


def widened(spec: TableSpec, kinds: Mapping[str, pa.DataType]) -> TableSpec:
    """The same table with more columns, of which these are the types."""
    before = [spec.added] if spec.added else []
    added = [f"`{name}` {_DDL[kind]}" for name, kind in kinds.items()]
    return spec.with_changes(added=", ".join([*before, *added]))


def misfit(old: pa.Schema, new: pa.Schema) -> str | None:
    """Why rows of one schema cannot go on as rows of another; None if they can.

    Columns may be added, at any place; none may go or change.
    """
    for field in old:
        if field.name not in new.names:
            return f"column {field.name} is left out"
        now = new.field(field.name)
        if now.type != field.type:
            return f"column {field.name} is {field.type}, not {now.type}"
        if field.nullable and not now.nullable:
            return f"column {field.name} has been without NOT NULL"
    for field in new:
        if field.name not in old.names and not field.nullable:
            return f"column {field.name} is new and NOT NULL, which rows that are there do not meet"
    return None


def name_problem(
    name: str, known: Collection[str], form: Format = "delta", ours: Collection[str] = ()
) -> str | None:
    """Why a field of a body cannot be a column of its own; ``known`` are names in lower case.

    ``ours`` are names that this table has for something else.
    """
    if form == "postgres" and (len(name.encode()) > 63 or name in _OF_POSTGRES):
        return f"field {name[:70]!r} cannot be the name of a column of PostgreSQL"
    folded = name.lower()
    if folded in _RESERVED or folded in ours:
        return f"field {name!r} is called as a column that every message has"
    if folded in known:
        return f"field {name!r} differs from a column in nothing but letter case"
    if not name or _REFUSED_IN_NAMES.search(name) or not name.isprintable() or len(name) > 255:
        return f"field {name[:40]!r} cannot be the name of a column"
    return None


def kind_of(value: Any) -> pa.DataType | None:
    """The type of column that a value of a body asks for; None if it is null."""
    if value is None:
        return None
    if type(value) is bool:
        return pa.bool_()
    if type(value) is Number:
        if _WHOLE.fullmatch(value):
            return pa.int64() if -(1 << 63) <= int(value) < 1 << 63 else pa.string()
        return pa.string() if value.lstrip("-").isdigit() else pa.float64()
    return pa.string()


def merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that has room for both."""
    if one == other:
        return one
    numbers = {pa.int64(), pa.float64()}
    return pa.float64() if {one, other} == numbers else pa.string()


def kind_named(name: str) -> pa.DataType:
    """The type that ``str`` gave this name."""
    return next(kind for kind in _DDL if str(kind) == name)


def body_schema(spec: TableSpec) -> BodySchema | None:
    """What bodies in Avro or Protobuf are read by; None if they are something else."""
    if spec.decode != "avro" and spec.decode != "protobuf":
        return None
    return BodySchema(spec.decode, spec.schema or "", spec.registry)


def _decoded(spec: TableSpec) -> pa.Schema:
    if spec.decode == "text":
        return pa.schema([pa.field(TEXT_COLUMN, pa.string())])
    if spec.decode == "none":
        return pa.schema([pa.field(BODY, pa.binary())])
    bodies = body_schema(spec)
    try:
        if bodies is not None:
            fields = bodies.schema
        else:
            fields = check_body_types(parse_schema(spec.schema or ""))
    except BodySchemaError as error:
        raise ConfigError("--decode", str(error)) from error
    except (SchemaTextError, RocketPipeError) as error:
        raise ConfigError("--schema", f"{error}; write it like 'city STRING, cents INT'") from error
    names: set[str] = set()
    for field in fields:
        problem = name_problem(field.name, names, spec.format)
        if problem is not None:
            raise ConfigError(
                "--schema" if bodies is None else "--schema-file",
                f"{problem}: rename it in the body, or leave it out"
                if bodies is None
                else f"{problem}: give a schema in which it has another name (in Avro, this one as "
                "alias), or is left out",
            )
        names.add(field.name.lower())
    added = check_body_types(parse_schema(spec.added)) if spec.added else ()
    return pa.schema([*fields, *(each for each in added if each.name not in fields.names)])


def _can_part(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
    )


# Texts with a NUL in them, which not every table can keep

NUL: Final = "\0"
#: What stands for it in the texts of a bad row, where a table cannot keep it.
NO_NUL: Final = "\N{REPLACEMENT CHARACTER}"


def rows_with(columns: Mapping[str, Any], mark: str = NUL) -> dict[int, str]:
    """The rows that have a NUL, or a mark, and the first column where they have it."""
    found: dict[int, str] = {}
    for name, column in columns.items():
        for row in _rows(column, mark):
            found.setdefault(row, name)
    return found


def _rows(column: Any, mark: str) -> list[int]:
    kind = column.type
    types = pa.types
    if types.is_string(kind):
        return list(pc.indices_nonzero(pc.match_substring(column, mark)).to_pylist())
    if types.is_list(kind) and types.is_string(kind.value_type):
        has = pc.match_substring(pc.list_flatten(column), mark)
        return sorted(set(pc.list_parent_indices(column).filter(has).to_pylist()))
    if types.is_nested(kind):
        return [row for row, value in enumerate(column.to_pylist()) if _has(value, mark)]
    return []


def _has(value: Any, mark: str) -> bool:
    if isinstance(value, str):
        return mark in value
    if isinstance(value, Mapping):
        return any(_has(each, mark) for each in value.values())
    return isinstance(value, list | tuple) and any(_has(each, mark) for each in value)
