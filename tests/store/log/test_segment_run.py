"""Files that together hold one sequence of bytes."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from rocketpipe.store.errors import OddSegment
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.layout import file_name
from rocketpipe.store.log.segment_run import SegmentRun
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/log")


def run_of(disk: Disk, directory: Path = ROOT, *, preallocate: bool = True) -> SegmentRun:
    return SegmentRun(disk, directory, 100, preallocate=preallocate)


def filled(disk: Disk, directory: Path = ROOT, segments: int = 3) -> SegmentRun:
    run = run_of(disk, directory)
    for number in range(segments):
        run.create_next()
        run.write(number * 100, bytes([number + 1]) * 100)
    run.sync(0, segments * 100)
    return run


def test_segments_follow_each_other_and_are_found_again(tmp_path: Path) -> None:
    run = filled(Disk(), tmp_path)
    assert (run.first, run.end) == (0, 300)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        file_name(0),
        file_name(100),
        file_name(200),
    ]
    run.close()
    again = run_of(Disk(), tmp_path)
    assert (again.first, again.end) == (0, 300)
    assert again.read(150, 10) == b"\x02" * 10
    assert again.read(195, 10) == b"\x02" * 5
    assert again.find(300) is None
    assert again.read(300, 1) == b""
    again.close()


def test_an_empty_run_has_no_positions(tmp_path: Path) -> None:
    run = run_of(Disk(), tmp_path / "new")
    assert (run.first, run.end, run.segments) == (0, 0, [])
    assert run.read(0, 1) == b""


def test_the_first_segment_too_is_made_ahead_of_need(tmp_path: Path) -> None:
    run = run_of(Disk(), tmp_path / "new")
    assert run.prepare_next()
    assert not run.prepare_next()
    assert (run.end, run.segments) == (0, [])
    made = list((tmp_path / "new").iterdir())
    run.create_next(base=0)
    assert [segment.path for segment in run.segments] == made


def test_a_log_that_begins_elsewhere_does_without_the_first_segment(tmp_path: Path) -> None:
    run = run_of(Disk(), tmp_path)
    assert run.prepare_next()
    run.create_next(base=500)
    assert [path.name for path in tmp_path.iterdir()] == [f"{500:020d}"]


def test_the_first_segment_may_begin_later(tmp_path: Path) -> None:
    run = run_of(Disk(), tmp_path)
    run.create_next(base=500)
    run.create_next(base=0)
    assert (run.first, run.end) == (500, 700)
    assert run.find(499) is None


def test_the_sizes_of_the_files_count_not_those_of_the_settings(tmp_path: Path) -> None:
    filled(Disk(), tmp_path).close()
    other = SegmentRun(Disk(), tmp_path, 4096, preallocate=True)
    assert other.size == 100
    other.create_next()
    assert other.end == 400


def test_a_last_file_without_bytes_is_removed(tmp_path: Path) -> None:
    filled(Disk(), tmp_path).close()
    (tmp_path / file_name(300)).touch()
    (tmp_path / (file_name(300) + ".tmp")).write_bytes(b"unfinished")
    assert run_of(Disk(), tmp_path).end == 300
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("name", "length", "reason"),
    [
        (file_name(300), 99, "99 bytes long where others have 100"),
        (file_name(400), 100, "begins at 400, not at 300"),
        (file_name(100), 0, "0 bytes long"),
    ],
)
def test_a_file_that_cannot_be_a_segment_is_named(
    tmp_path: Path, name: str, length: int, reason: str
) -> None:
    filled(Disk(), tmp_path).close()
    (tmp_path / name).write_bytes(bytes(length))
    with pytest.raises(OddSegment, match=reason) as caught:
        run_of(Disk(), tmp_path)
    assert caught.value.path == tmp_path / name


def test_a_name_that_does_not_fit_the_length_is_refused(tmp_path: Path) -> None:
    (tmp_path / file_name(50)).write_bytes(bytes(100))
    with pytest.raises(OddSegment, match="multiple of its 100 bytes"):
        run_of(Disk(), tmp_path)


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README").touch()
    assert run_of(Disk(), tmp_path).segments == []
    assert (tmp_path / "README").exists()


def test_a_segment_survives_a_power_cut_once_it_was_created() -> None:
    for seed in range(20):
        disk = SimDisk(seed)
        run = run_of(disk)
        run.create_next()
        disk.crash()
        again = run_of(disk)
        assert (again.end, again.read(0, 100)) == (100, bytes(100))


@pytest.mark.parametrize("operation", ["create", "preallocate", "sync", "rename", "sync directory"])
def test_a_segment_that_cannot_be_made_leaves_nothing_and_may_be_tried_again(
    operation: str,
) -> None:
    disk = SimDisk()
    run = filled(disk, segments=1)
    disk.fail(at=1, only=(operation,), errno=errno.ENOSPC)
    with pytest.raises(DiskError):
        run.create_next()
    disk.heal()
    assert disk.names(ROOT) == [file_name(0)]
    assert run.end == 100
    run.create_next()
    assert run.end == 200


def test_what_was_prepared_is_used_and_nothing_is_made_twice() -> None:
    disk = SimDisk()
    run = filled(disk, segments=1)
    assert run.prepare_next()
    assert not run.prepare_next()
    assert run.end == 100  # it is not yet part of the run
    assert disk.names(ROOT) == [file_name(0), file_name(100)]
    run.create_next()
    assert run.end == 200
    run.prepare_next()
    run.drop_prepared()
    assert disk.names(ROOT) == [file_name(0), file_name(100)]


def test_two_threads_that_make_the_next_segment_make_one_each_in_turn(tmp_path: Path) -> None:
    run = filled(Disk(), tmp_path, segments=1)
    start = threading.Barrier(2)

    def prepare() -> None:
        start.wait()
        for _ in range(50):
            run.prepare_next()

    thread = threading.Thread(target=prepare)
    thread.start()
    start.wait()
    for _ in range(50):
        run.create_next()
    thread.join()
    run.drop_prepared()
    assert run.end == 5100
    assert len(list(tmp_path.iterdir())) == 51
    run.close()


@pytest.mark.parametrize("offset", [0, 1, 99, 100, 101, 199, 200, 250, 299, 300])
def test_a_truncated_run_ends_in_zeros_and_has_no_segment_behind(offset: int) -> None:
    disk = SimDisk()
    run = filled(disk)
    before = b"".join(run.read(base, 100) for base in (0, 100, 200))
    run.truncate(offset)
    disk.crash()
    again = run_of(disk)
    assert again.end == max(100, -(-offset // 100) * 100)
    content = b"".join(again.read(segment.base, 100) for segment in again.segments)
    assert content == before[:offset] + bytes(again.end - offset)


def test_truncating_looks_no_further_than_something_was_written() -> None:
    disk = SimDisk()
    run = filled(disk, segments=1)
    run.truncate(10, dirty_end=20)
    assert run.read(0, 100) == b"\x01" * 10 + bytes(10) + b"\x01" * 80


def test_old_segments_go_but_never_the_last() -> None:
    disk = SimDisk()
    run = filled(disk)
    assert run.delete_before(99) == 0
    assert run.delete_before(250) == 2
    assert (run.first, run.end) == (200, 300)
    assert run.delete_before(10_000) == 0
    assert run.read(250, 1) == b"\x03"
    disk.crash()
    assert run_of(disk).first == 200


def test_a_fresh_file_takes_the_place_of_a_segment() -> None:
    disk = SimDisk()
    run = filled(disk, segments=1)
    fresh = ROOT / "fresh"
    with disk.create(fresh) as file:
        file.write(b"n" * 100, 0)
        file.sync()
    run.replace(run.segments[0], fresh)
    assert run.read(0, 3) == b"nnn"
    disk.crash()
    assert run_of(disk).read(0, 3) == b"nnn"


def test_a_sparse_run_syncs_nothing() -> None:
    disk = SimDisk()
    run = run_of(disk, preallocate=False)
    disk.fail(at=1, only=("sync", "sync directory"))
    run.create_next()
    run.write(0, b"x")
    run.create_next()
    run.truncate(1)
    run.create_next()
    assert run.delete_before(100) == 1
    run.destroy()
    assert disk.names(ROOT) == []
