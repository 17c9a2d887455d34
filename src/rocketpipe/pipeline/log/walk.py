"""From one record of a log to the next, and which of them are in which queue."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from rocketpipe.model.flags import Transaction
from rocketpipe.pipeline.columns.byte_runs import Ints
from rocketpipe.pipeline.columns.records import Records
from rocketpipe.record.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    SIZE_AND_MAGIC,
)
from rocketpipe.store.errors import RecordCorrupt


def whole_records(data: bytes, at: int, segment_end: int) -> tuple[Ints, Ints, int, bool]:
    """Find the whole records that a piece of a segment starts with; ``at`` is where it lies.

    Gives where they start, their sizes, how far they reach, and whether the segment ends there.

    Raises:
        RecordCorrupt: If something else lies between them.
    """
    unpack, end = SIZE_AND_MAGIC.unpack_from, len(data)
    starts: list[int] = []
    place, ended = 0, False
    while end - place >= SIZE_AND_MAGIC.size:
        size, magic = unpack(data, place)
        if magic == BLANK_MAGIC:
            ended = True
            break
        if magic not in (MAGIC_V1, MAGIC_V2) or size < MIN_RECORD_BYTES:
            raise RecordCorrupt(at + place, f"{magic & 0xFFFFFFFF:#010x} is no magic")
        if place + size > end:
            break
        starts.append(place)
        place += size
    places = np.array([*starts, place], np.int64)
    ended = ended or segment_end - (at + place) < SIZE_AND_MAGIC.size
    return places[:-1], np.diff(places), place, ended


def queued_in(data: bytes, starts: Ints, sizes: Ints) -> Iterator[tuple[str, int, Ints, Ints]]:
    """Part records by queue: its topic and number, and of its records the offsets and the rows."""
    records = Records(data, starts, sizes)
    # Prepared and rolled back messages of transactions are in no queue.
    flags = np.asarray(records.column("sys_flag", ""))
    rows = np.flatnonzero(flags & int(Transaction.PREPARED) == 0)
    topics = pc.dictionary_encode(records.column("topic", ""))
    names = topics.dictionary.to_pylist()
    numbers = np.asarray(topics.indices).astype(np.int64)[rows] << 32
    queues = numbers | np.asarray(records.column("queue_id", "")).astype(np.int64)[rows]
    offsets = records.queue_offsets
    order = np.argsort(queues, kind="stable")
    queues, rows = queues[order], rows[order]
    edges = np.flatnonzero(np.diff(queues, prepend=-1, append=-1))
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        of_queue = rows[first:last]
        queue = int(queues[first])
        yield names[queue >> 32], queue & 0xFFFFFFFF, offsets[of_queue], of_queue
