"""A log that is only looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe.errors import RecordError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.record.codec import RecordView
from rocketpipe.record.layout import SEAL_BYTES
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import OddSegment
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.log_scan import Gap, LogFiles, Scanned, log_of, next_record, scan
from rocketpipe.testing.clock import ManualClock

GOLDEN = Path(__file__).parents[2] / "golden"
SEGMENT = 65536


@pytest.fixture
def directory(tmp_path: Path, unpack_golden: Callable[..., Path]) -> Path:
    """The commit log of a broker of Apache's, 5.5.0."""
    return unpack_golden("5.5.0-stop", tmp_path, "commitlog") / "commitlog"


def overwrite(directory: Path, at: int, data: bytes) -> None:
    path = directory / f"{at - at % SEGMENT:020d}"
    content = bytearray(path.read_bytes())
    content[at % SEGMENT : at % SEGMENT + len(data)] = data
    path.write_bytes(content)


def all_of(directory: Path, **where: LogOffset) -> list[Scanned | Gap]:
    with LogFiles(Disk(), directory) as files:
        return list(scan(files, **where))


def test_every_message_that_apache_told_is_found_at_its_place(directory: Path) -> None:
    answers = json.loads((GOLDEN / "5.5.0-stop.json").read_text())
    found = {item.at: item.record for item in all_of(directory) if isinstance(item, Scanned)}
    for message in answers["messages"]:
        view = RecordView(found[message["log_offset"]])
        assert view.topic == message["topic"]
        assert view.queue_offset == message["offset"]


def test_a_walk_may_start_and_end_at_any_record(directory: Path) -> None:
    whole = all_of(directory)
    part = all_of(directory, start=whole[100].at, end=whole[200].at)
    assert part == whole[100:200]


@pytest.mark.parametrize("place", [0, 5, 30, 60, 100])
def test_a_damaged_record_is_a_gap_up_to_the_next_one(directory: Path, place: int) -> None:
    whole = all_of(directory)
    bad, following = whole[150], whole[151]
    assert isinstance(bad, Scanned)
    overwrite(directory, bad.at + place, bytes([bad.record[place] ^ 0x40]))
    found = all_of(directory)
    if place == 60:  # the store time, which only a checksum of the whole record would cover
        assert not [item for item in found if isinstance(item, Gap)]
        return
    assert isinstance(found[150], Gap)
    assert (found[150].at, found[150].next_good) == (bad.at, following.at)
    assert found[:150] == whole[:150]
    assert found[151:] == whole[151:]


def test_a_whole_segment_of_zeros_is_a_gap_over_to_the_next(directory: Path) -> None:
    overwrite(directory, 2 * SEGMENT, bytes(SEGMENT))
    (gap,) = (item for item in all_of(directory) if isinstance(item, Gap))
    assert (gap.at, gap.next_good) == (2 * SEGMENT, 3 * SEGMENT)


def test_a_torn_tail_has_nothing_behind_it_and_is_as_long_as_its_bytes(directory: Path) -> None:
    whole = all_of(directory)
    last = whole[-1]
    assert isinstance(last, Scanned)
    overwrite(directory, last.at + 100, bytes(len(last.record) - 100))
    gap = all_of(directory)[-1]
    assert isinstance(gap, Gap)
    assert gap.next_good is None
    assert last.at + 50 < gap.end <= last.at + 100


def test_zeros_to_the_end_are_the_end_and_no_gap(directory: Path) -> None:
    assert not [item for item in all_of(directory) if isinstance(item, Gap)]


def test_magics_within_bodies_are_no_records(directory: Path) -> None:
    whole = all_of(directory)
    bad, following = whole[150], whole[151]
    assert isinstance(bad, Scanned)
    overwrite(directory, bad.at + 10, bytes.fromhex("daa320a7") * 20)
    with LogFiles(Disk(), directory) as files:
        assert next_record(files, bad.at, files.end) == following.at


def test_a_record_is_read_by_its_offset_and_anything_else_refused(directory: Path) -> None:
    whole = all_of(directory)
    with LogFiles(Disk(), directory) as files:
        item = whole[10]
        assert isinstance(item, Scanned)
        assert files.record_at(item.at) == item.record
        for nowhere in (-1, item.at + 1, files.end, files.end - 4, files.end - 100):
            with pytest.raises(RecordError):
                files.record_at(nowhere)


def test_files_that_cannot_be_segments_are_named(directory: Path) -> None:
    (directory / f"{5 * SEGMENT:020d}").unlink()
    with pytest.raises(OddSegment, match=f"{6 * SEGMENT:020d}"):
        LogFiles(Disk(), directory)
    (directory / f"{5 * SEGMENT:020d}").write_bytes(bytes(100))
    with pytest.raises(OddSegment, match="has 100 bytes"):
        LogFiles(Disk(), directory)


def test_a_last_file_without_bytes_and_other_names_are_passed_over(directory: Path) -> None:
    whole = all_of(directory)
    (directory / f"{13 * SEGMENT:020d}").touch()
    (directory / f"{14 * SEGMENT:020d}.tmp").write_bytes(b"x")
    assert all_of(directory) == whole


def test_no_files_are_an_empty_log(tmp_path: Path) -> None:
    assert all_of(tmp_path) == []


def test_a_record_whose_checksum_is_gone_is_found_where_one_must_be(tmp_path: Path) -> None:
    config = StoreConfig.embedded(tmp_path / "store")
    layout = StoreLayout(config.root)
    store = open_small(config)
    places = [store.append([[put(b"body %d" % number)]])[0][0] for number in range(3)]
    store.close()
    # The name of the checksum becomes another one: the record is whole, but for its seal.
    at = places[1].log_offset + places[1].size - SEAL_BYTES
    with (layout.commit_log / f"{0:020d}").open("r+b") as segment:
        segment.seek(at)
        segment.write(b"any-name")
    with log_of(Disk(), layout) as files:
        assert files.sealed_from == 0
        found = [(item.at, isinstance(item, Gap)) for item in scan(files)]
    offsets = [place.log_offset for place in places]
    assert found == list(zip(offsets, (False, True, False), strict=True))
    with LogFiles(Disk(), layout.commit_log) as files:  # nothing is known of these
        assert [item.at for item in scan(files) if isinstance(item, Scanned)] == offsets


def open_small(config: StoreConfig) -> MessageStore:
    return MessageStore.open(
        config, disk=Disk(), clock=ManualClock(), store_host=bytes(8), threads=False
    )


def put(body: bytes) -> Put:
    return Put("orders", 0, body, b"", 0, 0, 1, bytes(8))
