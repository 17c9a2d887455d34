"""What tasks do when a table is compared with its topic: digests of both sides, by bucket.

A bucket is a run of offsets in one queue. Each side is read once, in whatever order it lies there,
and of each bucket only the number of rows and the exclusive or of their digests leave the task.
Buckets that are not the same are read again, row by row:

    expected    a message of the topic, decoded as the table decodes it: a row, or a bad row;
                of offsets that the topic has no more, their place alone
    stored      a row of the table, or one of its bad rows

A message that is a row in one and bad in the other is the same by the digest of its body: what can
be decoded changes with the schema, and a bad row may have been replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketpipe.pipeline.options.ddl import parse_schema
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.planning.ranges import ReadPartition
from rocketpipe.pipeline.reading import read_part
from rocketpipe.tables.columns import BODY, DIGEST, OF_MESSAGE
from rocketpipe.tables.decoding import Decoding, RowDecoder
from rocketpipe.tables.digests import NULL, Places, Words, of_bodies, of_column, of_rows
from rocketpipe.tables.stored import StoredPart, UnreadablePart

EXPECTED: Final = 0
STORED: Final = 1
STORED_BAD: Final = 2
#: Not a row but a word on the table: a part that cannot be read, and rows that nothing is known of.
LOST: Final = 3
UNKNOWN: Final = 4

SUM_SCHEMA: Final = (
    "side INT, broker STRING, queue_id INT, bucket BIGINT, number BIGINT, digest BIGINT"
)
ROW_SCHEMA: Final = (
    "broker STRING, queue_id INT, bucket BIGINT, queue_offset BIGINT, side INT, digest BIGINT, "
    "whole BIGINT, body BIGINT, is_bad BOOLEAN"
)

_BODILY: Final = pa.schema([*OF_MESSAGE, pa.field(BODY, pa.binary())])
_PLACE: Final = OF_MESSAGE.names[:3]
_FEW_VALUES: Final = frozenset({"broker", "tags"})
_RANGE_ROWS: Final = 1_000_000
_BUCKET_BITS: Final = 44

#: A queue, in the words of a row.
Pair: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a table must have of a queue: by place from ``begin``, and all of it from ``first``."""

    #: None where it is not known what the table began with.
    begin: int | None
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class PlaceRange:
    """Offsets that a table must have, of messages that the topic has no more."""

    pair: Pair
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Some rows of the table, or of its bad rows."""

    part: StoredPart
    is_bad: bool = False
    #: Whether there may be some of a batch that the table does not have yet.
    is_ahead: bool = False


Part: TypeAlias = ReadPartition | PlaceRange | StoredRows


class Rows(NamedTuple):
    """Digests of rows, and where in the topic their messages stand."""

    side: int
    #: By number, the queues that ``queue`` names.
    pairs: list[Pair]
    queue: Places
    offset: Places
    digest: Words
    #: The digest with the columns that the table got later, which a replayed row has.
    whole: Words
    body: Words
    is_bad: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a task is told: the parts of both sides, of which it reads those it is given."""

    parts: tuple[Part, ...]
    decoding: Decoding
    #: Options of the connector.
    source: Mapping[str, str]
    bounds: Mapping[Pair, Bounds]
    #: By column: rows before these offsets were written without it.
    since: Mapping[str, Mapping[Pair, int]]
    #: A bucket has 2 to the power of this many offsets.
    shift: int
    #: The buckets that are looked at; None: all.
    only: Mapping[Pair, frozenset[int]] | None = None

    def sums(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For ``mapInArrow``: the digests of buckets, of the parts whose numbers are given."""
        for part in self._given(batches):
            found = _Sums(self.shift)
            for rows in self._rows(part, found):
                found.add(rows)
            yield found.batch()

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For ``mapInArrow``: the digests of rows, of the parts whose numbers are given."""
        for part in self._given(batches):
            for rows in self._rows(part, _Sums(self.shift)):
                yield _row_batch(rows, self.shift)

    def _columns_of(self, side: int) -> pa.Schema:
        """What is asked of rows, and of bad rows."""
        return _BODILY if side == STORED_BAD else self.decoding.columns.schema

    def _given(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self.parts[number]

    def _rows(self, part: Part, words: _Sums) -> Iterator[Rows]:
        if isinstance(part, PlaceRange):
            yield from self._of_places(part)
        elif isinstance(part, StoredRows):
            yield from self._of_table(part, words)
        else:
            yield from self._of_topic(part)

    def _of_places(self, part: PlaceRange) -> Iterator[Rows]:
        for start in range(part.start, part.end, _RANGE_ROWS):
            offsets = np.arange(start, min(part.end, start + _RANGE_ROWS), dtype=np.int64)
            if self.only is not None:
                offsets = offsets[_among(offsets >> self.shift, self.only[part.pair])]
            count = len(offsets)
            batch = pa.RecordBatch.from_arrays(
                [
                    pa.array([part.pair[0]] * count, pa.string()),
                    pa.array([part.pair[1]] * count, pa.int32()),
                    pa.array(offsets),
                ],
                names=_PLACE,
            )
            digests = of_rows([_column(batch, name) for name in _PLACE], count)
            nothing = np.zeros(count, np.uint64)
            yield Rows(
                EXPECTED,
                [part.pair],
                np.zeros(count, np.int64),
                offsets,
                digests,
                digests,
                nothing,
                nothing.astype(np.bool_),
            )

    def _of_topic(self, part: ReadPartition) -> Iterator[Rows]:
        options = ReadOptions.parse(self.source)
        decoder = RowDecoder(self.decoding)
        for batch in read_part(
            part, options, parse_schema(self.decoding.columns.read_schema), options.wanted
        ):
            messages = batch.append_column(DIGEST, of_bodies(batch.column(BODY)))
            rows, bad = decoder.split(messages)
            yield from self._digested(EXPECTED, rows, is_bad=False)
            yield from self._digested(EXPECTED, bad, is_bad=True)

    def _of_table(self, stored: StoredRows, words: _Sums) -> Iterator[Rows]:
        side = STORED_BAD if stored.is_bad else STORED
        try:
            for batch in stored.part.read(self._columns_of(side)):
                yield from self._digested(
                    side, batch, is_bad=stored.is_bad, is_ahead=stored.is_ahead, words=words
                )
        except UnreadablePart as error:
            words.say(LOST, str(error))

    def _digested(
        self,
        side: int,
        batch: pa.RecordBatch,
        *,
        is_bad: bool,
        is_ahead: bool = False,
        words: _Sums | None = None,
    ) -> Iterator[Rows]:
        pairs, queue = _queues(batch)
        offset: Places = batch.column("queue_offset").to_numpy(zero_copy_only=False)
        known = [self.bounds.get(pair, Bounds(0, 0, 0)) for pair in pairs]
        first = np.array([each.first for each in known], np.int64)[queue]
        is_older = offset < first
        kept = np.ones(len(offset), np.bool_)
        if side != EXPECTED and is_older.any():
            is_unknown = np.array([each.begin is None for each in known])[queue] & is_older
            if words is not None and is_unknown.any():
                words.say(UNKNOWN, "", int(is_unknown.sum()))
                kept &= ~is_unknown
        if is_ahead:
            kept &= offset < np.array([each.end for each in known], np.int64)[queue]
        if self.only is not None:
            for number, pair in enumerate(pairs):
                mine = queue == number
                wanted = self.only.get(pair, frozenset())
                kept[mine] &= _among(offset[mine] >> self.shift, wanted)
        if not kept.all():
            batch = batch.filter(pa.array(kept))
            queue, offset, is_older = queue[kept], offset[kept], is_older[kept]
        if not len(offset):
            return
        bad = np.full(len(offset), is_bad)
        if is_bad:
            digests, bodies = _of_bad(batch)
            whole = digests
        else:
            late = self._late(pairs, queue, offset) if side == EXPECTED else {}
            digests = self._of_good(batch, late)
            whole = self._of_good(batch, {}) if late and self.only is not None else digests
            bodies = batch.column(DIGEST).to_numpy(zero_copy_only=False).view(np.uint64)
        if is_older.any():
            places = of_rows([_column(batch, name) for name in _PLACE], len(offset))
            digests = np.where(is_older, places, digests)
            bodies = np.where(is_older, np.uint64(0), bodies)
            whole = digests
            bad &= ~is_older
        yield Rows(side, pairs, queue, offset, digests, whole, bodies, bad)

    def _late(
        self, pairs: list[Pair], queue: Places, offset: Places
    ) -> Mapping[str, npt.NDArray[np.bool_]]:
        """By column, the messages that came to the table before it."""
        return {
            name: offset < np.array([ends.get(pair, 0) for pair in pairs], np.int64)[queue]
            for name, ends in self.since.items()
        }

    def _of_good(self, batch: pa.RecordBatch, late: Mapping[str, npt.NDArray[np.bool_]]) -> Words:
        how = self.decoding.columns
        columns = []
        for name in how.schema.names:
            found = _column(batch, name)
            if name == how.partition_by and pa.types.is_string(how.schema.field(name).type):
                # Of a partition column, Delta reads back empty text as NULL.
                is_empty = pc.fill_null(pc.equal(batch.column(name), ""), True)
                found = np.where(np.asarray(is_empty), NULL, found)
            columns.append(np.where(late[name], NULL, found) if name in late else found)
        return of_rows(columns, batch.num_rows)


def _of_bad(batch: pa.RecordBatch) -> tuple[Words, Words]:
    """The digests of bad rows, and of their bodies; why they are bad is not part of it."""
    bodies = batch.column(BODY)
    lost = np.asarray(bodies.is_null())
    digests = np.where(lost, NULL, np.asarray(of_bodies(bodies)).view(np.uint64))
    columns = [_column(batch, name) for name in OF_MESSAGE.names]
    return of_rows([*columns, digests], batch.num_rows), digests


@dataclass(slots=True)
class _Sums:
    """What is known of a part's buckets so far."""

    shift: int
    _held: dict[tuple[int, Pair, int], tuple[int, int]] = field(default_factory=dict)
    _said: list[tuple[int, str, int]] = field(default_factory=list)

    def say(self, what: int, text: str, number: int = 1) -> None:
        self._said.append((what, text, number))

    def add(self, rows: Rows) -> None:
        buckets = rows.offset >> self.shift
        keys = (rows.queue << _BUCKET_BITS) | buckets
        digests = rows.digest
        if (keys[1:] < keys[:-1]).any():
            order = np.argsort(keys, kind="stable")
            keys, digests = keys[order], digests[order]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(keys)) + 1])
        sums = np.bitwise_xor.reduceat(digests, starts)
        counts = np.diff(np.append(starts, len(keys)))
        for key, count, digest in zip(
            keys[starts].tolist(), counts.tolist(), sums.tolist(), strict=True
        ):
            pair = rows.pairs[key >> _BUCKET_BITS]
            where = (rows.side, pair, key & ((1 << _BUCKET_BITS) - 1))
            number, digest_so_far = self._held.get(where, (0, 0))
            self._held[where] = (number + count, digest_so_far ^ digest)

    def batch(self) -> pa.RecordBatch:
        listed = [
            (side, broker, queue_id, bucket, number, digest)
            for (side, (broker, queue_id), bucket), (number, digest) in self._held.items()
        ]
        listed += [(what, text, 0, 0, number, 0) for what, text, number in self._said]
        columns = list(zip(*listed, strict=True)) or [()] * 6
        digests = np.array(columns[5], np.uint64).view(np.int64)
        kinds = (pa.int32(), pa.string(), pa.int32(), pa.int64(), pa.int64())
        arrays = [pa.array(each, kind) for each, kind in zip(columns, kinds, strict=False)]
        names = ["side", "broker", "queue_id", "bucket", "number", "digest"]
        return pa.RecordBatch.from_arrays([*arrays, pa.array(digests)], names=names)


