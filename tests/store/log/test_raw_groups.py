"""Bytes of a leader's log become whole groups, whatever the portions they come in."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.store.support.leader_log import groups_for, leader, log_bytes, portions, random_groups
from tests.twins import WAYS, each_way

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.log import end, raw_groups
from rocketpipe.store.log.batch_mark import write_mark
from rocketpipe.store.log.commit_log import filler
from rocketpipe.store.log.raw_groups import RawGroups, RawPiece
from rocketpipe.store.state.checkpoint import NEVER
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import KINDS, SEGMENT_BYTES, open_store, put


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, raw_groups, end):
        yield


def group_ends(groups: list[list[object]]) -> set[int]:
    return {int(group[-1].log_offset + group[-1].size) for group in groups}  # type: ignore[attr-defined]


def of(data: bytes, start: int = 0, **changes: object) -> RawPiece | None:
    changes = {"sealed_from": NEVER, **changes}
    return RawGroups(LogOffset(start), SEGMENT_BYTES, **changes).add(data)  # type: ignore[arg-type]


def written(*bodies: bytes, groups: bool = False, **changes: object) -> bytes:
    """The log of a store that took some messages, one by one or as a group."""
    store = open_store(SimDisk(), **changes)  # type: ignore[arg-type]
    puts = [put(body) for body in bodies]
    store.append([puts] if groups else [[one] for one in puts])
    return log_bytes(store)


@pytest.mark.parametrize("seed", range(4))
def test_pieces_are_the_log_and_end_where_groups_do(seed: int) -> None:
    store = open_store(SimDisk())
    placed = store.append(random_groups(seed, 60))
    data = log_bytes(store)
    ends = group_ends(placed)  # type: ignore[arg-type]
    records = 0
    groups = RawGroups(LogOffset(0), SEGMENT_BYTES, sealed_from=NEVER)
    whole = b""
    for portion in portions(data, random.Random(seed)):
        piece = groups.add(portion)
        if piece is None:
            continue
        assert piece.at == len(whole)
        whole += piece.data
        records += piece.records
        assert piece.end == len(whole)
        assert piece.end in ends
        # Everything that is complete came out.
        assert not [end for end in ends if piece.end < end <= piece.end + groups.pending_bytes]
        assert store.record_at(LogOffset(piece.last_record))
        assert piece.last_record < piece.end
    assert whole == data
    assert groups.pending_bytes == 0
    assert records == sum(map(len, placed))


def test_every_split_of_a_stream_gives_the_same_log() -> None:
    store = leader([[put(b"one")], [put(b"two"), put(b"three", queue_id=1)], [put(b"x" * 3500)]])
    store.append([[put(b"four"), put(b"y" * 3600)]])
    data = log_bytes(store)
    assert len(data) > 2 * SEGMENT_BYTES
    for place in range(len(data) + 1):
        groups = RawGroups(LogOffset(0), SEGMENT_BYTES, sealed_from=NEVER)
        pieces = [groups.add(part) for part in (data[:place], data[place:])]
        assert b"".join(piece.data for piece in pieces if piece is not None) == data
        assert groups.at == len(data)


def test_a_group_comes_out_whole_across_a_segment() -> None:
    data = written(b"a" * 2000, b"b" * 2500, b"c", groups=True)
    assert len(data) > SEGMENT_BYTES
    groups = RawGroups(LogOffset(0), SEGMENT_BYTES, sealed_from=NEVER)
    assert [groups.add(data[at : at + 1]) for at in range(len(data) - 1)] == [None] * (
        len(data) - 1
    )
    piece = groups.add(data[-1:])
    assert piece is not None
    assert (piece.at, piece.data, piece.records) == (0, data, 3)


def test_a_filler_waits_for_the_group_behind_it() -> None:
    data = written(b"a" * 3500, b"b" * 1000)
    first = int.from_bytes(data[:4], "big")
    groups = RawGroups(LogOffset(0), SEGMENT_BYTES, sealed_from=NEVER)
    piece = groups.add(data[:SEGMENT_BYTES])
    assert piece is not None
    assert piece.end == first
    behind = groups.add(data[SEGMENT_BYTES:])
    assert behind is not None
    assert (behind.at, behind.data) == (first, data[first:])


def test_a_filler_that_is_longer_than_a_piece_comes_alone_and_without_its_bytes() -> None:
    data = written(b"a" * 100)
    closed = data + filler(SEGMENT_BYTES - len(data))
    closed += bytes(SEGMENT_BYTES - len(closed))
    store = open_store(SimDisk())
    store.append([[put(b"a" * 100)]])
    for step in (1, 97, 10_000):
        groups = RawGroups(LogOffset(0), SEGMENT_BYTES, sealed_from=NEVER, most=1000)
        pieces = [groups.add(closed[at : at + step]) for at in range(0, len(closed), step)]
        pieces.append(groups.add(b""))
        first, alone = (piece for piece in pieces if piece is not None)
        assert (first.data, first.end) == (data, len(data))
        assert (alone.at, alone.data) == (len(data), filler(SEGMENT_BYTES - len(data)))
        assert (alone.end, alone.records, alone.last_record) == (SEGMENT_BYTES, 0, -1)
        assert (groups.at, groups.pending_bytes) == (SEGMENT_BYTES, 0)


def test_records_without_a_checksum_are_taken_from_those_who_write_none() -> None:
    data = written(b"one", b"two", b"x" * 3500, checksum=False)
    piece = of(data)
    assert piece is not None
    assert (piece.data, piece.records, piece.sealed_from) == (data, 3, NEVER)
    assert piece.stored_ms > 0


def test_checksums_are_asked_for_from_the_first_one_on() -> None:
    disk = SimDisk()
    store = open_store(disk, KINDS["without checksum"])
    store.append([[put(b"plain")]])
    store.close()
    store = open_store(disk)
    begun = int(store.positions.written)
    store.append([[put(b"sealed")]])
    store.close()
    store = open_store(disk, KINDS["without checksum"])
    ended = int(store.positions.written)
    store.append([[put(b"plain again")]])
    data = log_bytes(store)
    piece = of(data[:ended])
    assert piece is not None
    assert piece.sealed_from == begun
    with pytest.raises(RecordCorrupt, match="checksum is gone"):
        of(data)
    with pytest.raises(RecordCorrupt, match="checksum is gone"):
        of(data[:begun], sealed_from=0)
    # Whoever leads there writes none, so that nothing is said about what comes next.
    taken = of(data, ours=False)
    assert taken is not None
    assert (taken.data, taken.sealed_from) == (data, NEVER)


def test_marks_of_others_make_no_groups() -> None:
    mark = write_mark(0, 1 << 40)
    data = bytearray(written(b"one", checksum=False))
    assert of(bytes(data)) is not None
    store = open_store(SimDisk(), KINDS["without checksum"])
    # As a client of another broker may send it.
    store.append([[put(b"two", properties=b"A\x01" + bytes(len(mark) - 3) + b"\x02")]])
    forged = log_bytes(store)
    forged = forged[: -len(mark)] + mark
    taken = of(forged, ours=False)
    assert taken is not None
    assert taken.data == forged
    with pytest.raises(RecordCorrupt, match="a group of 1099511627776 bytes"):
        of(forged)


def test_every_changed_byte_of_a_record_is_found() -> None:
    data = written(b"some body", b"another", groups=True)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x55
        groups = RawGroups(LogOffset(0), SEGMENT_BYTES, sealed_from=0)
        try:
            piece = groups.add(bytes(changed))
        except RecordCorrupt:
            continue
        assert piece is None  # a size that promises more than there is
        with pytest.raises(RecordCorrupt):
            groups.add(bytes(SEGMENT_BYTES))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (bytes(8), "no magic"),
        (b"GET / HTTP/1.1\r\n", "no magic"),
        (filler(SEGMENT_BYTES - 1), "are left"),
        (filler(-1), "are left"),
        ((1 << 30).to_bytes(4, "big") + bytes.fromhex("daa320a7"), "a size of"),
        (bytes(4) + bytes.fromhex("daa320a7"), "a size of 0"),
        (b"\xff\xff\xff\xff" + bytes.fromhex("daa320a7"), "a size of -1"),
    ],
)
def test_what_is_no_log_is_refused_by_its_first_bytes(data: bytes, match: str) -> None:
    with pytest.raises(RecordCorrupt, match=match):
        of(data)


def test_a_record_of_another_place_is_refused_before_it_has_come() -> None:
    data = written(b"x" * 2000)
    with pytest.raises(RecordCorrupt, match="says that it is at 0"):
        of(data[:40], start=SEGMENT_BYTES)


def test_a_record_may_not_go_beyond_its_segment() -> None:
    data = written(b"x" * 6000, segment_bytes=8192)
    with pytest.raises(RecordCorrupt, match="its segment to 4096"):
        of(data)


def test_a_group_that_starts_before_what_is_taken_is_refused() -> None:
    data = written(b"one", b"two", groups=True)
    first = int.from_bytes(data[:4], "big")
    with pytest.raises(RecordCorrupt, match="it is in no group from 0"):
        of(data[first:], start=first)


def test_a_log_may_begin_within_a_group_whose_start_is_gone() -> None:
    data = written(b"a" * 2500, b"b" * 2500, b"c" * 500, groups=True)
    groups = RawGroups(LogOffset(SEGMENT_BYTES), SEGMENT_BYTES, sealed_from=NEVER)
    assert groups.add(data[SEGMENT_BYTES:-1]) is None
    piece = groups.add(data[-1:])
    assert piece is not None
    assert (piece.at, piece.end, piece.records) == (SEGMENT_BYTES, len(data), 2)


def test_a_group_that_never_ends_is_refused() -> None:
    data = written(b"x" * 1000, b"y" * 1000, groups=True)
    with pytest.raises(RecordCorrupt, match="of 1000 at most"):
        of(data[:1500], most=1000)


def test_it_goes_on_where_a_follower_ends() -> None:
    store = leader(random_groups(1, 20))
    groups = groups_for(store)
    assert groups.at == store.positions.written
    end = int(store.positions.written)
    store.append(random_groups(2, 3))
    piece = groups.add(memoryview(log_bytes(store, end)))
    assert piece is not None
    assert piece.end == store.positions.written
