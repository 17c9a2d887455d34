"""Damage of every kind is mended from a replica, and nothing but the replica's own log is taken."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.store.support.leader_log import files_of, groups_for, leader, log_bytes, random_groups

from rocketpipe.model.offsets import LogOffset
from rocketpipe.record.layout import BLANK_MAGIC
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import OddSegment, StoreDamaged, StoreLocked
from rocketpipe.store.layout import file_name
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.mending import DirectorySource, MendReport, NotMended, mend
from rocketpipe.testing.simulation.disk import CHANGES, SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut
from rocketpipe.testing.simulation.small_store import (
    ROOT,
    SEGMENT_BYTES,
    StepClock,
    open_store,
    small_store,
)

CONFIG = small_store(ROOT, FlushMode.ASYNC)
GROUPS = random_groups(47, 40)
LOG = ROOT / "commitlog"


class Other:
    """A log in memory, of which some may be missing."""

    def __init__(self, data: bytes, same_to: int | None = None, first: int = 0) -> None:
        self.name = "the other"
        self.data = data
        self.same_to = same_to
        self.first = first

    def read(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + min(size, 700)] if offset >= self.first else b""


def replica(shown: int | None = None) -> tuple[SimDisk, bytes]:
    """A store that has taken a log of several files in, stopped in order, and that log."""
    led = leader(GROUPS)
    data = log_bytes(led)
    disk = SimDisk()
    mine = open_store(disk, replicated=True)
    piece = groups_for(mine).add(data)
    assert piece is not None
    mine.append_raw(piece)
    mine.positions.acknowledged = LogOffset(len(data) if shown is None else shown)
    mine.dispatch()
    mine.close()
    assert len(data) > 3 * SEGMENT_BYTES
    return disk, data


def mended(disk: SimDisk, other: Other) -> MendReport:
    return mend(CONFIG, disk, StepClock(), other)


def flip(disk: SimDisk, at: int) -> None:
    disk.flip(LOG / file_name(at - at % SEGMENT_BYTES), at % SEGMENT_BYTES * 8)


def whole(disk: SimDisk, data: bytes) -> None:
    """The log is what it was, its queues too, and the store opens."""
    assert check_store(disk, ROOT, index_slots=8).lines()[1:] == ["nothing is wrong"]
    mine = open_store(disk, replicated=True)
    assert log_bytes(mine) == data
    mine.close()


def opened(disk: SimDisk) -> MessageStore:
    return open_store(disk, replicated=True)


def test_a_flipped_bit_wherever_it_is() -> None:
    disk, data = replica()
    chance = random.Random(5)
    for at in [0, 3, 5, *(chance.randrange(len(data)) for _ in range(25))]:
        hurt = disk.copy()
        flip(hurt, at)
        if check_store(hurt, ROOT, index_slots=8).ok:
            continue  # behind the head of a filler, where nothing counts
        (one,) = mended(hurt, Other(data)).ranges
        whole(hurt, data)
        assert one.at <= at < one.end
        assert one.kept_in is not None
        assert str(one.kept_in) in str(one)
        assert hurt.content(one.kept_in)[at - one.at] == data[at] ^ 0x80
        assert files_of(hurt, "consumequeue") == files_of(disk, "consumequeue")


def test_a_file_that_is_cut_or_gone() -> None:
    disk, data = replica()
    last = (len(data) - 1) // SEGMENT_BYTES * SEGMENT_BYTES
    for base in range(SEGMENT_BYTES, last + 1, SEGMENT_BYTES):
        path = LOG / file_name(base)
        for cut_to in (None, 0, 1, 700, SEGMENT_BYTES - 1):
            hurt = disk.copy()
            if cut_to is None:
                hurt.remove(path)
            else:
                hurt.put(path, disk.content(path)[:cut_to])
            with pytest.raises((StoreDamaged, OddSegment)):
                opened(hurt.copy())
            (one,) = mended(hurt, Other(data)).ranges
            assert (one.file, one.at) == (path, base)
            whole(hurt, data)


def test_all_files_gone_come_back() -> None:
    disk, data = replica()
    for base in range(0, len(data), SEGMENT_BYTES):
        disk.remove(LOG / file_name(base))
    assert len(mended(disk, Other(data)).ranges) == -(-len(data) // SEGMENT_BYTES)
    whole(disk, data)


def test_zeros_where_the_end_was() -> None:
    disk, data = replica()
    path = LOG / file_name((len(data) - 1) // SEGMENT_BYTES * SEGMENT_BYTES)
    disk.put(path, bytes(SEGMENT_BYTES))
    with pytest.raises(StoreDamaged):
        opened(disk.copy())
    assert mended(disk, Other(data)).ranges
    whole(disk, data)


def test_several_damages_at_once() -> None:
    disk, data = replica()
    disk.remove(LOG / file_name(SEGMENT_BYTES))
    flip(disk, 200)
    flip(disk, 2 * SEGMENT_BYTES + 100)
    assert [each.at // SEGMENT_BYTES for each in mended(disk, Other(data)).ranges] == [1, 0, 2]
    whole(disk, data)


def test_nothing_to_mend_changes_nothing() -> None:
    disk, data = replica()
    before = {path: disk.content(path) for path in disk.files()}
    assert mended(disk, Other(b"")) == MendReport((), rebuilt=False)
    assert {path: disk.content(path) for path in disk.files()} == before
    whole(disk, data)


def test_a_store_that_was_killed_with_damage_in_what_was_durable() -> None:
    disk, data = replica()
    running = opened(disk)
    flip(disk, 200)
    disk.kill()
    del running
    (one,) = mended(disk, Other(data)).ranges
    assert one.at <= 200 < one.end
    assert log_bytes(opened(disk)) == data


def test_another_log_is_refused_and_nothing_changes() -> None:
    disk, data = replica()
    strange = log_bytes(leader(random_groups(48, 40)))
    for kind in ("flipped", "gone", "end"):
        hurt = disk.copy()
        if kind == "flipped":
            flip(hurt, SEGMENT_BYTES + 300)
        elif kind == "gone":
            hurt.remove(LOG / file_name(SEGMENT_BYTES))
        else:
            hurt.remove(LOG / file_name((len(data) - 1) // SEGMENT_BYTES * SEGMENT_BYTES))
        before = files_of(hurt, "commitlog")
        with pytest.raises(NotMended, match="the other cannot mend this log"):
            mended(hurt, Other(strange))
        after = files_of(hurt, "commitlog")
        assert {path: after[path] for path in before} == before


def test_a_log_that_is_known_to_part_before_the_damage_is_refused() -> None:
    disk, data = replica()
    flip(disk, 2 * SEGMENT_BYTES + 100)
    with pytest.raises(NotMended, match=r"one up to 700.*store truncate"):
        mended(disk, Other(data, same_to=700))


def test_a_log_that_has_less_is_refused() -> None:
    disk, data = replica()
    last = (len(data) - 1) // SEGMENT_BYTES * SEGMENT_BYTES
    disk.remove(LOG / file_name(last))
    with pytest.raises(NotMended, match=f"it goes to {last}, and {len(data)} was durable here"):
        mended(disk, Other(data[:last]))
    flip(disk, 100)
    with pytest.raises(NotMended):
        mended(disk, Other(data, first=SEGMENT_BYTES))


def test_a_source_that_is_damaged_there_too_is_refused() -> None:
    disk, data = replica()
    flip(disk, 200)
    worse = bytearray(data)
    worse[210] ^= 1
    with pytest.raises(NotMended, match="its record at"):
        mended(disk, Other(bytes(worse)))


def test_a_store_in_use_is_left_alone() -> None:
    disk, data = replica()
    mine = opened(disk)
    with pytest.raises(StoreLocked):
        mended(disk, Other(data))
    mine.close()


@pytest.mark.parametrize("kind", ["flipped", "gone", "cut"])
def test_interrupted_anywhere_it_is_done_again(kind: str) -> None:
    disk, data = replica()
    path = LOG / file_name(SEGMENT_BYTES)
    if kind == "flipped":
        flip(disk, SEGMENT_BYTES + 300)
    elif kind == "gone":
        disk.remove(path)
    else:
        disk.put(path, disk.content(path)[:900])
    disk.sync_directory(LOG)
    at = 1
    while True:
        hurt = disk.copy(seed=at)
        hurt.cut_power(at=at, only=CHANGES)
        try:
            mended(hurt, Other(data))
        except PowerCut:
            hurt.heal()
            hurt.crash()
            mended(hurt, Other(data))
            whole(hurt, data)
            at += 1
        else:
            break
    assert at > 5


def test_queues_that_know_of_the_damage_are_made_anew() -> None:
    disk, data = replica()
    flip(disk, 200)
    # What was passed over has no entry: an operator had queues made anew without it.
    queue = next(path for path in disk.files() if "consumequeue" in path.parts)
    disk.put(queue, bytes(len(disk.content(queue))))
    assert mended(disk, Other(data)).rebuilt
    whole(disk, data)


def test_a_directory_is_a_source() -> None:
    disk, data = replica()
    healthy = Path("/healthy")
    twin = disk.copy()
    for path in disk.files():
        if path.is_relative_to(ROOT):
            to = healthy / path.relative_to(ROOT)
            twin.make_directory(to.parent)
            twin.put(to, disk.content(path))
    flip(twin, 200)
    source = DirectorySource(twin, healthy)
    assert source.name == "/healthy"
    assert source.read(source.end, 10) == b""
    assert mend(CONFIG, twin, StepClock(), source).ranges
    source.close()
    whole(twin, data)


def test_only_the_file_around_known_damage_is_read() -> None:
    disk, data = replica()
    early, late = SEGMENT_BYTES + 300, 3 * SEGMENT_BYTES + 20
    flip(disk, early)
    flip(disk, late)
    report = mend(CONFIG, disk, StepClock(), Other(data), around=early)
    (only,) = report.ranges
    assert only.at <= early < only.end
    assert not report.rebuilt
    assert not check_store(disk, ROOT, index_slots=8).log_ok, "the other one is still there"
    (other,) = mend(CONFIG, disk, StepClock(), Other(data), around=late).ranges
    assert other.at <= late < other.end
    whole(disk, data)


def test_damage_that_reaches_into_the_next_file_is_mended_as_one() -> None:
    disk, data = replica()
    at = last = SEGMENT_BYTES
    while data[at + 4 : at + 8] != BLANK_MAGIC.to_bytes(4, "big", signed=True):
        last, at = at, at + int.from_bytes(data[at : at + 4], "big")
    for place in (last + 30, 2 * SEGMENT_BYTES + 10):
        flip(disk, place)
    mend(CONFIG, disk, StepClock(), Other(data), around=last)
    mend(CONFIG, disk, StepClock(), Other(data), around=2 * SEGMENT_BYTES)
    whole(disk, data)


@pytest.mark.parametrize("around", [0, 2 * SEGMENT_BYTES, 1 << 40])
def test_files_that_are_gone_come_back_wherever_damage_is_known(around: int) -> None:
    disk, data = replica()
    disk.remove(LOG / file_name(2 * SEGMENT_BYTES))
    assert mend(CONFIG, disk, StepClock(), Other(data), around=around).ranges
    whole(disk, data)
