"""Any single operation of the disk may fail: nothing that was promised is lost by it."""

from __future__ import annotations

import errno
import os

import pytest

from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import StoreFailed, StoreFull
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.store.state.health import StoreState
from rocketpipe.testing.simulation.disk import CHANGES, SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut, Progress
from rocketpipe.testing.simulation.small_store import TOPICS, everything, open_store, put
from rocketpipe.testing.simulation.store_user import StoreUser

SEED = 20


def script(user: StoreUser) -> None:
    """Roll segments, commit, delete, restart."""
    for life in range(2):
        user.open()
        user.check()
        for groups in ((1,), (4, 2), (5, 3, 1)):
            user.append(*groups)
            user.flush()
            user.dispatch()
            user.read(TOPICS[life], 0, 0, 9)
        first, durable = int(user.store.first_offset), int(user.store.positions.durable)
        if durable - 4096 > first:
            user.delete(durable - 4096)
        user.append(3)
        user.append(3)
        if life == 0:
            user.close()


def check_fault(flush: FlushMode, at: int, progress: Progress, *, power: bool, number: int) -> None:
    """Run the script with one failing operation, and hold the store to its promises."""
    disk = SimDisk(SEED)
    user = StoreUser(disk, flush)
    disk.fail(at=at, progress=progress, errno=number)
    try:
        script(user)
        disk.heal()
        if power:
            user.lose_power()
        else:
            user.kill()
        user.open()
        user.check()
        # What is there now stays, and the store takes more.
        user.append(1, 2)
        user.flush()
        user.lose_power()
        user.open()
        user.check()
    except Exception as error:
        operation = " ".join(map(str, disk.trace[at - 1])) if at <= disk.operations else "none"
        story = ", ".join(user.story)
        error.add_note(f"operation {at}: {operation}, {progress}, power cut: {power}: {story}")
        raise


# How far a failing operation comes, and what it says, goes round from one to the next; with
# ROCKETPIPE_ALL_FAULTS set, each is tried in every way.
WAYS = [(progress, errno.EIO) for progress in Progress] + [(Progress.NONE, errno.ENOSPC)]
PARTS = 4  # so that several processes share them


def ways(at: int) -> list[tuple[Progress, int]]:
    return WAYS if "ROCKETPIPE_ALL_FAULTS" in os.environ else [WAYS[at % len(WAYS)]]


