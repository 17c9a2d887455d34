from __future__ import annotations

import errno
from pathlib import Path
from zlib import crc32

import pytest

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.errors import QueueDamaged
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.queues import queue_files
from rocketpipe.store.queues.entries import queue_entry
from rocketpipe.store.queues.queue_files import FileSum, QueueFiles
from rocketpipe.testing.simulation.disk import SimDisk

DIRECTORY = Path("/queue")
FILE_BYTES = 100  # five entries
END = LogOffset(1 << 40)


def new_files(disk: SimDisk) -> QueueFiles:
    return QueueFiles(disk, OpenFiles(disk, 2), DIRECTORY, FILE_BYTES)


def entries(first: int, end: int) -> bytes:
    return b"".join(queue_entry(n * 100, 100, n) for n in range(first, end))


def written(disk: SimDisk, count: int) -> QueueFiles:
    files = new_files(disk)
    files.append(entries(0, count))
    files.sync()
    return files


def name(base: int) -> Path:
    return DIRECTORY / f"{base:020d}"


def test_entries_are_read_over_the_ends_of_files() -> None:
    files = written(SimDisk(), 13)
    assert (files.first, files.end) == (0, 260)
    for at in range(13):
        for count in range(14 - at):
            if count:
                assert files.read(at * 20, count * 20) == entries(at, at + count)


def test_nothing_is_read_that_was_not_written() -> None:
    files = written(SimDisk(), 3)
    with pytest.raises(AssertionError):
        files.read(40, 40)


def test_a_queue_of_three_entries_takes_little_of_a_long_file(tmp_path: Path) -> None:
    files = QueueFiles(Disk(), OpenFiles(Disk(), 1), tmp_path / "queue", 6_000_000)
    files.append(entries(0, 3))
    files.sync()
    stat = (tmp_path / "queue" / f"{0:020d}").stat()
    assert stat.st_size == 6_000_000
    assert stat.st_blocks * 512 < 100_000


def test_the_end_is_behind_what_was_written_before_an_error() -> None:
    disk = SimDisk()
    files = written(disk, 3)
    disk.fail(only={"create"}, errno=errno.ENOSPC)
    with pytest.raises(DiskError):
        files.append(entries(3, 8))
    assert files.end == 100
    assert files.read(0, 100) == entries(0, 5)
    files.append(entries(5, 8))
    assert files.read(0, 160) == entries(0, 8)


def test_sums_are_of_what_was_synced() -> None:
    files = written(SimDisk(), 7)
    first = FileSum(0, 5, crc32(entries(0, 5)))
    assert files.sums() == [first, FileSum(100, 2, crc32(entries(5, 7)))]
    files.append(entries(7, 8))
    assert files.unsynced
    assert files.sums() == [first, FileSum(100, 2, crc32(entries(5, 7)))]
    files.sync()
    assert not files.unsynced
    assert files.sums() == [first, FileSum(100, 3, crc32(entries(5, 8)))]
    assert files.sums()[-1].end == files.end


@pytest.mark.parametrize("count", range(14))
def test_what_is_cut_reads_as_zeros(count: int) -> None:
    disk = SimDisk()
    files = written(disk, 13)
    files.cut(count * 20)
    files.sync()
    assert files.end == count * 20
    held = b"".join(disk.content(path) for path in disk.files())
    assert held == entries(0, count).ljust(-(-count * 20 // 100) * 100, b"\0")
    assert [known.end for known in files.sums()][-1:] == [count * 20][: bool(count)]
    files.append(entries(count, 14))
    assert files.read(0, 280) == entries(0, 14)


def test_the_first_file_can_go() -> None:
    disk = SimDisk()
    files = written(disk, 13)
    assert files.ends_of_full_files() == [100, 200]
    files.remove_first()
    assert files.first == 100
    files._files.remove_doomed()
    assert disk.files() == [name(100), name(200)]


def test_large_files_are_checked_when_entries_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_files, "CHECKED_AT_ONCE_BYTES", 0)
    disk = SimDisk()
    sums = written(disk, 13).sums()
    disk.flip(name(200), 8 * 19)
    files = new_files(disk)
    assert files.recover(END, sums, clean=True)
    assert files.glance(240) == entries(12, 13)
    assert files.read(0, 200) == entries(0, 10)
    with pytest.raises(QueueDamaged) as found:
        files.read(180, 80)
    assert found.value.path == name(200)


def test_a_first_file_that_is_missing_spoils_the_rest() -> None:
    disk = SimDisk()
    sums = written(disk, 13).sums()
    disk.remove(name(0))
    with pytest.raises(QueueDamaged, match="first file"):
        new_files(disk).recover(END, sums, clean=True)


@pytest.mark.parametrize("count", [0, 1, 5, 13])
def test_a_clean_opening_writes_nothing(count: int) -> None:
    disk = SimDisk()
    sums = written(disk, count).sums()
    disk.make_directory(DIRECTORY)
    files = new_files(disk)
    assert files.recover(END, sums, clean=True)
    assert files.end == count * 20
    assert not files.unsynced


def test_without_sums_the_next_sync_makes_them() -> None:
    disk = SimDisk()
    written(disk, 13)
    files = new_files(disk)
    assert files.recover(END, None, clean=True)
    files.sync()
    assert [(known.base, known.count) for known in files.sums()] == [(0, 5), (100, 5), (200, 3)]


def test_without_sums_files_further_back_are_looked_at_if_the_last_are_garbage() -> None:
    disk = SimDisk()
    written(disk, 33)
    for base in (300, 400, 500, 600):
        disk.put(name(base), b"\xff" * 100)
    files = new_files(disk)
    assert not files.recover(END, None, clean=False)
    assert files.end == 300
    assert files.read(0, 300) == entries(0, 15)


def test_a_queue_can_start_with_a_later_file() -> None:
    disk = SimDisk()
    files = new_files(disk)
    files.start_at(300)
    files.append(entries(15, 17))
    files.sync()
    assert files.first == 300
    assert disk.files() == [name(300)]
    again = new_files(disk)
    assert again.recover(END, files.sums(), clean=True)
    assert again.read(300, 40) == entries(15, 17)
    again.destroy()
    assert disk.files() == []
    assert (again.first, again.end) == (0, 0)
