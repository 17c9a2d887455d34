"""What goes, and what stays."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import StoreFull
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.end import record_at, stored_ms_of
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.state.health import StoreState
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.log_scan import LogFiles, Scanned, scan
from rocketpipe.store.upkeep.retention import Committed, Pins, Removed, Retention, Watermark
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut

SEGMENT = 65536
SEGMENTS = 13
HOUR_MS = 3_600_000
FOUR_O_CLOCK = int(datetime(2027, 1, 1, 4, 30, tzinfo=UTC).timestamp() * 1000)
FIVE_O_CLOCK = FOUR_O_CLOCK + HOUR_MS
DATA = Put(
    topic="t",
    queue_id=0,
    body=bytes(1000),
    properties=b"",
    flag=0,
    sys_flag=0,
    born_ms=1,
    born_host=bytes(8),
)


class SmallDisk(Disk):
    """A disk on which other things take some room, and each segment five percent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.others = 0

    def usage(self, path: Path) -> tuple[int, int, int]:
        assert path == self.root
        used = self.others + 5 * len(self.names(self.root / "commitlog"))
        return 110, used, 100 - used


class Store:
    """The store of a broker of Apache's, 5.5.0, with retention over it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = SmallDisk(root)
        self.clock = ManualClock(FOUR_O_CLOCK)
        self.pins = Pins()
        self.committed: list[Committed] = []
        self.config = StoreConfig(
            root=root,
            segment_bytes=SEGMENT,
            queue_file_bytes=2000,
            index_slots=500,
            index_entries=2000,
        )
        self.store = MessageStore.open(
            self.config,
            disk=self.disk,
            clock=self.clock,
            store_host=bytes(8),
            threads=False,
        )

    def retention(self, **changes: Any) -> Retention:
        self.store.config = replace(self.config, **changes)
        return Retention(
            self.store,
            disk=self.disk,
            clock=self.clock,
            pins=self.pins,
            committed=lambda: self.committed,
            zone=UTC,
        )

    def at(self, now_ms: int) -> None:
        self.clock._passed_ms = now_ms - self.clock._start_ms

    def rolled_ms(self, segment: int) -> int:
        """When the first record of a segment was stored."""
        record = record_at(self.store.commit_log, segment * SEGMENT)
        assert record is not None
        return stored_ms_of(record)

    def segments(self) -> int:
        return len(list((self.root / "commitlog").iterdir()))


@pytest.fixture
def store(tmp_path: Path, unpack_golden: Callable[..., Path]) -> Iterator[Store]:
    opened = Store(unpack_golden("5.5.0-stop", tmp_path))
    yield opened
    opened.store.abandon()


def test_what_is_past_its_time_goes_at_the_hour_ten_segments_a_run(store: Store) -> None:
    retention = store.retention()
    assert retention.run() == Removed(10, LogOffset(10 * SEGMENT), {})
    assert retention.run().segments == 2
    assert retention.run() == Removed(0, LogOffset(12 * SEGMENT), {})
    assert store.segments() == 1  # the last one is always kept


def test_at_other_hours_it_stays_unless_someone_asks(store: Store) -> None:
    store.at(FIVE_O_CLOCK)
    assert store.retention().run().segments == 0
    assert store.retention(delete_hours="04;05").run().segments == 10
    assert store.retention(delete_hours=" 4").run(on_request=True).segments == 2


def test_a_segment_is_as_old_as_the_first_record_of_the_next_one(store: Store) -> None:
    retention = store.retention(reserved_hours=72)
    store.at(store.rolled_ms(5) + 72 * HOUR_MS)
    same = sum(store.rolled_ms(number) <= store.rolled_ms(5) for number in range(1, SEGMENTS))
    store.at(store.rolled_ms(1) + 72 * HOUR_MS - 1)
    assert retention.run(on_request=True).segments == 0
    store.at(store.rolled_ms(5) + 72 * HOUR_MS)
    assert retention.run(on_request=True).segments == same
    assert 5 <= same < 10


def test_copying_makes_nothing_younger(store: Store) -> None:
    for path in (store.root / "commitlog").iterdir():
        path.touch()
    assert store.retention().run().segments == 10


def test_above_the_first_watermark_what_is_past_its_time_goes_at_any_hour(store: Store) -> None:
    store.at(FIVE_O_CLOCK)
    store.disk.others = 75 - 5 * SEGMENTS
    assert store.retention().watermark() is Watermark.LOW
    assert store.retention().run().segments == 0
    store.disk.others += 1
    assert store.retention().watermark() is Watermark.HIGH
    assert store.retention(reserved_hours=1 << 20).run().segments == 0
    assert store.retention().run().segments == 10


def test_above_the_second_the_oldest_go_until_below_it_whatever_their_age(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.at(FIVE_O_CLOCK)
    store.disk.others = 93 - 5 * SEGMENTS
    retention = store.retention(reserved_hours=1 << 20)
    assert retention.run().segments == 2
    assert retention.watermark() is Watermark.HIGH
    assert retention.run().segments == 0
    assert "before their time" in caplog.text


def test_above_the_third_appends_are_refused_until_there_is_room_again(store: Store) -> None:
    store.at(FIVE_O_CLOCK)
    store.disk.others = 95 - 5 * SEGMENTS
    with store.pins.hold(LogOffset(0), "a reader"):
        retention = store.retention()
        assert retention.run().segments == 0
        assert store.store.health.state is StoreState.FULL
        with pytest.raises(StoreFull, match="90 percent full") as caught:
            store.store.health.check_append()
        assert caught.value.path == store.root
        assert caught.value.free == 5
    assert retention.run().segments == 10
    assert store.store.health.state is StoreState.RUNNING
    store.store.health.check_append()


def test_a_pin_keeps_its_segment_and_all_behind_it_even_on_a_full_disk(store: Store) -> None:
    store.disk.others = 99 - 5 * SEGMENTS
    retention = store.retention()
    pin = store.pins.hold(LogOffset(3 * SEGMENT + 100), "a replica")
    store.pins.hold(LogOffset(8 * SEGMENT), "another").release()
    assert retention.run().first_offset == 3 * SEGMENT
    assert retention.run().segments == 0
    pin.move(LogOffset(5 * SEGMENT))
    assert retention.run().first_offset == 5 * SEGMENT
    pin.release()
    pin.release()
    assert retention.run().segments > 0


def test_what_is_not_yet_dispatched_stays(store: Store) -> None:
    store.store.positions.rewind(store.store.positions.written, LogOffset(2 * SEGMENT + 1))
    assert store.retention().run().first_offset == 2 * SEGMENT


def test_unconsumed_messages_go_with_a_warning_that_names_group_and_count(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.committed = [
        Committed("slow", "orders", 0, QueueOffset(0)),
        Committed("slow", "orders", 1, QueueOffset(2)),
        Committed("fast", "orders", 0, QueueOffset(91)),
        Committed("fast", "orders", 1, QueueOffset(83)),
        Committed("slow", "no_such_topic", 0, QueueOffset(0)),
    ]
    removed = store.retention().run()
    gone = [store.store.min_offset("orders", queue) for queue in (0, 1)]
    assert min(gone) > 2
    assert removed.unconsumed == {"slow": gone[0] + gone[1] - 2}
    (warning,) = (r for r in caplog.records if r.levelno == logging.WARNING)
    assert warning.getMessage() == (
        f"unconsumed messages expired group=slow topic=orders count={gone[0] + gone[1] - 2}"
    )
    caplog.clear()
    again = store.retention().run()
    more = [store.store.min_offset("orders", queue) for queue in (0, 1)]
    assert again.unconsumed.get("slow", 0) == sum(more) - sum(gone)  # none is counted twice


def test_others_have_their_turn_while_many_places_are_looked_at(store: Store) -> None:
    places = [Committed(f"g{number}", "orders", 0, QueueOffset(0)) for number in range(5000)]
    asked = 0

    def committed() -> Iterator[Committed]:
        nonlocal asked
        for place in places:
            asked += 1
            yield place

    retention = Retention(
        store.store,
        disk=store.disk,
        clock=store.clock,
        pins=store.pins,
        committed=committed,
        zone=UTC,
    )
    steps, before = retention.running(), 0
    while True:
        try:
            next(steps)()
        except StopIteration as end:
            removed = end.value
            break
        finally:
            assert asked - before <= 1000
            before = asked
    assert removed.segments > 0
    assert len(removed.unconsumed) == 5000


def test_what_is_derived_goes_with_its_log_and_agrees_with_the_rest(store: Store) -> None:
    retention = store.retention()
    retention.run()
    retention.run()
    store.store.close()
    report = check_store(store.disk, store.root)
    assert report.ok, report.lines()
    assert report.first_offset == 12 * SEGMENT


HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
SMALL = StoreConfig(
    root=Path("/store"), segment_bytes=4096, queue_file_bytes=200, index_slots=20, index_entries=80
)


def put(number: int) -> Put:
    return Put(
        topic="once" if number < 5 else "ours",
        queue_id=0 if number < 5 else number % 2,
        body=b"%d" % number * 200,
        properties=b"KEYS\x01k%d\x02" % number,
        flag=0,
        sys_flag=0,
        born_ms=number,
        born_host=HOST,
    )


def test_a_wall_clock_that_is_set_forward_removes_nothing_before_its_time(tmp_path: Path) -> None:
    clock = ManualClock(FOUR_O_CLOCK)
    store = MessageStore.open(
        StoreConfig.embedded(tmp_path, segment_bytes=4096, reserved_hours=72),
        disk=Disk(),
        clock=clock,
        store_host=bytes(8),
        threads=False,
    )
    retention = Retention(store, disk=Disk(), clock=clock, pins=Pins(), zone=UTC)
    try:
        for _ in range(12):
            store.append([[DATA]])
        store.flush()
        store.dispatch()
        assert retention.run(on_request=True).segments == 0
        clock._start_ms += 96 * HOUR_MS  # somebody sets it, or NTP does
        assert retention.run(on_request=True).segments == 0
        clock._passed_ms += 72 * HOUR_MS - 1
        assert retention.run(on_request=True).segments == 0
        clock._passed_ms += 1
        assert retention.run(on_request=True).segments > 0
    finally:
        store.close()


@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_was_ahead_for_one_segment_keeps_nothing_beyond_its_time(
    tmp_path: Path, *, restart: bool
) -> None:
    clock = ManualClock(FOUR_O_CLOCK)
    disk = Disk()
    config = StoreConfig.embedded(tmp_path, segment_bytes=4096, reserved_hours=72)
    store = MessageStore.open(config, disk=disk, clock=clock, store_host=bytes(8), threads=False)
    retention = Retention(store, disk=disk, clock=clock, pins=Pins(), zone=UTC)
    try:
        for number in range(16):
            ahead_ms = 8760 * HOUR_MS if 4 <= number < 8 else 0
            clock._start_ms += ahead_ms
            store.append([[DATA]])
            clock._start_ms -= ahead_ms
        store.flush()
        store.dispatch()
        assert retention.run(on_request=True).segments == 0
        clock._passed_ms += 72 * HOUR_MS
        if restart:
            store.close()
            store = MessageStore.open(
                config, disk=disk, clock=clock, store_host=bytes(8), threads=False
            )
            retention = Retention(store, disk=disk, clock=clock, pins=Pins(), zone=UTC)
        segments = len(store.commit_log.run.segments)
        assert retention.run(on_request=True).segments == segments - 1
    finally:
        store.close()


def opened(disk: SimDisk, clock: ManualClock) -> MessageStore:
    return MessageStore.open(SMALL, disk=disk, clock=clock, store_host=HOST, threads=False)


@pytest.mark.parametrize("seed", range(3))
def test_whenever_the_power_goes_what_was_to_stay_is_there_and_no_offset_is_given_twice(
    seed: int,
) -> None:
    fresh, clock = SimDisk(seed), ManualClock()
    store = opened(fresh, clock)
    for number in range(100):
        store.append([[put(number)]])
    store.flush()
    store.dispatch()
    store.close()
    with LogFiles(fresh, SMALL.root / "commitlog") as files:
        whole = [item for item in scan(files) if isinstance(item, Scanned)]
        kept_from = files.bases[10]
    later = ManualClock(clock.now_ms() + 1000 * HOUR_MS)
    for operation in range(1 + 2 * seed, 5000, 7):
        disk = fresh.copy(seed)
        store = opened(disk, later)
        disk.cut_power(at=operation)
        completed = False
        try:
            removed = Retention(store, disk=disk, clock=later, pins=Pins()).run(on_request=True)
            assert removed.segments == 10
            disk.heal()
            completed = True
        except PowerCut:
            pass
        disk.crash()
        disk.heal()
        store = opened(disk, later)
        with LogFiles(disk, SMALL.root / "commitlog") as files:
            found = [item for item in scan(files) if isinstance(item, Scanned)]
        assert found == [item for item in whole if item.at >= files.first_offset]
        assert files.first_offset <= kept_from
        assert [store.max_offset(*queue) for queue in (("once", 0), ("ours", 0), ("ours", 1))] == [
            5,
            47,
            48,
        ]
        (((placed),),) = store.append([[put(1)]])
        assert placed.queue_offset == 5
        store.close()
        report = check_store(disk, SMALL.root)
        assert report.ok, (operation, report.lines())
        if completed:
            assert files.first_offset == kept_from
            assert operation > 20
            return
    pytest.fail("it never completed")


def test_what_was_held_in_a_block_goes_with_it_unless_it_lasts() -> None:
    pins = Pins()
    pins.hold(LogOffset(30), "before it")
    with pins.temporary():
        pins.hold(LogOffset(10), "inside")
        lasting = pins.hold(LogOffset(20), "also behind it", lasts=True)
    assert pins.lowest() is lasting
