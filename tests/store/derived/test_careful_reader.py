"""Reads that find something damaged."""

from __future__ import annotations

import pytest

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.record.codec import view_records
from rocketpipe.store.errors import RecordCorrupt, UnderRepair
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.reader import Boundary
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import ROOT, open_store, put

QUEUE = ROOT / "consumequeue" / "plain" / "0" / f"{0:020d}"


def filled(disk: SimDisk) -> MessageStore:
    store = open_store(disk)
    for number in range(8):
        store.append([[put(b"%d" % number)]])
    store.dispatch()
    store.flush()
    store.sync_derived()
    return store


def read(store: MessageStore, start: int = 0) -> list[bytes]:
    result = store.read("plain", 0, QueueOffset(start), max_count=32)
    return [view.body for view in view_records(result.records)]


def test_an_operator_may_change_at_any_time_what_becomes_of_damaged_records() -> None:
    disk = SimDisk()
    store = filled(disk)
    disk.flip(ROOT / "commitlog" / f"{0:020d}", 8 * 60)
    store.damaged.skip = False
    for _ in range(2):
        with pytest.raises(RecordCorrupt):
            read(store)
    store.damaged.skip = True
    assert read(store) == [b"%d" % number for number in range(1, 8)]
    store.damaged.skip = False
    with pytest.raises(RecordCorrupt):
        read(store)
    disk.flip(ROOT / "commitlog" / f"{0:020d}", 8 * 60)
    assert len(read(store)) == 8
    assert store.damaged.count == 1


def test_every_message_of_a_queue_may_be_damaged() -> None:
    disk = SimDisk()
    store = filled(disk)
    for at in range(0, store.positions.written, 40):
        disk.flip(ROOT / "commitlog" / f"{0:020d}", 8 * at)
    result = store.read("plain", 0, QueueOffset(0), max_count=32)
    assert (result.count, result.next_offset, result.max_offset) == (0, 8, 8)
    assert store.damaged.count == 8


def test_who_asks_by_time_of_a_damaged_queue_asks_again() -> None:
    disk = SimDisk()
    store = filled(disk)
    earliest = store.earliest_stored_ms("plain", 0)
    store.derived.queues.look_again()
    disk.flip(QUEUE, 8 * 45)
    store.derived.repairs.wake = lambda: None
    for ask in (
        lambda: store.earliest_stored_ms("plain", 0),
        lambda: store.offset_at_time("plain", 0, 0, Boundary.LOWER),
    ):
        with pytest.raises(UnderRepair):
            ask()
    store.derived.repairs.wake = None
    assert store.earliest_stored_ms("plain", 0) == earliest
    assert store.offset_at_time("plain", 0, 0, Boundary.LOWER) == 0


def test_a_key_leads_past_a_damaged_record() -> None:
    disk = SimDisk()
    store = filled(disk)
    disk.flip(ROOT / "commitlog" / f"{0:020d}", 8 * 60)
    assert len(list(store.find_by_key("plain", "some-key", 0, 1 << 62))) == 7
    store.damaged.skip = False
    with pytest.raises(RecordCorrupt):
        list(store.find_by_key("plain", "some-key", 0, 1 << 62))
