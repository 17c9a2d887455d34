"""The records of a queue straight from the files of a store, many at a time.

Which they are, and where, its consume queue says. Records of one queue lie among those of others:
neighbours are read at once, over what is between them if that is not much, and what is read fills
one buffer in the order of the queue.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.pipeline.columns.bad_messages import Unreadable, damaged_rows
from rocketpipe.pipeline.columns.byte_runs import Ints, Mask
from rocketpipe.pipeline.columns.records import DamagedRecord, Records
from rocketpipe.pipeline.log.directory import LogDirectory
from rocketpipe.pipeline.log.queue_view import NO_TAG_CODE, Entries, chosen, in_order, joined
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.pipeline.planning.gaps import Gap
from rocketpipe.pipeline.planning.ranges import QueueRange
from rocketpipe.record.hot import java_hash
from rocketpipe.record.layout import MAX_RECORD_BYTES
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.queues.entries import BLANK_SIZE

#: As much is read before it is decoded, or one record if that is longer.
READ_BYTES: Final = 16 << 20

#: To read so much for nothing is quicker than to read twice.
_MAX_BETWEEN: Final = 16 << 10


def read_log(
    directory: LogDirectory, part: QueueRange, wanted: RowFilter, batch_rows: int
) -> Iterator[Records | Gap | Unreadable]:
    """The records of a range, what of it is missing or damaged, in about the order of the queue.

    Files that the broker removes meanwhile are a gap as well: the log just begins later.

    Raises:
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
            yield from gaps_of(part, offsets[gone])
        kept = ~gone
        if hashes is not None:
            kept &= np.isin(entries["tag"], hashes)
        entries, offsets = chosen(entries, kept), offsets[kept]
        for first, last in _portions(entries, directory.log.segment_bytes):
            yield from _portion(directory, part, entries[first:last], offsets[first:last])


def read_together(
    directory: LogDirectory, parts: Sequence[QueueRange], wanted: RowFilter
) -> Records | None:
    """The records of several short ranges at once, in the order of the log.

    So what lies among each other is read together.

    None if they are too long for one buffer, or anything of them is missing or damaged: `read_log`
    says what it is.

    Raises:
        DiskError: If the files cannot be read.
    """
    hashes = _hashes(wanted)
    entries = in_log_order(pieces_of(directory, parts))
    if bool(((entries["size"] == BLANK_SIZE) | (entries["at"] < directory.log.first_offset)).any()):
        return None
    if hashes is not None:
        entries = chosen(entries, np.isin(entries["tag"], hashes))
    if _impossible(entries, directory.log.end).any():
        return None
    if len(_portions(entries, directory.log.segment_bytes)) != 1:
        return None
    # Nobody asks where they are in their queues unless something is wrong with them.
    unasked = np.zeros(entries.size, np.int64)
    try:
        found = list(_records(directory, parts[0], entries, unasked))
    except DiskError as error:
        if error.errno != errno.ENOENT:
            raise
        return None
    return found[0] if len(found) == 1 and isinstance(found[0], Records) else None


def pieces_of(directory: LogDirectory, parts: Sequence[QueueRange]) -> list[Entries]:
    """The entries of each of some ranges.

    Raises:
        DiskError: If the files cannot be read.
    """
    return [
        directory.entries(part.queue.topic, part.queue.queue_id, part.start, part.end)
        for part in parts
    ]


def in_log_order(pieces: Sequence[Entries]) -> Entries:
    """The entries of several ranges, in the order of the log."""
    if len(pieces) == 1:
        return pieces[0]
    entries = joined(pieces)
    return in_order(entries, np.argsort(entries["at"].astype(np.int64), kind="stable"))


def _hashes(wanted: RowFilter) -> Ints | None:
    """The tag codes of entries that may be wanted; None for any."""
    if wanted.tags is None:
        return None
    return np.array([NO_TAG_CODE, *(java_hash(tag) for tag in wanted.tags)], np.int64)


