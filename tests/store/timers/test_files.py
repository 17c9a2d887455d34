"""A run is named once it is durable, and goes once it is not named any more."""

from __future__ import annotations

import errno

import pytest
from tests.store.support.timer_parts import ROOT, new_disk
from tests.store.timers.test_run import timed

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.timers.files import Saved, TimerFiles, parse_pending, parse_waiting
from rocketpipe.testing.simulation.disk import SimDisk

DIRECTORY = ROOT / "timer"


@pytest.fixture
def disk() -> SimDisk:
    return new_disk()


def files_on(disk: SimDisk) -> TimerFiles:
    return TimerFiles(disk, OpenFiles(disk, 4), DIRECTORY)


def names(disk: SimDisk) -> list[str]:
    return [path.name for path in disk.files() if path.suffix != ".bak"]


def save(files: TimerFiles, *, log_first: int | None = None) -> None:
    first = None if log_first is None else LogOffset(log_first)
    files.begin_sync(Saved(LogOffset(100), count=3), first).now()


def written(files: TimerFiles, runs: int) -> None:
    for number in range(runs):
        files.write([timed(number).entry()])


def test_what_was_saved_is_there_after_a_power_cut(disk: SimDisk) -> None:
    files = files_on(disk)
    written(files, 3)
    save(files)
    disk.crash(keep="nothing")
    again = files_on(disk)
    saved = again.load(LogOffset(100))
    assert saved is not None
    assert (saved.holds_to, saved.count) == (100, 3)
    assert [run.head() for run in again.runs] == [timed(number).entry() for number in range(3)]


def test_a_run_that_nothing_names_is_removed_and_its_number_not_used_again(disk: SimDisk) -> None:
    files = files_on(disk)
    written(files, 2)
    save(files)
    written(files, 1)
    disk.crash(keep="everything")
    again = files_on(disk)
    again.load(LogOffset(100))
    assert names(disk) == ["1", "2", "waiting.json"]
    written(again, 1)
    assert names(disk) == ["1", "2", "4", "waiting.json"]


@pytest.mark.parametrize("log_end", [99, 100])
def test_files_of_a_log_that_was_cut_are_not_used(disk: SimDisk, log_end: int) -> None:
    files = files_on(disk)
    written(files, 2)
    save(files)
    again = files_on(disk)
    assert (again.load(LogOffset(log_end)) is None) == (log_end < 100)
    assert len(again.runs) == (2 if log_end == 100 else 0)


def test_merged_runs_go_once_the_new_one_is_named(disk: SimDisk) -> None:
    files = files_on(disk)
    written(files, 8)
    save(files, log_first=0)
    assert len(files.runs) == 1
    assert names(disk) == [*"123456789", "waiting.json"]  # a crash now has the first eight
    assert len(load(disk.copy()).runs) == 8
    save(files)
    assert names(disk) == ["9", "waiting.json"]
    assert len(load(disk).runs) == 1


def load(disk: SimDisk) -> TimerFiles:
    files = files_on(disk)
    assert files.load(LogOffset(100)) is not None
    return files


@pytest.mark.parametrize(
    ("number", "operation", "path"),
    [(errno.ENOSPC, "write", "timer/9"), (errno.EMFILE, "create", "timer/9")],
)
def test_without_room_or_descriptors_nothing_is_merged_and_all_is_saved(
    disk: SimDisk, number: int, operation: str, path: str
) -> None:
    files = files_on(disk)
    written(files, 8)
    disk.fail(errno=number, only={operation}, path=path)
    save(files, log_first=0)
    assert len(files.runs) == 8
    assert len(load(disk.copy()).runs) == 8
    save(files, log_first=0)
    save(files)
    assert len(load(disk).runs) == 1


def test_what_could_not_be_saved_is_saved_the_next_time(disk: SimDisk) -> None:
    files = files_on(disk)
    written(files, 8)
    disk.fail(errno=errno.ENOSPC, only={"create"}, path="waiting.json")
    with pytest.raises(DiskError):
        save(files, log_first=0)
    save(files, log_first=0)
    save(files)
    disk.crash(keep="nothing")
    assert len(load(disk).runs) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[]",
        b'{"holds_to": 1}',
        b'{"holds_to":1,"noted_to":1,"count":0,"moved":0,"next":1,"runs":[[1,2]],"fresh":[],"out":[]}',
        b'{"holds_to":1,"noted_to":1,"count":0,"moved":0,"next":1,"runs":[],"fresh":["00"],"out":[]}',
    ],
)
def test_what_is_something_else_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"waits|run|entry|values"):
        parse_waiting(text)


@pytest.mark.parametrize("text", [b"{}", b"[]", b'{"holds_to": 1, "pending": [[1, 2]]}'])
def test_what_no_version_before_wrote_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"waits|run|entry|values"):
        parse_pending(text)
