"""Runs: what most pulls want, records close together in the log, read and checked as one.

A reader that wants all that follows has its records side by side, or with few others between them.
They are found by their entries, read at once, and put behind a head that the caller wrote, without
an object for each. Whatever is not so simple, be it damage, a gap or the end of a file, is no run:
``reader`` knows what is right then.

``_runs.pyx`` is the compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

from rocketpipe import compiled
from rocketpipe.store.queues.entries import (
    QUEUE_ENTRY,
    QUEUE_ENTRY_BYTES,
    choose_entries,
    sealed_records,
)

#: Records of one queue lie among those of others. To read over what is between them is quicker than
#: to read each by itself, as long as that is not much.
MAX_GAP_BYTES: Final = 16 << 10
MAX_WINDOW_BYTES: Final = 512 << 10

#: Where the first record begins in the log, where the last ends, their number, and their bytes.
Span: TypeAlias = tuple[int, int, int, int]


class Readable(Protocol):
    """A file of the log; compiled, one of `Disk` is read without asking it."""

    def read(self, size: int, at: int, /) -> bytes: ...


def find_run(entries: bytes, first: int, max_count: int, max_bytes: int) -> Span | None:
    """Find the records of these entries, if all are there and close together; else give None.

    It takes as many as `choose_entries` would. Records below ``first`` are gone.
    """
    wanted, passed, _ = choose_entries(entries, first, max_count, max_bytes, None)
    if not wanted or len(wanted) != passed:
        return None
    start = end = wanted[0][0]
    for offset, size, _ in wanted:
        if not end <= offset <= end + MAX_GAP_BYTES or offset + size > start + MAX_WINDOW_BYTES:
            return None
        end = offset + size
    return start, end, passed, sum(size for _, size, _ in wanted)


def read_run(
    file: Readable, at: int, head: bytes, entries: bytes, span: Span, verify: bool
) -> bytes | None:
    """Give ``head`` and behind it the records of a run, which begins at ``at`` of the file.

    None if one of them is not what was written and, with ``verify``, known to be so by its
    checksum, or the file ends too early: somebody has to look more closely.

    Raises:
        DiskError: They cannot be read.
    """
    start, end, count, _ = span
    data = file.read(end - start, at)
    if len(data) != end - start:
        return None
    places = QUEUE_ENTRY.iter_unpack(entries[: count * QUEUE_ENTRY_BYTES])
    wanted = [(offset, size, number) for number, (offset, size, _) in enumerate(places)]
    records, many = sealed_records(data, start, wanted, 0, verify)
    return head + records if many == count else None


compiled.take_over(globals(), "rocketpipe.store.queues._runs")
