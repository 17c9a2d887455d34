"""The small files that say how a run ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.store.errors import StoreLocked
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.state.run_files import RunFiles
from rocketpipe.testing.simulation.disk import SimDisk


@pytest.fixture
def marks(tmp_path: Path) -> RunFiles:
    return RunFiles(Disk(), StoreLayout(tmp_path))


def test_one_store_has_a_directory_even_within_one_process(marks: RunFiles, tmp_path: Path) -> None:
    other = RunFiles(Disk(), StoreLayout(tmp_path))
    marks.take_lock()
    with pytest.raises(StoreLocked, match="another broker"):
        other.take_lock()
    assert (tmp_path / "lock").read_bytes() == b"lock"
    marks.release()
    other.take_lock()
    other.release()
    other.release()


def test_a_run_that_does_not_say_that_it_ended_is_noticed(marks: RunFiles, tmp_path: Path) -> None:
    assert not marks.aborted
    assert marks.aborted_pid is None
    marks.begin(pid=4711)
    assert marks.aborted
    assert marks.aborted_pid == 4711
    assert (tmp_path / "abort").read_text() == "4711"
    marks.begin(pid=4712)
    assert marks.aborted_pid == 4712
    marks.end()
    assert not marks.aborted


def test_an_abort_file_of_another_kind_names_no_process(marks: RunFiles, tmp_path: Path) -> None:
    (tmp_path / "abort").write_text("pid@host")
    assert marks.aborted
    assert marks.aborted_pid is None


def test_the_reason_of_a_failure_is_kept_until_the_next_run(marks: RunFiles) -> None:
    assert marks.failure is None
    marks.fail("sync: Input/output error")
    marks.fail("ümlaut")
    assert marks.failure == "ümlaut"
    marks.begin(pid=1)
    assert marks.failure is None


def test_a_disk_that_takes_no_reason_is_only_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    root = Path("/store")
    disk.make_directory(root)
    disk.fail(at=1, only=("create",))
    RunFiles(disk, StoreLayout(root)).fail("EIO")
    assert "cannot be kept" in caplog.text
