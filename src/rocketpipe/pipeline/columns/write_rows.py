"""What a frame must look like to be sent, and its Arrow batches as columns ready to encode.

    body         binary or string   required
    topic        string             where the row goes, if not to the topic of the options
    keys         array of strings, or a string that is one key
    tags         string
    properties   map of string to string; one whose value is NULL is left out
    queue_key    string or whole number: rows of the same go to the same queue, in order
    delay_level  whole number; 0 and NULL are none

All but the body may be NULL. Java's producers put a text or number into the same queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from rocketpipe.errors import InvalidName, RocketPipeError
from rocketpipe.model import properties as well_known
from rocketpipe.model.group import DELAYS_MS
from rocketpipe.model.message import TAG_SEPARATOR
from rocketpipe.model.names import check_sendable
from rocketpipe.pipeline.columns.texts import (
    Numbers,
    Wrong,
    first_wrong,
    integer_hashes,
    java_hashes,
)
from rocketpipe.record.layout import MAX_BODY_BYTES

#: How many bytes of bodies are encoded at a time: what a task holds is a few times this.
SLICE_BYTES: Final = 16 << 20


class BadColumn(RocketPipeError, ValueError):
    """A frame that cannot be sent as it is; the text names the column and the next step."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column!r} {reason}")
        self.column = column
        self.reason = reason


class BadRow(RocketPipeError, ValueError):
    """A row that is no message, and what is wrong with it; ``row`` counts from 0 in its task."""

    def __init__(self, column: str, row: int, reason: str) -> None:
        super().__init__(f"column {column!r} of row {row} of this partition: {reason}")
        self.column = column
        self.row = row
        self.reason = reason


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_whole(kind: DataType) -> bool:
    return isinstance(kind, ByteType | ShortType | IntegerType | LongType)


def _is_texts(kind: DataType) -> bool:
    return isinstance(kind, ArrayType) and _is_text(kind.elementType)


def _is_named_texts(kind: DataType) -> bool:
    return isinstance(kind, MapType) and _is_text(kind.keyType) and _is_text(kind.valueType)


_COLUMNS: Final[Mapping[str, tuple[Callable[[DataType], bool], str]]] = {
    "body": (lambda kind: _is_text(kind) or isinstance(kind, BinaryType), "binary or string"),
    "topic": (_is_text, "string"),
    "keys": (lambda kind: _is_text(kind) or _is_texts(kind), "array<string> or string"),
    "tags": (_is_text, "string"),
    "properties": (_is_named_texts, "map<string,string>"),
    "queue_key": (lambda kind: _is_text(kind) or _is_whole(kind), "string or a whole number"),
    "delay_level": (_is_whole, "a whole number"),
}


#: The columns that are not the body.
PARTS: Final = frozenset(_COLUMNS) - {"body"}

# What Spark's Kafka sink calls the same thing.
_CALLED_ELSEWHERE: Final = {"value": "body", "key": "keys", "headers": "properties"}


def check_columns(schema: StructType, default_topic: str | None) -> None:
    """Refuse a frame whose columns are not those of messages to send.

    Raises:
        BadColumn: If one is missing, unknown or of another type.
    """
    for field in schema.fields:
        if field.name not in _COLUMNS:
            nearest = get_close_matches(field.name, _COLUMNS, n=1)
            meant = _CALLED_ELSEWHERE.get(field.name) or (nearest[0] if nearest else None)
            hint = f"did you mean {meant!r}? " if meant else ""
            raise BadColumn(
                field.name,
                f"is unknown: {hint}select only what is sent, of {', '.join(_COLUMNS)}",
            )
        fits, wanted = _COLUMNS[field.name]
        if not fits(field.dataType):
            found = field.dataType.simpleString()
            raise BadColumn(field.name, f"is {found}, not {wanted}: {_instead(field)}")
    if "body" not in schema.names:
        raise BadColumn("body", "is missing: name what is to be sent, as in to_json(…) AS body")
    if default_topic is None and "topic" not in schema.names:
        raise BadColumn("topic", 'is missing: add it, or .option("topic", "orders")')


def _instead(field: StructField) -> str:
    if field.name != "body":
        return "cast it, or leave it out"
    if isinstance(field.dataType, ArrayType | MapType | StructType):
        return "send it as JSON, to_json(body) AS body"
    return "cast it, CAST(body AS STRING) AS body"


