"""What tasks do when bad rows are replayed: each is decoded again, and goes one of three ways.

not chosen, or bad again    into a file that takes the place of the bad rows; the error is the
                            new one
good now, to the table      into a file of the table
good now, to the topic      into a file of what is sent, and is settled then
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rocketpipe.tables.columns import BAD_ROWS, BODY, DIGEST, ERROR, NO_NUL, OF_MESSAGE, rows_with
from rocketpipe.tables.decoding import Decoding, RowDecoder
from rocketpipe.tables.digests import of_bodies
from rocketpipe.tables.files import RowsTo, RowWriter
from rocketpipe.tables.stored import StoredPart

Target = Literal["table", "topic", "settled"]

ROWS: Final = "rows"
BAD: Final = "bad"
DONE: Final = "done"
NUMBERS: Final = "numbers"

_MESSAGE: Final = [*OF_MESSAGE.names, BODY]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which bad rows: those whose error has a text, or those of some places; else all."""

    error: str | None = None
    places: frozenset[tuple[str, int, int]] | None = None

    def of(self, bad: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """For each row, whether it is chosen; one without a body never is."""
        chosen = np.array(bad.column(BODY).is_valid(), np.bool_)
        if self.error is not None:
            wanted = re.compile(self.error)
            errors = bad.column(ERROR).to_pylist()
            chosen = chosen & np.array([bool(wanted.search(each or "")) for each in errors])
        if self.places is not None:
            names = ("broker", "queue_id", "queue_offset")
            found = zip(*(bad.column(name).to_pylist() for name in names), strict=True)
            chosen = np.array([each in self.places for each in found], np.bool_)
        return chosen


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """What a task is told: bad rows by part, which of them, how to decode, and where to write."""

    parts: tuple[StoredPart, ...]
    choice: Choice
    to: Target
    decoding: Decoding
    rows_to: RowsTo
    bad_to: RowsTo
    done_to: RowsTo

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For ``mapInArrow``: write the parts whose numbers are given, and give the list."""
        columns = self.decoding.columns
        files = {
            ROWS: self.rows_to.open(columns.schema, columns.partition_by),
            BAD: self.bad_to.open(BAD_ROWS, None),
            DONE: self.done_to.open(BAD_ROWS, None),
        }
        numbers = {"replayed": 0, "failed": 0, "left": 0}
        try:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for bad in self.parts[number].read(BAD_ROWS):
                        self._sort(bad, files, numbers)
            listed = [
                (kind, json.dumps(asdict(each)))
                for kind, some in files.items()
                for each in some.finish()
            ]
        except BaseException:
            for some in files.values():
                some.discard()
            raise
        listed.append((NUMBERS, json.dumps(numbers)))
        yield pa.RecordBatch.from_arrays(
            [pa.array(each, pa.string()) for each in zip(*listed, strict=True)],
            names=["kind", "facts"],
        )

    def _sort(
        self, bad: pa.RecordBatch, files: dict[str, RowWriter], numbers: dict[str, int]
    ) -> None:
        chosen = self.choice.of(bad)
        if self.decoding.form == "postgres" and self.to != "settled":
            # Keys or tags had a NUL, and are no more what was sent.
            chosen[list(rows_with({name: bad.column(name) for name in _MESSAGE}, NO_NUL))] = False
        left = bad.filter(pa.array(~chosen))
        files[BAD].add(left)
        numbers["left"] += left.num_rows
        taken = bad.filter(pa.array(chosen))
        if not taken.num_rows:
            return
        if self.to == "settled":
            files[DONE].add(taken)
            numbers["replayed"] += taken.num_rows
            return
        messages = taken.select(_MESSAGE)
        messages = messages.append_column(DIGEST, of_bodies(messages.column(BODY)))
        for column in self.decoding.columns.more:  # which bad rows do not have
            messages = messages.append_column(column, pa.nulls(messages.num_rows, column.type))
        rows, again = RowDecoder(self.decoding).split(messages)
        files[BAD].add(again)
        numbers["failed"] += again.num_rows
        numbers["replayed"] += rows.num_rows
        if self.to == "table":
            files[ROWS].add(rows)
            return
        names = ("broker", "queue_id", "queue_offset")
        still = set(zip(*(again.column(name).to_pylist() for name in names), strict=True))
        found = zip(*(taken.column(name).to_pylist() for name in names), strict=True)
        files[DONE].add(taken.filter(pa.array([each not in still for each in found])))