def _row_batch(rows: Rows, shift: int) -> pa.RecordBatch:
    brokers = pa.array([pair[0] for pair in rows.pairs], pa.string())
    queues = pa.array([pair[1] for pair in rows.pairs], pa.int32())
    number = pa.array(rows.queue)
    count = len(rows.offset)
    columns = {
        "broker": brokers.take(number),
        "queue_id": queues.take(number),
        "bucket": pa.array(rows.offset >> shift),
        "queue_offset": pa.array(rows.offset),
        "side": pa.array([min(rows.side, STORED)] * count, pa.int32()),
        "digest": pa.array(rows.digest.view(np.int64)),
        "whole": pa.array(rows.whole.view(np.int64)),
        "body": pa.array(rows.body.view(np.int64)),
        "is_bad": pa.array(rows.is_bad),
    }
    return pa.RecordBatch.from_pydict(columns)


def _queues(batch: pa.RecordBatch) -> tuple[list[Pair], Places]:
    """The queues of some rows, and for each row the number of its own."""
    brokers = batch.column("broker").dictionary_encode()
    queue_ids = pc.fill_null(batch.column("queue_id"), -1).to_numpy(zero_copy_only=False)
    codes = pc.fill_null(brokers.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    joint = (codes << 32) | (queue_ids.astype(np.int64) & 0xFFFFFFFF)
    names = brokers.dictionary.to_pylist()
    if len(joint) and (joint == joint[0]).all():
        unique, number = joint[:1], np.zeros(len(joint), np.int64)
    else:
        unique, number = np.unique(joint, return_inverse=True)
    pairs = [
        (names[code >> 32] if code >> 32 >= 0 else "", int(np.int32(code & 0xFFFFFFFF)))
        for code in unique.tolist()
    ]
    return pairs, number


def _column(batch: pa.RecordBatch, name: str) -> Words:
    column = batch.column(name)
    if name not in _FEW_VALUES:
        return of_column(column)
    coded = column.dictionary_encode()
    if not len(coded.dictionary):
        return np.full(len(column), NULL)
    found = of_column(coded.dictionary)[
        pc.fill_null(coded.indices, 0).to_numpy(zero_copy_only=False)
    ]
    return np.where(np.asarray(column.is_null()), NULL, found) if column.null_count else found


def _among(buckets: Places, wanted: frozenset[int]) -> npt.NDArray[np.bool_]:
    return np.isin(buckets, np.fromiter(wanted, np.int64, len(wanted)))
