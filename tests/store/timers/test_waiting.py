"""However many wait, few of them are in memory, and a save writes what is new."""

from __future__ import annotations

import random

import pytest
from tests.store.support.timer_parts import (
    DAY_MS,
    NOW_MS,
    ROOT,
    new_disk,
    new_wheel,
    park,
    waiting,
)

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.files import snapshot
from rocketpipe.store.files.snapshot import Snapshot
from rocketpipe.store.timers import waiting as timer_waiting
from rocketpipe.store.timers.entry import hashed, out_ms
from rocketpipe.store.timers.waiting import FRESH, MOST_OUT
from rocketpipe.store.timers.wheel import finished
from rocketpipe.testing.simulation.disk import SimDisk


@pytest.fixture
def disk() -> SimDisk:
    return new_disk()


def test_many_take_no_more_memory_than_few_and_a_save_writes_what_is_new(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    chance = random.Random(3)
    times = [NOW_MS + chance.randrange(DAY_MS) for _ in range(20_000)]
    for number, deliver_ms in enumerate(times):
        park(wheel, deliver_ms, number * 100, f"u{number}")
        assert wheel.in_memory <= FRESH
        if number % 5000 == 4999:
            wheel.begin_sync().now()
    assert len(wheel) == 20_000
    while (before := runs_of(disk)) and wheel.begin_sync().now() is None:
        if runs_of(disk) == before:
            break
    park(wheel, NOW_MS, 20_000 * 100)
    wheel.begin_sync().now()
    assert runs_of(disk) == before  # one more changes none of them
    assert len(disk.content(ROOT / "timer" / "waiting.json")) < 10_000
    given: list[int] = []
    while wheel.is_due(NOW_MS + DAY_MS):
        for timed in wheel.due(NOW_MS + DAY_MS, 64):
            given.append(timed.due_ms)
            wheel.done(timed)
    assert given == sorted([*times, NOW_MS])
    assert len(wheel) == 0
    wheel.begin_sync().now()
    wheel.begin_sync().now()
    assert runs_of(disk) == {}


def runs_of(disk: SimDisk) -> dict[str, int]:
    return {path.name: len(disk.content(path)) for path in disk.files() if path.name.isdigit()}


def test_runs_are_merged_before_there_are_many(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer_waiting, "FRESH", 16)
    monkeypatch.setattr(timer_waiting, "INLINE", 2)
    wheel = new_wheel(disk)
    chance = random.Random(5)
    for number in range(6000):
        park(wheel, NOW_MS + chance.randrange(DAY_MS), number * 100, f"u{number}")
        if number % 100 == 99:
            wheel.begin_sync().now()
            wheel.begin_sync().now()
    assert len(wheel._files.runs) < 40
    assert len(waiting(wheel)) == len(wheel) == 6000


def test_no_more_are_handed_out_at_a_time_than_are_kept_in_memory(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    for number in range(MOST_OUT + 500):
        park(wheel, NOW_MS, number * 100, f"u{number}")
    out = wheel.due(NOW_MS, 10_000)
    assert len(out) == MOST_OUT
    assert not wheel.is_due(NOW_MS)
    wheel.done(out[0])
    assert len(wheel.due(NOW_MS, 10_000)) == 1


def test_a_reader_finds_the_files_of_runs_that_are_merged_meanwhile(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer_waiting, "FRESH", 16)
    wheel = new_wheel(disk)
    for number in range(16 * 8):
        park(wheel, NOW_MS + DAY_MS, number * 100, "u1" if number % 16 == 3 else f"v{number}")
    search = wheel.alike(hashed("orders+u1"), out_ms(NOW_MS + DAY_MS))
    next(search)
    for _ in range(4):
        wheel.begin_sync().now()
    assert len(wheel._files.runs) == 1
    assert [timed.log_offset for timed in finished(search)] == [n * 1600 + 300 for n in range(8)]
    wheel.begin_sync().now()
    assert len(runs_of(disk)) == 1


def test_the_file_that_is_saved_whole_stays_small_whatever_waits(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_SNAPSHOT_BYTES", 400_000)
    wheel = new_wheel(disk)
    for number in range(6000):
        park(wheel, NOW_MS + number, number * 100, f"u{number}")
    assert len(wheel.due(NOW_MS + 6000, 10_000)) == MOST_OUT  # the most that it ever has
    wheel.holds_to = LogOffset(600_000)
    for _ in range(3):
        wheel.sync()
    again = new_wheel(disk)
    assert again.recover(LogOffset(0), LogOffset(600_000), None) == 600_000
    assert len(waiting(again)) == len(again) == 6000


def test_what_a_version_before_saved_and_cannot_be_read_is_read_from_the_log(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / "timer" / "pending.json"
    Snapshot(disk, path).save(b'{"holds_to":100,"pending":[]}' + b" " * 5000)
    monkeypatch.setattr(snapshot, "MAX_SNAPSHOT_BYTES", 4000)
    wheel = new_wheel(disk)
    assert wheel.recover(LogOffset(0), LogOffset(500), LogOffset(300)) == 300
    park(wheel, NOW_MS, 300)
    wheel.holds_to = LogOffset(500)
    wheel.sync()
    assert path not in disk.files()
    assert new_wheel(disk).recover(LogOffset(0), LogOffset(500), LogOffset(300)) == 500
