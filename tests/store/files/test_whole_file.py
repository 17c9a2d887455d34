"""A small file has all of the old bytes or all of the new ones, whatever happens meanwhile."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.whole_file import write_whole
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut

PATH = Path("/store/small")
TEMPORARY = Path("/store/small.tmp")


def write(disk: Disk, data: bytes) -> None:
    write_whole(disk, PATH, data, TEMPORARY)
    disk.sync_directory(PATH.parent)


def contents(disk: Disk) -> bytes:
    with disk.open(PATH, writable=False) as file:
        return file.read(file.size(), at=0)


def test_what_a_crash_left_is_overwritten() -> None:
    disk = SimDisk()
    disk.make_directory(PATH.parent)
    with disk.create(TEMPORARY) as file:
        file.write(b"half of something longer", at=0)
    write(disk, b"new")
    assert contents(disk) == b"new"
    assert disk.names(PATH.parent) == ["small"]


@pytest.mark.parametrize("keep", ["nothing", "everything"])
def test_a_power_cut_leaves_the_old_bytes_or_the_new_ones(
    keep: Literal["nothing", "everything"],
) -> None:
    seen = []
    for at in range(1, 20):
        disk = SimDisk(at)
        disk.make_directory(PATH.parent)
        write(disk, b"old")
        disk.cut_power(at=at)
        with suppress(PowerCut):
            write(disk, b"new")
            disk.heal()
        disk.crash(keep)
        seen.append(contents(disk))
    assert set(seen) == {b"old", b"new"}
    assert seen == sorted(seen, reverse=True)


def test_what_cannot_be_written_leaves_nothing_behind() -> None:
    disk = SimDisk()
    disk.make_directory(PATH.parent)
    write(disk, b"old")
    disk.fail(errno=errno.ENOSPC, only={"write"})
    with pytest.raises(DiskError):
        write(disk, b"new")
    assert contents(disk) == b"old"
    assert disk.names(PATH.parent) == ["small"]
