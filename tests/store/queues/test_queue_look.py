"""Queue files without checksums, by the look of them."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.queues.entries import QUEUE_ENTRY
from rocketpipe.store.queues.queue_look import look_through
from rocketpipe.testing.simulation.disk import SimDisk

FILE_BYTES = 200
END = LogOffset(100 * 50)


def files(disk: SimDisk, entries: int) -> list[tuple[int, Path]]:
    """Files of ten entries, each of a record of a hundred bytes."""
    data = b"".join(QUEUE_ENTRY.pack(100 * number, 100, 7) for number in range(entries))
    paths = []
    for base in range(0, max(len(data), 1), FILE_BYTES):
        path = Path(f"/queue/{base:020d}")
        disk.put(path, data[base : base + FILE_BYTES].ljust(FILE_BYTES, b"\0"))
        paths.append((base, path))
    return paths


@pytest.mark.parametrize("entries", [0, 1, 9, 10, 11, 34, 50])
def test_right_entries_end_where_zeros_begin(entries: int) -> None:
    disk = SimDisk()
    looked = look_through(OpenFiles(disk, 4), files(disk, entries), FILE_BYTES, END)
    assert (looked.end, looked.only_zeros) == (20 * entries, True)


def test_what_is_out_of_order_ends_them_and_is_no_zero() -> None:
    disk = SimDisk()
    paths = files(disk, 34)
    with disk.open(paths[2][1]) as file:
        file.write(QUEUE_ENTRY.pack(5, 100, 7), 80)
    looked = look_through(OpenFiles(disk, 4), paths, FILE_BYTES, END)
    assert (looked.end, looked.only_zeros) == (480, False)
    assert looked.sums[400] == (4, crc32(disk.content(paths[2][1])[:80]))


def test_files_of_which_nothing_is_right_have_those_before_them_looked_at() -> None:
    disk = SimDisk()
    paths = files(disk, 50)
    for _, path in paths[2:]:
        disk.put(path, b"\xff" * FILE_BYTES)
    looked = look_through(OpenFiles(disk, 4), paths, FILE_BYTES, END)
    assert (looked.end, looked.only_zeros) == (400, False)
