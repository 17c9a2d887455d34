from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.files.disk import Disk, DiskError, tells_errors
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.queues.entries import queue_entry
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(ROOT)
    return disk


def test_a_file_stays_open_until_others_push_it_out(disk: SimDisk) -> None:
    files = OpenFiles(disk, 2)
    for name in "abc":
        disk.put(ROOT / name, name.encode())
    first = files.get(ROOT / "a")
    files.get(ROOT / "b")
    assert files.get(ROOT / "a") is first
    files.get(ROOT / "c")
    assert len(files) == 2
    assert files.get(ROOT / "a") is first  # b was asked for longest ago
    assert files.get(ROOT / "b").read(1, 0) == b"b"
    assert len(files) == 2


def test_a_file_that_was_pushed_out_is_closed(disk: SimDisk) -> None:
    files = OpenFiles(disk, 1)
    disk.put(ROOT / "a", b"a")
    disk.put(ROOT / "b", b"b")
    first = files.get(ROOT / "a")
    files.get(ROOT / "b")
    with pytest.raises(DiskError):
        first.read(1, 0)


def test_a_new_file_is_all_zeros(disk: SimDisk) -> None:
    files = OpenFiles(disk, 1)
    assert files.create(ROOT / "new", 100).read(200, 0) == bytes(100)


def test_a_new_file_may_have_a_head_before_its_zeros(disk: SimDisk) -> None:
    files = OpenFiles(disk, 1)
    assert files.create(ROOT / "new", 100, b"head").read(200, 0) == b"head" + bytes(96)


def test_a_new_file_takes_no_room(tmp_path: Path) -> None:
    files = OpenFiles(Disk(), 1)
    files.create(tmp_path / "new", 6_000_000)
    files.close()
    stat = (tmp_path / "new").stat()
    assert stat.st_size == 6_000_000
    assert stat.st_blocks * 512 < 100_000


@pytest.mark.parametrize("operation", ["truncate", "write"])
def test_nothing_is_left_of_a_file_that_could_not_be_made(disk: SimDisk, operation: str) -> None:
    files = OpenFiles(disk, 1)
    disk.fail(only={operation}, errno=errno.EIO)
    with pytest.raises(DiskError):
        files.create(ROOT / "new", 100, b"head")
    assert disk.files() == []
    assert len(files) == 0


def test_forgetting_and_closing_close_files(disk: SimDisk) -> None:
    files = OpenFiles(disk, 4)
    a = files.create(ROOT / "a", 1)
    b = files.create(ROOT / "b", 1)
    files.forget(ROOT / "a")
    files.forget(ROOT / "never opened")
    assert len(files) == 1
    files.close()
    for file in (a, b):
        with pytest.raises(DiskError):
            file.read(1, 0)


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    """Sixty-four more than this process has open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(int(name) for name in os.listdir("/dev/fd")) + 64  # noqa: PTH208 - numbers
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_ten_thousand_queues_do_with_few_descriptors(tmp_path: Path, few_descriptors: int) -> None:
    disk = Disk()
    files = OpenFiles(disk, 32)
    queues = QueueSet(disk, files, tmp_path / "consumequeue", tmp_path / "queues.json", 6_000_000)
    many = 10_000
    assert many > few_descriptors
    for turn, step in enumerate((1, 10)):
        for number in range(0, many, step):
            at = (turn * many + number) * 100
            entry = queue_entry(at, 100, 0)
            queues.append(f"topic{number % 100}", number // 100, entry, QueueOffset(turn))
        queues.flush_pending()
    assert len(files) <= 32
    for number in range(0, many, 90):
        entries = queues.entries(f"topic{number % 100}", number // 100, QueueOffset(0), 10)
        assert entries == queue_entry(number * 100, 100, 0) + queue_entry(
            (many + number) * 100, 100, 0
        )
    taken = sum(path.stat().st_blocks for path in tmp_path.rglob("0*0")) * 512
    assert taken <= many * 8192  # of 60 GB that the files are long
    end = queues.holds_to = LogOffset(2 * many * 100)
    queues.sync()
    files.close()

    again = QueueSet(disk, files, tmp_path / "consumequeue", tmp_path / "queues.json", 6_000_000)
    assert again.recover(LogOffset(0), end, end, clean=True) == end
    assert sum(again.max_offset(*queue) for queue in again.queues()) == many + many // 10
    assert len(files) <= 32
    files.close()


def test_directories_are_durable_after_one_sync_of_each_parent() -> None:
    disk = SimDisk()
    files = OpenFiles(disk, 2)
    paths = [Path("/queues") / topic / str(number) for topic in "ab" for number in range(5)]
    for path in paths:
        files.make_directory(path)
    assert [path for what, path in disk.trace if what == "sync directory"] == []
    files.sync_directories()
    synced = [path for what, path in disk.trace if what == "sync directory"]
    assert synced == [Path("/"), Path("/queues"), Path("/queues/a"), Path("/queues/b")]
    files.sync_directories()
    assert len([1 for what, _ in disk.trace if what == "sync directory"]) == len(synced)
    disk.crash(keep="nothing")
    assert disk.names(Path("/queues/a")) == disk.names(Path("/queues/b")) == list("01234")


def test_everything_is_synced_only_where_something_can_tell(tmp_path: Path) -> None:
    files = OpenFiles(SimDisk(), 2)
    files.watch(Path("/"))
    assert not files.sync_everything()
    files = OpenFiles(Disk(), 2)
    assert not files.sync_everything()  # nobody watched while it was written
    files.watch(tmp_path)
    assert files.sync_everything() == tells_errors(sys.platform, os.uname().release)
    files.close()
    assert not files.sync_everything()


def test_a_file_that_is_being_synced_is_closed_when_that_is_over(tmp_path: Path) -> None:
    files = OpenFiles(Disk(), 1)
    first, second = tmp_path / "first", tmp_path / "second"
    lent = files.create(first, 10)
    portion = files.begin_sync([first])
    files.create(second, 10)  # there is room for one
    assert lent.fileno() >= 0
    portion.wait()
    portion.note()
    assert lent.fileno() < 0
    files.close()


def test_a_file_that_is_being_synced_may_be_removed(tmp_path: Path) -> None:
    files = OpenFiles(Disk(), 4)
    path = tmp_path / "file"
    files.create(path, 10)
    portion = files.begin_sync([path])
    files.doom(path)
    files.remove_doomed()
    assert not path.exists()
    portion.now()
    files.close()


def test_a_doomed_file_goes_before_another_gets_its_name(tmp_path: Path) -> None:
    files = OpenFiles(Disk(), 4)
    path = tmp_path / "file"
    files.create(path, 10)
    files.doom(path)
    files.create(path, 20)
    files.remove_doomed()
    assert path.stat().st_size == 20
    files.close()


def test_a_doomed_file_that_cannot_be_removed_is_tried_again() -> None:
    disk = SimDisk()
    files = OpenFiles(disk, 4)
    path = Path("/file")
    files.create(path, 10)
    files.doom(path)
    disk.fail(only={"remove"})
    with pytest.raises(DiskError):
        files.remove_doomed()
    files.remove_doomed()
    assert disk.files() == []
