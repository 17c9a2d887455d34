"""Which offsets of queues there are: as runs, found by tasks, put together by the driver.

A run is a stretch of offsets without a gap. Messages are read in order, so a task that has seen
millions of them hands over a run or two for each queue. What two runs have in common is there
twice; what lies between two is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What is asked of messages, and what tasks hand to the driver, in the words of SQL.
COLUMNS: Final = ("topic", "broker", "queue_id", "queue_offset", "log_offset")
RUNS_SCHEMA: Final = (
    "topic STRING, broker STRING, queue_id INT, first BIGINT, `end` BIGINT, first_place BIGINT, "
    "last_place BIGINT, disordered BIGINT"
)
_ARROW: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        *(
            (name, pa.int64())
            for name in ("first", "end", "first_place", "last_place", "disordered")
        ),
    ]
)


class Queue(NamedTuple):
    """A queue of a topic at a broker."""

    topic: str
    broker: str
    queue_id: int


class Run(NamedTuple):
    """Offsets from ``first`` up to ``end``, and where in the log the first and the last are."""

    first: int
    end: int
    first_place: int = 0
    last_place: int = 0
    #: How many lie before their predecessor in the log.
    disordered: int = 0


@dataclass(frozen=True, slots=True)
class Coverage:
    """What there is of one queue."""

    rows: int = 0
    #: Stretches without a gap, in order.
    ranges: tuple[tuple[int, int], ...] = ()
    #: Offsets that are there more than once.
    twice: tuple[tuple[int, int], ...] = ()
    #: Messages that stand before their predecessor in the log.
    disordered: int = 0

    def missing(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The stretches of ``begin`` to ``end`` that are not there."""
        found, at = [], begin
        for first, last in self.ranges:
            if first > at and at < end:
                found.append((at, min(first, end)))
            at = max(at, last)
        if at < end:
            found.append((at, end))
        return found


def runs_of(offsets: np.ndarray[Any, Any], places: np.ndarray[Any, Any]) -> list[Run]:
    """The runs of some offsets, in any order; ``places`` is where in the log each is."""
    if not len(offsets):
        return []
    order = np.argsort(offsets, kind="stable")
    sorted_offsets, sorted_places = offsets[order], places[order]
    steps = np.diff(sorted_offsets)
    cuts = np.flatnonzero(steps != 1) + 1
    backward = np.diff(sorted_places) < 0
    backward[steps != 1] = False
    starts = np.concatenate(([0], cuts))
    ends = np.concatenate((cuts, [len(offsets)]))
    return [
        Run(
            int(sorted_offsets[start]),
            int(sorted_offsets[end - 1]) + 1,
            int(sorted_places[start]),
            int(sorted_places[end - 1]),
            int(backward[start : end - 1].sum()),
        )
        for start, end in zip(starts, ends, strict=True)
    ]


def joined(runs: Iterable[Run]) -> list[Run]:
    """The same runs in order, with those made one of which one goes on where the other ends."""
    found: list[Run] = []
    for run in sorted(runs):
        if found and found[-1].end == run.first:
            before = found[-1]
            backward = int(run.first_place < before.last_place)
            found[-1] = Run(
                before.first,
                run.end,
                before.first_place,
                run.last_place,
                before.disordered + run.disordered + backward,
            )
        else:
            found.append(run)
    return found


def coverage(runs: Iterable[Run]) -> Coverage:
    """What runs come to."""
    kept = list(runs)
    ordered = joined(kept)
    ranges: list[tuple[int, int]] = []
    twice: list[tuple[int, int]] = []
    for run in ordered:
        if ranges and run.first < ranges[-1][1]:
            twice.append((run.first, min(run.end, ranges[-1][1])))
        if ranges and run.first <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], run.end))
        else:
            ranges.append((run.first, run.end))
    return Coverage(
        sum(run.end - run.first for run in kept),
        tuple(ranges),
        tuple(twice),
        sum(run.disordered for run in ordered),
    )


@dataclass(slots=True)
class _Seen:
    runs: dict[Queue, list[Run]] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        offsets = batch.column("queue_offset").to_numpy(zero_copy_only=False)
        places = batch.column("log_offset").to_numpy(zero_copy_only=False)
        names = [batch.column(name).dictionary_encode() for name in COLUMNS[:3]]
        codes = np.zeros(batch.num_rows, np.int64)
        for each in names:
            indices = each.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            codes = codes * len(each.dictionary) + indices
        for code in np.unique(codes):
            chosen = np.flatnonzero(codes == code)
            row = int(chosen[0])
            queue = Queue(*(batch.column(name)[row].as_py() for name in COLUMNS[:3]))
            before = self.runs.get(queue, [])
            self.runs[queue] = joined([*before, *runs_of(offsets[chosen], places[chosen])])


def run_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: messages with `COLUMNS` in, runs out."""
    seen = _Seen()
    for batch in batches:
        if batch.num_rows:
            seen.add(batch)
    rows = [
        {**queue._asdict(), **run._asdict()} for queue, runs in seen.runs.items() for run in runs
    ]
    yield pa.RecordBatch.from_pylist(rows, _ARROW)


def coverages(messages: DataFrame) -> dict[Queue, Coverage]:
    """What there is of each queue, by all of the messages."""
    listed: Any = messages.select(*COLUMNS)
    return gathered(listed.mapInArrow(run_batches, RUNS_SCHEMA).toArrow().to_pylist())


def gathered(rows: Iterable[Mapping[str, Any]]) -> dict[Queue, Coverage]:
    """What tasks have handed over, put together."""
    runs: dict[Queue, list[Run]] = {}
    for row in rows:
        queue = Queue(row["topic"], row["broker"], row["queue_id"])
        runs.setdefault(queue, []).append(Run(*(row[name] for name in Run._fields)))
    return {queue: coverage(each) for queue, each in sorted(runs.items())}


def span(ranges: Sequence[tuple[int, int]]) -> int:
    """How many offsets ranges have."""
    return sum(end - begin for begin, end in ranges)
