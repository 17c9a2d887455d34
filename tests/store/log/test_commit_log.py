"""Records in the order they came."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.model.offsets import LogOffset
from rocketpipe.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC
from rocketpipe.store.errors import RecordCorrupt, RecordTooLarge
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.log.appender import Appender
from rocketpipe.store.log.commit_log import WALK_BYTES, CommitLog, filler
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/log")
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


def put(body: bytes) -> Put:
    return Put(
        topic="t",
        queue_id=0,
        body=body,
        properties=b"",
        flag=0,
        sys_flag=0,
        born_ms=1,
        born_host=HOST,
    )


def segment_bases(log: CommitLog) -> list[int]:
    return [segment.base for segment in log.run.segments]


def filled(*lengths: int, segment_bytes: int = 1024) -> tuple[CommitLog, list[Appended]]:
    """A log of records with bodies of these lengths, and where they are."""
    log = CommitLog(SimDisk(), ROOT, segment_bytes)
    appender = Appender(segment_bytes, HOST, lambda topic, queue_id: 0, seal=True)
    encoded = appender.encode([[put(bytes([7]) * length)] for length in lengths], 0, stored_ms=5)
    log.make_room(0, encoded.end)
    log.append(encoded.chunks)
    return log, [placed for (placed,) in encoded.placed]


def test_a_record_goes_where_it_and_a_filler_fit() -> None:
    log = CommitLog(SimDisk(), ROOT, 4096)
    # The worked example: 126 bytes do not fit into the last 124.
    assert log.place(3972, [126]) == [4096]
    assert log.place(3972, [116, 10]) == [3972, 4096]
    assert log.place(3972, [117]) == [4096]
    assert log.place(0, [4088, 4088]) == [0, 4096]
    assert log.place(4096, []) == []
    with pytest.raises(RecordTooLarge, match="4089 bytes, where segments hold 4088"):
        log.place(0, [4089])
    assert filler(124) == bytes.fromhex("0000007ccbd43194")


def test_the_end_of_a_segment_is_closed_by_what_remains() -> None:
    log, placed = filled(700, 400)
    assert [place.log_offset for place in placed] == [0, 1024]
    end = placed[0].size
    assert SIZE_AND_MAGIC.unpack(log.run.read(end, 8)) == (1024 - end, BLANK_MAGIC)


@pytest.mark.parametrize("lengths", [(10,), (700, 400), (100,) * 40, (800, 800, 1, 1, 1)])
def test_a_walk_meets_every_record_once(lengths: tuple[int, ...]) -> None:
    log, placed = filled(*lengths)
    end = LogOffset(placed[-1].log_offset + placed[-1].size)
    walked = [(at, len(record)) for at, record in log.walk(LogOffset(0), end)]
    assert walked == [(place.log_offset, place.size) for place in placed]
    # It may start at any record.
    later = list(log.walk(placed[-1].log_offset, end))
    assert [at for at, _ in later] == [placed[-1].log_offset]
    assert list(log.walk(end, end)) == []


def test_records_longer_than_a_step_of_the_walk_are_met_too() -> None:
    lengths = (WALK_BYTES - 200, WALK_BYTES + 5000, 3, 2 * WALK_BYTES)
    log, placed = filled(*lengths, segment_bytes=8 * WALK_BYTES)
    end = LogOffset(placed[-1].log_offset + placed[-1].size)
    walked = [(at, len(record)) for at, record in log.walk(LogOffset(0), end)]
    assert walked == [(place.log_offset, place.size) for place in placed]


@pytest.mark.parametrize(
    ("at", "data", "reason"),
    [
        (4, b"\x00", "is no magic"),
        (0, b"\x00\x00\x00\x05", "a size of 5"),
        (0, b"\x7f\xff\xff\xff", "goes beyond the end"),
        (-20, b"?", "its checksum is gone"),
    ],
)
def test_a_walk_stops_where_no_record_is(at: int, data: bytes, reason: str) -> None:
    log, placed = filled(100, 100)
    log.sealed_from = 0
    first, second = placed
    end = LogOffset(second.log_offset + second.size)
    log.run.write(second.log_offset + at if at >= 0 else end + at, data)
    walk = log.walk(LogOffset(0), end)
    assert next(walk)[0] == first.log_offset
    with pytest.raises(RecordCorrupt, match=reason) as caught:
        next(walk)
    assert caught.value.at == second.log_offset


def test_bytes_that_the_log_does_not_have_are_not_made_up() -> None:
    log, _ = filled(100)
    for offset in (1000, 1024, 5000):
        with pytest.raises(RecordCorrupt, match="not in the log"):
            log.read(LogOffset(offset), 100)
    with pytest.raises(RecordCorrupt):
        list(log.walk(LogOffset(0), LogOffset(3000)))


def test_a_failed_append_tells_how_much_was_written_in_all() -> None:
    disk = SimDisk()
    log = CommitLog(disk, ROOT, 1024)
    log.make_room(0, 2048)
    disk.fail(at=2, only=("write",))
    with pytest.raises(DiskError) as caught:
        log.append([(0, b"x" * 1024), (1024, b"y" * 10)])
    assert caught.value.written >= 1024


def test_a_log_whose_old_segments_went_goes_on_behind_them() -> None:
    log, placed = filled(800, 800, 800)
    assert log.delete_before(LogOffset(2048)) == 2
    assert log.first_offset == 2048
    assert segment_bases(log) == [2048]
    assert log.path_of(2050).name == f"{2048:020d}"
    assert len(log.read(placed[2].log_offset, placed[2].size)) == placed[2].size
    log.make_room(3072, 4000)
    assert segment_bases(log) == [2048, 3072]


def test_the_first_segment_is_that_of_the_first_byte() -> None:
    log = CommitLog(SimDisk(), ROOT, 1024)
    log.make_room(0, 3000)
    assert segment_bases(log) == [0, 1024, 2048]
    log.make_room(0, 3000)
    assert segment_bases(log) == [0, 1024, 2048]


def test_segments_that_are_there_keep_their_size() -> None:
    log, _ = filled(10)
    assert (log.segment_bytes, log.largest_record) == (1024, 1016)
