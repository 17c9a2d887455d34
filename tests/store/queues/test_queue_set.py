from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.files.background_sync import PendingSync
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.queues import queue_set
from rocketpipe.store.queues.entries import queue_entry
from rocketpipe.store.queues.queue_files import QueueFiles
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
DIRECTORY = ROOT / "consumequeue"
SUMS = ROOT / "sums" / "queues.json"
RECORD = 100
QUEUES = [("orders", 0), ("orders", 1), ("%RETRY%group", 0), ("log", 7)]


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(SUMS.parent)
    return disk


def new_set(disk: SimDisk) -> QueueSet:
    return QueueSet(disk, OpenFiles(disk, 3), DIRECTORY, SUMS, 200)


class Log:
    """A log in which record *n* is of one queue after the other, to be dispatched from anywhere."""

    def __init__(self, seed: int = 0, count: int = 200) -> None:
        chance = random.Random(seed)
        self.records: list[tuple[str, int, int]] = []
        ends: dict[tuple[str, int], int] = {}
        for _ in range(count):
            queue = chance.choice(QUEUES)
            self.records.append((*queue, ends.setdefault(queue, 0)))
            ends[queue] += 1

    def dispatch(self, queues: QueueSet, start: int, end: int) -> None:
        assert start % RECORD == 0
        for number in range(start // RECORD, end // RECORD):
            topic, queue_id, offset = self.records[number]
            entry = queue_entry(number * RECORD, RECORD, number)
            queues.append(topic, queue_id, entry, QueueOffset(offset))
        queues.holds_to = LogOffset(max(queues.holds_to, end))

    def expect(self, queues: QueueSet, end: int) -> None:
        """The queues hold the records before ``end``, and no others."""
        expected: dict[tuple[str, int], bytes] = {}
        for number, (topic, queue_id, _) in enumerate(self.records[: end // RECORD]):
            entry = queue_entry(number * RECORD, RECORD, number)
            expected[topic, queue_id] = expected.get((topic, queue_id), b"") + entry
        for queue in QUEUES:
            wanted = expected.get(queue, b"")
            assert queues.entries(*queue, QueueOffset(0), 1000) == wanted
            assert queues.max_offset(*queue) == len(wanted) // 20


def recovered(disk: SimDisk, end: int, *, clean: bool = False, trusted_to: int = 0) -> QueueSet:
    queues = new_set(disk)
    queues.recover(LogOffset(0), LogOffset(end), LogOffset(trusted_to), clean=clean)
    return queues


def test_queues_are_found_again_after_a_clean_stop(disk: SimDisk) -> None:
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 20_000)
    assert queues.sync()
    assert queues.synced_to == 20_000
    again = new_set(disk)
    assert again.recover(LogOffset(0), LogOffset(20_000), LogOffset(0), clean=True) == 20_000
    log.expect(again, 20_000)
    for queue in QUEUES:
        assert again.next_offset(*queue) == again.max_offset(*queue)


def test_what_waits_in_memory_is_read_as_if_it_were_written(disk: SimDisk) -> None:
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 5_000)
    assert queues.pending_bytes == 50 * 20
    log.expect(queues, 5_000)
    queues.flush_pending()
    assert queues.pending_bytes == 0
    log.expect(queues, 5_000)


def test_queues_that_are_not_there_are_empty(disk: SimDisk) -> None:
    queues = new_set(disk)
    assert queues.queue("orders", 0) is None
    assert queues.min_offset("orders", 0) == queues.max_offset("orders", 0) == 0
    assert queues.entries("orders", 0, QueueOffset(0), 10) == b""
    assert queues.next_offset("orders", 0) == 0


def test_the_next_offset_runs_ahead_of_what_is_dispatched(disk: SimDisk) -> None:
    queues = new_set(disk)
    queues.raise_next("orders", 0, QueueOffset(3))
    assert queues.next_offset("orders", 0) == 3
    assert queues.max_offset("orders", 0) == 0
    queues.append("orders", 0, queue_entry(0, 100, 0), QueueOffset(0))
    assert queues.next_offset("orders", 0) == 3
    assert queues.max_offset("orders", 0) == 1
    with pytest.raises(AssertionError):
        queues.raise_next("orders", 0, QueueOffset(2))


@pytest.mark.parametrize("topic", ["../evil", "a/b", ".", "..", "", "x" * 256, "a\0b"])
def test_a_topic_that_is_no_file_name_gets_no_queue(disk: SimDisk, topic: str) -> None:
    with pytest.raises(ValueError, match="no queue"):
        new_set(disk).append(topic, 0, queue_entry(0, 100, 0), QueueOffset(0))


def test_names_that_are_no_topics_or_queues_are_left_alone(disk: SimDisk) -> None:
    queues = new_set(disk)
    Log().dispatch(queues, 0, 1_000)
    queues.sync()
    for name in ("a b", "orders/007", "orders/x"):
        disk.make_directory(DIRECTORY / name)
    again = recovered(disk, 1_000, clean=True)
    assert set(again.queues()) <= set(QUEUES)


def test_a_round_of_syncs_covers_what_was_dispatched_when_it_began(disk: SimDisk) -> None:
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 10_000)
    assert not queues.sync(limit=1)
    log.dispatch(queues, 10_000, 15_000)
    assert not queues.sync(limit=1)
    assert queues.synced_to == 0
    while not queues.sync(limit=1):
        pass
    assert queues.synced_to == 10_000
    disk.crash()
    again = new_set(disk)
    assert again.recover(LogOffset(0), LogOffset(15_000), LogOffset(0), clean=False) == 10_000
    log.expect(again, 10_000)


