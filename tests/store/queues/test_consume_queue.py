from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.errors import QueueDamaged
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.queues.consume_queue import ConsumeQueue
from rocketpipe.store.queues.entries import BLANK_ENTRY, BLANK_SIZE, QUEUE_ENTRY, queue_entry
from rocketpipe.store.queues.queue_files import FileSum
from rocketpipe.testing.simulation.disk import SimDisk

DIRECTORY = Path("/store/consumequeue/orders/3")
FILE_BYTES = 200  # ten entries
RECORD = 100


def new_queue(disk: SimDisk) -> ConsumeQueue:
    return ConsumeQueue(disk, OpenFiles(disk, 2), DIRECTORY, FILE_BYTES)


def entries(first: int, end: int) -> bytes:
    """Entries of records of 100 bytes, every other record of the log being of another queue."""
    return b"".join(queue_entry(2 * n * RECORD, RECORD, n - 5) for n in range(first, end))


def log_end(count: int) -> LogOffset:
    return LogOffset(2 * (count - 1) * RECORD + RECORD if count else 0)


def filled(disk: SimDisk, count: int) -> ConsumeQueue:
    queue = new_queue(disk)
    queue.append(entries(0, count), QueueOffset(0))
    queue.sync()
    return queue


def everything(queue: ConsumeQueue) -> bytes:
    return queue.entries(queue.first_offset, 1000)


def name(base: int) -> Path:
    return DIRECTORY / f"{base:020d}"


def test_what_is_appended_is_read_before_and_after_it_is_written() -> None:
    queue = new_queue(SimDisk())
    for first in range(0, 35, 7):
        queue.append(entries(first, first + 7), QueueOffset(first))
        if first == 21:
            queue.write_pending()
            assert queue.pending_bytes == 0
    assert queue.max_offset == 35
    assert queue.log_end == log_end(35)
    for offset in range(36):
        for count in (1, 9, 40):
            expected = entries(offset, min(35, offset + count))
            assert queue.entries(QueueOffset(offset), count) == expected


def test_entry_n_is_at_byte_20_n_of_files_named_for_their_first_byte() -> None:
    disk = SimDisk()
    filled(disk, 23)
    assert disk.files() == [name(0), name(200), name(400)]
    assert disk.content(name(200)) == entries(10, 20)
    assert disk.content(name(400)) == entries(20, 23) + bytes(140)


def test_a_queue_that_starts_later_is_filled_up_with_blank_entries() -> None:
    # The worked example of the format, in small: offset 15 is entry 5 of the second file.
    disk = SimDisk()
    queue = new_queue(disk)
    queue.append(entries(15, 16), QueueOffset(15))
    queue.sync()
    assert disk.files() == [name(200)]
    assert disk.content(name(200)) == BLANK_ENTRY * 5 + entries(15, 16) + bytes(80)
    assert (queue.min_offset, queue.max_offset, queue.first_offset) == (15, 16, 10)

    again = new_queue(disk)
    assert again.recover(LogOffset(0), log_end(16))
    assert (again.min_offset, again.max_offset) == (15, 16)


def test_a_gap_is_filled_with_blank_entries_that_keep_the_order() -> None:
    disk = SimDisk()
    queue = filled(disk, 3)
    queue.append(entries(6, 8), QueueOffset(6))
    queue.sync()
    assert queue.max_offset == 8
    blank = QUEUE_ENTRY.pack(log_end(3), BLANK_SIZE, 0)
    assert everything(queue) == entries(0, 3) + blank * 3 + entries(6, 8)
    assert queue.find(LogOffset(12 * RECORD)) == 6
    again = new_queue(disk)
    assert again.recover(LogOffset(0), log_end(8))
    assert everything(again) == everything(queue)


def test_to_append_again_changes_nothing() -> None:
    disk = SimDisk()
    queue = filled(disk, 23)
    before = {path: disk.content(path) for path in disk.files()}
    for first in range(23):
        queue.append(entries(first, 23), QueueOffset(first))
    assert queue.pending_bytes == 0
    queue.append(entries(20, 25), QueueOffset(20))
    assert queue.max_offset == 25
    assert {path: disk.content(path) for path in disk.files()} == before


def test_entries_that_differ_are_replaced_and_those_behind_them_go() -> None:
    disk = SimDisk()
    queue = filled(disk, 23)
    other = queue_entry(24 * RECORD, RECORD, 99)
    queue.append(other, QueueOffset(12))
    assert queue.max_offset == 13
    assert everything(queue) == entries(0, 12) + other
    queue.sync()
    assert disk.files() == [name(0), name(200)]
    assert disk.content(name(200)) == entries(10, 12) + other + bytes(140)


