from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from rocketpipe.model import properties
from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.files.snapshot import Snapshot
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.timers.entry import ENTRY_BYTES, Timed
from rocketpipe.store.timers.files import PENDING, WAITING
from rocketpipe.store.timers.run import TimerRun
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.findings import Kind, Report
from rocketpipe.testing.clock import ManualClock

NOW_MS = 1_700_000_000_000
HOST = bytes(8)


def timed(number: int) -> Put:
    names = {
        properties.REAL_TOPIC: "orders",
        properties.TIMER_OUT_MS: str(NOW_MS + 60_000),
        "UNIQ_KEY": str(number),
    }
    return Put(
        topic=TIMER_TOPIC,
        queue_id=0,
        body=b"later",
        properties=properties.encode_bytes(names),
        flag=0,
        sys_flag=0,
        born_ms=NOW_MS,
        born_host=HOST,
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store in which three messages wait for their time."""
    config = StoreConfig.embedded(tmp_path / "store")
    clock = ManualClock(NOW_MS)
    store = MessageStore.open(config, disk=Disk(), clock=clock, store_host=HOST, threads=False)
    store.append([[timed(number)] for number in range(3)])
    store.dispatch()
    store.close()
    return config.root


def checked(root: Path) -> Report:
    slots = StoreConfig.embedded(root).index_slots
    return check_store(Disk(), root, index_slots=slots)


def test_nothing_is_wrong_with_what_was_saved(root: Path) -> None:
    assert checked(root).lines()[1] == "nothing is wrong"


def moved(entry: bytes) -> bytes:
    timed = Timed.of(entry)
    return replace(timed, log_offset=LogOffset(timed.log_offset + 7)).entry()


def test_a_message_that_the_log_has_not_is_found(root: Path) -> None:
    snapshot = Snapshot(Disk(), root / "timer" / WAITING)
    saved = snapshot.load(json.loads)
    entry = moved(bytes.fromhex(saved["fresh"][1]))
    saved["fresh"][1] = entry.hex()
    snapshot.save(json.dumps(saved).encode())
    report = checked(root)
    assert report.counts == {Kind.TIMER_ENTRY_DANGLING: 1}
    assert report.log_ok
    assert f"at {Timed.of(entry).log_offset}:" in report.lines()[-1]


def test_a_message_of_a_run_that_the_log_has_not_is_found(root: Path) -> None:
    into_a_run(root, lambda entries: [entries[0], moved(entries[1]), entries[2]])
    assert checked(root).counts == {Kind.TIMER_ENTRY_DANGLING: 1}


def into_a_run(root: Path, change: Callable[[list[bytes]], list[bytes]]) -> Path:
    """Put what is saved into a run of its own."""
    snapshot = Snapshot(Disk(), root / "timer" / WAITING)
    saved = snapshot.load(json.loads)
    files = OpenFiles(Disk(), 1)
    entries = change([bytes.fromhex(each) for each in saved["fresh"]])
    run = TimerRun.write(Disk(), files, root / "timer" / "1", entries)
    files.close()
    saved["fresh"] = []
    saved["runs"] = [[1, *astuple(run.facts), 0]]
    snapshot.save(json.dumps(saved).encode())
    return run.path


def test_a_run_that_is_not_what_was_written_is_found(root: Path) -> None:
    path = into_a_run(root, list)
    assert checked(root).ok
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"\7")
    assert checked(root).counts == {Kind.TIMER_DAMAGED: 1}
    path.write_bytes(whole[:-ENTRY_BYTES])
    assert checked(root).counts == {Kind.TIMER_DAMAGED: 1}
    path.unlink()
    assert checked(root).counts == {Kind.TIMER_DAMAGED: 1}


def test_what_the_version_before_saved_is_looked_at(root: Path) -> None:
    saved = Snapshot(Disk(), root / "timer" / WAITING).load(json.loads)
    waiting = [Timed.of(bytes.fromhex(each)) for each in saved["fresh"]]
    rows = [
        [each.due_ms, each.out_ms, each.log_offset, each.size, each.queue_offset, "orders+x"]
        for each in waiting
    ]
    rows[2][3] += 1
    for path in (root / "timer").iterdir():
        path.unlink()
    text = json.dumps({"holds_to": saved["holds_to"], "pending": rows}).encode()
    Snapshot(Disk(), root / "timer" / PENDING).save(text)
    assert checked(root).counts == {Kind.TIMER_ENTRY_DANGLING: 1}


def test_notes_that_cannot_be_read_are_found_and_rebuilt(root: Path) -> None:
    for path in (root / "timer").iterdir():
        path.write_bytes(b"?")
    report = checked(root)
    assert report.counts == {Kind.TIMER_DAMAGED: 1}
    config = StoreConfig.embedded(root)
    clock = ManualClock(NOW_MS)
    store = MessageStore.open(config, disk=Disk(), clock=clock, store_host=HOST, threads=False)
    assert len(store.derived.timer) == 3
    store.close()
    assert checked(root).ok


def test_no_notes_are_no_finding(root: Path) -> None:
    for path in (root / "timer").iterdir():
        path.unlink()
    assert checked(root).ok
    (root / "timer").rmdir()
    assert checked(root).ok
