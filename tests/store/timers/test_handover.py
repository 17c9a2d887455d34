from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.hot import java_hash
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.queues.entries import BLANK_ENTRY, queue_entry
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.store.timers.entry import Timed, hashed, out_ms
from rocketpipe.store.timers.handover import (
    BLANK,
    BLANK_MAGIC,
    ENTRY,
    LastTimed,
    TimerCheck,
    hand_over,
    last_timed,
    read_timer_check,
)
from rocketpipe.testing.simulation.disk import SimDisk

LAYOUT = StoreLayout(Path("/store"))
NOW_MS = 1_700_000_000_750
WRITTEN_MS = 1_700_000_000_000
FIRST = LAYOUT.root / "timerlog" / f"{0:020d}"


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(LAYOUT.root)
    return disk


def timed(number: int, due_ms: int) -> Timed:
    return Timed(
        due_ms=due_ms,
        log_offset=LogOffset(number * 100),
        size=90,
        queue_offset=QueueOffset(number),
        out_ms=out_ms(due_ms),
        key=hashed(f"orders+u{number}"),
        topic=java_hash("orders"),
        stored_ms=WRITTEN_MS,
        origin=LogOffset(number * 100),
        at_ms=due_ms,
    )


def last(number: int) -> LastTimed:
    return LastTimed(LogOffset(number * 100), 90, QueueOffset(number))