@pytest.mark.parametrize("count", range(24))
def test_truncating_drops_what_is_not_before_the_end_of_the_log(count: int) -> None:
    disk = SimDisk()
    queue = filled(disk, 20)
    queue.append(entries(20, 23), QueueOffset(20))  # not written yet
    queue.truncate(log_end(count))
    assert queue.max_offset == count
    assert queue.log_end == log_end(count)
    assert everything(queue) == entries(0, count)
    queue.append(entries(count, 30), QueueOffset(count))
    queue.sync()
    assert everything(queue) == entries(0, 30)
    again = new_queue(disk)
    assert again.recover(LogOffset(0), log_end(30), queue.sums(), clean=True)
    assert everything(again) == entries(0, 30)


def test_the_least_offset_is_that_of_the_first_message_in_the_log() -> None:
    queue = filled(SimDisk(), 23)
    for first in range(24):
        queue.set_min(LogOffset(2 * first * RECORD))
        assert queue.min_offset == first
        queue.set_min(LogOffset(max(0, 2 * first * RECORD - 1)))
        assert queue.min_offset == first


def test_files_go_when_all_their_records_are_gone_but_never_the_last() -> None:
    disk = SimDisk()
    queue = filled(disk, 23)
    assert queue.delete_before(LogOffset(2 * 9 * RECORD)) == 0  # its last entry is still good
    assert queue.delete_before(LogOffset(2 * 10 * RECORD)) == 1
    assert (queue.first_offset, queue.min_offset, queue.max_offset) == (10, 10, 23)
    assert queue.delete_before(LogOffset(10_000_000)) == 1
    queue._files._files.remove_doomed()
    assert disk.files() == [name(400)]
    assert (queue.first_offset, queue.min_offset, queue.max_offset) == (20, 23, 23)
    queue.append(entries(23, 24), QueueOffset(23))
    queue.sync()
    again = new_queue(disk)
    assert again.recover(LogOffset(10_000), log_end(24), queue.sums())
    assert (again.min_offset, again.max_offset) == (24, 24)


def test_a_queue_that_lost_its_files_goes_on_where_it_is_told() -> None:
    queue = new_queue(SimDisk())
    queue.start_at(QueueOffset(14))
    assert (queue.min_offset, queue.max_offset) == (14, 14)
    queue.append(entries(14, 15), QueueOffset(14))
    assert queue.entries(QueueOffset(14), 5) == entries(14, 15)


def test_a_disk_that_is_full_loses_nothing_that_was_appended() -> None:
    disk = SimDisk()
    queue = filled(disk, 5)
    queue.append(entries(5, 30), QueueOffset(5))
    for only in ({"write"}, {"create"}, {"truncate"}):
        disk.fail(only=only, errno=errno.ENOSPC)
        with pytest.raises(DiskError):
            queue.write_pending()
        assert everything(queue) == entries(0, 30)
        disk.heal()
    queue.sync()
    assert everything(queue) == entries(0, 30)
    assert disk.content(name(400)) == entries(20, 30)


