"""The files of a batch, written by the tasks; the driver gets their list and nothing else.

A task decodes what it reads, keeps rows until they are worth a row group, and writes them as
Parquet: a file for each value of the partition column, and one of bad rows. Names are new each
time, so what an attempt that died has written is in nobody's way, and in no list.

What a task holds is bounded: rows up to `BUFFER_BYTES`, one Arrow batch that is being decoded, and
the end of each open file.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rocketpipe.tables.columns import BAD_ROWS, kind_named, merged
from rocketpipe.tables.decoding import Decoding, NewField, RowDecoder
from rocketpipe.tables.errors import TooManyParts

#: Rows that a task keeps before it writes them, in bytes of Arrow.
BUFFER_BYTES: Final = 64 << 20
#: The most values of the partition column that a task writes files for.
MOST_PARTS: Final = 500
#: What tasks hand to the driver, in the words of SQL: a kind, and JSON.
LIST_SCHEMA: Final = "kind STRING, facts STRING"

_ROWS: Final = "rows"
_BAD: Final = "bad"
_NEW: Final = "new"
#: The longest name of a directory, in bytes, that every file system takes.
_LONGEST_NAME: Final = 250
_SAFE_VALUE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
#: What a directory is called where the partition column is NULL.
NULL_PART: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Rows that a task has written and that are part of no table yet: a file, as a rule."""

    #: Below the directory that it was to be written to, with ``/`` between.
    path: str
    size: int
    rows: int
    #: The value of the partition column as text, by its name; None is NULL.
    part: dict[str, str | None] = field(default_factory=dict)
    #: As Delta keeps them: the least and the greatest value of columns.
    stats: str = "{}"


@dataclass(frozen=True, slots=True)
class FileList:
    """What the tasks of a batch have written, and the fields they found that are no column."""

    rows: tuple[WrittenFile, ...] = ()
    bad_rows: tuple[WrittenFile, ...] = ()
    new_fields: dict[str, NewField] = field(default_factory=dict)

    @classmethod
    def read(cls, listed: Iterable[tuple[str, str]]) -> FileList:
        """Put together what tasks handed over."""
        files: dict[str, list[WrittenFile]] = {_ROWS: [], _BAD: []}
        new: dict[str, NewField] = {}
        for kind, text in listed:
            facts = json.loads(text)
            if kind != _NEW:
                files[kind].append(WrittenFile(**facts))
                continue
            for name, (type_name, place) in facts.items():
                seen = new.get(name)
                type_now = kind_named(type_name)
                new[name] = (
                    NewField(type_now, place)
                    if seen is None
                    else NewField(merged(seen.kind, type_now), min(seen.place, place))
                )
        by_path = {
            kind: tuple(sorted(some, key=lambda each: each.path)) for kind, some in files.items()
        }
        return cls(by_path[_ROWS], by_path[_BAD], dict(sorted(new.items())))


class RowWriter(Protocol):
    """Writes the rows of one task."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows."""

    def finish(self) -> list[WrittenFile]:
        """Have all of them on the disk; gives what the driver is to know."""

    def discard(self) -> None:
        """Remove what has been written."""


class RowsTo(Protocol):
    """Where tasks write; it travels to them."""

    def open(self, schema: pa.Schema, partition_by: str | None) -> RowWriter:
        """Begin to write the rows of a task."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Files of Parquet below a directory that driver and executors see under the same path."""

    path: str
    #: Whether files have the partition column, or their place alone says it.
    keeps_part: bool = False
    #: Whether a directory is named so that a reader finds the value, whatever it is.
    exact_names: bool = False

    def open(self, schema: pa.Schema, partition_by: str | None) -> PartFiles:
        """Begin to write the files of a task."""
        return PartFiles(self, schema, partition_by)


