"""A replica's log is cut where a group starts, with all that follows from it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.store.support.leader_log import (
    files_of,
    follow,
    groups_for,
    leader,
    log_bytes,
    random_groups,
)

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import RecordCorrupt, StoreLocked
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.state.checkpoint import read_checkpoint
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.cutting import Cut, cut, drop_log
from rocketpipe.testing.simulation.disk import CHANGES, SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut
from rocketpipe.testing.simulation.small_store import (
    KINDS,
    ROOT,
    SEGMENT_BYTES,
    StepClock,
    open_store,
    put,
    small_store,
)

CONFIG = small_store(ROOT, FlushMode.ASYNC)
GROUPS = random_groups(31, 24)


def opened(disk: SimDisk) -> MessageStore:
    return open_store(disk, replicated=True)


def cut_at(disk: SimDisk, to: int) -> Cut:
    return cut(CONFIG, disk, StepClock(), LogOffset(to))


def replica(shown: int | None = None, groups: int = 24) -> tuple[SimDisk, bytes, list[int]]:
    """A store that has taken a log in and shows so many groups; its log, and where they end."""
    led = open_store(SimDisk())
    placed = led.append(GROUPS[:groups])
    ends = [0, *(int(group[-1].log_offset + group[-1].size) for group in placed)]
    data = log_bytes(led)
    disk = SimDisk()
    mine = opened(disk)
    piece = groups_for(mine).add(data)
    assert piece is not None
    mine.append_raw(piece)
    mine.positions.acknowledged = LogOffset(ends[-1 if shown is None else shown])
    mine.dispatch()
    mine.close()
    return disk, data, ends


def offsets(store: MessageStore) -> dict[tuple[str, int], int]:
    found = {queue: int(store.max_offset(*queue)) for queue in store.queues()}
    return {queue: offset for queue, offset in found.items() if offset}


def test_wherever_it_is_cut_whole_groups_are_left() -> None:
    disk, data, ends = replica()
    for to in sorted({1, *ends, *(end + 3 for end in ends), *range(50, len(data), 1511)}):
        if to > len(data):
            continue
        copy = disk.copy()
        at = max(end for end in ends if end <= to)
        done = cut_at(copy, to)
        assert (done.at, done.bytes) == (at, len(data) - at)
        if done.kept_in is not None:
            assert copy.content(done.kept_in) == data[at:]
        mine = opened(copy)
        assert log_bytes(mine) == data[:at]
        assert mine.positions.written == mine.positions.dispatched == at
        # The queues are those of a leader that has written no more.
        alone = leader(GROUPS[: ends.index(at)])
        assert offsets(mine) == offsets(alone)
        assert done.records == sum(len(group) for group in GROUPS[ends.index(at) :])
        # And they go on with the leader's log as if nothing had been.
        follow(mine, [data[at:]])
        assert mine.positions.dispatched == len(data)
        mine.close()
        assert files_of(copy, "commitlog", "consumequeue") == files_of(
            disk, "commitlog", "consumequeue"
        )


def test_what_was_not_confirmed_stays_so() -> None:
    disk, _, ends = replica(shown=5)
    shown = ends[5]
    done = cut_at(disk, ends[15])
    assert done.at == ends[15]
    assert check_store(disk, ROOT, index_slots=8).lines()[1:] == ["nothing is wrong"]
    mine = opened(disk)
    assert (mine.positions.written, mine.positions.acknowledged) == (ends[15], shown)
    assert mine.positions.dispatched == shown
    mine.close()
    done = cut_at(disk, ends[3])
    mine = opened(disk)
    assert mine.positions.written == mine.positions.acknowledged == ends[3]
    mine.close()
    assert read_checkpoint(disk, ROOT / "checkpoint").confirmed == ends[3]
    assert check_store(disk, ROOT, index_slots=8).lines()[1:] == ["nothing is wrong"]


def test_there_may_be_nothing_to_cut() -> None:
    disk, data, _ = replica()
    before = files_of(disk, "commitlog", "consumequeue", "quarantine")
    for to in (len(data), len(data) + 5000):
        assert cut_at(disk, to) == Cut(at=LogOffset(len(data)), records=0, bytes=0, kept_in=None)
    assert files_of(disk, "commitlog", "consumequeue", "quarantine") == before


def test_a_cut_before_the_log_or_of_a_store_in_use_is_refused() -> None:
    disk, data, _ = replica()
    store = opened(disk)
    with pytest.raises(StoreLocked):
        cut_at(disk, 100)
    store.delete_before(LogOffset(2 * SEGMENT_BYTES))
    store.close()
    with pytest.raises(RecordCorrupt, match=f"goes from 8192 to {len(data)}"):
        cut_at(disk, 8191)
    done = cut_at(disk, 8192)
    assert done.at == 8192
    assert opened(disk).positions.written == 8192


def test_timers_that_are_cut_do_not_fall_due() -> None:
    disk = SimDisk()
    led = leader([[put(b"before")], KINDS["timed"].group, KINDS["timed"].group])
    mine = opened(disk)
    follow(mine, [log_bytes(led)])
    assert len(list(mine.derived.timer.pending(0, 1 << 60))) == 2
    end = int(mine.positions.written)
    mine.close()
    done = cut_at(disk, end - 1)
    assert done.records == 1
    mine = opened(disk)
    assert len(list(mine.derived.timer.pending(0, 1 << 60))) == 1


def crashed(disk: SimDisk, step: int, end: str, act: Callable[[SimDisk], object]) -> SimDisk | None:
    """The disk after a death at a step of what is done; None if it was done before.

    The process is killed, or the power cut: then any of what was not synced is gone, or all of it.
    """
    copy = disk.copy(seed=step)
    copy.cut_power(at=step, only=CHANGES)
    try:
        act(copy)
    except PowerCut:
        copy.heal()
        if end == "kill":
            copy.kill()
        else:
            copy.crash("nothing" if end == "nothing" else None)
        return copy
    return None


@pytest.mark.parametrize(
    ("first", "end", "shown"), [(1, "kill", 10), (2, "power", 3), (3, "nothing", 10)]
)
def test_a_cut_may_be_interrupted_at_every_step(first: int, end: str, shown: int) -> None:
    disk, data, ends = replica(shown, groups=12)
    to = ends[6]
    step = first  # each third, which together are all of them
    while (copy := crashed(disk, step, end, lambda copy: cut_at(copy, to))) is not None:
        mine = opened(copy)
        written = int(mine.positions.written)
        assert to <= written <= len(data)
        assert written in ends
        assert log_bytes(mine) == data[:written]
        assert mine.positions.confirmed <= ends[shown]
        mine.close()
        assert cut_at(copy, to).at == to
        mine = opened(copy)
        assert log_bytes(mine) == data[:to]
        confirmed = min(to, ends[shown])
        assert mine.positions.dispatched == mine.positions.acknowledged == confirmed
        follow(mine, [data[to:]])
        mine.close()
        kept = b"".join(files_of(copy, "quarantine").values())
        assert data[-50:] in kept
        step += 3
    assert step > 60


def test_a_dropped_log_leaves_tables_and_can_begin_elsewhere() -> None:
    disk, _, _ = replica()
    disk.put(ROOT / "config" / "topics.json", b"{}")
    disk.put(ROOT / "epochFileCheckpoint", b"0\n0\n")
    drop_log(CONFIG, disk)
    assert files_of(disk, "commitlog", "consumequeue", "index", "timer", "sums") == {}
    assert set(files_of(disk, "config", "epochFileCheckpoint")) == {
        ROOT / "config" / "topics.json",
        ROOT / "epochFileCheckpoint",
    }
    led = leader(random_groups(32, 60))
    led.flush()
    led.delete_before(LogOffset(4 * SEGMENT_BYTES))
    mine = opened(disk)
    assert mine.positions.written == 0
    mine.begin_at(led.first_offset)
    follow(mine, [log_bytes(led)])
    assert mine.positions.dispatched == led.positions.written
    with pytest.raises(StoreLocked):
        drop_log(CONFIG, disk)


@pytest.mark.parametrize("end", ["kill", "power", "nothing"])
def test_dropping_may_be_interrupted_at_every_step(end: str) -> None:
    disk, data, ends = replica()
    step = 1
    while (copy := crashed(disk, step, end, lambda copy: drop_log(CONFIG, copy))) is not None:
        mine = opened(copy)
        written = int(mine.positions.written)
        assert written in ends
        assert log_bytes(mine) == data[:written]
        mine.close()
        drop_log(CONFIG, copy)
        mine = opened(copy)
        assert (mine.positions.written, offsets(mine)) == (0, {})
        follow(mine, [data])
        assert mine.positions.dispatched == len(data)
        step += 1
    assert step > 20