@pytest.mark.parametrize("seed", range(40))
def test_after_a_crash_the_queues_are_those_of_the_last_round(seed: int) -> None:
    chance = random.Random(seed)
    log = Log(seed)
    disk = SimDisk(seed)
    disk.make_directory(SUMS.parent)
    queues = new_set(disk)
    at = 0
    for _ in range(chance.randrange(1, 15)):
        end = min(20_000, at + RECORD * chance.randrange(30))
        log.dispatch(queues, at, end)
        at = end
        match chance.randrange(4):
            case 0:
                queues.flush_pending()
            case 1:
                queues.sync()
            case 2:
                queues.sync(limit=1)
    synced = queues.synced_to
    if chance.randrange(2):
        disk.crash()
    else:
        disk.kill()
    again = new_set(disk)
    start = again.recover(LogOffset(0), LogOffset(at), LogOffset(0), clean=False)
    assert start >= synced
    log.expect(again, start)
    log.dispatch(again, start, 20_000)
    again.sync()
    log.expect(again, 20_000)
    third = recovered(disk, 20_000, clean=True)
    log.expect(third, 20_000)


@pytest.mark.parametrize("end", [0, 100, 4_900, 10_000, 19_900, 20_000])
def test_a_log_that_came_back_shorter_cuts_the_queues(disk: SimDisk, end: int) -> None:
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 20_000)
    queues.sync()
    again = new_set(disk)
    assert again.recover(LogOffset(0), LogOffset(end), LogOffset(0), clean=False) == end
    log.expect(again, end)
    for queue in QUEUES:
        assert again.next_offset(*queue) == again.max_offset(*queue)


@pytest.mark.parametrize("end", [0, 100, 4_900, 20_000])
def test_truncating_is_durable(disk: SimDisk, end: int) -> None:
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 15_000)
    queues.sync()
    log.dispatch(queues, 15_000, 20_000)
    queues.truncate(LogOffset(end))
    log.expect(queues, end)
    assert queues.synced_to == end
    disk.crash()
    log.expect(recovered(disk, end), end)


def test_a_queue_whose_directory_is_gone_is_dispatched_again(disk: SimDisk) -> None:
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 20_000)
    queues.sync()
    for path in disk.files():
        if path.is_relative_to(DIRECTORY / "orders" / "1"):
            disk.remove(path)
    again = new_set(disk)
    assert again.recover(LogOffset(0), LogOffset(20_000), LogOffset(0), clean=True) == 0
    assert again.next_offset("orders", 1) == queues.max_offset("orders", 1)
    log.dispatch(again, 0, 20_000)
    log.expect(again, 20_000)


