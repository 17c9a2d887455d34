"""What a log is worth when it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import view_records
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.errors import StoreDamaged
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.state.checkpoint import CheckpointData
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
LOG = ROOT / "commitlog"
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


def put(number: int, size: int = 100) -> Put:
    return Put(
        topic="t",
        queue_id=0,
        body=b"%05d" % number + bytes(size),
        properties=b"",
        flag=0,
        sys_flag=0,
        born_ms=1,
        born_host=HOST,
    )


def open_store(disk: SimDisk, **changes: Any) -> MessageStore:
    config = StoreConfig.embedded(ROOT, segment_bytes=1024, **changes)
    return MessageStore.open(config, disk=disk, clock=ManualClock(), store_host=HOST, threads=False)


def numbers(store: MessageStore) -> list[int]:
    """The messages that can be read, by their numbers."""
    found: list[int] = []
    at, end = store.min_offset("t", 0), store.max_offset("t", 0)
    while at < end:
        result = store.read("t", 0, QueueOffset(at), max_count=32)
        found += [int(view.body[:5]) for view in view_records(result.records)]
        assert result.next_offset > at
        at = result.next_offset
    return found


class Life:
    """A store that was written to, and then killed or stopped."""

    def __init__(self, *, flushed: int, unflushed: int = 0, closed: bool = False) -> None:
        self.disk = SimDisk()
        store = open_store(self.disk)
        self.places = [store.append([[put(number)]])[0][0] for number in range(flushed)]
        store.flush()
        self.durable = store.positions.durable
        for number in range(flushed, flushed + unflushed):
            self.places += store.append([[put(number)]])[0]
        store.dispatch()
        self.end = store.positions.written
        if closed:
            store.close()
        self.disk.kill()

    def damage(self, number: int, data: bytes = b"damage", at: int = 90) -> None:
        place = self.places[number].log_offset
        segment = self.disk.open(LOG / f"{place - place % 1024:020d}")
        segment.write(data, place % 1024 + at)
        segment.sync()
        segment.close()


@pytest.mark.parametrize("closed", [True, False])
def test_everything_is_there_after_a_stop_and_after_a_kill(closed: bool) -> None:
    life = Life(flushed=12, unflushed=5, closed=closed)
    store = open_store(life.disk)
    assert numbers(store) == list(range(17))
    assert store.positions.written == store.positions.durable == life.end
    assert store.positions.dispatched == life.end


def test_what_was_recovered_survives_a_power_cut_right_after() -> None:
    life = Life(flushed=3, unflushed=9)
    open_store(life.disk)
    life.disk.crash()
    assert numbers(open_store(life.disk)) == list(range(12))


def test_only_the_tail_is_looked_at() -> None:
    life = Life(flushed=200, closed=True)
    life.damage(20)  # nobody looks there
    store = open_store(life.disk)
    for number in range(3):
        store.append([[put(number)]])
    end = store.positions.written
    life.disk.kill()
    read = 0
    whole_read = life.disk.begin

    def counted(operation: str, path: Path) -> Any:
        nonlocal read
        read += operation == "read" and path.parent == LOG
        return whole_read(operation, path)

    life.disk.begin = counted  # type: ignore[method-assign]
    store = open_store(life.disk)
    assert store.positions.written == end
    segments = len(store.commit_log.run.segments)
    assert segments > 20
    assert read < 2 * segments


def test_a_torn_tail_is_cut_at_the_last_whole_record() -> None:
    life = Life(flushed=3, unflushed=3)
    life.damage(5)
    store = open_store(life.disk)
    assert numbers(store) == [0, 1, 2, 3, 4]
    assert store.positions.written == life.places[5].log_offset
    ((place,),) = store.append([[put(6)]])
    assert (place.log_offset, place.queue_offset) == (life.places[5].log_offset, 5)
    store.dispatch()
    assert numbers(store) == [0, 1, 2, 3, 4, 6]
    assert life.disk.names(ROOT).count("quarantine") == 0


def test_what_is_cut_before_whole_records_is_kept_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life = Life(flushed=3, unflushed=6)
    life.damage(4)
    store = open_store(life.disk)
    assert numbers(store) == [0, 1, 2, 3]
    (name,) = life.disk.names(ROOT / "quarantine")
    assert int(name) == life.places[4].log_offset
    assert b"00008" in life.disk.content(ROOT / "quarantine" / name)
    assert f"offset={life.places[4].log_offset}" in caplog.text
    assert "lost=4" in caplog.text


@pytest.mark.parametrize("number", [5, 11])
def test_damage_in_what_was_durable_refuses_to_open(number: int) -> None:
    life = Life(flushed=12)
    # The last record before the durable end is where recovery begins: it notices.
    life.damage(11)
    life.damage(number)
    with pytest.raises(StoreDamaged) as caught:
        open_store(life.disk)
    damage = caught.value
    assert damage.at == life.places[number].log_offset
    assert damage.file == LOG / f"{damage.at - damage.at % 1024:020d}"
    if number == 5:
        assert damage.next_good == life.places[6].log_offset
    else:
        assert damage.next_good is None
    # It says the same again: nothing was changed.
    life.disk.kill()
    with pytest.raises(StoreDamaged, match=f"damaged at log offset {damage.at}"):
        open_store(life.disk)


def test_damage_may_be_skipped_and_the_rest_is_readable(caplog: pytest.LogCaptureFixture) -> None:
    life = Life(flushed=12)
    for number in (2, 5, 6):
        life.damage(number)
    life.damage(11)
    store = open_store(life.disk, on_damaged_log="skip")
    assert numbers(store) == [0, 1, 3, 4, 7, 8, 9, 10]
    assert "damage is skipped" in caplog.text
    kept = life.disk.names(ROOT / "quarantine")
    assert len(kept) >= 2
    # Queue offsets of what is lost are not given to others, and the log can be walked again.
    store.append([[put(20)]])
    store.dispatch()
    store.close()
    again = open_store(life.disk)
    assert numbers(again) == [0, 1, 3, 4, 7, 8, 9, 10, 20]
    list(again.commit_log.walk(LogOffset(0), again.positions.written))


def test_a_segment_that_is_gone_is_damage() -> None:
    life = Life(flushed=30)
    last = life.disk.names(LOG)[-1]
    life.disk.remove(LOG / last)
    with pytest.raises(StoreDamaged, match="durable up to"):
        open_store(life.disk)
    for name in life.disk.names(LOG):
        life.disk.remove(LOG / name)
    life.disk.kill()
    with pytest.raises(StoreDamaged, match="no segment is there"):
        open_store(life.disk)


@pytest.mark.parametrize("kept", range(4))
def test_a_group_is_kept_whole_or_not_at_all(kept: int) -> None:
    disk = SimDisk()
    store = open_store(disk)
    store.append([[put(0)]])
    store.flush()
    (group,) = store.append([[put(1), put(2, 700), put(3)]])
    disk.kill()
    if kept < 3:
        place = group[kept].log_offset
        segment = disk.open(LOG / f"{place - place % 1024:020d}")
        segment.write(bytes(60), place % 1024)
        segment.close()
        for later in group[kept + 1 :]:
            segment = disk.open(LOG / f"{later.log_offset - later.log_offset % 1024:020d}")
            segment.write(bytes(60), later.log_offset % 1024)
            segment.close()
    store = open_store(disk)
    assert numbers(store) == ([0, 1, 2, 3] if kept == 3 else [0])
    assert store.positions.written == (
        group[-1].log_offset + group[-1].size if kept == 3 else group[0].log_offset
    )


def test_after_a_failure_the_tail_is_moved_to_fresh_files() -> None:
    disk = SimDisk()
    store = open_store(disk, flush=FlushMode.SYNC)
    for number in range(5):
        store.append([[put(number)]])
    store.flush()
    for number in range(5, 9):
        store.append([[put(number)]])
    disk.fail(at=1, only=("sync",))
    store.flush()
    disk.heal()
    assert "Input/output error" in disk.content(ROOT / "failed").decode()
    disk.kill()
    syncs = len(disk.failed_syncs)
    store = open_store(disk, flush=FlushMode.SYNC)
    found = numbers(store)
    assert found[:5] == [0, 1, 2, 3, 4]
    assert len(disk.failed_syncs) == syncs
    assert "failed" not in disk.names(ROOT)
    disk.crash()
    assert numbers(open_store(disk, flush=FlushMode.SYNC)) == found


def test_a_disk_that_fails_during_recovery_changes_nothing_for_the_next() -> None:
    life = Life(flushed=3, unflushed=6)
    life.damage(8)
    tries = 0
    while True:
        copy = life.disk.copy(seed=tries)
        tries += 1
        copy.fail(at=tries)
        try:
            open_store(copy)
        except (DiskError, StoreDamaged):
            pass
        else:
            break
        copy.heal()
        copy.kill()
        assert numbers(open_store(copy))[:8] == list(range(8))
    assert tries > 20


def test_a_lost_checkpoint_means_that_all_is_looked_at() -> None:
    life = Life(flushed=12)
    life.disk.remove(ROOT / "checkpoint")
    assert numbers(open_store(life.disk)) == list(range(12))
    other = Life(flushed=12)
    other.disk.remove(ROOT / "checkpoint")
    other.damage(4)
    with pytest.raises(StoreDamaged):
        open_store(other.disk)


def test_the_safe_time_of_a_foreign_checkpoint_is_three_seconds_back() -> None:
    assert CheckpointData(log_ms=10_000, queues_ms=8_000).safe_ms == 5_000
