"""Entries that were read ahead are those that the queue has."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.errors import QueueDamaged
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.queues.consume_queue import ConsumeQueue
from rocketpipe.store.queues.entries import queue_entry
from rocketpipe.store.queues.queue_files import FileSum
from rocketpipe.store.queues.read_ahead import AHEAD, ReadAhead


class Counted(ConsumeQueue):
    """A queue that counts how often it was read."""

    reads = 0

    def entries(self, offset: QueueOffset, count: int) -> bytes:
        self.reads += 1
        return super().entries(offset, count)


def entries(first: int, count: int, *, size: int = 100) -> bytes:
    return b"".join(queue_entry(n * 100, size, n) for n in range(first, first + count))


@pytest.fixture
def queue(tmp_path: Path) -> Counted:
    disk = Disk()
    made = Counted(disk, OpenFiles(disk, 8), tmp_path, 20 * 1000)
    made.append(entries(0, 1000), QueueOffset(0))
    made.write_pending()
    return made


def test_those_that_follow_are_not_read_again(queue: Counted) -> None:
    ahead = ReadAhead()
    for offset in range(0, AHEAD - 32, 32):
        assert ahead.entries(queue, offset, 32) == entries(offset, 32)
    assert queue.reads == 1
    for offset in range(AHEAD - 32, 2 * AHEAD, 32):
        assert ahead.entries(queue, offset, 32) == entries(offset, 32)
    assert queue.reads <= 3


def test_each_reads_on_at_its_own_place_and_pace(queue: Counted) -> None:
    ahead = ReadAhead()
    for turn in range(5):
        assert ahead.entries(queue, 32 * turn, 32) == entries(32 * turn, 32)
        assert ahead.entries(queue, 500 + 7 * turn, 7) == entries(500 + 7 * turn, 7)
    assert queue.reads == 2


def test_any_others_are(queue: Counted) -> None:
    ahead = ReadAhead()
    for offset, count in ((500, 32), (499, 1), (0, 32), (10, AHEAD), (9, AHEAD + 50), (999, 1)):
        assert ahead.entries(queue, offset, count) == entries(offset, count)
    assert ahead.entries(queue, 990, 32) == entries(990, 10)
    assert ahead.entries(queue, 1000, 32) == b""


def test_what_comes_later_is_seen(queue: Counted) -> None:
    ahead = ReadAhead()
    assert ahead.entries(queue, 980, 10) == entries(980, 10)
    queue.append(entries(1000, 5), QueueOffset(1000))
    assert ahead.entries(queue, 985, 32) == entries(985, 20)


def test_entries_that_were_replaced_are_forgotten(queue: Counted) -> None:
    ahead = ReadAhead()
    assert ahead.entries(queue, 0, 32) == entries(0, 32)
    queue.append(entries(40, 10, size=99), QueueOffset(40))
    assert ahead.entries(queue, 32, 32) == entries(32, 8) + entries(40, 10, size=99)


def test_entries_of_a_queue_that_starts_anew_are_forgotten(queue: Counted) -> None:
    ahead = ReadAhead()
    assert ahead.entries(queue, 0, 32) == entries(0, 32)
    queue.destroy()
    assert ahead.entries(queue, 32, 32) == b""
    queue.append(entries(0, 100, size=98), QueueOffset(0))
    assert ahead.entries(queue, 32, 32) == entries(32, 32, size=98)


def test_entries_that_were_put_right_are_read_again(queue: Counted) -> None:
    ahead = ReadAhead()
    assert ahead.entries(queue, 0, 32) == entries(0, 32)
    queue.mend(FileSum(0, 1000, 0), 0, ())
    assert ahead.entries(queue, 32, 32) == entries(32, 32)
    assert queue.reads == 2


def test_damage_further_on_is_no_matter_of_who_reads_before_it(tmp_path: Path) -> None:
    disk = Disk()
    files = OpenFiles(disk, 8)
    queue = Counted(disk, files, tmp_path, 20 * 100)
    queue.append(entries(0, 200), QueueOffset(0))
    queue.write_pending()
    second = sorted(tmp_path.iterdir())[1]
    second.write_bytes(bytes(2000))
    files.age += 1
    ahead = ReadAhead()
    assert ahead.entries(queue, 32, 32) == entries(32, 32)
    with pytest.raises(QueueDamaged):
        ahead.entries(queue, 96, 32)


def test_no_more_readers_are_kept_than_may_be(tmp_path: Path) -> None:
    disk = Disk()
    files = OpenFiles(disk, 8)
    ahead = ReadAhead(max_readers=2)
    queues = [Counted(disk, files, tmp_path / str(n), 20 * 1000) for n in range(3)]
    for queue in queues:
        queue.append(entries(0, 100), QueueOffset(0))
        ahead.entries(queue, 0, 32)
    for queue in reversed(queues):
        assert ahead.entries(queue, 32, 32) == entries(32, 32)
    assert [queue.reads for queue in queues] == [2, 1, 1]