def test_checksums_that_are_gone_or_garbage_are_done_without(disk: SimDisk) -> None:
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 20_000)
    queues.sync()
    sums = disk.content(SUMS)
    for text in (b"", b"{", sums[:-40], sums.replace(b"orders", b"ordres"), b'{"holds_to":1}'):
        disk.put(SUMS, text)
        again = new_set(disk)
        start = again.recover(LogOffset(0), LogOffset(20_000), LogOffset(3_000), clean=False)
        assert start == 3_000
        log.expect(again, 3_000)
        log.dispatch(again, start, 20_000)
        log.expect(again, 20_000)
        again.flush_pending()


def test_offsets_are_not_given_again_when_all_messages_of_a_queue_have_expired(
    disk: SimDisk,
) -> None:
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 20_000)
    last = queues.max_offset("orders", 0)
    queues.delete_before(LogOffset(20_000))
    assert queues.min_offset("orders", 0) == queues.max_offset("orders", 0) == last
    queues.sync()
    again = new_set(disk)
    start = again.recover(LogOffset(20_000), LogOffset(20_000), LogOffset(20_000), clean=True)
    assert start == 20_000
    assert again.min_offset("orders", 0) == again.next_offset("orders", 0) == last


@pytest.mark.parametrize("seed", range(10))
def test_files_that_retention_removed_are_not_missed_after_a_crash(seed: int) -> None:
    disk = SimDisk(seed)
    disk.make_directory(SUMS.parent)
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 20_000)
    queues.sync()
    assert queues.delete_before(LogOffset(10_000)) >= 4
    least = {queue: queues.min_offset(*queue) for queue in QUEUES}
    disk.crash()
    again = new_set(disk)
    start = again.recover(LogOffset(10_000), LogOffset(20_000), LogOffset(0), clean=False)
    assert start == 20_000
    assert {queue: again.min_offset(*queue) for queue in QUEUES} == least


def test_a_full_disk_stops_writing_but_not_reading(disk: SimDisk) -> None:
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 10_000)
    disk.fail(only={"write"}, errno=errno.ENOSPC)
    with pytest.raises(DiskError) as refused:
        queues.flush_pending()
    assert refused.value.no_room
    log.expect(queues, 10_000)
    queues.flush_pending()
    assert queues.pending_bytes == 0
    log.expect(queues, 10_000)


def test_a_queue_that_lost_its_first_file_before_any_sync_is_dispatched_from_its_start(
    disk: SimDisk,
) -> None:
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 12_000)
    queues.flush_pending()
    disk.remove(DIRECTORY / "orders" / "0" / f"{0:020d}")
    queues = new_set(disk)
    start = queues.recover(LogOffset(0), LogOffset(12_000), LogOffset(0), clean=False)
    assert start == 0
    log.dispatch(queues, start, 12_000)
    log.expect(queues, 12_000)


@pytest.mark.parametrize("at_once", [True, False])
def test_many_queues_are_synced_at_once_where_the_system_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    synced: list[Path] = []
    one_by_one = QueueFiles.begin_sync

    def begin_sync(files: QueueFiles) -> PendingSync:
        synced.append(files.directory)
        return one_by_one(files)

    monkeypatch.setattr(QueueFiles, "begin_sync", begin_sync)
    monkeypatch.setattr(queue_set, "_MANY_QUEUES", 10)
    monkeypatch.setattr(OpenFiles, "sync_everything", lambda files: at_once)
    disk, directory, sums = Disk(), tmp_path / "consumequeue", tmp_path / "queues.json"
    files = OpenFiles(disk, 4)
    queues = QueueSet(disk, files, directory, sums, 200)
    for number in range(20):
        queues.append("orders", number, queue_entry(number * 100, 100, 0), QueueOffset(0))
    end = queues.holds_to = LogOffset(2000)
    assert queues.sync()
    assert len(synced) == (0 if at_once else 20)
    assert queues.pending_bytes == 0
    assert queues.synced_to == end
    files.close()
    again = QueueSet(disk, files, directory, sums, 200)
    assert again.recover(LogOffset(0), end, LogOffset(0), clean=True) == end
    assert sum(again.max_offset(*queue) for queue in again.queues()) == 20
    files.close()


