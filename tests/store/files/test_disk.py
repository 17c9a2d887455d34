"""The seam to the file system, on real files, with and without what only Linux has."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.errors import StoreError
from rocketpipe.store.files.disk import ZEROS, Disk, DiskError, DiskFile


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def file(disk: Disk, tmp_path: Path) -> Iterator[DiskFile]:
    with disk.create(tmp_path / "file") as file:
        yield file


@pytest.fixture(params=["as here", "bare POSIX"])
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test twice: with what this machine has, and without the calls that macOS lacks."""
    if request.param == "bare POSIX":
        for name in ("fdatasync", "posix_fallocate", "posix_fadvise"):
            monkeypatch.delattr(os, name, raising=False)
        monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)


@pytest.mark.usefixtures("platform")
def test_what_was_written_is_read_back_from_the_disk(disk: Disk, tmp_path: Path) -> None:
    with disk.create(tmp_path / "log") as file:
        file.preallocate(8192)
        file.write(b"record", at=4090)
        file.sync_data()
        file.sync()
        file.forget_cached()
    with disk.open(tmp_path / "log", writable=False) as file:
        assert file.size() == 8192
        assert file.read(6, at=4090) == b"record"
        assert file.read(8192, at=0).count(0) == 8192 - 6


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("size", [1, 4096, len(ZEROS), 2 * len(ZEROS) + 3])
def test_preallocated_room_is_really_there(file: DiskFile, size: int) -> None:
    file.preallocate(size)
    held = os.fstat(file.fileno())
    assert held.st_size == size
    assert held.st_blocks * 512 >= size


@pytest.mark.usefixtures("platform")
def test_preallocating_keeps_what_is_there(file: DiskFile) -> None:
    file.write(b"kept", at=0)
    file.preallocate(100)
    assert file.read(200, at=0) == b"kept" + bytes(96)
    file.preallocate(10)
    assert file.size() == 100
    file.preallocate(0)
    assert file.size() == 100


def test_a_file_system_that_cannot_allocate_gets_zeros(
    file: DiskFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, at: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    file.preallocate(5000)
    assert file.read(6000, at=0) == bytes(5000)


@pytest.mark.usefixtures("platform")
def test_no_room_shows_before_anything_is_written(file: DiskFile) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(DiskError) as caught:
            file.preallocate(3 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert caught.value.no_room
    assert caught.value.operation == "preallocate"


def test_a_write_that_is_cut_short_says_how_far_it_came(file: DiskFile) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(DiskError) as caught:
            file.write(bytes(1000), at=(1 << 20) - 300)  # the kernel takes 300, then refuses
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.written == 300
    assert caught.value.no_room
    assert isinstance(caught.value, StoreError)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_told_from_a_broken_one(disk: Disk) -> None:
    with disk.open(Path("/dev/full")) as file, pytest.raises(DiskError) as caught:
        file.write(b"x", at=0)
    assert (caught.value.errno, caught.value.no_room) == (errno.ENOSPC, True)
    broken = DiskError("write", Path("log"), OSError(errno.EIO, os.strerror(errno.EIO)))
    assert (broken.errno, broken.no_room) == (errno.EIO, False)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_short_writes_and_reads_are_carried_on(
    file: DiskFile, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    pwrite, pread = os.pwrite, os.pread
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:7], at))
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 5), at))
    data = bytes(range(100))
    file.write(kind(data), at=3)
    assert file.size() == 103
    assert file.read(100, at=3) == data
    assert file.read(500, at=50) == data[47:]
    assert file.read(10, at=103) == b""


def test_a_disk_that_takes_nothing_is_an_error_and_not_a_loop(
    file: DiskFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: 0)
    with pytest.raises(DiskError, match="took no bytes") as caught:
        file.write(b"record", at=0)
    assert caught.value.errno == errno.EIO
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    with pytest.raises(DiskError, match="took no bytes"):
        file.preallocate(10)