@dataclass(frozen=True, slots=True)
class FileTask:
    """What a task is told: how to decode, and where to write."""

    decoding: Decoding
    rows_to: RowsTo
    bad_rows_to: RowsTo

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For ``mapInArrow``: write these messages, and give the list.

        Raises:
            TooManyParts: If the partition column has too many values.
        """
        decoder = RowDecoder(self.decoding)
        columns = self.decoding.columns
        good = self.rows_to.open(columns.schema, columns.partition_by)
        bad = self.bad_rows_to.open(BAD_ROWS, None)
        try:
            for batch in batches:
                rows, bad_rows = decoder.split(batch)
                good.add(rows)
                bad.add(bad_rows)
            written = [(_ROWS, each) for each in good.finish()]
            written += [(_BAD, each) for each in bad.finish()]
        except BaseException:
            good.discard()
            bad.discard()
            raise
        listed = [(kind, json.dumps(_plain(each))) for kind, each in written]
        if decoder.new_fields:
            new = {name: (str(each.kind), each.place) for name, each in decoder.new_fields.items()}
            listed.append((_NEW, json.dumps(new)))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([kind for kind, _ in listed], pa.string()),
                pa.array([facts for _, facts in listed], pa.string()),
            ],
            names=["kind", "facts"],
        )


class PartFiles:
    """Files below a directory, one for each value of the partition column."""

    def __init__(self, to: Folder, schema: pa.Schema, partition_by: str | None) -> None:
        self._to = to
        self._by = partition_by
        names = [name for name in schema.names if to.keeps_part or name != partition_by]
        self._schema = pa.schema([schema.field(name) for name in names])
        self._kept: dict[str | None, list[pa.RecordBatch]] = {}
        self._kept_bytes = 0
        self._open: dict[str | None, _OpenFile] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; they are written when there are enough.

        Raises:
            TooManyParts: If the partition column has too many values.
        """
        if not batch.num_rows:
            return
        for value, rows in self._parted(batch):
            self._kept.setdefault(value, []).append(rows)
            self._kept_bytes += rows.nbytes
        if len(self._kept.keys() | self._open.keys()) > MOST_PARTS:
            raise TooManyParts(
                self._to.path,
                f"column {self._by} has more than {MOST_PARTS} values in one task: partition by "
                "date, or by a column that has fewer",
            )
        if self._kept_bytes >= BUFFER_BYTES:
            self._write()

    def finish(self) -> list[WrittenFile]:
        """Write what is left, and have all of it on the disk; gives the files."""
        self._write()
        return [each.finish() for each in self._open.values()]

    def discard(self) -> None:
        """Remove what has been written."""
        for each in self._open.values():
            each.discard()

    def _parted(self, batch: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
        if self._by is None:
            yield None, batch
            return
        column = batch.column(self._by)
        rest = batch.select(self._schema.names)
        values = column.unique()
        for value in values:
            alone = len(values) == 1
            text = as_text(value.as_py())
            same = column.is_null() if not value.is_valid else pc.equal(column, value)
            yield text, rest if alone else rest.filter(same)

    def _write(self) -> None:
        for value, batches in self._kept.items():
            file = self._open.get(value)
            if file is None:
                file = self._open[value] = self._opened(value)
            file.write(pa.Table.from_batches(batches, self._schema))
        self._kept.clear()
        self._kept_bytes = 0

    def _opened(self, value: str | None) -> _OpenFile:
        root = Path(self._to.path)
        if self._by is None:
            return _OpenFile(root, "", self._schema, {})
        name = f"{self._by}={_exact(value) if self._to.exact_names else _folder(value)}"
        if len(name.encode()) > _LONGEST_NAME:
            raise TooManyParts(
                self._to.path,
                f"a value of column {self._by} is too long for a directory's name: partition by "
                "another column, or keep the table as Delta",
            )
        return _OpenFile(root, f"{name}/", self._schema, {self._by: value})


class _OpenFile:
    def __init__(
        self, root: Path, folder: str, schema: pa.Schema, part: dict[str, str | None]
    ) -> None:
        self._path = f"{folder}part-{uuid.uuid4()}.parquet"
        self._file = root / self._path
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._part = part
        self._rows = 0
        self._writer = pq.ParquetWriter(self._file, schema, compression="snappy")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self._rows += rows.num_rows

    def finish(self) -> WrittenFile:
        self._writer.close()
        with self._file.open("rb") as file:
            os.fsync(file.fileno())
        stats = _stats(pq.read_metadata(self._file), self._rows)
        size = self._file.stat().st_size
        return WrittenFile(self._path, size, self._rows, self._part, json.dumps(stats))

    def discard(self) -> None:
        self._writer.close()
        self._file.unlink(missing_ok=True)


def remove(root: Path, files: Sequence[WrittenFile]) -> None:
    """Remove files that shall be part of no table."""
    for each in files:
        (root / each.path).unlink(missing_ok=True)


def _stats(found: Any, rows: int) -> dict[str, Any]:
    """The least and the greatest of whole numbers: what a reader skips files by."""
    least: dict[str, int] = {}
    greatest: dict[str, int] = {}
    for number in range(found.num_columns):
        name = found.schema.column(number).path
        groups = [
            found.row_group(each).column(number).statistics for each in range(found.num_row_groups)
        ]
        if "." in name or not all(each is not None and each.has_min_max for each in groups):
            continue
        if not all(type(each.min) is int and type(each.max) is int for each in groups):
            continue
        least[name] = min(each.min for each in groups)
        greatest[name] = max(each.max for each in groups)
    return {"numRecords": rows, "minValues": least, "maxValues": greatest}


def as_text(value: Any) -> str | None:
    """A value of the partition column as it is kept; None is NULL."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _folder(value: str | None) -> str:
    """A directory's name for a value: as it is where every system takes that."""
    if value is None:
        return NULL_PART
    if _SAFE_VALUE.fullmatch(value):
        return value
    return f"_{blake2b(value.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


def _exact(value: str | None) -> str:
    """A directory's name that readers of partitions turn back into the value."""
    return NULL_PART if not value else quote(value, safe="")


def _plain(file: WrittenFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "size": file.size,
        "rows": file.rows,
        "part": file.part,
        "stats": file.stats,
    }
