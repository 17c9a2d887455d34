"""The end of a queue, found in files that read as zeros behind it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rocketpipe.pipeline.log.queue_view import ENTRY, QueueView
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import file_name
from rocketpipe.store.queues.entries import QUEUE_ENTRY, QUEUE_ENTRY_BYTES

#: Of a file.
ENTRIES = 1000


def write(directory: Path, count: int) -> None:
    """A queue of so many entries."""
    for first in range(0, count, ENTRIES) or (0,):
        entries = [QUEUE_ENTRY.pack(at, 1, 0) for at in range(first, min(count, first + ENTRIES))]
        data = b"".join(entries).ljust(ENTRIES * QUEUE_ENTRY_BYTES, b"\0")
        (directory / file_name(first * QUEUE_ENTRY_BYTES)).write_bytes(data)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 500, 999, 1000, 1001, 1700, 3000])
def test_the_end_is_the_same_wherever_it_is_looked_for_first(tmp_path: Path, count: int) -> None:
    write(tmp_path, count)
    nearby = [count + step for step in (-4097, -65, -64, -1, 0, 1, 64, 65, 4097)]
    for near in (-1, 0, 1, 999, 1000, 2999, 3000, 1 << 40, *nearby):
        view = QueueView(Disk(), tmp_path, None, near=near)
        assert (view.first, view.end, view.written) == (0, count, count)


@pytest.mark.parametrize("size", [0, 1, 19])
@pytest.mark.parametrize("before", [0, 1000])
def test_a_file_that_is_just_being_made_has_no_entry(
    tmp_path: Path, size: int, before: int
) -> None:
    """Whoever makes one gives it its length a moment later, and what it lacks is in the log."""
    if before:
        write(tmp_path, before)
    (tmp_path / file_name(before * QUEUE_ENTRY_BYTES)).write_bytes(bytes(size))
    tail = np.array([before, before + 1]), np.array([(before, 1, 0), (before + 1, 1, 0)], ENTRY)
    for near in (-1, 0, before, before + 1):
        view = QueueView(Disk(), tmp_path, None, near=near)
        assert (view.first, view.end) == (0, before)
        view = QueueView(Disk(), tmp_path, None, tail, near)
        assert view.end == before + 2
        assert view.entries(before, before + 2)["at"].tolist() == [before, before + 1]
