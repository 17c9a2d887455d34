"""Taking a directory over from the run before."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.clock import SystemClock
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record import checksum
from rocketpipe.record.codec import decode_record, encode_record, view_records
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import OddSegment, RecordCorrupt, StoreDamaged, StoreLocked
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.opening import Opened, open_directory
from rocketpipe.store.state.checkpoint import NEVER
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
LOG = ROOT / "commitlog"
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


def put(body: bytes = b"body") -> Put:
    return Put(
        topic="t",
        queue_id=0,
        body=body,
        properties=b"TAGS\x01A\x02",
        flag=0,
        sys_flag=0,
        born_ms=1,
        born_host=HOST,
    )


def config(**changes: Any) -> StoreConfig:
    return StoreConfig.embedded(ROOT, **{"segment_bytes": 4096, **changes})


def opened(disk: SimDisk, **changes: Any) -> Opened:
    return open_directory(config(**changes), disk, ManualClock())


def open_store(disk: SimDisk, **changes: Any) -> MessageStore:
    return MessageStore.open(
        config(**changes), disk=disk, clock=ManualClock(), store_host=HOST, threads=False
    )


def bodies(store: MessageStore) -> list[bytes]:
    result = store.read("t", 0, QueueOffset(0), max_count=32)
    return [view.body for view in view_records(result.records)]


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def test_a_new_directory_is_made(disk: SimDisk) -> None:
    files = opened(disk)
    assert files.end.end == files.positions.written == 0
    assert set(disk.names(ROOT)) >= {"abort", "checkpoint", "commitlog", "lock"}
    assert disk.content(ROOT / "abort").decode() == str(os.getpid())
    files.close()


def test_records_as_long_as_a_frame_are_whole_after_a_kill(disk: SimDisk) -> None:
    long = b"x" * (6 << 20), b"y" * ((16 << 20) - 1000)
    store = open_store(disk, segment_bytes=32 << 20)
    for body in (*long, b"behind"):
        store.append([[put(body)]])
    store.abandon()
    store = open_store(disk, segment_bytes=32 << 20)
    found = [store.read("t", 0, QueueOffset(at), max_count=1).records for at in range(3)]
    assert [len(view.body) for each in found for view in view_records(each)] == [
        *map(len, long),
        len(b"behind"),
    ]


def test_one_store_at_a_time(tmp_path: Path) -> None:
    settings = StoreConfig.embedded(tmp_path / "store")
    opening: dict[str, Any] = {"disk": Disk(), "clock": SystemClock(), "store_host": HOST}
    store = MessageStore.open(settings, **opening)
    with pytest.raises(StoreLocked):
        MessageStore.open(settings, **opening)
    store.close()
    store.close()
    MessageStore.open(settings, **opening).close()


def test_a_segment_that_lost_its_length_is_refused_and_the_directory_let_go(
    disk: SimDisk,
) -> None:
    store = open_store(disk)
    store.append([[put()]])
    store.close()
    with disk.open(LOG / f"{0:020d}") as file:
        file.truncate(2048)
    with pytest.raises(OddSegment, match="2048 bytes long, where it had 4096"):
        open_store(disk)
    with disk.open(LOG / f"{0:020d}") as file:
        file.preallocate(4096)
    assert bodies(open_store(disk)) == [b"body"]


def test_an_opening_that_fails_anywhere_can_be_done_again(disk: SimDisk) -> None:
    store = open_store(disk)
    for number in range(12):
        store.append([[put(b"%d" % number)]])
    disk.kill()
    expected = [b"%d" % number for number in range(12)]
    tries = 0
    while True:
        tries += 1
        copy = disk.copy(seed=tries)
        copy.fail(at=tries)
        try:
            open_store(copy).abandon()
        except DiskError:
            copy.heal()
            # The lock was let go, and nothing was lost.
            assert bodies(open_store(copy)) == expected
        else:
            break
    assert tries > 30


def test_a_damaged_record_that_only_dispatch_meets_is_damage_of_the_store(disk: SimDisk) -> None:
    store = open_store(disk)
    places = [store.append([[put(b"%d" % number)]])[0][0] for number in range(9)]
    store.flush()
    disk.kill()
    disk.flip(LOG / f"{0:020d}", bit=(places[4].log_offset + 40) * 8)
    with pytest.raises(StoreDamaged) as caught:
        open_store(disk, on_damaged_record="stop")
    assert (caught.value.at, caught.value.next_good) == (
        places[4].log_offset,
        places[5].log_offset,
    )
    disk.kill()
    passed_over = open_store(disk.copy())
    assert bodies(passed_over) == [b"0", b"1", b"2", b"3", b"5", b"6", b"7", b"8"]
    assert passed_over.damaged.places()[0][0] == places[4].log_offset
    skipped = open_store(disk, on_damaged_record="stop", on_damaged_log="skip")
    assert bodies(skipped) == [b"0", b"1", b"2", b"3", b"5", b"6", b"7", b"8"]
    assert disk.names(ROOT / "quarantine") == [f"{places[4].log_offset:020d}"]


def test_records_must_have_a_checksum_from_where_all_have_one(disk: SimDisk) -> None:
    store = open_store(disk, checksum=False)
    store.append([[put(b"without")]])
    assert store.commit_log.sealed_from == NEVER
    store.close()
    store = open_store(disk)
    start = store.positions.written
    assert store.commit_log.sealed_from == start
    ((place,),) = store.append([[put(b"with")]])
    store.dispatch()
    assert bodies(store) == [b"without", b"with"]
    store.close()
    store = open_store(disk)
    assert store.commit_log.sealed_from == start
    # A checksum that is gone altogether is noticed there.
    with disk.open(LOG / f"{0:020d}") as file:
        file.write(b"?", place.log_offset + place.size - 20)
    with pytest.raises(RecordCorrupt, match="its checksum is gone"):
        store.record_at(place.log_offset)


def test_what_another_broker_added_since_needs_no_checksum(disk: SimDisk) -> None:
    store = open_store(disk)
    ((place,),) = store.append([[put(b"ours")]])
    store.dispatch()
    ours = decode_record(store.record_at(place.log_offset))
    store.close()
    # As it would write it: no checksum, and neither our checkpoint nor our sums are changed.
    theirs = encode_record(
        replace(
            ours,
            body=b"theirs",
            raw_properties=b"TAGS\x01A\x02",
            log_offset=LogOffset(place.log_offset + place.size),
            queue_offset=QueueOffset(1),
        )
    )
    assert not checksum.is_sealed(theirs)
    with disk.open(LOG / f"{0:020d}") as file:
        file.write(theirs, place.size)
    for _ in range(2):
        store = open_store(disk)
        assert bodies(store) == [b"ours", b"theirs"]
        assert store.commit_log.sealed_from == place.size + len(theirs)
        store.close()


def test_what_another_broker_added_after_our_crash_needs_no_checksum_either(
    disk: SimDisk,
) -> None:
    store = open_store(disk)
    ((place,),) = store.append([[put(b"ours")]])
    store.flush()
    ours = decode_record(store.record_at(place.log_offset))
    disk.kill()
    theirs = encode_record(
        replace(
            ours,
            body=b"theirs",
            raw_properties=b"",
            log_offset=LogOffset(place.size),
            queue_offset=QueueOffset(1),
        )
    )
    # It has our process id, as in a container, and was killed in its turn.
    with disk.open(LOG / f"{0:020d}") as file:
        file.write(theirs, place.size)
    with disk.open(ROOT / "checkpoint") as file:
        file.write((ours.stored_ms + 1).to_bytes(8, "big"), 0)
    assert bodies(open_store(disk)) == [b"ours", b"theirs"]