class Syncs:
    """Notes which call a sync ended in, and makes it fail when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.fails_with = 0
        monkeypatch.setattr(os, "fsync", lambda fd: self._note("fsync"))
        monkeypatch.setattr(os, "fdatasync", lambda fd: self._note("fdatasync"), raising=False)
        monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if self.fails_with:
            raise OSError(self.fails_with, os.strerror(self.fails_with))


def test_data_is_synced_by_the_cheapest_call_that_is_safe(
    file: DiskFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)
    file.sync_data()
    file.sync()
    monkeypatch.delattr(os, "fdatasync")
    file.sync_data()
    assert syncs.calls == ["fdatasync", "fsync", "fsync"]


def test_macos_is_asked_to_empty_the_drives_cache(
    file: DiskFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)
    asked: list[int] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, command: asked.append(command))
    file.sync_data()
    file.sync()
    assert asked == [51, 51]
    assert syncs.calls == []


def test_a_drive_without_that_call_is_synced_as_far_as_it_goes(
    file: DiskFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)

    def refuse(descriptor: int, command: int) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    file.sync()
    assert syncs.calls == ["fsync"]


@pytest.mark.parametrize("fullsync", [False, True])
def test_a_failed_sync_is_reported_once_and_never_tried_again(
    file: DiskFile, monkeypatch: pytest.MonkeyPatch, *, fullsync: bool
) -> None:
    syncs = Syncs(monkeypatch)
    syncs.fails_with = errno.EIO
    if fullsync:
        monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
        monkeypatch.setattr(fcntl, "fcntl", lambda fd, command: syncs._note("full"))
    with pytest.raises(DiskError) as caught:
        file.sync_data()
    assert (caught.value.operation, caught.value.errno) == ("sync", errno.EIO)
    assert len(syncs.calls) == 1


def test_truncating_cuts_the_tail(file: DiskFile) -> None:
    file.write(b"whole torn", at=0)
    file.truncate(5)
    assert file.read(100, at=0) == b"whole"


def test_a_new_file_never_takes_the_place_of_another(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"acknowledged")
    with pytest.raises(DiskError) as caught:
        disk.create(tmp_path / "log")
    assert caught.value.errno == errno.EEXIST
    assert (tmp_path / "log").read_bytes() == b"acknowledged"


def test_files_and_directories_are_their_owners_alone(disk: Disk, tmp_path: Path) -> None:
    disk.make_directory(tmp_path / "store" / "commitlog")
    disk.create(tmp_path / "store" / "commitlog" / "0").close()
    modes = [path.stat().st_mode & 0o777 for path in sorted((tmp_path / "store").rglob("*"))]
    assert modes == [0o700, 0o600]


def test_names_are_sorted_renamed_and_removed(disk: Disk, tmp_path: Path) -> None:
    for name in ("2", "1", "new.tmp"):
        disk.create(tmp_path / name).close()
    disk.rename(tmp_path / "new.tmp", tmp_path / "2")
    disk.sync_directory(tmp_path)
    assert disk.names(tmp_path) == ["1", "2"]
    disk.remove(tmp_path / "1")
    assert disk.names(tmp_path) == ["2"]


def test_made_directories_are_synced_into_their_parents(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(disk, "sync_directory", synced.append)
    disk.make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert synced == [tmp_path, tmp_path / "a"]
    disk.make_directory(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_a_directory_that_cannot_be_synced_is_let_pass_but_an_io_error_is_not(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)
    syncs.fails_with = errno.EINVAL
    disk.sync_directory(tmp_path)
    syncs.fails_with = errno.EIO
    with pytest.raises(DiskError) as caught:
        disk.sync_directory(tmp_path)
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("open", lambda disk, path: disk.open(path)),
        ("create", lambda disk, path: disk.create(path / "below")),
        ("rename", lambda disk, path: disk.rename(path, path.with_name("other"))),
        ("remove", lambda disk, path: disk.remove(path)),
        ("list", lambda disk, path: disk.names(path)),
        ("sync directory", lambda disk, path: disk.sync_directory(path)),
    ],
)
def test_what_is_not_there_is_named_with_its_path(
    disk: Disk, tmp_path: Path, operation: str, call: object
) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(DiskError) as caught:
        call(disk, missing)  # type: ignore[operator]
    assert caught.value.operation == operation
    assert caught.value.errno == errno.ENOENT
    assert str(missing) in str(caught.value)


def test_a_directory_below_a_file_cannot_be_made(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError) as caught:
        disk.make_directory(tmp_path / "file" / "below")
    assert caught.value.errno in {errno.ENOTDIR, errno.EEXIST}


def test_closing_twice_is_fine_and_using_a_closed_file_is_not(disk: Disk, tmp_path: Path) -> None:
    file = disk.create(tmp_path / "file")
    file.close()
    file.close()
    for use in (
        file.size,
        file.sync,
        file.sync_data,
        file.forget_cached,
        lambda: file.read(1, at=0),
        lambda: file.write(b"x", at=0),
        lambda: file.truncate(0),
        lambda: file.preallocate(1),
    ):
        with pytest.raises(DiskError) as caught:
            use()
        assert caught.value.errno == errno.EBADF


def test_an_error_on_closing_is_told_and_the_file_is_closed(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.create(tmp_path / "file")
    close = os.close

    def close_late(descriptor: int) -> None:
        close(descriptor)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "close", close_late)
    with pytest.raises(DiskError) as caught:
        file.close()
    assert caught.value.no_room
    assert file.fileno() == -1


def test_the_room_of_a_file_system_is_told_and_that_of_nothing_is_an_error(
    disk: Disk, tmp_path: Path
) -> None:
    total, used, free = disk.usage(tmp_path)
    assert 0 <= used <= total
    assert 0 <= free <= total - used
    with pytest.raises(DiskError) as caught:
        disk.usage(tmp_path / "missing")
    assert caught.value.errno == errno.ENOENT


def test_directories_can_be_made_without_a_sync(tmp_path: Path) -> None:
    disk = Disk()
    assert disk.make_directory(tmp_path / "a" / "b", durable=False) == [tmp_path / "a", tmp_path]
    assert disk.make_directory(tmp_path / "a" / "b", durable=False) == []
    assert (tmp_path / "a" / "b").is_dir()


def test_what_is_in_memory_is_read_without_waiting(file: DiskFile) -> None:
    file.write(b"0123456789", at=0)
    assert file.read_cached(4, at=2) == b"2345"
    assert file.read_cached(100, at=8) == b"89"
    assert file.read_cached(10, at=50) == b""
    file.close()
    with pytest.raises(DiskError, match="read"):
        file.read_cached(4, at=0)


def test_a_read_that_would_wait_says_so(file: DiskFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write(b"0123456789", at=0)
    asked: list[int] = []

    def refused(descriptor: int, rooms: list[bytearray], at: int, flags: int = 0) -> int:
        asked.append(flags)
        raise OSError(numbers.pop(), "told so")

    monkeypatch.setattr(os, "preadv", refused)
    monkeypatch.setattr("rocketpipe.store.files.disk._NO_WAIT", 8)
    numbers = [errno.EIO, errno.EOPNOTSUPP, errno.EAGAIN]
    assert file.read_cached(4, at=0) is None
    assert file.read_cached(4, at=0) == b"0123"  # the file system cannot tell
    with pytest.raises(DiskError, match="read"):
        file.read_cached(4, at=0)
    assert asked == [8, 8, 8]
    monkeypatch.setattr("rocketpipe.store.files.disk._NO_WAIT", 0)
    assert file.read_cached(4, at=3) == b"3456"
