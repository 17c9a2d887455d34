"""Rows of which only their places are asked for: the queues have those, and no record is read.

So a count costs what 20 bytes a message cost. What is missing is a gap as ever. Whether a record
is damaged shows only to who reads it: where that decides which rows there are, records are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

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

PLACES: Final = frozenset({"topic", "broker", "queue_id", "queue_offset", "log_offset"})


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
    for part in ranges:
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
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue_id": queue.queue_id,
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
