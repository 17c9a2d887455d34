"""Where a log ends, found by looking at its records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketpipe.store.log.appender import Appender
from rocketpipe.store.log.batch_mark import write_mark
from rocketpipe.store.log.commit_log import WALK_BYTES, CommitLog
from rocketpipe.store.log.end import (
    end_of_data,
    next_whole,
    problem_of,
    reason_at,
    record_at,
    stored_ms_of,
    unfinished_group,
    walk_to_end,
)
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/log")
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
HOST_V6 = bytes(15) + b"\x01" + bytes(4)


def put(body: bytes = b"body", **changes: Any) -> Put:
    values: dict[str, Any] = {
        "topic": "orders",
        "queue_id": 0,
        "body": body,
        "properties": b"TAGS\x01A\x02",
        "flag": 0,
        "sys_flag": 0,
        "born_ms": 1,
        "born_host": HOST,
    }
    return Put(**{**values, **changes})


class Filled:
    """A log of some groups."""

    def __init__(
        self, *groups: list[Put], segment_bytes: int = 1024, seal: bool = True, host: bytes = HOST
    ) -> None:
        self.log = CommitLog(SimDisk(), ROOT, segment_bytes)
        appender = Appender(segment_bytes, host, lambda topic, queue_id: 0, seal=seal)
        encoded = appender.encode(groups, 0, stored_ms=5)
        self.log.make_room(0, encoded.end)
        self.log.append(encoded.chunks)
        if seal:
            self.log.sealed_from = 0
        self.end = encoded.end
        self.places: list[Appended] = [each for group in encoded.placed for each in group]

    def record(self, number: int) -> bytes:
        place = self.places[number]
        return self.log.read(place.log_offset, place.size)


@pytest.mark.parametrize("seal", [True, False])
def test_whole_records_are_walked_over_segments_to_their_end(seal: bool) -> None:
    filled = Filled(*[[put(bytes(length))] for length in range(0, 700, 50)], seal=seal)
    walked = walk_to_end(filled.log, 0)
    assert walked.end == filled.end
    assert walked.records == len(filled.places)
    assert walked.last_record == filled.places[-1].log_offset
    assert walked.group is None
    assert walked.unsealed == (-1 if seal else walked.last_record)
    assert walked.reason == "nothing is written there"


def test_records_longer_than_a_step_are_walked_too() -> None:
    lengths = (WALK_BYTES - 300, WALK_BYTES + 1, 5, 3 * WALK_BYTES, 7)
    filled = Filled(*[[put(bytes(length))] for length in lengths], segment_bytes=8 * WALK_BYTES)
    walked = walk_to_end(filled.log, 0)
    assert (walked.end, walked.records) == (filled.end, len(lengths))


def test_a_walk_may_be_told_where_to_stop() -> None:
    filled = Filled([put()], [put()], [put()])
    walked = walk_to_end(filled.log, 0, stop=filled.places[2].log_offset)
    assert (walked.end, walked.records) == (filled.places[2].log_offset, 2)


def test_the_group_of_the_last_record_is_told() -> None:
    filled = Filled([put()], [put(), put(), put()])
    whole = (filled.places[1].log_offset, filled.end)
    assert walk_to_end(filled.log, 0).group == whole
    part = walk_to_end(filled.log, 0, stop=filled.places[3].log_offset)
    assert part.group == whole
    assert walk_to_end(filled.log, 0, stop=filled.places[1].log_offset).group is None


def test_a_group_is_unfinished_if_its_first_record_says_the_same() -> None:
    filled = Filled([put()], [put(), put(), put()])
    start = filled.places[1].log_offset
    for number in (2, 3):
        part = walk_to_end(filled.log, 0, stop=filled.places[number].log_offset)
        assert unfinished_group(filled.log, part) == start
    assert unfinished_group(filled.log, walk_to_end(filled.log, 0, stop=start)) is None
    assert unfinished_group(filled.log, walk_to_end(filled.log, 0)) is None


def test_what_a_client_of_another_broker_calls_a_group_is_none() -> None:
    mark = write_mark(0, 1 << 40)
    room = b"A\x01".ljust(len(mark) - 1, b"-") + b"\x02"
    filled = Filled([put()], [put(properties=room)], seal=False)
    forged = filled.record(1)[: -len(mark)] + mark
    filled.log.run.write(filled.places[1].log_offset, forged)
    walked = walk_to_end(filled.log, 0)
    assert (walked.end, walked.group) == (filled.end, (0, 1 << 40))
    assert unfinished_group(filled.log, walked) is None


@pytest.mark.parametrize("seal", [True, False])
@pytest.mark.parametrize("host", [HOST, HOST_V6])
def test_every_bit_of_a_sealed_record_counts(seal: bool, host: bytes) -> None:
    filled = Filled([put(born_host=host)], seal=seal, host=host)
    record = filled.record(0)
    assert problem_of(record, 0, sealed=seal) is None
    assert stored_ms_of(record) == 5
    missed = 0
    for bit in range(len(record) * 8):
        turned = bytearray(record)
        turned[bit // 8] ^= 1 << bit % 8
        if problem_of(bytes(turned), 0, sealed=seal) is None:
            missed += 1
    # Without the checksum over all of it, topic, properties and most of the head are unprotected.
    assert (missed == 0) == seal


def test_a_checksum_that_is_gone_is_noticed_only_where_one_must_be() -> None:
    (record,) = [Filled([put()]).record(0)]
    torn = record[:-20] + bytes(20)
    assert problem_of(torn, 0) is None
    assert problem_of(torn, 0, sealed=True) == "its checksum is gone"
    # A few turned bits of its name are not enough to hide it anywhere.
    broken = record.replace(b"__CRC32#", b"__CRC33#")
    assert problem_of(broken, 0) == "its checksum is gone"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"short", "5 bytes are no record"),
        (bytes(100), "a size of 0 in 100 bytes"),
        (b"\x00\x00\x00\x64" + bytes(96), "0x00000000 is no magic"),
    ],
)
def test_what_is_wrong_is_said(record: bytes, reason: str) -> None:
    assert problem_of(record, 0) == reason


def test_a_record_elsewhere_is_not_the_one_that_belongs_there() -> None:
    record = Filled([put()], [put()]).record(1)
    assert problem_of(record, 0) == f"it says that it is at {len(record)}"


def test_every_torn_tail_ends_before_it_and_has_nothing_behind() -> None:
    filled = Filled([put(b"one")], [put(b"two")], [put(b"three")])
    last = filled.places[-1]
    whole = filled.record(2)
    for cut in range(last.size):
        for rest in (bytes(last.size - cut), b"\xff" * (last.size - cut)):
            torn = whole[:cut] + rest
            filled.log.run.write(last.log_offset, torn)
            walked = walk_to_end(filled.log, 0)
            assert (walked.end, walked.records) == (last.log_offset, 2)
            assert next_whole(filled.log, walked.end + 1, filled.log.run.end) is None
            expected = last.log_offset + len(torn.rstrip(b"\x00"))
            assert end_of_data(filled.log, walked.end, filled.log.run.end) == expected


def test_whole_records_behind_damage_are_found_even_in_later_segments() -> None:
    filled = Filled(*[[put(bytes(500))] for _ in range(3)])
    assert [place.log_offset for place in filled.places] == [0, 1024, 2048]
    for damaged, behind in ((0, 1024), (1, 2048)):
        place = filled.places[damaged]
        filled.log.run.write(place.log_offset + 100, b"damage")
        assert next_whole(filled.log, place.log_offset + 1, filled.log.run.end) == behind
    assert next_whole(filled.log, 1, 2048) is None
    assert next_whole(filled.log, 1, 2049) == 2048


def test_a_body_full_of_records_hides_none() -> None:
    inner = Filled([put()]).record(0)
    filled = Filled([put(inner * 4)], [put()])
    filled.log.run.write(0, bytes(8))
    assert next_whole(filled.log, 1, filled.log.run.end) == filled.places[1].log_offset


@pytest.mark.parametrize("distance", range(-12, 3))
def test_a_record_whose_magic_lies_across_two_reads_is_found(distance: int) -> None:
    first = put(bytes(WALK_BYTES - 115 + distance))
    filled = Filled([first], [put()], segment_bytes=4 * WALK_BYTES)
    filled.log.run.write(0, bytes(8))
    found = next_whole(filled.log, 1, filled.log.run.end)
    assert found == filled.places[1].log_offset


def test_a_filler_counts_only_when_it_says_how_much_is_left_and_a_record_follows() -> None:
    filled = Filled([put(bytes(500))], [put(bytes(500))])
    end = filled.places[0].size
    assert walk_to_end(filled.log, 0).end == filled.end
    filled.log.run.write(1024, bytes(200))
    assert walk_to_end(filled.log, 0).end == end
    again = Filled([put(bytes(500))], [put(bytes(500))])
    again.log.run.write(end, b"\x00\x00\x00\x09")
    walked = walk_to_end(again.log, 0)
    assert walked.end == end
    assert next_whole(again.log, end + 1, again.log.run.end) == 1024


def test_records_are_read_by_their_place() -> None:
    filled = Filled([put()])
    assert record_at(filled.log, 0) == filled.record(0)
    for place in (1, filled.end, 1020, 5000):
        assert record_at(filled.log, place) is None
    assert reason_at(filled.log, 0) == "a whole record"
    assert reason_at(filled.log, 5000) == "the log has no more segments"
    filled.log.run.write(0, b"\x00\x00\x03\xff")
    assert reason_at(filled.log, 0) == "its checksum is gone"
    filled.log.run.write(0, b"\x7f\x00\x00\x00")
    assert reason_at(filled.log, 0) == f"a size of {0x7F000000}"
