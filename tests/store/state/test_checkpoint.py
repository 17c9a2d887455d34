"""The page that says how far the files are good."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.state.checkpoint import (
    NEVER,
    PAGE_BYTES,
    Checkpoint,
    CheckpointData,
    parse_checkpoint,
    read_checkpoint,
)
from rocketpipe.testing.simulation.disk import SimDisk

PATH = Path("/store/checkpoint")


def page_of(disk: SimDisk) -> bytes:
    return disk.content(PATH)


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(PATH.parent)
    return disk


def test_what_is_noted_is_read_back(disk: SimDisk) -> None:
    page = Checkpoint(disk, PATH)
    page.begin(segment_bytes=4096, sealed_from=7, pid=42, started_ms=9)
    page.flushed(1000, 900, stored_ms=50)
    page.derived(800, stored_ms=40)
    found = read_checkpoint(disk, PATH)
    assert (found.log_ms, found.queues_ms, found.index_ms, found.confirmed) == (50, 40, 40, 1000)
    own = found.own
    assert own is not None
    assert (own.confirmed, own.last_record, own.derived) == (1000, 900, 800)
    assert (own.segment_bytes, own.sealed_from, own.pid, own.started_ms) == (4096, 7, 42, 9)
    assert not own.clean
    page.finish()
    assert Checkpoint(disk, PATH).data.own is not None
    again = read_checkpoint(disk, PATH).own
    assert again is not None
    assert again.clean


def test_rocketmqs_part_is_where_it_reads_it(disk: SimDisk) -> None:
    page = Checkpoint(disk, PATH)
    page.flushed(1000, 900, stored_ms=50)
    page.derived(800, stored_ms=40)
    assert len(page_of(disk)) == PAGE_BYTES
    assert struct.unpack_from(">5q", page_of(disk)) == (50, 40, 40, 0, 1000)


def test_readers_may_be_shown_less_than_is_durable(disk: SimDisk) -> None:
    page = Checkpoint(disk, PATH)
    page.flushed(1000, 900, stored_ms=50, published=700)
    found = read_checkpoint(disk, PATH)
    assert found.own is not None
    assert (found.confirmed, found.own.confirmed) == (700, 1000)
    page.publish(800)
    page.seal_from(300)
    found = read_checkpoint(disk, PATH)
    assert found.own is not None
    assert (found.confirmed, found.own.confirmed, found.own.sealed_from) == (800, 1000, 300)
    assert not found.foreign
    page.rewind(900, 850, 0, stored_ms=40, published=800)
    found = read_checkpoint(disk, PATH)
    assert found.own is not None
    assert (found.confirmed, found.own.confirmed, found.own.last_record) == (800, 900, 850)


def test_times_are_those_of_the_last_record_that_is_known(disk: SimDisk) -> None:
    page = Checkpoint(disk, PATH)
    page.flushed(1000, 900, stored_ms=50)
    page.derived(1000, stored_ms=50)
    page.flushed(1100, 1000, stored_ms=30)
    page.derived(1100, stored_ms=0)
    assert (page.data.log_ms, page.data.queues_ms) == (30, 50)
    page.rewind(500, 400, 300, stored_ms=20)
    assert (page.data.log_ms, page.data.queues_ms, page.data.index_ms) == (20, 20, 20)
    assert (page.data.confirmed, page.data.own.derived) == (500, 300)  # type: ignore[union-attr]


def test_a_page_that_another_broker_wrote_has_nothing_of_ours() -> None:
    page = struct.pack(">5q", 10_000, 9_000, 8_000, 7, 6) + bytes(PAGE_BYTES - 40)
    data, number = parse_checkpoint(page)
    assert number == 0
    assert data == CheckpointData(
        log_ms=10_000, queues_ms=9_000, index_ms=8_000, master_flushed=7, confirmed=6
    )
    assert data.safe_ms == 6_000


def test_a_page_that_another_broker_wrote_to_since_is_noticed(disk: SimDisk) -> None:
    page = Checkpoint(disk, PATH)
    page.begin(segment_bytes=4096, sealed_from=0, pid=1, started_ms=1)
    page.flushed(100, 0, stored_ms=10)
    page.flushed(200, 100, stored_ms=20)
    assert not read_checkpoint(disk, PATH).foreign
    whole = page_of(disk)
    # Between our two steps the other block still knows the number.
    assert not parse_checkpoint(struct.pack(">q", 10) + whole[8:])[0].foreign
    assert parse_checkpoint(struct.pack(">q", 30) + whole[8:])[0].foreign
    disk.put(PATH, struct.pack(">q", 30) + whole[8:])
    again = Checkpoint(disk, PATH)
    assert again.data.foreign
    again.begin(segment_bytes=4096, sealed_from=0, pid=1, started_ms=1)
    assert not read_checkpoint(disk, PATH).foreign


def test_nothing_known_is_nothing_safe(disk: SimDisk) -> None:
    assert read_checkpoint(disk, PATH) == CheckpointData()
    assert CheckpointData().safe_ms == 0
    assert parse_checkpoint(b"short") == (CheckpointData(), 0)
    disk.put(PATH, b"cut by a crash")
    assert Checkpoint(disk, PATH).data.own is None
    assert len(page_of(disk)) == PAGE_BYTES


def test_a_page_cut_at_any_byte_or_with_any_bit_turned_is_the_last_or_the_one_before(
    disk: SimDisk,
) -> None:
    page = Checkpoint(disk, PATH)
    page.begin(segment_bytes=4096, sealed_from=NEVER, pid=1, started_ms=1)
    page.flushed(100, 0, stored_ms=1)
    page.flushed(200, 100, stored_ms=2)
    whole = page_of(disk)
    known = {100, 200}
    for cut in range(len(whole)):
        for rest in (b"", bytes(len(whole) - cut)):
            own = parse_checkpoint(whole[:cut] + rest)[0].own
            assert own is None or own.confirmed in known
    for place in (*range(512, 604), *range(1024, 1116)):
        for bit in range(8):
            turned = bytearray(whole)
            turned[place] ^= 1 << bit
            own = parse_checkpoint(bytes(turned))[0].own
            assert own is not None
            assert own.confirmed in known


def test_a_power_cut_leaves_an_older_page_but_none_that_never_was() -> None:
    for seed in range(30):
        disk = SimDisk(seed)
        disk.make_directory(PATH.parent)
        page = Checkpoint(disk, PATH)
        page.begin(segment_bytes=4096, sealed_from=0, pid=1, started_ms=1)
        for number in range(1, 9):
            page.flushed(number * 100, number * 100 - 50, stored_ms=number)
        disk.crash()
        own = Checkpoint(disk, PATH).data.own
        assert own is not None
        assert own.confirmed in range(0, 900, 100)


def test_a_page_that_cannot_be_made_is_an_error(disk: SimDisk, tmp_path: Path) -> None:
    disk.fail(at=1, only=("sync",))
    with pytest.raises(DiskError):
        Checkpoint(disk, PATH)
    with pytest.raises(DiskError):
        Checkpoint(Disk(), tmp_path / "missing" / "checkpoint")
