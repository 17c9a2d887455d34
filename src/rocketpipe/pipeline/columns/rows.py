"""A message as a row: the columns there are, and those that a read is asked for.

A body is given as it was sent: inflated, if it travelled compressed. Times are those of the
producer (born) and of the broker (store). Producers write their time themselves, so it may be
anything: one outside the years 1 to 9999, which Spark cannot show, is NULL. So are tag and unique
key where a message has none; its message id is then where it is stored.

With ``decode=text`` there is a column ``text`` beside these, with ``decode=json`` one for each
field that ``decodeSchema``, or the schema of the read, names, with ``decode=avro`` and
``decode=protobuf`` one for each field of their schema. A body that cannot be decoded makes
them NULL, a value that does not fit makes its own column NULL, and ``decode_error`` says why; it is
NULL otherwise.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline.formats.body_schema import FORMATS
from rocketpipe.pipeline.options.decoding import DECODE_SCHEMA
from rocketpipe.pipeline.options.text import OptionError

if TYPE_CHECKING:
    from rocketpipe.pipeline.options.read import ReadOptions

TEXT_COLUMN: Final = "text"
ERROR_COLUMN: Final = "decode_error"

_TEXT: Final = (StringType(), pa.string())
_INT: Final = (IntegerType(), pa.int32())
_LONG: Final = (LongType(), pa.int64())
_BINARY: Final = (BinaryType(), pa.binary())
_TIME: Final = (TimestampType(), pa.timestamp("us", tz="UTC"))
_TEXTS: Final = (ArrayType(StringType()), pa.list_(pa.string()))
_TEXT_BY_TEXT: Final = (MapType(StringType(), StringType()), pa.map_(pa.string(), pa.string()))

_COLUMNS: Final[dict[str, tuple[DataType, pa.DataType]]] = {
    "topic": _TEXT,
    "broker": _TEXT,
    "queue_id": _INT,
    "queue_offset": _LONG,
    "log_offset": _LONG,
    "keys": _TEXTS,
    "tags": _TEXT,
    "body": _BINARY,
    "properties": _TEXT_BY_TEXT,
    "born_timestamp": _TIME,
    "store_timestamp": _TIME,
    "message_id": _TEXT,
    "unique_key": _TEXT,
    "reconsume_times": _INT,
    "sys_flag": _INT,
}

#: Every column that a message has of itself, in order.
SCHEMA: Final = StructType([StructField(name, kind) for name, (kind, _) in _COLUMNS.items()])

_PLAIN_TYPES: Final[dict[type[DataType], pa.DataType]] = {
    StringType: pa.string(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
}
_MAY_BE_NULL: Final = frozenset({"tags", "unique_key", "born_timestamp", "store_timestamp"})
# What Spark's Kafka source calls the same thing.
_CALLED_ELSEWHERE: Final = {
    "value": "body",
    "key": "keys",
    "headers": "properties",
    "partition": "queue_id",
    "offset": "queue_offset",
    "timestamp": "store_timestamp",
}
#: What is known of a message of which nothing can be read.
KNOWN_ANYWAY: Final = frozenset({"topic", "broker", "queue_id", "queue_offset"})


class ColumnError(RocketPipeError, ValueError):
    """A schema asks for what messages do not have; the text says what they have."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column!r} {reason}")
        self.column = column
        self.reason = reason

    def __reduce__(self) -> tuple[type[ColumnError], tuple[str, str]]:
        return type(self), (self.column, self.reason)


class UnreadableMessage(RocketPipeError):
    """A message that cannot be made a row, and where it is."""

    def __init__(self, broker: str, queue_id: int, queue_offset: int, reason: str) -> None:
        super().__init__(
            f"message {queue_offset} in queue {queue_id} of broker {broker!r} "
            f"cannot be read: {reason}; go on without it with "
            '.option("onBadMessage", "null"), "skip" or "quarantine"'
        )
        self.broker = broker
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.reason = reason

    def __reduce__(self) -> tuple[type[UnreadableMessage], tuple[str, int, int, str]]:
        return type(self), (self.broker, self.queue_id, self.queue_offset, self.reason)


def schema_of(options: ReadOptions) -> StructType:
    """The columns of a read for which no schema was given: those the options ask for, or all.

    Raises:
        ColumnError: If ``columns`` names one that there is not, or ``decodeSchema`` one that
            messages have already.
        OptionError: If bodies are JSON, and no field of theirs is named.
    """
    there = StructType([*SCHEMA.fields, *_decoded(options).fields])
    for name in options.columns:
        if name not in there.names:
            raise _unknown(name, there.names)
    wanted = StructType([there[name] for name in options.columns]) if options.columns else there
    _check_fields(wanted, options.decode)
    return wanted