def count_operations(flush: FlushMode) -> int:
    """How many operations the script takes when none fails."""
    disk = SimDisk(SEED)
    user = StoreUser(disk, flush)
    script(user)
    assert user.store.first_offset > 0, "the script deletes"
    assert disk.operations > 300, "the script has shrunk"
    return disk.operations


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("flush", FlushMode)
def test_any_one_operation_may_fail(flush: FlushMode, part: int) -> None:
    for at in range(1 + part, count_operations(flush) + 1, PARTS):
        for progress, number in ways(at // PARTS):
            check_fault(flush, at, progress, power=at // 2 % 2 == 0, number=number)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("flush", FlushMode)
def test_the_power_may_go_at_any_operation(flush: FlushMode, part: int) -> None:
    for at in range(1 + part, count_operations(flush) + 1, PARTS):
        disk = SimDisk(at)
        user = StoreUser(disk, flush)
        disk.cut_power(at=at)
        try:
            with pytest.raises(PowerCut):
                script(user)
            user.lose_power()
            user.open()
            user.check()
        except Exception as error:
            error.add_note(f"power cut at operation {at}: {', '.join(user.story)}")
            raise


def test_no_room_for_a_segment_is_full_and_passes_by_itself() -> None:
    disk = SimDisk()
    store = open_store(disk)
    store.append([[put(bytes(2000))]])
    disk.fail(only={"preallocate"}, errno=errno.ENOSPC, times=2)
    for _ in range(2):
        with pytest.raises(StoreFull) as caught:
            store.append([[put(bytes(3000))]])
        assert caught.value.retryable
        assert "commitlog" in str(caught.value.path)
        assert caught.value.needed > 0
        assert store.state is StoreState.FULL
        store.append([[put(b"small enough for the room that is left")]])
    [[placed]] = store.append([[put(bytes(3000))]])
    assert store.state is StoreState.RUNNING
    assert placed.queue_offset == 3
    store.dispatch()
    assert len(everything(store)) == 4
    store.close()


@pytest.mark.parametrize("flush", FlushMode)
def test_a_failed_sync_ends_everything_but_reading(flush: FlushMode) -> None:
    disk = SimDisk()
    store = open_store(disk, flush=flush)
    store.append([[put(b"durable")]])
    store.flush()
    store.dispatch()
    told: list[StoreError | None] = []
    [[placed]] = store.append([[put(b"not so")]])
    store.when_durable(placed.log_offset + placed.size, told.append)
    disk.fail(only={"sync"}, path="commitlog")
    store.flush()
    assert store.state is StoreState.FAILED
    assert [type(error) for error in told] == [StoreFailed]
    asked = disk.operations
    store.flush()
    with pytest.raises(StoreFailed, match="sync"):
        store.append([[put()]])
    store.when_durable(placed.log_offset + placed.size, told.append)
    assert len(told) == 2
    assert isinstance(told[1], StoreFailed)
    later = [operation for operation, path in disk.trace[asked:] if "commitlog" in str(path)]
    assert not CHANGES.intersection(later), "the log was touched after a failure"
    assert store.read("plain", 0, QueueOffset(0), max_count=1).count == 1
    store.close()


def check_no_second_sync(disk: SimDisk) -> None:
    """After a failed sync no file of the log is synced again, until the store is reopened."""
    store = open_store(disk, flush=FlushMode.SYNC)
    [[placed]] = store.append([[put()]])
    told: list[StoreError | None] = []
    store.when_durable(placed.log_offset + placed.size, told.append)
    before = disk.operations
    disk.fail(only={"sync"}, path="commitlog")
    store.flush()
    store.flush()
    syncs = [
        path for name, path in disk.trace[before:] if name == "sync" and "commitlog" in str(path)
    ]
    assert len(syncs) == 1, "synced again"
    assert told
    assert told != [None], "acknowledged"


def test_a_failed_sync_is_not_tried_again() -> None:
    check_no_second_sync(SimDisk())


@pytest.mark.usefixtures("retry_syncs")
def test_the_check_turns_red_when_a_failed_sync_is_tried_again() -> None:
    with pytest.raises(AssertionError, match="synced again"):
        check_no_second_sync(SimDisk())


@pytest.mark.usefixtures("retry_syncs")
def test_the_sweep_turns_red_when_a_failed_sync_is_tried_again() -> None:
    """It is not enough to look at calls: what was acknowledged is really lost."""
    disk = SimDisk(SEED)
    script(StoreUser(disk, FlushMode.SYNC))
    syncs = [
        number
        for number, (operation, path) in enumerate(disk.trace, 1)
        if operation == "sync" and path.parent.name == "commitlog"
    ]
    red = []
    for at in syncs:
        try:
            check_fault(FlushMode.SYNC, at, Progress.NONE, power=True, number=errno.EIO)
        except (AssertionError, StoreError):
            red.append(at)
    assert red


def test_the_sweep_turns_red_when_an_offset_is_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(QueueSet, "raise_next", lambda queues, topic, queue_id, to: None)
    with pytest.raises(AssertionError):
        check_fault(FlushMode.ASYNC, 1 << 30, Progress.NONE, power=False, number=errno.EIO)


@pytest.mark.parametrize("progress", Progress)
def test_a_failed_write_of_the_log_is_failed_for_good(progress: Progress) -> None:
    disk = SimDisk()
    store = open_store(disk)
    store.append([[put()]])
    disk.fail(only={"write"}, path="commitlog", progress=progress)
    with pytest.raises(StoreFailed):
        store.append([[put()]])
    assert store.state is StoreState.FAILED
    with pytest.raises(StoreFailed):
        store.append([[put()]])
    store.close()
    disk.kill()
    store = open_store(disk)
    assert store.state is StoreState.RUNNING
    store.append([[put()]])
    store.close()


def test_a_write_that_stopped_half_way_for_want_of_room_is_failed() -> None:
    """Only before the first byte is it clear that nothing of the record is there."""
    for seed in range(20):
        disk = SimDisk(seed)
        store = open_store(disk)
        disk.fail(only={"write"}, path="commitlog", errno=errno.ENOSPC, progress=Progress.SOME)
        with pytest.raises((StoreFailed, StoreFull)) as caught:
            store.append([[put(bytes(2000))]])
        [segment] = [path for path in disk.files() if path.parent.name == "commitlog"]
        half = bool(disk.content(segment).strip(b"\0"))
        assert isinstance(caught.value, StoreFailed) == half, f"seed {seed}"