def gaps_of(part: QueueRange, missing: Ints) -> Iterator[Gap]:
    """The runs of offsets of a range that are missing."""
    for run in np.split(missing, np.flatnonzero(np.diff(missing) != 1) + 1):
        yield Gap(part.queue, QueueOffset(int(run[0])), QueueOffset(int(run[-1]) + 1))


def _impossible(entries: Entries, log_end: int) -> Mask:
    """Which entries speak of what no log has, or this one has not."""
    sizes = entries["size"].astype(np.int64)
    wrong: Mask = (sizes <= 0) | (sizes > MAX_RECORD_BYTES) | (entries["at"] > log_end - sizes)
    return wrong


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


def _portion(
    directory: LogDirectory, part: QueueRange, entries: Entries, offsets: Ints
) -> Iterator[Records | Gap | Unreadable]:
    """What the log has of these entries; of some it may have lost the file by now."""
    while offsets.size:
        log = directory.log
        gone = entries["at"] < log.first_offset
        if gone.any():
            yield from gaps_of(part, offsets[gone])
            entries, offsets = chosen(entries, ~gone), offsets[~gone]
            continue
        wrong = _impossible(entries, log.end)
        for row in np.flatnonzero(wrong).tolist():
            at, size, _ = entries[row].tolist()
            reason = f"its queue says {size} bytes at {at} of the log"
            yield Unreadable(part.queue, int(offsets[row]), reason)
        entries, offsets = chosen(entries, ~wrong), offsets[~wrong]
        try:
            if offsets.size:
                yield from _records(directory, part, entries, offsets)
            return
        except DiskError as error:
            if error.errno != errno.ENOENT or not directory.begins_later():
                raise


def _records(
    directory: LogDirectory, part: QueueRange, entries: Entries, offsets: Ints
) -> Iterator[Records | Unreadable]:
    at, end, apart = _breaks(entries, directory.log.segment_bytes)
    sizes = end - at
    firsts = np.flatnonzero(apart)
    lasts = np.concatenate([firsts[1:], [entries.size]]) - 1
    lengths = end[lasts] - at[firsts]
    fills = np.concatenate([[0], np.cumsum(lengths)])
    # Not zeroed first: each byte of it is read, or its records are not looked at.
    buffer = memoryview(np.empty(int(fills[-1]), np.uint8).data)
    edges = pairwise(fills.tolist())
    short = np.zeros(entries.size, np.bool_)
    for run, ((start, stop), place) in enumerate(zip(edges, at[firsts].tolist(), strict=True)):
        read = directory.read_into(buffer[start:stop], place)
        if read != stop - start:
            of_run = slice(int(firsts[run]), int(lasts[run]) + 1)
            short[of_run] = end[of_run] > place + read
    starts = at + np.repeat(fills[:-1] - at[firsts], lasts - firsts + 1)
    bad = dict.fromkeys(np.flatnonzero(short).tolist(), "the file of the log ends before it does")
    good = ~short
    try:
        records = Records(buffer, starts[good], sizes[good])
    except DamagedRecord:
        rows = np.flatnonzero(good)
        damaged = damaged_rows(buffer, starts[good], sizes[good])
        bad |= {int(rows[row]): reason for row, reason in damaged.items()}
        good[list(bad)] = False
        records = Records(buffer, starts[good], sizes[good])
    rows = np.flatnonzero(good)
    for row in np.flatnonzero(records.log_offsets != at[good]).tolist():
        place = int(at[rows[row]])
        bad[int(rows[row])] = f"at {place} of the log is a record that says it is elsewhere"
    for row, reason in sorted(bad.items()):
        record = b"" if short[row] else bytes(buffer[starts[row] : starts[row] + sizes[row]])
        yield Unreadable(part.queue, int(offsets[row]), reason, record)
    yield records.take(np.flatnonzero(~np.isin(rows, list(bad)))) if bad else records
