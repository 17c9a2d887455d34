"""The end of a queue, found in files that read as zeros behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.pipeline.log.queue_view import QueueView
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
