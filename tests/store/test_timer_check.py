from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpipe.model import properties
from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.store.check import check_store
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.disk import Disk
from rocketpipe.store.findings import Kind, Report
from rocketpipe.store.message_store import MessageStore, Put
from rocketpipe.store.snapshot import Snapshot
from rocketpipe.store.timer_wheel import PENDING
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


def test_a_message_that_the_log_has_not_is_found(root: Path) -> None:
    snapshot = Snapshot(Disk(), root / "timer" / PENDING)
    saved = snapshot.load(json.loads)
    saved["pending"][1][2] += 7
    snapshot.save(json.dumps(saved).encode())
    report = checked(root)
    assert report.counts == {Kind.TIMER_ENTRY_DANGLING: 1}
    assert report.log_ok
    assert f"at {saved['pending'][1][2]}:" in report.lines()[-1]


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
