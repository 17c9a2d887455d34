from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.store.support.timer_parts import (
    DAY_MS,
    EVER,
    NOW_MS,
    ROOT,
    deliver,
    new_disk,
    new_wheel,
    origin,
    park,
    properties,
    recall,
    waiting,
)

from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.hot import java_hash
from rocketpipe.store.files.snapshot import Snapshot
from rocketpipe.store.timers import waiting as timer_waiting
from rocketpipe.store.timers.entry import Timed, hashed, origin_text, out_ms
from rocketpipe.store.timers.wheel import TimerWheel, finished
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut


@pytest.fixture
def disk() -> SimDisk:
    return new_disk()


def test_a_message_is_due_to_the_millisecond(disk: SimDisk) -> None:
    for deliver_ms in range(NOW_MS + 1, NOW_MS + 3002, 250):
        wheel = new_wheel(disk)
        park(wheel, deliver_ms)
        assert wheel.next_due_ms() == deliver_ms
        assert wheel.due(deliver_ms - 1, 10) == []
        assert [timed.due_ms for timed in wheel.due(deliver_ms, 10)] == [deliver_ms]


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


@pytest.mark.parametrize("restart", [False, True])
def test_a_copy_of_what_was_delivered_counts_for_nothing(disk: SimDisk, restart: bool) -> None:
    wheel = new_wheel(disk)
    more = {"TIMER_DEQUEUE_MS": NOW_MS, "TIMER_ORIGIN": origin(NOW_MS, 0)}
    text = properties(NOW_MS, "u1", **more)
    wheel.observe("%RETRY%g+orders", text, LogOffset(500), 100, QueueOffset(0), NOW_MS)
    assert len(wheel) == 0
    if restart:
        wheel.holds_to = LogOffset(600)
        wheel.sync()
        wheel = new_wheel(disk)
        wheel.recover(LogOffset(0), LogOffset(600), None)
    assert len(wheel) == 0
    assert wheel.due(NOW_MS, 10) == []
    park(wheel, NOW_MS, 600, "u2")
    assert len(wheel) == 1


def test_of_two_with_the_same_key_a_delivery_ends_the_older(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0)
    park(wheel, NOW_MS, 100)
    park(wheel, NOW_MS + 5000, 200)
    deliver(wheel, NOW_MS, 300)
    assert waiting(wheel) == [100, 200]
    deliver(wheel, NOW_MS, 400)
    assert waiting(wheel) == [200]


