"""Power cuts at chosen moments: what went wrong once, or easily could."""

from __future__ import annotations

from contextlib import suppress

import pytest

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.state.health import StoreState
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut, Progress
from rocketpipe.testing.simulation.small_store import KINDS, everything, open_store, put


def keyed(number: int, **changes: object) -> list:
    return [[put(b"body %d" % number, properties=b"KEYS\x01key-%d\x02" % number, **changes)]]


def test_derived_files_that_were_ahead_of_a_lost_tail_are_not_believed_later() -> None:
    """Queues and index synced, the log not; its tail lost, and other records in its place."""
    disk = SimDisk()
    store = open_store(disk)
    store.append(keyed(0))
    store.flush()
    for number in range(1, 12):
        store.append(keyed(number, queue_id=number % 2))
    store.dispatch()
    store.delete_before(LogOffset(1))  # it makes durable what the queues know
    disk.crash(keep="nothing")
    store = open_store(disk)
    kept = len(everything(store))
    assert kept >= 1
    for number in range(100, 120):
        store.append(keyed(number, queue_id=number % 2))
    store.flush()
    store.dispatch()
    disk.crash(keep="nothing")
    store = open_store(disk)
    store.dispatch()
    assert len(everything(store)) == kept + 20
    for number in range(100, 120):
        assert len(list(store.find_by_key("plain", f"key-{number}", 0, 1 << 62))) == 1, number
    store.close()


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not noted"])
def test_what_a_failed_sync_left_in_the_cache_is_not_called_durable(noted: bool) -> None:
    """The process dies after a failed sync, with or without leaving word of it."""
    for seed in range(30):
        disk = SimDisk(seed)
        store = open_store(disk, flush=FlushMode.SYNC)
        store.append(keyed(1))
        store.flush()
        store.append(keyed(2))
        disk.fail(only={"sync"}, path="commitlog")
        if not noted:
            disk.fail(path="/failed", times=9)
        store.flush()
        assert store.state is StoreState.FAILED
        disk.kill()
        disk.heal()
        store = open_store(disk, flush=FlushMode.SYNC)
        store.dispatch()
        shown = everything(store)
        durable = store.positions.durable
        disk.crash(keep="nothing")
        store = open_store(disk, flush=FlushMode.SYNC)
        store.dispatch()
        assert everything(store) == shown, f"seed {seed}"
        assert store.positions.durable >= durable, f"seed {seed}"
        store.close()


def test_names_that_a_killed_run_left_are_durable_before_they_are_relied_on() -> None:
    """A directory or segment is there, and the run that made it died before it was durable."""
    disk = SimDisk()
    open_store(disk).append(keyed(1))
    for at in range(1, disk.operations + 1):
        disk = SimDisk(at)
        disk.cut_power(at=at)
        with pytest.raises(PowerCut):
            open_store(disk).append(keyed(1))
        disk.kill()
        store = open_store(disk)
        store.append(keyed(2))
        store.flush()
        store.dispatch()
        flushed = everything(store)
        disk.crash(keep="nothing")
        store = open_store(disk)
        store.dispatch()
        assert everything(store) == flushed, f"killed at operation {at}"


def test_segments_that_were_deleted_come_back_in_no_odd_order() -> None:
    for seed in range(40):
        disk = SimDisk(seed)
        store = open_store(disk)
        for number in range(20):
            store.append([[put(bytes(900 + number))]])
        store.flush()
        store.dispatch()
        before = everything(store)
        disk.cut_power(at=seed + 1, only={"remove", "sync directory"})
        with suppress(PowerCut):
            store.delete_before(LogOffset(store.positions.durable - 4096))
        disk.crash()
        disk.heal()
        store = open_store(disk)
        store.dispatch()
        left = everything(store)
        assert left == {at: before[at] for at in sorted(before)[-len(left) :]}, f"seed {seed}"
        assert len(left) >= 4


@pytest.mark.parametrize("progress", Progress)
def test_a_segment_that_cannot_be_removed_goes_first_the_next_time(progress: Progress) -> None:
    """Were it left behind, the log would have a gap, and could not be opened again."""
    disk = SimDisk()
    store = open_store(disk)
    for number in range(20):
        store.append([[put(bytes(900 + number))]])
    store.flush()
    store.dispatch()
    disk.fail(only={"remove"}, path="commitlog", progress=progress)
    with pytest.raises(DiskError):
        store.delete_before(LogOffset(9000))
    store.delete_before(LogOffset(9000))
    left = everything(store)
    assert store.first_offset == min(left) == 8192
    store.close()
    store = open_store(disk)
    assert everything(store) == left
    store.close()


@pytest.mark.parametrize("flush", FlushMode)
def test_a_store_that_was_never_flushed_starts_anew(flush: FlushMode) -> None:
    disk = SimDisk()
    store = open_store(disk, flush=flush)
    store.append([KINDS["group"].group])
    disk.crash(keep="nothing")
    store = open_store(disk, flush=flush)
    assert everything(store) == {}
    [[placed]] = store.append(keyed(1))
    assert (placed.log_offset, placed.queue_offset) == (0, 0)
    store.close()


def test_a_closed_store_survives_any_power_cut() -> None:
    for seed in range(30):
        disk = SimDisk(seed)
        store = open_store(disk)
        for number in range(30):
            store.append(keyed(number))
        store.dispatch()
        before = everything(store)
        store.close()
        disk.crash()
        store = open_store(disk)
        assert everything(store) == before, f"seed {seed}"
        disk.crash()
        store = open_store(disk)
        assert everything(store) == before, f"seed {seed}"
