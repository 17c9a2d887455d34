"""The next segment is there before it is needed."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.store.layout import file_name
from rocketpipe.store.log.preparer import Preparer
from rocketpipe.store.log.segment_run import SegmentRun
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/log")


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def run(disk: SimDisk) -> SegmentRun:
    run = SegmentRun(disk, ROOT, 4096, preallocate=True)
    run.create_next()
    return run


def test_it_makes_one_segment_each_time_it_is_woken(run: SegmentRun, disk: SimDisk) -> None:
    made = threading.Event()
    prepare = run.prepare_next

    def noted() -> bool:
        try:
            return prepare()
        finally:
            made.set()

    run.prepare_next = noted  # type: ignore[method-assign]
    preparer = Preparer(run, on_failure=pytest.fail)
    preparer.start()
    for number in range(1, 4):
        preparer.wake()
        assert made.wait(PATIENCE_S)
        made.clear()
        assert file_name(number * 4096) in disk.names(ROOT)
        run.create_next()
    preparer.stop()
    preparer.stop()


def test_no_room_is_left_to_the_append_that_needs_it(
    run: SegmentRun, disk: SimDisk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.fail(at=1, only=("preallocate",), errno=errno.ENOSPC)
    Preparer(run, on_failure=pytest.fail).prepare()
    assert "no room" in caplog.text
    run.create_next()


def test_any_other_error_is_a_failure(run: SegmentRun, disk: SimDisk) -> None:
    reasons: list[str] = []
    disk.fail(at=1, only=("sync",), errno=errno.EIO)
    Preparer(run, on_failure=reasons.append).prepare()
    assert len(reasons) == 1
    assert "Input/output error" in reasons[0]