def test_many_of_one_second_that_are_named_by_their_keys_go_one_by_one(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    for number in range(60):
        park(wheel, NOW_MS, number * 100, f"u{number // 2}")
        if number % 25 == 0:
            wheel._settle_for_good()
    for number in range(30):
        deliver(wheel, NOW_MS, 6000 + number * 100, f"u{number}")
    assert waiting(wheel) == [number * 100 for number in range(1, 60, 2)]
    park(wheel, NOW_MS, 9000, "u3")
    deliver(wheel, NOW_MS, 9100, "u3")
    deliver(wheel, NOW_MS, 9200, "u3")
    assert waiting(wheel) == [number * 100 for number in range(1, 60, 2) if number != 7]


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
    recall(wheel, NOW_MS, 200, "u1")
    assert waiting(wheel) == [100]
    assert [timed.log_offset for timed in wheel.due(NOW_MS, 10)] == [100]


def test_a_recall_without_an_origin_takes_all_of_its_key_and_second(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS + 10, 0)
    park(wheel, NOW_MS + 20, 100)
    park(wheel, NOW_MS + 5000, 200)
    recall(wheel, NOW_MS + 10, 300)
    assert waiting(wheel) == [200]
    assert len(wheel) == 1


def test_of_two_with_one_key_and_second_the_one_goes_that_is_meant(disk: SimDisk) -> None:
    for gone, left in ((0, 100), (100, 0)):
        for ends in (deliver, recall):
            wheel = new_wheel(disk)
            park(wheel, NOW_MS, 0)
            park(wheel, NOW_MS, 100)
            ends(wheel, NOW_MS, 200, TIMER_ORIGIN=origin(NOW_MS, gone))
            assert waiting(wheel) == [left]
            assert len(wheel) == 1


@pytest.mark.parametrize("saved", [False, True])
def test_a_message_that_was_put_again_is_taken_back_for_good(disk: SimDisk, saved: bool) -> None:
    wheel = new_wheel(disk)
    first = origin(NOW_MS + 50_000, 0)
    park(wheel, NOW_MS + 50_000, 0)
    park(wheel, NOW_MS + 50_000, 100)  # another with its key and second
    if saved:
        wheel._settle_for_good()
    park(wheel, NOW_MS + 50_000, 200, TIMER_ROLL_TIMES=1, TIMER_ORIGIN=first)
    assert waiting(wheel) == [200, 100]
    recall(wheel, NOW_MS + 50_000, 300, TIMER_ORIGIN=first)
    assert waiting(wheel) == [100]
    # Not that anybody would put it again now.
    park(wheel, NOW_MS + 50_000, 400, TIMER_ROLL_TIMES=1, TIMER_ORIGIN=first)
    assert waiting(wheel) == [100]
    assert [timed.log_offset for timed in wheel.due(NOW_MS + 50_000, 10)] == [100]
    assert len(wheel) == 1


def test_what_is_handed_out_is_taken_back_all_the_same(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0)
    (timed,) = wheel.due(NOW_MS, 1)
    recall(wheel, NOW_MS, 100, TIMER_ORIGIN=origin(NOW_MS, 0))
    wheel.give_back(timed)
    assert wheel.due(NOW_MS, 1) == []
    assert len(wheel) == 0


def test_a_search_finds_what_waits_with_a_key_in_a_second(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    for number in range(300):
        park(wheel, NOW_MS + number, number * 100, f"u{number % 3}")
        if number % 70 == 0:
            wheel._settle_for_good()
    found = finished(wheel.alike(hashed("orders+u1"), out_ms(NOW_MS + 1)))
    assert [timed.log_offset for timed in found] == [n * 100 for n in range(300) if n % 3 == 1]
    assert finished(wheel.alike(hashed("orders+u9"), out_ms(NOW_MS))) == []
    assert finished(wheel.alike(hashed("orders+u1"), out_ms(NOW_MS + 5000))) == []
    assert all(wheel.waits(timed) for timed in found)
    deliver(wheel, NOW_MS + 1, 30_000, "u1", TIMER_ORIGIN=origin(NOW_MS + 1, 100))
    assert [wheel.waits(timed) for timed in found[:2]] == [False, True]


def test_what_was_put_off_comes_later_and_is_found(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0)
    (timed,) = wheel.due(NOW_MS, 1)
    wheel.give_back(replace(timed, due_ms=NOW_MS + 90_000))
    assert wheel.due(NOW_MS + 89_999, 1) == []
    (found,) = finished(wheel.alike(timed.key, timed.out_ms))
    assert (found.due_ms, found.at_ms) == (NOW_MS, NOW_MS + 90_000)
    assert wheel.waits(found)
    (again,) = wheel.due(NOW_MS + 90_000, 1)
    assert (again.due_ms, again.log_offset) == (timed.due_ms, timed.log_offset)
    deliver(wheel, NOW_MS, 100, TIMER_ORIGIN=origin_text([again]))
    assert len(wheel) == 0


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("ends", [deliver, recall])
def test_what_was_put_off_ends_whether_that_is_known_after_a_restart_or_not(
    disk: SimDisk, known: bool, ends: Callable[..., None]
) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0)
    wheel.holds_to = LogOffset(100)
    wheel.sync()
    (timed,) = wheel.due(NOW_MS, 1)
    wheel.give_back(replace(timed, due_ms=NOW_MS + 90_000))
    if known:
        wheel.sync()
    (found,) = finished(wheel.alike(timed.key, timed.out_ms))
    wheel = new_wheel(disk)
    assert wheel.recover(LogOffset(0), LogOffset(500), None) == 100
    park(wheel, NOW_MS, 100, TIMER_ROLL_TIMES=1, TIMER_ORIGIN=origin_text([found]))
    assert (waiting(wheel), len(wheel)) == ([100], 1)
    ends(wheel, NOW_MS, 200, TIMER_ORIGIN=origin_text([found]))
    assert (waiting(wheel), len(wheel)) == ([], 0)
    assert wheel.due(NOW_MS + 100_000, 9) == []
    assert len(wheel) == 0


def test_a_list_has_what_is_due_in_a_time(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    for number in range(10):
        park(wheel, NOW_MS + number * 1000, number * 100, f"u{number}")
    found = list(wheel.pending(NOW_MS + 2000, NOW_MS + 5000))
    assert [timed.due_ms - NOW_MS for timed in found] == [2000, 3000, 4000]
    assert found[0] == Timed(
        due_ms=NOW_MS + 2000,
        log_offset=LogOffset(200),
        size=100,
        queue_offset=QueueOffset(2),
        out_ms=NOW_MS + 1000,
        key=hashed("orders+u2"),
        topic=java_hash("orders"),
        stored_ms=NOW_MS,
        origin=LogOffset(200),
        at_ms=NOW_MS + 2000,
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
        recall(wheel, NOW_MS + number, 500_000 + number * 100, f"u{number}")
    assert len(wheel) == 0
    assert waiting(wheel) == []
    while wheel.is_due(NOW_MS + 5000):
        assert wheel.due(NOW_MS + 5000, 64) == []
    assert len(wheel) == 0
    wheel.sync()
    assert [path.name for path in disk.files()] == ["waiting.json"]


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


def test_what_was_put_again_and_handed_out_is_counted_once_after_a_restart(disk: SimDisk) -> None:
    wheel = new_wheel(disk)
    park(wheel, NOW_MS, 0)
    for number in range(1, 300):
        park(wheel, NOW_MS + DAY_MS, 100 * number, f"k{number}")
    wheel.holds_to = LogOffset(30_000)
    wheel.sync()
    park(wheel, NOW_MS, 30_000, TIMER_ROLL_TIMES=1, TIMER_ORIGIN=origin(NOW_MS, 0))
    assert len(wheel.due(NOW_MS, 10)) == 1
    wheel.holds_to = LogOffset(30_100)
    wheel.sync()
    wheel = new_wheel(disk)
    wheel.recover(LogOffset(0), LogOffset(30_100), None)
    deliver(wheel, NOW_MS, 30_100, TIMER_ORIGIN=origin(NOW_MS, 0))
    assert wheel.due(NOW_MS, 10) == []
    assert len(wheel) == 299


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


@pytest.mark.parametrize("name", ["waiting.json", "1"])
def test_a_damaged_file_is_done_without(disk: SimDisk, name: str) -> None:
    wheel = new_wheel(disk)
    for at in (0, 100, 200):
        park(wheel, NOW_MS, at, f"u{at}")
    wheel._settle_for_good()
    park(wheel, NOW_MS, 300, "in no run")
    wheel.holds_to = LogOffset(500)
    wheel.sync()
    path = ROOT / "timer" / name
    whole = disk.content(path)
    for at in range(0, len(whole), 3):
        other = bytearray(whole)
        other[at] ^= 1 << at % 8
        for text in (bytes(other), whole[:at]):
            copy = disk.copy()
            copy.put(path, text)
            again = new_wheel(copy)
            start = again.recover(LogOffset(0), LogOffset(500), LogOffset(0))
            assert (start, waiting(again)) in [(0, []), (500, [0, 100, 200, 300])]
    disk.remove(path)
    again = new_wheel(disk)
    assert again.recover(LogOffset(0), LogOffset(500), LogOffset(0)) == 0


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


@pytest.mark.parametrize("in_runs", [False, True])
def test_what_went_with_the_log_is_forgotten(
    disk: SimDisk, caplog: pytest.LogCaptureFixture, in_runs: bool
) -> None:
    wheel = new_wheel(disk)
    for number in range(5):
        park(wheel, NOW_MS + 10 * DAY_MS, number * 100, f"u{number}")
        if in_runs:
            wheel._settle_for_good()
    wheel.holds_to = LogOffset(500)
    wheel.delete_before(LogOffset(300))
    assert waiting(wheel) == [300, 400]
    for _ in range(5):
        wheel.begin_sync().now()
    if in_runs:
        assert len(wheel) == 2
        assert "expired with the log" in caplog.text
    again = new_wheel(disk)
    again.recover(LogOffset(400), LogOffset(500), None)
    assert waiting(again) == [400]
    assert [timed.log_offset for timed in again.due(NOW_MS + 10 * DAY_MS, 9)] == [400]
    assert len(again) == 1


def test_what_the_version_before_saved_is_taken_over(disk: SimDisk) -> None:
    rows = [[NOW_MS + n, out_ms(NOW_MS + n), n * 100, 100, n, f"orders+u{n}"] for n in range(30)]
    text = json.dumps({"holds_to": 3000, "pending": rows}).encode()
    Snapshot(disk, ROOT / "timer" / "pending.json").save(text)
    Snapshot(disk, ROOT / "timer" / "pending.json").save(text)
    wheel = new_wheel(disk)
    assert wheel.recover(LogOffset(500), LogOffset(4000), LogOffset(0)) == 3000
    assert waiting(wheel) == [n * 100 for n in range(5, 30)]
    deliver(wheel, NOW_MS + 7, 3000, "u7")  # as that version said it
    wheel.holds_to = LogOffset(3100)
    wheel.sync()
    assert [path.name for path in disk.files()] == ["waiting.json"]
    again = new_wheel(disk)
    assert again.recover(LogOffset(500), LogOffset(4000), LogOffset(0)) == 3100
    assert waiting(again) == [n * 100 for n in range(5, 30) if n != 7]


# Whatever happens


class Model:
    """A log of events, and what waits by them."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.events: list[tuple[str, int, bytes, int]] = []
        self.live: dict[int, tuple[int, str, int]] = {}
        self.end = 0

    def _note(self, topic: str, text: bytes) -> None:
        self.events.append((topic, self.end, text, NOW_MS))
        self.end += 100

    def park(self) -> None:
        deliver_ms = NOW_MS + self.chance.randrange(1, 40) * 250
        key = f"u{self.chance.randrange(4)}"
        self.live[self.end] = (deliver_ms, key, self.end)
        self._note(TIMER_TOPIC, properties(deliver_ms, key))

    def _mark(self, wheel: TimerWheel, first: int) -> str:
        self.show(wheel)
        return origin_text([each for each in wheel.pending(0, EVER) if each.origin == first])

    def roll(self, wheel: TimerWheel) -> None:
        if self.live:
            first = self.chance.choice(sorted(self.live))
            deliver_ms, key, _ = self.live[first]
            mark = self._mark(wheel, first)
            self.live[first] = (deliver_ms, key, self.end)
            text = properties(deliver_ms, key, TIMER_ROLL_TIMES=1, TIMER_ORIGIN=mark)
            self._note(TIMER_TOPIC, text)

    def recall(self, wheel: TimerWheel) -> None:
        if self.live:
            first = self.chance.choice(sorted(self.live))
            mark = self._mark(wheel, first)
            deliver_ms, key, _ = self.live.pop(first)
            named = f"orders+{key}"
            text = properties(deliver_ms, key, TIMER_DEL_UNIQKEY=named, TIMER_ORIGIN=mark)
            self._note(TIMER_TOPIC, text)

    def delivered(self, timed: Timed) -> None:
        deliver_ms, key, _ = self.live.pop(timed.origin)
        mark = origin_text([timed])
        self._note("orders", properties(deliver_ms, key, TIMER_DEQUEUE_MS=1, TIMER_ORIGIN=mark))

    def show(self, wheel: TimerWheel) -> None:
        for topic, at, text, stored_ms in self.events:
            if at >= wheel.holds_to:
                wheel.observe(topic, text, LogOffset(at), 100, QueueOffset(at), stored_ms)
        wheel.holds_to = LogOffset(self.end)


@pytest.mark.parametrize("seed", [*range(12), 26, 81, 136])
def test_what_waits_is_what_the_log_says_whenever_the_power_is_cut(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer_waiting, "FRESH", 8)
    monkeypatch.setattr(timer_waiting, "INLINE", 2)
    chance = random.Random(seed)
    disk = new_disk(seed)
    model = Model(chance)
    now_ms = NOW_MS
    wheel = new_wheel(disk)
    for _ in range(12):
        wheel = new_wheel(disk)
        disk.cut_power(at=chance.randrange(1, 400))
        try:
            oldest = LogOffset(0) if model.events else None
            wheel.recover(LogOffset(0), LogOffset(model.end), oldest)
            model.show(wheel)
            for _ in range(120):
                step = chance.randrange(16)
                if step < 6:
                    model.park()
                elif step < 8:
                    model.roll(wheel)
                elif step < 10:
                    model.recall(wheel)
                elif step < 13:
                    now_ms += chance.randrange(100)
                    for timed in wheel.due(now_ms, chance.randrange(1, 5)):
                        deliver_ms, _, newest = model.live[timed.origin]
                        assert (timed.due_ms, timed.log_offset) == (deliver_ms, newest)
                        if chance.randrange(3):
                            model.delivered(timed)
                        elif chance.randrange(2):
                            wheel.give_back(timed)
                        else:
                            wheel.give_back(replace(timed, due_ms=now_ms + chance.randrange(500)))
                elif step < 15:
                    model.show(wheel)
                    wheel.begin_sync(merging=bool(chance.randrange(4))).now()
                model.show(wheel)
            model.show(wheel)
            places = [newest for _, _, newest in model.live.values()]
            assert sorted(waiting(wheel)) == sorted(places)
            assert len(wheel) == len(model.live)
            wheel.close()
        except PowerCut:
            pass
        disk.heal()
        disk.crash()
