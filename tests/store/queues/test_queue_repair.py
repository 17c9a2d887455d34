"""Damaged queue files, put right from a log that other queues are in too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import view_records
from rocketpipe.store.errors import QueueDamaged
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.consume_queue import ConsumeQueue
from rocketpipe.store.queues.entries import BLANK_SIZE, QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from rocketpipe.store.queues.queue_repair import FileRepair, walk_past_damage
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import ROOT, open_store, put

QUEUE = ROOT / "consumequeue" / "plain" / "0"
FILE_BYTES = 200


class Damaged:
    """A store with 45 messages in each of three queues, whose files of ten entries can be hurt."""

    def __init__(self, **changes: Any) -> None:
        self.disk = SimDisk()
        self.store = open_store(self.disk, **changes)
        for number in range(135):
            self.append(number)
        self.store.dispatch()
        self.store.flush()
        self.store.sync_derived()
        self.before = self.content()

    def append(self, number: int) -> None:
        self.store.append([[put(b"%d" % number, queue_id=number % 3)]])

    @property
    def entries(self) -> ConsumeQueue:
        queue = self.store.derived.queues.queue("plain", 0)
        assert queue is not None
        return queue

    def content(self) -> dict[Path, bytes]:
        return {path: self.disk.content(path) for path in self.disk.files() if path.parent == QUEUE}

    def hurt(self, entry: int, bit: int = 5) -> None:
        at = entry * QUEUE_ENTRY_BYTES
        path = QUEUE / f"{at - at % FILE_BYTES:020d}"
        self.disk.flip(path, 8 * (at % FILE_BYTES) + bit)

    def find_damage(self) -> None:
        for entry in range(self.entries.first_offset, 45, 10):
            try:
                self.entries.check_again(QueueOffset(entry), 1)
            except QueueDamaged:
                pass

    def repair(self, between: Callable[[], None] = lambda: None) -> int:
        """Put right what is damaged; ``between`` is called between any two steps."""
        wrong = 0
        for file in self.entries.files.damaged:
            repair = FileRepair(
                self.store.commit_log,
                self.store.positions,
                self.store.derived.dispatcher.queued,
                ("plain", 0),
                self.entries,
                file,
            )
            steps = repair.steps()
            while True:
                try:
                    wait = next(steps)
                except StopIteration as end:
                    wrong += end.value
                    break
                wait()
                between()
        return wrong


@pytest.mark.parametrize("bit", range(0, 160, 3))
def test_any_wrong_bit_of_an_entry_is_put_right(bit: int) -> None:
    damaged = Damaged()
    for entry in (0, 14, 19, 44):
        damaged.hurt(entry, bit)
    damaged.find_damage()
    assert len(damaged.entries.files.damaged) == 3
    assert damaged.repair() == 4
    assert damaged.content() == damaged.before
    assert damaged.entries.files.damaged == []
    assert bodies(damaged.store) == [b"%d" % number for number in range(0, 135, 3)]


@pytest.mark.parametrize("length", [0, 30, 199])
def test_a_file_that_lost_its_end_is_put_right(length: int) -> None:
    damaged = Damaged()
    with damaged.disk.open(QUEUE / f"{200:020d}") as file:
        file.truncate(length)
    damaged.find_damage()
    assert damaged.repair() == 10 - length // QUEUE_ENTRY_BYTES
    assert damaged.content() == damaged.before


def test_a_file_of_garbage_between_damaged_neighbours_is_put_right() -> None:
    damaged = Damaged()
    for base in (0, 200, 400):
        with damaged.disk.open(QUEUE / f"{base:020d}") as file:
            file.write(bytes(range(200)), 0)
    damaged.find_damage()
    assert damaged.repair() == 30
    assert damaged.content() == damaged.before


def test_only_the_log_around_a_wrong_entry_is_looked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    damaged = Damaged()
    damaged.hurt(23)
    damaged.find_damage()
    walked: list[tuple[int, int]] = []
    walk = damaged.store.commit_log.walk

    def watched(start: LogOffset, end: LogOffset) -> Any:
        walked.append((start, end))
        return walk(start, end)

    monkeypatch.setattr(damaged.store.commit_log, "walk", watched)
    damaged.repair()
    # From behind the entry before it to where the entry behind it starts: three records.
    entries = list(QUEUE_ENTRY.iter_unpack(damaged.entries.entries(QueueOffset(22), 3)))
    assert walked == [(entries[0][0] + entries[0][1], entries[2][0])]
    assert damaged.content() == damaged.before


def test_the_file_may_grow_meanwhile() -> None:
    damaged = Damaged()
    damaged.hurt(42)
    damaged.find_damage()

    def grow() -> None:
        damaged.append(0)
        damaged.store.dispatch()
        damaged.store.derived.queues.flush_pending()

    assert damaged.repair(between=grow) == 1
    grown = damaged.store.max_offset("plain", 0)
    assert grown > 45
    assert len(bodies(damaged.store)) == grown
    damaged.entries.check_again(QueueOffset(0), grown)
    damaged.store.close()
    assert len(bodies(open_store(damaged.disk))) == grown


def test_a_file_that_goes_meanwhile_is_let_be() -> None:
    damaged = Damaged()
    damaged.hurt(3)
    damaged.find_damage()

    damaged.repair(between=lambda: damaged.store.derived.queues.delete("plain", 0))
    assert damaged.entries.files.damaged == []
    damaged.store.sync_derived()
    assert damaged.content() == {}


def test_entries_of_messages_that_expired_are_let_be() -> None:
    damaged = Damaged()
    damaged.store.delete_before(LogOffset(2 * 4096))
    low = damaged.store.min_offset("plain", 0)
    assert low % 10 > 1
    damaged.hurt(low)
    damaged.find_damage()
    assert damaged.repair() == 1
    assert len(bodies(damaged.store)) == 45 - low


def test_the_entry_of_a_damaged_record_stays_as_it_was() -> None:
    damaged = Damaged(on_damaged_record="stop")
    offset, size, _ = QUEUE_ENTRY.unpack(damaged.entries.entries(QueueOffset(13), 1))
    path = ROOT / "commitlog" / f"{offset - offset % 4096:020d}"
    damaged.disk.flip(path, 8 * (offset % 4096 + size // 2))
    damaged.hurt(14)
    damaged.find_damage()
    assert damaged.repair() == 1
    assert damaged.content() == damaged.before


def test_an_entry_whose_record_no_longer_tells_is_blank_and_holds_up_nobody() -> None:
    damaged = Damaged()
    offset, size, _ = QUEUE_ENTRY.unpack(damaged.entries.entries(QueueOffset(13), 1))
    path = ROOT / "commitlog" / f"{offset - offset % 4096:020d}"
    damaged.disk.flip(path, 8 * (offset % 4096 + size // 2))
    damaged.hurt(13, bit=0)  # it now says that it is before all others
    damaged.find_damage()
    assert damaged.repair() == 1
    assert QUEUE_ENTRY.unpack(damaged.entries.entries(QueueOffset(13), 1))[1] == BLANK_SIZE
    assert len(bodies(damaged.store)) == 44
    damaged.store.close()
    assert len(bodies(open_store(damaged.disk))) == 44


def test_a_walk_goes_on_behind_what_is_no_record() -> None:
    damaged = Damaged()
    whole = list(damaged.store.commit_log.walk(LogOffset(0), damaged.store.positions.written))
    at, record = whole[50]
    with damaged.disk.open(ROOT / "commitlog" / f"{at - at % 4096:020d}") as file:
        file.write(bytes(len(record)), at % 4096)
    end = damaged.store.positions.written
    found = list(walk_past_damage(damaged.store.commit_log, LogOffset(0), end))
    assert found == whole[:50] + whole[51:]


def bodies(store: MessageStore) -> list[bytes]:
    """What a consumer of the queue is given, one pull after the other."""
    found: list[bytes] = []
    at = store.min_offset("plain", 0)
    while at < store.max_offset("plain", 0):
        result = store.read("plain", 0, at, max_count=7)
        found += [view.body for view in view_records(result.records)]
        assert result.next_offset > at
        at = result.next_offset
    return found
