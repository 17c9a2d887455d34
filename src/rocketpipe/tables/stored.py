"""The rows that a table has, as tasks read them: parts that travel, each read by whoever has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

#: About how much one task reads of a table.
PART_BYTES: Final = 64 << 20

_BATCH_ROWS: Final = 50_000


class UnreadablePart(Exception):
    """A file that belongs to a table is gone, or is none; the text names it."""


class StoredPart(Protocol):
    """Some of a table's rows: small, for it travels to a task."""

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Its rows, with just these columns; NULL in one that they were written without.

        Raises:
            UnreadablePart: If some of them are lost; what comes after that is not read.
        """


@dataclass(frozen=True, slots=True)
class Stored:
    """What a table had at one moment: the number of its last batch, and its rows."""

    last_batch: int | None = None
    parts: Sequence[StoredPart] = ()
    #: Whether tasks also see rows that came later.
    is_growing: bool = False


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of Parquet, and the columns that are in its name."""

    path: str
    size: int = 0
    #: The value of the partition column as text, by its name; None is NULL.
    part: dict[str, str | None] = field(default_factory=dict)

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Its rows, with just these columns.

        Raises:
            UnreadablePart: If it is gone, or is no such file.
        """
        path = Path(self.path)
        if not path.exists():  # as the log of a Delta table may write it
            path = Path(unquote(self.path))
        try:
            with pq.ParquetFile(path) as file:
                names = [name for name in schema.names if name in file.schema_arrow.names]
                for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=names):
                    yield self._whole(batch, schema)
        except (OSError, pa.ArrowException) as error:
            raise UnreadablePart(f"{path}: {_first_line(error)}") from error

    def _whole(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        count = batch.num_rows
        arrays = []
        for column in schema:
            if column.name in batch.schema.names:
                arrays.append(batch.column(column.name).cast(column.type))
            else:
                text = self.part.get(column.name) or None  # Delta takes empty text for NULL
                one = pa.scalar(text, pa.string()).cast(column.type)
                arrays.append(pa.repeat(one, count))
        nullable = pa.schema([each.with_nullable(True) for each in schema])
        return pa.RecordBatch.from_arrays(arrays, schema=nullable)


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """Files that are read one after the other."""

    files: tuple[StoredFile, ...]

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of all of them that can be read.

        Raises:
            UnreadablePart: At the end, if one of them cannot.
        """
        lost: list[str] = []
        for each in self.files:
            try:
                yield from each.read(schema)
            except UnreadablePart as error:
                lost.append(str(error))
        if lost:
            more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
            raise UnreadablePart(f"{lost[0]}{more}")


def in_parts(files: Iterable[StoredFile]) -> tuple[StoredFiles, ...]:
    """Files as parts of about the same size."""
    parts: list[StoredFiles] = []
    held: list[StoredFile] = []
    size = 0
    for each in sorted(files, key=lambda file: file.path):
        if held and size + each.size > PART_BYTES:
            parts.append(StoredFiles(tuple(held)))
            held, size = [], 0
        held.append(each)
        size += each.size
    if held:
        parts.append(StoredFiles(tuple(held)))
    return tuple(parts)


def _first_line(error: Exception) -> str:
    return (str(error).strip().split("\n") or [""])[0] or type(error).__name__
