"""Rows of which only their places are asked for: the queues have those, and no record is read.

So a count costs what 20 bytes a message cost. It costs nothing where only the queues are asked for,
and what is missing ends the read: then it is enough that the log still has the first of a range.
What is missing is a gap as ever. Whether a record is damaged shows only to who reads it: where that
decides which rows there are, records are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rocketpipe.pipeline.log.directory import LogDirectory
from rocketpipe.pipeline.log.queue_view import chosen
from rocketpipe.pipeline.log.reading import gaps_of
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.pipeline.planning.gaps import missing
from rocketpipe.pipeline.planning.ranges import QueueRange
from rocketpipe.store.queues.entries import BLANK_SIZE

#: What all messages of a queue have in common.
_OF_QUEUES: Final = frozenset({"topic", "broker", "queue_id"})
PLACES: Final = _OF_QUEUES | {"queue_offset", "log_offset"}


def asks_places_only(target: pa.Schema, options: ReadOptions, wanted: RowFilter) -> bool:
    """Whether the queues alone know all that is asked for."""
    return (
        PLACES.issuperset(target.names)
        and options.on_bad_message in ("fail", "null")
        and wanted.tags is None
        and wanted.keys is None
        and wanted.stored_ms is None
    )


def read_places(
    directory: LogDirectory, ranges: Iterable[QueueRange], target: pa.Schema, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """The places of all messages of some ranges, those of short ones together.

    Raises:
        MessagesGone: If messages are no more, and ``onGap`` is fail.
        DiskError: If the files cannot be read.
    """
    held: list[pa.RecordBatch] = []
    count = 0
    is_told = options.on_gap == "fail" and _OF_QUEUES.issuperset(target.names)
    for part in ranges:
        if is_told and part.count >= options.batch_rows and _has_first(directory, part):
            yield from _alike(part, target, options.batch_rows)
            continue
        for start in range(part.start, part.end, options.batch_rows):
            end = min(start + options.batch_rows, part.end)
            batch = _batch(directory, part, start, end, target, options)
            if held and count + batch.num_rows > options.batch_rows:
                yield pa.concat_batches(held)
                held, count = [], 0
            held.append(batch)
            count += batch.num_rows
    if count:
        yield pa.concat_batches(held)


def _has_first(directory: LogDirectory, part: QueueRange) -> bool:
    """Whether the log has not yet lost anything of a range."""
    first, end = directory.ends(part.queue.topic, part.queue.queue_id)
    return first <= part.start and part.end <= end


def _alike(part: QueueRange, target: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """So many rows of a queue, which are all the same."""
    rows = min(part.count, batch_rows)
    values = _values_of(part)
    columns = [pa.repeat(pa.scalar(values[field.name], field.type), rows) for field in target]
    batch = pa.RecordBatch.from_arrays(columns, schema=target)
    for start in range(0, part.count, rows):
        yield batch.slice(0, part.count - start)


def _values_of(part: QueueRange) -> dict[str, Any]:
    queue = part.queue
    return {"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id}


def _batch(
    directory: LogDirectory,
    part: QueueRange,
    start: int,
    end: int,
    target: pa.Schema,
    options: ReadOptions,
) -> pa.RecordBatch:
    queue = part.queue
    entries = directory.queue(queue.topic, queue.queue_id).entries(start, end)
    offsets = np.arange(start, end, dtype=np.int64)
    gone = (entries["size"] == BLANK_SIZE) | (entries["at"] < directory.log.first_offset)
    if gone.any():
        for gap in gaps_of(part, offsets[gone]):
            missing(gap, options.on_gap)
        entries, offsets = chosen(entries, ~gone), offsets[~gone]
    values = {
        **_values_of(part),
        "queue_offset": offsets,
        "log_offset": entries["at"].astype(np.int64),
    }
    columns = []
    for field in target:
        value = values[field.name]
        if isinstance(value, np.ndarray):
            columns.append(pa.array(value, field.type))
        else:
            columns.append(pa.repeat(pa.scalar(value, field.type), offsets.size))
    return pa.RecordBatch.from_arrays(columns, schema=target)
