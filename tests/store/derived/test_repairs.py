"""What is damaged is made anew beside everything else, and who asks for it asks again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import view_records
from rocketpipe.store.derived.careful_reader import LOOK_AGAIN_MS
from rocketpipe.store.errors import UnderRepair
from rocketpipe.store.files.background_sync import run_steps_blocking
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import ROOT, StepClock, open_store, put

EVER = 1 << 62


def filled(disk: SimDisk, clock: StepClock | None = None, **changes: Any) -> MessageStore:
    store = open_store(disk, clock=clock, **changes)
    for number in range(60):
        properties = b"KEYS\x01k%d all\x02TAGS\x01tag\x02" % number
        store.append([[put(b"%d" % number, queue_id=number % 2, properties=properties)]])
    store.dispatch()
    store.flush()
    store.sync_derived()
    return store


def bodies(store: MessageStore, queue_id: int = 0, start: int = 0) -> list[bytes]:
    found: list[bytes] = []
    at = QueueOffset(start)
    while at < store.max_offset("plain", queue_id):
        result = store.read("plain", queue_id, at, max_count=32)
        assert result.next_offset > at
        found += [view.body for view in view_records(result.records)]
        at = result.next_offset
    return found


def queue_file(base: int, queue_id: int = 0) -> Path:
    return ROOT / "consumequeue" / "plain" / str(queue_id) / f"{base:020d}"


def damaged_meanwhile(disk: SimDisk, path: Path) -> MessageStore:
    """A store that is open, and one of its queue files, in which a bit has just turned."""
    clock = StepClock()
    store = filled(disk, clock)
    disk.flip(path, 8 * 55)
    clock.leap(LOOK_AGAIN_MS)
    store.dispatch()
    return store


@pytest.mark.parametrize("bit", range(160))
def test_a_bit_that_flips_after_the_file_was_read_is_found_and_put_right(bit: int) -> None:
    disk, clock = SimDisk(), StepClock()
    store = filled(disk, clock)
    right, content = bodies(store), disk.content(queue_file(0))
    disk.flip(queue_file(0), 8 * 60 + bit)
    clock.leap(LOOK_AGAIN_MS)
    store.dispatch()
    assert bodies(store) == right
    assert disk.content(queue_file(0)) == content


@pytest.mark.parametrize("bit", range(4, 96))
def test_an_entry_that_leads_nowhere_has_its_file_looked_at_again_at_once(bit: int) -> None:
    disk = SimDisk()
    store = filled(disk)
    right, content = bodies(store), disk.content(queue_file(200))
    disk.flip(queue_file(200), 8 * 100 + bit)
    assert bodies(store) == right
    assert disk.content(queue_file(200)) == content
    assert store.damaged.count == 0


def test_while_somebody_sees_to_it_only_readers_of_the_damaged_file_have_to_ask_again() -> None:
    disk = SimDisk()
    store = damaged_meanwhile(disk, queue_file(200))
    woken: list[None] = []
    store.derived.repairs.wake = lambda: woken.append(None)
    with pytest.raises(UnderRepair) as caught:
        store.read("plain", 0, QueueOffset(15), max_count=1)
    assert caught.value.retryable
    assert woken
    steps = store.derived.repairs.running()
    next(steps)()
    # Half way: other files, other queues and sends go on.
    with pytest.raises(UnderRepair):
        store.read("plain", 0, QueueOffset(15), max_count=1)
    assert len(bodies(store, queue_id=1)) == 30
    assert len(bodies(store, start=20)) == 10
    assert store.read("plain", 0, QueueOffset(0), max_count=10).count == 10
    store.append([[put(b"60")]])
    store.dispatch()
    run_steps_blocking(steps)
    assert not store.derived.repairs.is_due
    assert bodies(store) == [b"%d" % number for number in range(0, 62, 2)]
    store.close()
    assert len(bodies(open_store(disk))) == 31


def test_a_repair_that_fails_is_taken_up_again() -> None:
    disk = SimDisk()
    store = damaged_meanwhile(disk, queue_file(200))
    store.derived.repairs.wake = lambda: None
    with pytest.raises(UnderRepair):
        store.read("plain", 0, QueueOffset(15), max_count=1)
    steps = store.derived.repairs.running()
    next(steps)
    steps.close()
    assert store.derived.repairs.is_due
    run_steps_blocking(store.derived.repairs.running())
    assert len(bodies(store)) == 30


def test_retention_goes_on_past_a_damaged_queue_and_has_it_put_right() -> None:
    store = damaged_meanwhile(SimDisk(), queue_file(0))
    store.derived.repairs.wake = lambda: None
    assert store.delete_before(LogOffset(4096)) == 1
    assert store.derived.repairs.is_due
    run_steps_blocking(store.derived.repairs.running())
    assert not store.derived.repairs.is_due
    assert store.delete_before(LogOffset(2 * 4096)) == 1
    assert store.min_offset("plain", 0) > 0
    low = store.min_offset("plain", 0)
    assert len(bodies(store, start=low)) == 30 - low


def keys(store: MessageStore, key: str) -> list[bytes]:
    places = store.find_by_key("plain", key, 0, EVER)
    return [next(iter(view_records(store.record_at(at)))).body for at in places]


def test_the_key_index_is_made_anew_beside_what_is_sent_meanwhile() -> None:
    disk = SimDisk()
    filled(disk).close()
    first = min(path for path in disk.files() if path.parent == ROOT / "index")
    disk.flip(first, 8 * 200)
    store = open_store(disk)
    store.derived.repairs.wake = lambda: None
    with pytest.raises(UnderRepair, match="index"):
        keys(store, "all")
    steps = store.derived.repairs.running()
    next(steps)
    with pytest.raises(UnderRepair, match="index"):
        keys(store, "all")
    store.append([[put(b"60", properties=b"KEYS\x01k60 all\x02")]])
    store.dispatch()
    store.sync_derived()
    run_steps_blocking(steps)
    assert keys(store, "all") == [b"%d" % number for number in reversed(range(61))]
    store.close()
    assert len(keys(open_store(disk), "all")) == 61


def test_a_kill_while_the_key_index_is_made_anew_loses_no_key() -> None:
    disk = SimDisk()
    filled(disk).close()
    first = min(path for path in disk.files() if path.parent == ROOT / "index")
    disk.flip(first, 8 * 200)
    store = open_store(disk)
    store.derived.repairs.wake = lambda: None
    with pytest.raises(UnderRepair):
        keys(store, "all")
    store.append([[put(b"60", properties=b"KEYS\x01k60 all\x02")]])
    store.dispatch()
    store.flush()
    store.sync_derived()
    disk.crash()
    assert keys(open_store(disk), "all") == [b"%d" % number for number in reversed(range(61))]
