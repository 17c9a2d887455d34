from __future__ import annotations

import random
from pathlib import Path

import pytest

from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.timer_wheel import Timed, TimerWheel, due_ms, out_ms
from rocketpipe.testing.disk import SimDisk

ROOT = Path("/store")
NOW_MS = 1_700_000_000_000
EVER = 1 << 60


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(ROOT)
    return disk


def new_wheel(disk: SimDisk) -> TimerWheel:
    return TimerWheel(disk, ROOT / "timer")


def properties(deliver_ms: int, key: str = "u1", topic: str = "orders", **more: str | int) -> bytes:
    named = {
        "TIMER_DELIVER_MS": deliver_ms,
        "UNIQ_KEY": key,
        "TIMER_OUT_MS": out_ms(deliver_ms),
        "REAL_TOPIC": topic,
        "REAL_QID": 0,
        **more,
    }
    return "".join(f"{name}\x01{value}\x02" for name, value in named.items()).encode()


def park(wheel: TimerWheel, deliver_ms: int, at: int = 0, key: str = "u1", **more: int) -> None:
    text = properties(deliver_ms, key, **more)
    wheel.observe(TIMER_TOPIC, text, LogOffset(at), 100, QueueOffset(at // 100), NOW_MS)


def deliver(wheel: TimerWheel, deliver_ms: int, at: int, key: str = "u1") -> None:
    text = properties(deliver_ms, key, TIMER_DEQUEUE_MS=deliver_ms + 5)
    wheel.observe("orders", text, LogOffset(at), 100, QueueOffset(0), deliver_ms + 5)


def waiting(wheel: TimerWheel) -> list[int]:
    return [timed.log_offset for timed in wheel.pending(0, EVER)]


@pytest.mark.parametrize(
    ("deliver_ms", "out"),
    [(10_000, 9_000), (10_001, 10_000), (10_999, 10_000), (11_000, 10_000), (1, 0)],
)
def test_the_second_before_is_what_rocketmq_notes(deliver_ms: int, out: int) -> None:
    assert out_ms(deliver_ms) == out


def test_a_message_is_due_to_the_millisecond(disk: SimDisk) -> None:
    for deliver_ms in range(NOW_MS + 1, NOW_MS + 3002, 250):
        wheel = new_wheel(disk)
        park(wheel, deliver_ms)
        assert wheel.next_due_ms() == deliver_ms
        assert wheel.due(deliver_ms - 1, 10) == []
        assert [timed.due_ms for timed in wheel.due(deliver_ms, 10)] == [deliver_ms]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"TIMER_DELIVER_MS\x0110500\x02", 10_500),
        (b"TIMER_DELIVER_MS\x0111000\x02", 11_000),
        (b"TIMER_DELAY_MS\x015300\x02", 10_300),  # stored at 5,000
        (b"TIMER_DELAY_SEC\x016\x02", 11_000),
        (b"TIMER_DELAY_SEC\x016\x02TIMER_DELIVER_MS\x0110500\x02", 11_000),
        (b"", 11_000),
        (b"TIMER_DELAY_MS\x01999999\x02", 11_000),  # put again: the delay is an old one
        (b"TIMER_DELIVER_MS\x01never\x02", 11_000),
        (b"TIMER_DELIVER_MS\x01" + b"9" * 400 + b"\x02", 11_000),
    ],
)
def test_no_due_time_is_before_that_of_rocketmq(text: bytes, expected: int) -> None:
    assert due_ms(text, 10_000, 5_000) == expected