@pytest.mark.parametrize("at", range(20 * 20, 20 * 23 + 1))
def test_a_queue_torn_at_any_byte_is_cut_at_its_last_whole_entry(at: int) -> None:
    disk = SimDisk()
    filled(disk, 23)
    data = disk.content(name(400))
    disk.put(name(400), data[: at - 400] + bytes(600 - at))
    queue = new_queue(disk)
    queue.recover(LogOffset(0), log_end(23))
    # Zeros in place of a tag code cannot be told from one: checksums are for that.
    assert at // 20 <= queue.max_offset <= at // 20 + (at % 20 >= 12)
    whole = min(queue.max_offset, at // 20)
    assert everything(queue)[: whole * 20] == entries(0, whole)
    # What the log says then takes the place of what cannot be right.
    queue.append(entries(20, 23), QueueOffset(20))
    queue.sync()
    assert everything(queue) == entries(0, 23)


def damaged_copies(data: bytes, chance: random.Random) -> list[bytes]:
    """One copy for each byte, that byte being another; and every shorter and one longer."""
    copies = []
    for at in range(len(data)):
        other = bytearray(data)
        other[at] ^= chance.randrange(1, 256)
        copies.append(bytes(other))
        copies.append(data[:at])
    return [*copies, data + b"x", bytes(len(data)), chance.randbytes(len(data))]


@pytest.mark.parametrize("base", [0, 200, 400])
def test_whatever_byte_of_a_file_has_changed_nothing_wrong_is_given(base: int) -> None:
    disk = SimDisk()
    sums = filled(disk, 23).sums()
    good = {path: disk.content(path) for path in disk.files()}
    count = (23 * 20 - base) // 20 if base == 400 else 10
    for copy in damaged_copies(good[name(base)], random.Random(base)):
        disk = SimDisk()
        disk.make_directory(DIRECTORY)
        for path, data in good.items():
            disk.put(path, copy if path == name(base) else data)
        harmless = copy[: count * 20] == good[name(base)][: count * 20]
        queue = new_queue(disk)
        whole = queue.recover(LogOffset(0), log_end(23), sums)
        detected = not whole
        try:
            given = everything(queue)
        except QueueDamaged:
            detected = True
        else:
            assert entries(0, 23).startswith(given)
        assert detected or harmless
        # Written again from the log, the queue is what it was.
        if not whole:
            start = queue.max_offset
            queue.append(entries(start, 23), start)
        else:
            queue.destroy()
            queue.append(entries(0, 23), QueueOffset(0))
        queue.sync()
        assert everything(queue) == entries(0, 23)


@pytest.mark.parametrize("missing", [0, 200, 400])
def test_a_file_that_is_missing_is_noticed(missing: int) -> None:
    disk = SimDisk()
    sums = filled(disk, 23).sums()
    disk.remove(name(missing))
    queue = new_queue(disk)
    assert not queue.recover(LogOffset(0), log_end(23), sums)
    start = queue.max_offset
    queue.append(entries(start, 23), start)
    queue.sync()
    assert everything(queue) == entries(0, 23)


def test_what_was_written_after_the_last_sync_is_dropped() -> None:
    disk = SimDisk()
    queue = filled(disk, 8)
    sums = queue.sums()
    queue.append(entries(8, 25), QueueOffset(8))
    queue.write_pending()
    disk.kill()
    again = new_queue(disk)
    assert again.recover(LogOffset(0), log_end(25), sums)
    assert everything(again) == entries(0, 8)
    assert disk.files() == [name(0)]
    assert disk.content(name(0)) == entries(0, 8) + bytes(40)


@pytest.mark.parametrize("seed", range(60))
def test_after_a_power_cut_everything_that_was_synced_is_there(seed: int) -> None:
    chance = random.Random(seed)
    disk = SimDisk(seed)
    disk.make_directory(DIRECTORY)  # which its set makes durable, not a queue by itself
    queue = new_queue(disk)
    synced, sums = 0, []
    count = 0
    for _ in range(chance.randrange(1, 12)):
        more = chance.randrange(1, 9)
        queue.append(entries(count, count + more), QueueOffset(count))
        count += more
        match chance.randrange(3):
            case 0:
                queue.write_pending()
            case 1:
                queue.sync()
                synced, sums = count, queue.sums()
    disk.crash()
    disk.make_directory(DIRECTORY)
    again = new_queue(disk)
    assert again.recover(LogOffset(0), log_end(count), sums)
    assert everything(again) == entries(0, synced)
    again.append(entries(synced, count + 15), QueueOffset(synced))
    again.sync()
    third = new_queue(disk)
    assert third.recover(LogOffset(0), log_end(count + 15), again.sums(), clean=True)
    assert everything(third) == entries(0, count + 15)


def test_an_empty_queue_without_files_is_whole() -> None:
    disk = SimDisk()
    disk.make_directory(DIRECTORY)
    for sums in (None, []):
        queue = new_queue(disk)
        assert queue.recover(LogOffset(0), LogOffset(0), sums)
        assert queue.max_offset == 0
        assert everything(queue) == b""


def test_files_that_are_no_queue_files_are_left_alone() -> None:
    disk = SimDisk()
    filled(disk, 5)
    disk.put(DIRECTORY / "notes.txt", b"mine")
    queue = new_queue(disk)
    assert queue.recover(LogOffset(0), log_end(5))
    assert disk.content(DIRECTORY / "notes.txt") == b"mine"


def test_files_that_opening_does_not_touch_are_checked_when_they_are_read() -> None:
    disk = SimDisk()
    sums = filled(disk, 50).sums()
    disk.flip(name(600), 77)
    queue = new_queue(disk)
    assert queue.recover(LogOffset(0), log_end(50), sums, clean=True)
    assert queue.entries(QueueOffset(20), 10) == entries(20, 30)
    with pytest.raises(QueueDamaged, match="not those that were written"):
        queue.entries(QueueOffset(25), 20)
    assert queue.entries(QueueOffset(40), 10) == entries(40, 50)


def test_sums_say_base_count_and_checksum() -> None:
    disk = SimDisk()
    queue = filled(disk, 13)
    assert [(known.base, known.count) for known in queue.sums()] == [(0, 10), (200, 3)]
    queue.append(entries(13, 14), QueueOffset(13))
    queue.write_pending()
    assert [(known.base, known.count) for known in queue.sums()] == [(0, 10), (200, 3)]
    queue.sync()
    assert queue.sums()[1] == FileSum(200, 4, queue.sums()[1].crc)