def arrow_batch(rows: Sequence[Any], schema: StructType) -> pa.RecordBatch:
    """Rows that Spark handed over one by one as a batch of the columns of ``schema``."""
    arrays = [
        pa.array((_plain(row[at]) for row in rows), _arrow_type(field.dataType), size=len(rows))
        for at, field in enumerate(schema.fields)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _plain(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def _arrow_type(kind: DataType) -> pa.DataType:
    if isinstance(kind, BinaryType):
        return pa.binary()
    if _is_whole(kind):
        return pa.int64()
    if _is_texts(kind):
        return pa.list_(pa.string())
    if _is_named_texts(kind):
        return pa.map_(pa.string(), pa.string())
    return pa.string() if _is_text(kind) else to_arrow_type(kind)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows for one topic, checked; of the columns that were not given there is nothing."""

    body: pa.Array
    #: Of each row, which it is in its task.
    numbers: Numbers
    #: As texts of the form ``name 0x01 value 0x02 …``.
    properties: pa.Array | None = None
    keys: pa.Array | None = None
    tags: pa.Array | None = None
    #: Null where there is no delay.
    levels: pa.Array | None = None
    #: Java's hash of the queue key, −1 where there is none: hashes here are never negative.
    hashes: Numbers | None = None

    def __len__(self) -> int:
        return len(self.body)

    def number(self, at: int) -> int:
        """Which row of the task one of these is."""
        return int(self.numbers[at])

    def take(self, indices: Numbers) -> Rows:
        """Some of them, in this order."""
        wanted = pa.array(indices)
        columns = [
            None if column is None else column.take(wanted)
            for column in (self.body, self.properties, self.keys, self.tags, self.levels)
        ]
        body, properties, keys, tags, levels = columns
        hashes = None if self.hashes is None else self.hashes[indices]
        return Rows(body, self.numbers[indices], properties, keys, tags, levels, hashes)


def rows_by_topic(
    batch: pa.RecordBatch, default_topic: str | None, first_row: int = 0
) -> Iterator[tuple[str, Rows]]:
    """Take a batch apart by topic, in slices of limited size; every row is checked.

    Raises:
        BadRow: If one is no message.
    """
    for start, stop in _slices(batch):
        part = batch.slice(start, stop - start)
        rows = _rows(part, first_row + start)
        yield from _by_topic(part, rows, default_topic)


def _slices(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    count = batch.num_rows
    lengths = pc.fill_null(pc.binary_length(batch.column("body")), 0)
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    start = 0
    while start < count:
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + SLICE_BYTES, side="right"))
        stop = min(max(stop, start + 1), count)
        yield start, stop
        start = stop


def _rows(batch: pa.RecordBatch, first_row: int) -> Rows:
    numbers = np.arange(first_row, first_row + batch.num_rows)
    given = set(batch.schema.names)

    def column(name: str) -> pa.Array | None:
        return batch.column(name) if name in given else None

    return Rows(
        _body(batch.column("body"), numbers),
        numbers,
        _properties(column("properties"), numbers),
        _keys(column("keys"), numbers),
        _tags(column("tags"), numbers),
        _levels(column("delay_level"), numbers),
        _hashes(column("queue_key"), numbers),
    )


def _by_topic(
    batch: pa.RecordBatch, rows: Rows, default_topic: str | None
) -> Iterator[tuple[str, Rows]]:
    if "topic" not in batch.schema.names:
        assert default_topic is not None, "the columns were checked"
        yield default_topic, rows
        return
    topics = _narrow(batch.column("topic"))
    if topics.null_count:
        if default_topic is None:
            at = int(topics.is_null().to_numpy(zero_copy_only=False).argmax())
            hint = 'give it one, or add .option("topic", "orders")'
            raise BadRow("topic", rows.number(at), f"is NULL: {hint}")
        topics = pc.fill_null(topics, default_topic)
    coded = topics.dictionary_encode()
    codes = coded.indices.to_numpy()
    names = coded.dictionary.to_pylist()
    for code, name in enumerate(names):
        try:
            check_sendable(name)
        except InvalidName as error:
            row = rows.number(int((codes == code).argmax()))
            raise BadRow("topic", row, str(error)) from error
    if len(names) == 1:
        yield names[0], rows
        return
    order = np.argsort(codes, kind="stable")
    cuts = np.flatnonzero(np.diff(codes[order])) + 1
    for indices in np.split(order, cuts):
        if indices.size:
            yield names[int(codes[indices[0]])], rows.take(indices)


# Columns


def _body(column: pa.Array, numbers: Numbers) -> pa.Array:
    column = _narrow(column)
    if column.null_count:
        at = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        raise BadRow("body", int(numbers[at]), "is NULL: filter such rows out, or give them one")
    lengths = pc.binary_length(column).to_numpy()
    if lengths.size:
        if int(lengths.min()) == 0:
            row = int(numbers[int(lengths.argmin())])
            raise BadRow("body", row, "is empty: a message has at least one byte")
        if int(lengths.max()) > MAX_BODY_BYTES:
            at = int(lengths.argmax())
            reason = f"has {lengths[at]} bytes, {MAX_BODY_BYTES} are the most"
            raise BadRow("body", int(numbers[at]), reason)
    return column if column.type == pa.binary() else column.view(pa.binary())


def _tags(column: pa.Array | None, numbers: Numbers) -> pa.Array | None:
    if column is None:
        return None
    column = _narrow(column)
    _check("tags", first_wrong(column), numbers)
    several = pc.fill_null(pc.match_substring(column, TAG_SEPARATOR), False)
    if pc.any(several).as_py():
        at = int(pc.index(several, True).as_py())
        reason = f"is {column[at].as_py()!r:.80}: a message has one tag"
        raise BadRow("tags", int(numbers[at]), reason)
    return column.view(pa.binary())


def _keys(column: pa.Array | None, numbers: Numbers) -> pa.Array | None:
    if column is None:
        return None
    if not pa.types.is_list(column.type) and not pa.types.is_large_list(column.type):
        column = _narrow(column)
        _check("keys", first_wrong(column, one_word=True), numbers)
        return column.view(pa.binary())
    column = column.cast(pa.list_(pa.string()))
    words, owners, starts = _flat(column, column.flatten())
    if words.null_count:
        at = int(words.is_null().to_numpy(zero_copy_only=False).argmax())
        raise BadRow("keys", int(numbers[owners[at]]), "has a NULL among them")
    _check("keys", first_wrong(words, one_word=True), numbers[owners])
    joined = pc.binary_join(_lists(starts, words.view(pa.binary())), b" ")
    return pc.if_else(pa.array(np.diff(starts) > 0), joined, pa.scalar(None, pa.binary()))


def _properties(column: pa.Array | None, numbers: Numbers) -> pa.Array | None:
    if column is None:
        return None
    column = column.cast(pa.map_(pa.string(), pa.string()))
    if column.null_count or column.offset:
        # A slice of a map, or a NULL in one, may have entries behind it that are not its own.
        column = column.take(pa.array(np.arange(len(column))))
    held = column.offsets.to_numpy()
    names = column.keys.slice(int(held[0]), int(held[-1] - held[0]))
    values = column.items.slice(int(held[0]), int(held[-1] - held[0]))
    starts = held.astype(np.int64) - int(held[0])
    owners = np.repeat(np.arange(len(column)), np.diff(starts))
    _check("properties", first_wrong(names), numbers[owners], "a name")
    reserved = pc.is_in(names, pa.array(sorted(well_known.RESERVED))).to_numpy(zero_copy_only=False)
    if reserved.any():
        at = int(reserved.argmax())
        reason = f"the name {names[at].as_py()!r} is RocketMQ's own: leave it out by map_filter(…)"
        raise BadRow("properties", int(numbers[owners[at]]), reason)
    _check("properties", first_wrong(values), numbers[owners], "a value")
    pieces = pc.binary_join_element_wise(
        names.view(pa.binary()), b"\x01", values.view(pa.binary()), b"\x02", b""
    )
    if pieces.null_count:
        pieces = pc.fill_null(pieces, b"")
    return pc.binary_join(_lists(starts, pieces), b"")


def _levels(column: pa.Array | None, numbers: Numbers) -> pa.Array | None:
    if column is None:
        return None
    levels = column.cast(pa.int64())
    least = pc.min(levels).as_py()
    if least is not None and least < 0:
        at = int(pc.index(levels, least).as_py())
        raise BadRow("delay_level", int(numbers[at]), f"is {least}: a level is 1 or more")
    most = pc.max(levels).as_py()
    if most is not None and most > len(DELAYS_MS):
        at = int(pc.index(levels, most).as_py())
        reason = f"is {most}: {len(DELAYS_MS)} (two hours) is the last level"
        raise BadRow("delay_level", int(numbers[at]), reason)
    levels = pc.if_else(pc.greater(levels, 0), levels, pa.scalar(None, pa.int64()))
    return levels if levels.null_count < len(levels) else None


def _hashes(column: pa.Array | None, numbers: Numbers) -> Numbers | None:
    if column is None or column.null_count == len(column):
        return None
    if pa.types.is_integer(column.type):
        whole = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        hashes = integer_hashes(whole)
    else:
        texts = _narrow(column)
        wrong = first_wrong(texts)
        if wrong is not None and "UTF-8" in wrong.reason:
            _check("queue_key", wrong, numbers)
        hashes = java_hashes(texts)
    # As Java's producers do: the sign is taken away, so that a queue is there for each.
    hashes = np.abs(hashes)
    if column.null_count:
        hashes[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return hashes


# Small things


def _narrow(column: pa.Array) -> pa.Array:
    """Texts and binaries with offsets of 32 bits, whichever Spark was set to."""
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    if pa.types.is_large_binary(column.type) or pa.types.is_binary_view(column.type):
        return column.cast(pa.binary())
    return column


def _flat(column: pa.Array, words: pa.Array) -> tuple[pa.Array, Numbers, Numbers]:
    """The elements of lists, which list each is of, and where each list starts."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    starts = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return words, np.repeat(np.arange(len(column)), lengths), starts


def _lists(starts: Numbers, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), values)


def _check(column: str, wrong: Wrong | None, rows: Numbers, what: str = "") -> None:
    if wrong is not None:
        raise BadRow(column, int(rows[wrong.at]), f"{what} {wrong.reason}".strip())
