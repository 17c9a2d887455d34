"""Messages by queue and offset, and by time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.twins import WAYS, each_way

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import view_records
from rocketpipe.record.hot import tag_code
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues import reader
from rocketpipe.store.queues.reader import MAX_SCAN_ENTRIES, Boundary, ReadResult, ReadStatus
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
TAG_A = tag_code(b"TAGS\x01A\x02")


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__], reader):
        yield


class Clock(ManualClock):
    """A clock that a test sets."""

    at_ms = 1000

    def now_ms(self) -> int:
        return self.at_ms


class Stored:
    def __init__(self, **changes: Any) -> None:
        self.disk = SimDisk()
        self.clock = Clock()
        config = StoreConfig.embedded(ROOT, segment_bytes=4096, queue_file_bytes=200, **changes)
        self.store = MessageStore.open(
            config, disk=self.disk, clock=self.clock, store_host=HOST, threads=False
        )

    def append(self, body: bytes = b"body", **changes: Any) -> LogOffset:
        values: dict[str, Any] = {
            "topic": "t",
            "queue_id": 0,
            "properties": b"TAGS\x01A\x02",
            "flag": 0,
            "sys_flag": 0,
            "born_ms": 1,
            "born_host": HOST,
        }
        ((placed,),) = self.store.append([[Put(body=body, **{**values, **changes})]])
        self.store.dispatch()
        return placed.log_offset

    def read(self, offset: int, **limits: Any) -> ReadResult:
        limits.setdefault("max_count", 32)
        return self.store.read("t", 0, QueueOffset(offset), **limits)


def bodies(result: ReadResult) -> list[bytes]:
    found = [view.body for view in view_records(result.records)]
    assert result.count == len(found)
    return found


@pytest.fixture
def stored() -> Stored:
    return Stored()


def test_offsets_that_are_not_there_lead_to_where_to_read_on(stored: Stored) -> None:
    missing = stored.store.read("t", 9, QueueOffset(5), max_count=1)
    assert (missing.status, missing.next_offset) == (ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0)
    for _ in range(3):
        stored.append()
    for offset, status, following in (
        (-1, ReadStatus.OFFSET_TOO_SMALL, 0),
        (3, ReadStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, ReadStatus.OFFSET_OVERFLOW_BADLY, 3),
        (2, ReadStatus.FOUND, 3),
    ):
        result = stored.read(offset)
        assert (result.status, result.next_offset) == (status, following)
        assert (result.min_offset, result.max_offset) == (0, 3)


def test_messages_come_in_order_up_to_the_count(stored: Stored) -> None:
    for number in range(40):
        stored.append(b"%d" % number)
    result = stored.read(5, max_count=7)
    assert bodies(result) == [b"%d" % number for number in range(5, 12)]
    assert result.next_offset == 12
    assert bodies(stored.read(38)) == [b"38", b"39"]


def test_messages_of_other_queues_between_them_do_not_matter(stored: Stored) -> None:
    for number in range(30):
        stored.append(b"%d" % number)
        if number % 3:
            stored.append(b"other", queue_id=1)
    assert bodies(stored.read(0)) == [b"%d" % number for number in range(30)]


def test_bytes_are_bounded_but_one_message_always_comes(stored: Stored) -> None:
    for _ in range(4):
        stored.append(bytes(1000))
    size = len(stored.read(0, max_count=1).records)
    assert stored.read(0, max_bytes=1).count == 1
    assert stored.read(0, max_bytes=2 * size).count == 2
    assert stored.read(0, max_bytes=3 * size - 1).count == 2
    assert stored.read(0, max_bytes=3 * size - 1).next_offset == 2


def test_a_tag_code_is_asked_for_before_the_record_is_touched(stored: Stored) -> None:
    for number in range(10):
        stored.append(b"%d" % number, properties=b"TAGS\x01A\x02" if number % 5 == 0 else b"")
    seen: list[int] = []

    def matches(code: int) -> bool:
        seen.append(code)
        return code == TAG_A

    reads = 0
    begin = stored.disk.begin

    def counted(operation: str, path: Path) -> Any:
        nonlocal reads
        reads += operation == "read" and path.parent.name == "commitlog"
        return begin(operation, path)

    stored.disk.begin = counted  # type: ignore[method-assign]
    assert bodies(stored.read(0, matches=matches)) == [b"0", b"5"]
    assert reads == 1  # what lies between the two is little: it is read along
    assert seen == [TAG_A, 0, 0, 0, 0] * 2
    nothing = stored.read(1, matches=lambda code: False)
    assert (nothing.status, nothing.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 10)
    assert reads == 1


def test_a_scan_ends_after_so_many_entries(stored: Stored) -> None:
    for _ in range(30):
        stored.append()
    result = stored.read(0, matches=lambda code: False, max_scan=10, max_count=1)
    assert (result.status, result.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 10)
    assert MAX_SCAN_ENTRIES == 800


def test_what_is_damaged_is_never_given_out_and_does_not_hide_the_rest(stored: Stored) -> None:
    stored.store.damaged.skip = False
    places = [stored.append(b"message %d" % number) for number in range(6)]
    stored.disk.flip(ROOT / "commitlog" / f"{0:020d}", bit=(places[3] + 95) * 8)
    before = stored.read(0)
    assert bodies(before) == [b"message 0", b"message 1", b"message 2"]
    assert before.next_offset == 3
    with pytest.raises(RecordCorrupt) as caught:
        stored.read(3)
    assert caught.value.at == places[3]
    assert bodies(stored.read(4)) == [b"message 4", b"message 5"]
    with pytest.raises(RecordCorrupt):
        stored.store.record_at(places[3])


def test_damaged_records_are_passed_over_where_that_is_wanted(stored: Stored) -> None:
    places = [stored.append(b"message %d" % number) for number in range(8)]
    for number in (0, 3, 4, 7):
        stored.disk.flip(ROOT / "commitlog" / f"{0:020d}", bit=(places[number] + 95) * 8)
    first = stored.read(0)
    assert (bodies(first), first.next_offset) == ([b"message 1", b"message 2"], 3)
    second = stored.read(3)
    assert (bodies(second), second.next_offset) == ([b"message 5", b"message 6"], 7)
    last = stored.read(7)
    assert (last.status, last.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 8)
    # What is known to be damaged is in nobody's way.
    again = stored.read(0)
    assert bodies(again) == [b"message %d" % number for number in (1, 2, 5, 6)]
    assert (again.next_offset, again.max_offset) == (8, 8)


def test_reads_may_be_left_unchecked() -> None:
    stored = Stored(verify_reads=False)
    place = stored.append(b"message")
    stored.disk.flip(ROOT / "commitlog" / f"{0:020d}", bit=(place + 95) * 8)
    assert stored.read(0).count == 1


def test_a_queue_whose_start_went_with_the_log_begins_later(stored: Stored) -> None:
    for number in range(20):
        stored.append(b"%d" % number + bytes(900))
    stored.store.flush()
    stored.store.delete_before(LogOffset(2 * 4096))
    low = stored.store.min_offset("t", 0)
    assert low > 0
    early = stored.read(0)
    assert (early.status, early.next_offset, early.min_offset) == (
        ReadStatus.OFFSET_TOO_SMALL,
        low,
        low,
    )
    assert bodies(stored.read(low))[0].startswith(b"%d" % low)
    assert stored.store.earliest_stored_ms("t", 0) == 1000


@pytest.fixture
def timed(stored: Stored) -> Callable[[int, Boundary], int]:
    """A queue as in RocketMQ's own example: three at 100, two at 300."""
    for at_ms in (1100, 1100, 1100, 1300, 1300):
        stored.clock.at_ms = at_ms
        stored.append()
        stored.append(queue_id=1)
    return lambda at_ms, boundary: stored.store.offset_at_time("t", 0, at_ms, boundary)


@pytest.mark.parametrize(
    ("at_ms", "lower", "upper"),
    [(1000, 0, 0), (1100, 0, 2), (1200, 3, 2), (1300, 3, 4), (1400, 5, 4)],
)
def test_a_time_is_between_the_last_before_it_and_the_first_after_it(
    timed: Callable[[int, Boundary], int], at_ms: int, lower: int, upper: int
) -> None:
    assert timed(at_ms, Boundary.LOWER) == lower
    assert timed(at_ms, Boundary.UPPER) == upper


def test_a_queue_without_messages_has_no_times(stored: Stored) -> None:
    assert stored.store.offset_at_time("t", 7, 1000) == 0
    assert stored.store.earliest_stored_ms("t", 7) == -1


def test_store_times_are_read_of_records_from_either_kind_of_host(stored: Stored) -> None:
    stored.clock.at_ms = 1234
    stored.append(born_host=bytes(20))
    assert stored.store.earliest_stored_ms("t", 0) == 1234
    stored.clock.at_ms = 1235
    stored.append()
    assert stored.store.offset_at_time("t", 0, 1235) == 1
