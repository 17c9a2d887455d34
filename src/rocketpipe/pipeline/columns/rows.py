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

from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline.formats.body_schema import FORMATS
from rocketpipe.pipeline.options.ddl import sql_type
from rocketpipe.pipeline.options.decoding import DECODE_SCHEMA
from rocketpipe.pipeline.options.text import OptionError

if TYPE_CHECKING:
    from rocketpipe.pipeline.options.read import ReadOptions

TEXT_COLUMN: Final = "text"
ERROR_COLUMN: Final = "decode_error"

_TIME: Final = pa.timestamp("us", tz="UTC")

#: Every column that a message has of itself, in order.
SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("log_offset", pa.int64()),
        ("keys", pa.list_(pa.string())),
        ("tags", pa.string()),
        ("body", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("born_timestamp", _TIME),
        ("store_timestamp", _TIME),
        ("message_id", pa.string()),
        ("unique_key", pa.string()),
        ("reconsume_times", pa.int32()),
        ("sys_flag", pa.int32()),
    ]
)

_PLAIN_TYPES: Final = frozenset(
    {
        *(pa.string(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.float32(), pa.float64(), pa.date32(), _TIME, pa.timestamp("us")),
    }
)
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


def schema_of(options: ReadOptions) -> pa.Schema:
    """The columns of a read for which no schema was given: those the options ask for, or all.

    Raises:
        ColumnError: If ``columns`` names one that there is not, or ``decodeSchema`` one that
            messages have already.
        OptionError: If bodies are JSON, and no field of theirs is named.
    """
    there = pa.schema([*SCHEMA, *_decoded(options)])
    for name in options.columns:
        if name not in there.names:
            raise _unknown(name, there.names)
    wanted = pa.schema([there.field(name) for name in options.columns] or list(there))
    _check_fields(wanted, options.decode)
    return wanted


def _decoded(options: ReadOptions) -> pa.Schema:
    """What is decoded from a body, and why that failed."""
    if options.decode is None:
        return pa.schema([])
    error = pa.field(ERROR_COLUMN, pa.string())
    if options.decode == "text":
        return pa.schema([pa.field(TEXT_COLUMN, pa.string()), error])
    fields = [] if options.decode_schema is None else list(options.decode_schema)
    taken = [each.name for each in fields if each.name in SCHEMA.names or each.name == ERROR_COLUMN]
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
    return pa.schema([*fields, error])


def check_columns(schema: pa.Schema, options: ReadOptions | None = None) -> None:
    """Refuse a schema whose columns are not all columns of messages, of just their types.

    Where bodies are JSON, every other column is a field of theirs.

    Raises:
        ColumnError: If one is unknown, of another type, or NOT NULL where messages may lack it.
        OptionError: If bodies are JSON, and no field of theirs is named.
    """
    decode = options.decode if options is not None else None
    given = _decoded(options) if options is not None else ()
    there = pa.schema([*SCHEMA, *given])
    never_null = frozenset(SCHEMA.names) - _MAY_BE_NULL
    if options is not None and options.on_bad_message == "null":
        never_null = KNOWN_ANYWAY
    for field in schema:
        if field.name in there.names:
            _check_type(field, there.field(field.name).type)
        elif decode != "json":
            raise _unknown(field.name, there.names)
        if not field.nullable and field.name not in never_null:
            raise ColumnError(field.name, "may be NULL: leave out NOT NULL")
    check_body_types(schema, from_json=decode not in FORMATS)
    _check_fields(schema, decode)


def _check_fields(schema: pa.Schema, decode: str | None) -> None:
    fields = set(schema.names) - set(SCHEMA.names) - {ERROR_COLUMN}
    if decode == "json" and not fields and ERROR_COLUMN in schema.names:
        raise OptionError(
            DECODE_SCHEMA,
            f'is missing: name the fields of the bodies, as .option("{DECODE_SCHEMA}", '
            '"city STRING, amount DOUBLE") does, or .schema(…)',
        )


def _check_type(field: pa.Field, kind: pa.DataType) -> None:
    if field.type != kind:
        raise ColumnError(
            field.name,
            f"is {sql_type(kind)}, not {sql_type(field.type)}: ask for that, then cast it",
        )


def _unknown(name: str, there: list[str]) -> ColumnError:
    nearest = get_close_matches(name, there, n=1)
    meant = _CALLED_ELSEWHERE.get(name) or (nearest[0] if nearest else None)
    hint = f"did you mean {meant!r}? " if meant else ""
    return ColumnError(name, f"is unknown: {hint}there are {', '.join(there)}")


def check_body_types(schema: pa.Schema, *, from_json: bool = True) -> pa.Schema:
    """The same schema, whose columns bodies can be read as, be they JSON or of types of their own.

    Raises:
        ColumnError: If a field of a body has a type that they cannot.
    """
    for field in schema:
        if field.name not in SCHEMA.names and not _is_read(field.type, from_json=from_json):
            raise not_read_as(field.name, sql_type(field.type))
    return schema


def not_read_as(name: str, kind: str) -> ColumnError:
    """That bodies are not read as a type, which is given as SQL calls it."""
    return ColumnError(
        name,
        f"is {kind}, which bodies are not read as: ask for STRING, numbers, BOOLEAN, DATE, "
        "TIMESTAMP, ARRAY, STRUCT or MAP<STRING, …>, or take it from the column body",
    )


def _is_read(kind: pa.DataType, *, from_json: bool) -> bool:
    types = pa.types
    if types.is_binary(kind):
        return not from_json
    if types.is_list(kind):
        return _is_read(kind.value_type, from_json=from_json)
    if types.is_map(kind):
        has_text_keys = types.is_string(kind.key_type)
        inside = (kind.key_type, kind.item_type)
        return (has_text_keys or not from_json) and all(
            _is_read(each, from_json=from_json) for each in inside
        )
    if types.is_struct(kind):
        return all(_is_read(field.type, from_json=from_json) for field in kind)
    return kind in _PLAIN_TYPES or bool(types.is_decimal128(kind))