def test_a_queue_that_came_during_a_round_comes_again_from_the_log(disk: SimDisk) -> None:
    queues = new_set(disk)
    queues.append("orders", 0, queue_entry(0, 100, 0), QueueOffset(0))
    queues.holds_to = LogOffset(100)
    portion, is_last = queues.begin_sync(10)
    portion.now()
    queues.append("late", 0, queue_entry(100, 100, 0), QueueOffset(0))
    queues.holds_to = LogOffset(200)
    while not is_last:
        portion, is_last = queues.begin_sync(10)
        portion.now()
    assert queues.synced_to == 100
    disk.crash(keep="nothing")
    again = recovered(disk, 200, clean=False)
    assert again.synced_to == 100
    again.append("late", 0, queue_entry(100, 100, 0), QueueOffset(0))
    assert again.entries("late", 0, QueueOffset(0), 9) == queue_entry(100, 100, 0)
    assert again.min_offset("late", 0) == 0


def test_a_queue_that_was_deleted_stays_away_after_a_crash(disk: SimDisk) -> None:
    log = Log()
    queues = new_set(disk)
    log.dispatch(queues, 0, 10_000)
    queues.sync()
    queues.delete("orders", 0)
    assert queues.max_offset("orders", 0) == 0
    queues.sync()
    assert not [path for path in disk.files() if path.is_relative_to(DIRECTORY / "orders" / "0")]
    disk.crash(keep="nothing")
    again = new_set(disk)
    assert again.recover(LogOffset(0), LogOffset(10_000), LogOffset(0), clean=False) == 10_000
    assert again.max_offset("orders", 0) == 0


def test_a_queue_that_is_needed_again_is_not_removed_with_what_was_deleted(disk: SimDisk) -> None:
    queues = new_set(disk)
    queues.append("orders", 0, queue_entry(0, 100, 0), QueueOffset(0))
    queues.holds_to = LogOffset(100)
    queues.sync()
    queues.delete("orders", 0)
    queues.append("orders", 0, queue_entry(100, 100, 7), QueueOffset(0))
    queues.holds_to = LogOffset(200)
    queues.sync()
    queues.sync()
    disk.crash(keep="nothing")
    again = recovered(disk, 200, clean=False)
    assert again.entries("orders", 0, QueueOffset(0), 9) == queue_entry(100, 100, 7)


def many(disk: SimDisk, count: int) -> QueueSet:
    """Queues with an entry each, none of which is written yet."""
    queues = new_set(disk)
    for number in range(count):
        entry = queue_entry(100 * number, 100, 7)
        queues.append("orders", number, entry, QueueOffset(0))
    queues.holds_to = LogOffset(100 * count)
    return queues


def test_what_waits_of_many_queues_is_written_a_part_at_a_time(disk: SimDisk) -> None:
    queues = many(disk, 500)
    sizes = []
    while queues.pending_bytes:
        before = queues.pending_bytes
        queues.flush_some()
        sizes.append((before - queues.pending_bytes) // 20)
    assert sizes == [200, 200, 100]
    queues.sync()
    assert queues.synced_to == 50_000


def test_of_many_queues_a_part_at_a_time_expires(disk: SimDisk) -> None:
    queues = many(disk, 500)
    queues.sync()
    steps = queues.expiring(LogOffset(30_000))
    seen = []
    for wait in steps:
        seen.append(sum(queues.min_offset("orders", number) for number in range(500)))
        wait()
    assert seen == [100, 200, 300, 300, 300]


def test_a_portion_of_a_round_makes_few_files(disk: SimDisk) -> None:
    queues = many(disk, 100)
    portions = 0
    while True:
        before = len([path for path in disk.files() if path.is_relative_to(DIRECTORY)])
        portion, last = queues.begin_sync(40)
        made = len([path for path in disk.files() if path.is_relative_to(DIRECTORY)]) - before
        assert made <= 10
        portion.now()
        portions += 1
        if last:
            break
    assert portions == 11
    again = new_set(disk)
    assert again.recover(LogOffset(0), LogOffset(10_000), LogOffset(0), clean=True) == 10_000
