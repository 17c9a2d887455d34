"""The records of a queue straight from the files of a store, many at a time.

Which they are, and where, its consume queue says. Records of one queue lie among those of others:
neighbours are read at once, over what is between them if that is not much, and what is read fills
one buffer in the order of the queue.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.pipeline.byte_runs import Ints
from rocketpipe.pipeline.filters import Wanted
from rocketpipe.pipeline.gaps import Gap
from rocketpipe.pipeline.log_decode import DamagedRecord, Records
from rocketpipe.pipeline.log_directory import LogDirectory
from rocketpipe.pipeline.queue_view import NO_TAG_CODE, Entries, chosen
from rocketpipe.pipeline.ranges import QueueRange
from rocketpipe.pipeline.rows import UnreadableMessage
from rocketpipe.record.hot import java_hash
from rocketpipe.record.layout import MAX_RECORD_BYTES
from rocketpipe.store.disk import DiskError
from rocketpipe.store.hot import BLANK_SIZE

READ_BYTES: Final = 16 << 20
"""As much is read before it is decoded, or one record if that is longer."""

_MAX_BETWEEN: Final = 16 << 10
"""To read so much for nothing is quicker than to read twice."""


def read_log(
    directory: LogDirectory, part: QueueRange, wanted: Wanted, batch_rows: int
) -> Iterator[Records | Gap]:
    """The records of a range, and what of it is missing, in the order of the queue.

    Raises:
        UnreadableMessage: If the log does not have what the queue says.
        DiskError: If the files cannot be read.
    """
    view = directory.queue(part.queue.topic, part.queue.queue_id)
    hashes = _hashes(wanted)
    for start in range(part.start, part.end, batch_rows):
        end = min(start + batch_rows, part.end)
        entries = view.entries(start, end)
        offsets = np.arange(start, end, dtype=np.int64)
        gone = (entries["size"] == BLANK_SIZE) | (entries["at"] < directory.log.first_offset)
        if gone.any():
            yield from _gaps(part, offsets[gone])
        kept = ~gone
        if hashes is not None:
            kept &= np.isin(entries["tag"], hashes)
        entries, offsets = chosen(entries, kept), offsets[kept]
        for first, last in _portions(entries, directory.log.segment_bytes):
            yield _records(directory, part, entries[first:last], offsets[first:last])


def _hashes(wanted: Wanted) -> Ints | None:
    """The tag codes of entries that may be wanted; None for any."""
    if wanted.tags is None:
        return None
    return np.array([NO_TAG_CODE, *(java_hash(tag) for tag in wanted.tags)], np.int64)


def _gaps(part: QueueRange, missing: Ints) -> Iterator[Gap]:
    for run in np.split(missing, np.flatnonzero(np.diff(missing) != 1) + 1):
        yield Gap(part.queue, QueueOffset(int(run[0])), QueueOffset(int(run[-1]) + 1))


def _breaks(entries: Entries, segment_bytes: int) -> tuple[Ints, Ints, Ints]:
    """Places, ends, and whether each record is to be read apart from the one before it."""
    at = entries["at"].astype(np.int64)
    end = at + entries["size"]
    between = at[1:] - end[:-1]
    apart = (between < 0) | (between > _MAX_BETWEEN)
    apart |= at[1:] // segment_bytes != at[:-1] // segment_bytes
    return at, end, np.concatenate([[True], apart])


def _portions(entries: Entries, segment_bytes: int) -> list[tuple[int, int]]:
    """Part entries so that what is read for each part fits the buffer."""
    if not entries.size:
        return []
    at, end, apart = _breaks(entries, segment_bytes)
    before = np.where(apart[1:], 0, at[1:] - end[:-1])
    filled = np.cumsum(entries["size"].astype(np.int64) + np.concatenate([[0], before]))
    edges = np.flatnonzero(np.diff((filled - 1) // READ_BYTES)) + 1
    places = [0, *edges.tolist(), entries.size]
    return list(pairwise(places))


def _records(directory: LogDirectory, part: QueueRange, entries: Entries, offsets: Ints) -> Records:
    log = directory.log
    at, end, apart = _breaks(entries, log.segment_bytes)
    sizes = end - at
    wrong = (sizes <= 0) | (sizes > MAX_RECORD_BYTES) | (end > log.end)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise _unreadable(
            part, offsets[row], f"its queue says {sizes[row]} bytes at {at[row]} of the log"
        )
    firsts = np.flatnonzero(apart)
    lasts = np.concatenate([firsts[1:], [entries.size]]) - 1
    lengths = end[lasts] - at[firsts]
    fills = np.concatenate([[0], np.cumsum(lengths)])
    # Not zeroed first: each byte of it is read, or an error raised.
    buffer = memoryview(np.empty(int(fills[-1]), np.uint8).data)
    edges = pairwise(fills.tolist())
    for run, ((start, stop), place) in enumerate(zip(edges, at[firsts].tolist(), strict=True)):
        try:
            read = directory.read_into(buffer[start:stop], place)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            first = offsets[firsts[run]]
            raise _unreadable(part, first, "its file was removed from the log") from error
        if read != stop - start:
            raise _unreadable(part, offsets[lasts[run]], "the file of the log ends before it does")
    starts = at + np.repeat(fills[:-1] - at[firsts], lasts - firsts + 1)
    try:
        records = Records(buffer, starts, sizes)
    except DamagedRecord as error:
        raise _unreadable(part, offsets[error.row], error.reason) from error
    elsewhere = np.flatnonzero(records.log_offsets != at)
    if elsewhere.size:
        row = int(elsewhere[0])
        raise _unreadable(
            part, offsets[row], f"at {at[row]} of the log is a record that says it is elsewhere"
        )
    return records


def _unreadable(part: QueueRange, offset: int, reason: str) -> UnreadableMessage:
    queue = part.queue
    return UnreadableMessage(queue.broker_name, queue.queue_id, int(offset), reason)