def entries(data: bytes) -> list[tuple[int, ...]]:
    return [entry for entry in ENTRY.iter_unpack(data[: len(data) // 52 * 52]) if entry[0] == 52]


def test_each_message_has_an_entry_linked_by_its_second(disk: SimDisk) -> None:
    due = [NOW_MS + 5000, NOW_MS + 9000, NOW_MS + 5100]
    hand_over(disk, LAYOUT, [timed(n, due[n]) for n in (0, 2, 1)], last(2), NOW_MS, 1000)
    data = disk.content(FIRST)
    assert len(data) == 1000
    topic = java_hash("orders")
    assert entries(data) == [
        (52, -1, 1, WRITTEN_MS, 5000, 0, 90, topic, 0),
        (52, 0, 1, WRITTEN_MS, 5000, 200, 90, topic, 0),
        (52, -1, 1, WRITTEN_MS, 9000, 100, 90, topic, 0),
        # Behind the last of the timer topic its broker reads on.
        (52, -1, 1, WRITTEN_MS, -1000, 200, 90, 0, 0),
    ]
    assert not any(data[208:])
    expected = TimerCheck(WRITTEN_MS, 208, 3, 3, 0, NOW_MS, 1)
    assert read_timer_check(disk, LAYOUT.timer_check) == expected
    assert len(disk.content(LAYOUT.timer_check)) == 4096


def test_what_is_overdue_is_due_in_the_first_second_that_is_read(disk: SimDisk) -> None:
    hand_over(disk, LAYOUT, [timed(0, NOW_MS - 60_000)], last(0), NOW_MS)
    assert entries(disk.content(FIRST)[:520])[0][3:5] == (WRITTEN_MS, 0)


def test_the_last_message_has_an_entry_in_the_past_whether_it_waits_or_not(disk: SimDisk) -> None:
    hand_over(disk, LAYOUT, [timed(3, NOW_MS + 5000)], last(7), NOW_MS, 1000)
    first, second = entries(disk.content(FIRST))
    assert first[5] == 300
    assert second[3] + second[4] == WRITTEN_MS - 1000
    assert second[5:7] == (700, 90)
    check = read_timer_check(disk, LAYOUT.timer_check)
    assert check is not None
    assert (check.queue_offset, check.master_queue_offset) == (8, 8)


@pytest.mark.parametrize(
    ("days", "first_leg_days"), [(1.9, None), (2.01, 1), (2.6, 1), (2.7, 2), (300, 2)]
)
def test_what_is_due_late_is_put_again_on_the_way(
    disk: SimDisk, days: float, first_leg_days: int | None
) -> None:
    day_ms = 86_400_000
    hand_over(disk, LAYOUT, [timed(0, NOW_MS + int(days * day_ms))], last(0), NOW_MS, 1000)
    entry, _ = entries(disk.content(FIRST))
    if first_leg_days is None:
        assert entry[2] == 1
    else:
        assert (entry[2], entry[4]) == (3, first_leg_days * day_ms)


def test_more_than_one_file_holds_are_in_the_next(disk: SimDisk) -> None:
    many = (timed(number, NOW_MS + 5000) for number in range(7))
    hand_over(disk, LAYOUT, many, last(7), NOW_MS, 150)  # two fit, with the blank end
    paths = [path for path in disk.files() if path.parent.name == "timerlog"]
    assert [int(path.name) for path in paths] == [0, 150, 300, 450]
    position = -1
    for number, path in enumerate(paths):
        data = disk.content(path)
        for index in range(2):
            entry = ENTRY.unpack_from(data, index * 52)
            is_last = number == 3 and index == 1
            assert entry[1] == (-1 if is_last else position)
            position = number * 150 + index * 52
        if number < 3:
            assert BLANK.unpack_from(data, 104) == (46, 0, BLANK_MAGIC)
    check = read_timer_check(disk, LAYOUT.timer_check)
    assert check is not None
    assert check.log_bytes == 554


def test_old_files_of_a_broker_are_replaced(disk: SimDisk) -> None:
    disk.put(LAYOUT.root / "timerwheel", b"old")
    disk.make_directory(LAYOUT.root / "timerlog")
    disk.put(LAYOUT.root / "timerlog" / f"{500:020d}", b"old")
    for _ in range(2):
        hand_over(disk, LAYOUT, [timed(0, NOW_MS + 1)], last(0), NOW_MS, 1000)
    assert [path.name for path in disk.files()] == ["timercheck", f"{0:020d}"]


def test_a_store_without_timed_messages_has_a_position_and_no_log(disk: SimDisk) -> None:
    hand_over(disk, LAYOUT, [], None, NOW_MS)
    assert read_timer_check(disk, LAYOUT.timer_check) == TimerCheck(
        WRITTEN_MS, 0, 0, 0, 0, NOW_MS, 1
    )
    assert disk.files() == [LAYOUT.timer_check]


def test_a_position_that_is_not_whole_is_none(disk: SimDisk) -> None:
    assert read_timer_check(disk, LAYOUT.timer_check) is None
    disk.make_directory(LAYOUT.config)
    assert read_timer_check(disk, LAYOUT.timer_check) is None
    disk.put(LAYOUT.timer_check, bytes(55))
    assert read_timer_check(disk, LAYOUT.timer_check) is None


def test_the_position_of_apaches_broker_is_read(disk: SimDisk) -> None:
    # The first bytes of timercheck in the golden store 5.5.0-stop.
    numbers = (1794757875000, 0, 0, 0, 0, 1794757875732, 23)
    disk.make_directory(LAYOUT.config)
    disk.put(LAYOUT.timer_check, b"".join(n.to_bytes(8, "big") for n in numbers) + bytes(4040))
    assert read_timer_check(disk, LAYOUT.timer_check) == TimerCheck(*numbers)


def test_the_last_message_is_that_of_the_last_entry_of_the_timer_queue(disk: SimDisk) -> None:
    sums = LAYOUT.root / "queues.json"
    queues = QueueSet(disk, OpenFiles(disk, 2), LAYOUT.queues, sums, 200)
    assert last_timed(queues) is None
    for number in range(13):
        entry = queue_entry(number * 100, 90, 0)
        queues.append(TIMER_TOPIC, 0, entry, QueueOffset(number))
    assert last_timed(queues) == last(12)
    queues.append(TIMER_TOPIC, 0, BLANK_ENTRY, QueueOffset(13))
    assert last_timed(queues) is None