def test_what_is_due_comes_in_order_and_in_portions(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    times = list(range(NOW_MS, NOW_MS + 5000, 100))
    random.Random(1).shuffle(times)
    for number, deliver_ms in enumerate(times):
        park(wheel, deliver_ms, number * 100, f"u{number}")
    given: list[Timed] = []
    while portion := wheel.due(NOW_MS + 2500, 7):
        assert len(portion) <= 7
        given += portion
    assert [timed.due_ms for timed in given] == sorted(t for t in times if t <= NOW_MS + 2500)
    assert wheel.next_due_ms() == NOW_MS + 2600
    assert len(wheel) == 50  # until they were delivered


def test_a_message_is_handed_out_once_unless_it_is_given_back(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS)
    (timed,) = wheel.due(NOW_MS, 10)
    assert wheel.due(NOW_MS, 10) == []
    assert wheel.next_due_ms() is None
    wheel.give_back(timed)
    wheel.give_back(timed)
    assert wheel.due(NOW_MS, 10) == [timed]
    wheel.done(timed)
    wheel.done(timed)
    wheel.give_back(timed)
    assert wheel.due(NOW_MS, 10) == []
    assert len(wheel) == 0


def test_a_delivery_in_the_log_ends_the_wait(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0, "u1")
    park(wheel, NOW_MS, 100, "u2")
    deliver(wheel, NOW_MS, 200, "u1")
    assert waiting(wheel) == [100]
    deliver(wheel, NOW_MS, 300, "u1")  # of nothing that waits
    assert waiting(wheel) == [100]


def test_of_two_with_the_same_key_a_delivery_ends_the_older(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0)
    park(wheel, NOW_MS, 100)
    park(wheel, NOW_MS + 5000, 200)
    deliver(wheel, NOW_MS, 300)
    assert waiting(wheel) == [100, 200]
    deliver(wheel, NOW_MS, 400)
    assert waiting(wheel) == [200]


def test_a_message_that_was_put_again_waits_once(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS + 50_000, 0)
    park(wheel, NOW_MS + 50_000, 100, TIMER_ROLL_TIMES=1)
    park(wheel, NOW_MS + 50_000, 200, TIMER_ROLL_TIMES=2)
    assert waiting(wheel) == [200]


def test_a_recall_in_the_log_cancels(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0, "u1")
    park(wheel, NOW_MS, 100, "u2")
    text = properties(NOW_MS, "u3", TIMER_DEL_UNIQKEY="orders+u1")
    wheel.observe(TIMER_TOPIC, text, LogOffset(200), 100, QueueOffset(2), NOW_MS)
    assert waiting(wheel) == [100]
    assert [timed.log_offset for timed in wheel.due(NOW_MS, 10)] == [100]


def test_cancelling_says_how_many_and_not_what_is_on_its_way(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0)
    park(wheel, NOW_MS + 9000, 100)
    wheel.due(NOW_MS, 1)
    assert wheel.cancel("orders+u1") == 1
    assert wheel.cancel("orders+u1") == 0
    assert wheel.cancel("other+u1") == 0
    assert waiting(wheel) == [0]


def test_a_list_has_what_is_due_in_a_time(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    for number in range(10):
        park(wheel, NOW_MS + number * 1000, number * 100, f"u{number}")
    found = list(wheel.pending(NOW_MS + 2000, NOW_MS + 5000))
    assert [timed.due_ms - NOW_MS for timed in found] == [2000, 3000, 4000]
    assert found[0] == Timed(
        NOW_MS + 2000, LogOffset(200), 100, QueueOffset(2), NOW_MS + 1000, "orders+u2"
    )


def test_records_without_a_due_time_are_left_out(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    for text in (b"", b"TIMER_OUT_MS\x01x\x02REAL_TOPIC\x01T\x02", b"TIMER_OUT_MS\x011\x02"):
        wheel.observe(TIMER_TOPIC, text, LogOffset(0), 100, QueueOffset(0), NOW_MS)
    wheel.observe("orders", b"TIMER_DEQUEUE_MS\x011\x02", LogOffset(0), 100, QueueOffset(0), 1)
    assert len(wheel) == 0


def test_cancelling_many_leaves_no_trace_of_them(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    for number in range(5000):
        park(wheel, NOW_MS + number, number * 100, f"u{number}")
    for number in range(5000):
        wheel.cancel(f"orders+u{number}")
    assert len(wheel) == 0
    assert len(wheel._heap) <= 1024
    assert not wheel._keys


def test_what_waits_survives_a_restart(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    for number in range(20):
        park(wheel, NOW_MS + number, number * 100, f"u{number}")
    wheel.holds_to = LogOffset(2000)
    (handed_out,) = wheel.due(NOW_MS, 1)
    wheel.sync()
    assert wheel.synced_to == 2000
    park(wheel, NOW_MS, 2000, "later")  # neither saved nor in holds_to
    disk.crash()
    again = new_wheel(disk)
    assert again.recover(LogOffset(0), LogOffset(2100), LogOffset(0)) == 2000
    assert waiting(again) == [number * 100 for number in range(20)]
    assert again.due(NOW_MS, 1) == [handed_out]


def test_what_was_noted_is_not_noted_twice(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0)
    deliver(wheel, NOW_MS, 100)
    wheel.holds_to = LogOffset(200)
    park(wheel, NOW_MS, 0)
    assert len(wheel) == 0


@pytest.mark.parametrize("oldest", [None, LogOffset(700)])
def test_without_its_file_it_reads_the_log_from_the_oldest_message(
    disk: SimDisk, oldest: LogOffset | None
) -> None:
    wheel = new_wheel(disk)
    assert wheel.recover(LogOffset(0), LogOffset(1000), oldest) == (oldest or 1000)


def test_a_damaged_file_is_done_without(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0)
    wheel.holds_to = LogOffset(500)
    wheel.sync()
    path = ROOT / "timer" / "pending.json"
    whole = disk.content(path)
    for at in range(len(whole)):
        other = bytearray(whole)
        other[at] ^= 1 << at % 8
        for text in (bytes(other), whole[:at]):
            disk.put(path, text)
            again = new_wheel(disk)
            start = again.recover(LogOffset(0), LogOffset(500), LogOffset(0))
            assert (start, waiting(again)) in [(0, []), (500, [0])]


def test_a_log_that_came_back_shorter_is_read_again(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0)
    deliver(wheel, NOW_MS, 400)
    wheel.holds_to = LogOffset(500)
    wheel.sync()
    again = new_wheel(disk)
    assert again.recover(LogOffset(0), LogOffset(400), LogOffset(0)) == 0
    park(again, NOW_MS, 0)
    assert waiting(again) == [0]  # its delivery never happened


def test_truncating_forgets_what_followed(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 100)
    deliver(wheel, NOW_MS, 400)
    wheel.holds_to = LogOffset(500)
    assert wheel.truncate(LogOffset(400), LogOffset(100)) == 100
    park(wheel, NOW_MS, 100)
    assert waiting(wheel) == [100]


def test_what_went_with_the_log_is_forgotten(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    for number in range(5):
        park(wheel, NOW_MS, number * 100, f"u{number}")
    assert wheel.delete_before(LogOffset(300)) == 3
    assert waiting(wheel) == [300, 400]
    wheel.holds_to = LogOffset(500)
    wheel.sync()
    again = new_wheel(disk)
    again.recover(LogOffset(400), LogOffset(500), None)
    assert waiting(again) == [400]