def _decoded(options: ReadOptions) -> StructType:
    """What is decoded from a body, and why that failed."""
    if options.decode is None:
        return StructType()
    error = StructField(ERROR_COLUMN, StringType())
    if options.decode == "text":
        return StructType([StructField(TEXT_COLUMN, StringType()), error])
    fields = [] if options.decode_schema is None else list(options.decode_schema.fields)
    taken = [each.name for each in fields if each.name in _COLUMNS or each.name == ERROR_COLUMN]
    if taken and options.decode == "json":
        raise ColumnError(
            taken[0],
            "of decodeSchema is one that messages have already: leave it out there and take it "
            "from the body, with from_json or get_json_object",
        )
    if taken and not options.columns:
        raise ColumnError(
            taken[0],
            "of the schema is one that messages have already: name what you want with columns, "
            "or give a schemaFile in which it has another name (in Avro, this one as alias)",
        )
    fields = [each for each in fields if each.name not in taken]
    return StructType([*fields, error])


def check_columns(schema: StructType, options: ReadOptions | None = None) -> None:
    """Refuse a schema whose columns are not all columns of messages, of just their types.

    Where bodies are JSON, every other column is a field of theirs.

    Raises:
        ColumnError: If one is unknown, of another type, or NOT NULL where messages may lack it.
        OptionError: If bodies are JSON, and no field of theirs is named.
    """
    decode = options.decode if options is not None else None
    given = _decoded(options) if options is not None else StructType()
    there = StructType([*SCHEMA.fields, *given.fields])
    never_null = frozenset(_COLUMNS) - _MAY_BE_NULL
    if options is not None and options.on_bad_message == "null":
        never_null = KNOWN_ANYWAY
    for field in schema.fields:
        if field.name in there.names:
            _check_type(field, there[field.name].dataType)
        elif decode != "json":
            raise _unknown(field.name, there.names)
        if not field.nullable and field.name not in never_null:
            raise ColumnError(field.name, "may be NULL: leave out NOT NULL")
    arrow_schema(schema, from_json=decode not in FORMATS)
    _check_fields(schema, decode)


def _check_fields(schema: StructType, decode: str | None) -> None:
    fields = set(schema.names) - set(SCHEMA.names) - {ERROR_COLUMN}
    if decode == "json" and not fields and ERROR_COLUMN in schema.names:
        raise OptionError(
            DECODE_SCHEMA,
            f'is missing: name the fields of the bodies, as .option("{DECODE_SCHEMA}", '
            '"city STRING, amount DOUBLE") does, or .schema(…)',
        )


def _check_type(field: StructField, kind: DataType) -> None:
    if field.dataType != kind:
        raise ColumnError(
            field.name,
            f"is {kind.simpleString()}, not {field.dataType.simpleString()}: "
            "ask for that, then cast it",
        )


def _unknown(name: str, there: list[str]) -> ColumnError:
    nearest = get_close_matches(name, there, n=1)
    meant = _CALLED_ELSEWHERE.get(name) or (nearest[0] if nearest else None)
    hint = f"did you mean {meant!r}? " if meant else ""
    return ColumnError(name, f"is unknown: {hint}there are {', '.join(there)}")


def arrow_schema(schema: StructType, *, from_json: bool = True) -> pa.Schema:
    """The Arrow schema in which Spark takes these columns, of bodies that are JSON or have types.

    Raises:
        ColumnError: If a field of a body has a type that JSON cannot be read as.
    """
    return pa.schema(
        [
            pa.field(
                field.name,
                _COLUMNS[field.name][1]
                if field.name in _COLUMNS
                else _arrow_type(field.name, field.dataType, from_json=from_json),
                nullable=field.nullable,
            )
            for field in schema.fields
        ]
    )


def _arrow_type(name: str, kind: DataType, *, from_json: bool) -> pa.DataType:
    """What a field of a body becomes. Spark's own function has other arguments in each version."""

    def inner(kind: DataType) -> pa.DataType:
        return _arrow_type(name, kind, from_json=from_json)

    plain = _PLAIN_TYPES.get(type(kind))
    if plain is not None:
        return plain
    if isinstance(kind, BinaryType) and not from_json:
        return pa.binary()
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, ArrayType):
        return pa.list_(inner(kind.elementType))
    if isinstance(kind, MapType) and (isinstance(kind.keyType, StringType) or not from_json):
        return pa.map_(inner(kind.keyType), inner(kind.valueType))
    if isinstance(kind, StructType):
        return pa.struct([pa.field(field.name, inner(field.dataType)) for field in kind.fields])
    raise ColumnError(
        name,
        f"is {kind.simpleString()}, which bodies are not read as: ask for STRING, numbers, "
        "BOOLEAN, DATE, TIMESTAMP, ARRAY, STRUCT or MAP<STRING, …>, or take it from the column "
        "body",
    )
