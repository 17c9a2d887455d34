"""Queues, index and timer, kept together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import view_records
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.state.checkpoint import read_checkpoint
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
EVER = 1 << 62


def put(number: int, queue_id: int = 0, **changes: Any) -> Put:
    values: dict[str, Any] = {
        "topic": "t",
        "body": b"%d" % number,
        "properties": b"KEYS\x01k%d both\x02UNIQ_KEY\x01u%d\x02" % (number, number),
        "flag": 0,
        "sys_flag": 0,
        "born_ms": 1,
        "born_host": HOST,
    }
    return Put(queue_id=queue_id, **{**values, **changes})


def open_store(disk: SimDisk, clock: ManualClock | None = None, **changes: Any) -> MessageStore:
    config = StoreConfig.embedded(ROOT, **{"segment_bytes": 4096, **changes})
    return MessageStore.open(
        config, disk=disk, clock=clock or ManualClock(), store_host=HOST, threads=False
    )


def found(store: MessageStore, key: str, topic: str = "t", **times: int) -> list[bytes]:
    begin, end = times.get("begin", 0), times.get("end", EVER)
    offsets = store.find_by_key(topic, key, begin, end)
    return [next(iter(view_records(store.record_at(at)))).body for at in offsets]


def test_keys_find_every_message_newest_first_and_nothing_else() -> None:
    store = open_store(SimDisk())
    for number in range(100):
        store.append([[put(number)]])
    store.append([[put(3, topic="other")]])
    store.dispatch()
    assert found(store, "k7") == [b"7"]
    assert found(store, "u7") == [b"7"]
    assert found(store, "both") == [b"%d" % number for number in reversed(range(100))]
    assert found(store, "k3", topic="other") == [b"3"]
    assert found(store, "missing") == []


async def test_keys_are_found_within_times() -> None:
    clock = ManualClock(now_ms=1_000_000)
    store = open_store(SimDisk(), clock)
    for number in range(5):
        store.append([[put(number)]])
        await clock.advance(10_000)
    store.dispatch()
    assert found(store, "both", begin=1_010_000, end=1_030_000) == [b"3", b"2", b"1"]
    assert found(store, "both", end=999_999) == []


def test_messages_that_left_the_log_are_not_found() -> None:
    store = open_store(SimDisk())
    for number in range(60):
        store.append([[put(number)]])
    store.dispatch()
    store.flush()
    store.delete_before(LogOffset(4096))
    left = found(store, "both")
    assert 0 < len(left) < 60
    assert left[-1] == b"%d" % (60 - len(left))


async def test_rounds_bring_derived_files_to_the_disk_and_the_checkpoint_says_so() -> None:
    disk, clock = SimDisk(), ManualClock(now_ms=1_000_000)
    store = open_store(disk, clock)
    for number in range(20):
        store.append([[put(number, number % 4)]])
    store.flush()
    store.dispatch()
    before = read_checkpoint(disk, ROOT / "checkpoint")
    assert before.own is not None
    assert (before.own.derived, before.queues_ms) == (0, 0)
    await clock.advance(5000)
    store.dispatch()
    after = read_checkpoint(disk, ROOT / "checkpoint")
    assert after.own is not None
    assert after.own.derived == store.positions.written == store.derived.synced_to
    assert after.queues_ms == 1_000_000
    disk.crash()
    again = open_store(disk)
    assert again.max_offset("t", 3) == 5
    assert found(again, "k19") == [b"19"]


async def test_the_times_of_the_checkpoint_are_never_newer_than_the_queues() -> None:
    disk, clock = SimDisk(), ManualClock(now_ms=1_000_000)
    store = open_store(disk, clock)
    store.append([[put(0)]])
    store.dispatch()
    store.flush()
    await clock.advance(5000)
    store.append([[put(1)]])  # not yet dispatched when the round begins
    store.rounds.tend()
    data = read_checkpoint(disk, ROOT / "checkpoint")
    assert data.queues_ms == 0


def test_queue_files_that_are_there_keep_their_length() -> None:
    disk = SimDisk()
    store = open_store(disk, queue_file_bytes=200)
    for number in range(25):
        store.append([[put(number)]])
    store.dispatch()
    store.close()
    again = open_store(disk, queue_file_bytes=60_000)
    assert again.max_offset("t", 0) == 25
    again.append([[put(25)]])
    again.dispatch()
    again.close()
    directory = ROOT / "consumequeue" / "t" / "0"
    assert {len(disk.content(directory / name)) for name in disk.names(directory)} == {200}


def test_a_queue_that_is_damaged_is_written_again_when_it_is_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimDisk()
    store = open_store(disk, queue_file_bytes=200)
    for number in range(35):
        store.append([[put(number)]])
    store.dispatch()
    store.close()
    disk.flip(ROOT / "consumequeue" / "t" / "0" / f"{0:020d}", bit=85)
    again = open_store(disk)
    result = again.read("t", 0, QueueOffset(0), max_count=32)
    assert [view.body for view in view_records(result.records)] == [b"%d" % n for n in range(32)]
    assert "written again" in caplog.text


def test_a_damaged_timer_queue_keeps_no_store_from_opening_or_closing() -> None:
    disk, clock, many = SimDisk(), ManualClock(1_700_000_000_000), 3500
    sizes = {"segment_bytes": 2 << 20, "queue_file_bytes": 20 * many}
    store = open_store(disk, clock, **sizes)
    text = "UNIQ_KEY\x01K\x02TIMER_OUT_MS\x011800000000000\x02REAL_TOPIC\x01t\x02REAL_QID\x010\x02"
    timed = put(0, topic=TIMER_TOPIC, properties=text.encode())
    store.append([[timed] for _ in range(many)])
    store.close()
    # A long file is compared with its checksum only when somebody reads it.
    disk.flip(ROOT / "consumequeue" / TIMER_TOPIC / "0" / f"{0:020d}", 8 * 5)
    for _ in range(2):
        store = open_store(disk, clock, **sizes)
        assert len(store.derived.timer) == many
        store.close()
    store = open_store(disk, clock, **sizes)
    assert store.derived.repairs.found == 0, "it is right again"
    assert store.read(TIMER_TOPIC, 0, QueueOffset(0), max_count=1).count == 1
    store.abandon()


def test_lost_queues_and_index_are_made_again_from_the_log() -> None:
    disk = SimDisk()
    store = open_store(disk)
    for number in range(35):
        store.append([[put(number)]])
    store.dispatch()
    store.close()
    for directory in (ROOT / "consumequeue" / "t" / "0", ROOT / "index", ROOT / "sums"):
        for name in disk.names(directory):
            disk.remove(directory / name)
    again = open_store(disk)
    assert again.max_offset("t", 0) == 35
    assert found(again, "k20") == [b"20"]
    assert len(found(again, "both")) == 35
