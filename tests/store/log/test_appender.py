"""Messages become records."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.twins import WAYS, each_way

from rocketpipe.errors import InvalidName, PropertiesError
from rocketpipe.model.flags import BORN_HOST_V6, STORE_HOST_V6, Transaction
from rocketpipe.record import checksum
from rocketpipe.record.codec import RecordView, decode_record
from rocketpipe.record.layout import MAX_PROPERTIES_BYTES, SEAL_BYTES
from rocketpipe.store.errors import RecordTooLarge
from rocketpipe.store.log import appender as appender_module
from rocketpipe.store.log.appender import Appender
from rocketpipe.store.log.batch_mark import MARK_BYTES, read_mark, write_mark
from rocketpipe.store.log.commit_log import FILLER_BYTES, filler
from rocketpipe.store.log.puts import Encoded, Put

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
HOST_V6 = bytes(15) + b"\x01" + bytes(4)


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__], appender_module):
        yield


def put(body: bytes = b"body", **changes: Any) -> Put:
    plain = Put(
        topic="orders",
        queue_id=0,
        body=body,
        properties=b"TAGS\x01A\x02",
        flag=3,
        sys_flag=0,
        born_ms=11,
        born_host=HOST,
    )
    return plain._replace(**changes)


def appender(segment_bytes: int = 1 << 20, *, seal: bool = True, host: bytes = HOST) -> Appender:
    return Appender(segment_bytes, host, lambda topic, queue_id: 100 * (queue_id + 1), seal=seal)


def encode(groups: Sequence[Sequence[Put]], *, start: int = 0, **settings: Any) -> Encoded:
    return appender(**settings).encode(groups, start, stored_ms=22)


def records(encoded: Encoded) -> list[bytes]:
    """Cut out of the chunks what was said to be placed there."""
    found = []
    for placed in (each for group in encoded.placed for each in group):
        (record,) = [
            data[placed.log_offset - base : placed.log_offset - base + placed.size]
            for base, data in encoded.chunks
            if base <= placed.log_offset < base + len(data)
        ]
        found.append(record)
    return found


def test_a_record_has_what_was_put_and_its_places() -> None:
    message = put(reconsume_times=2, prepared_offset=77, sys_flag=int(Transaction.COMMITTED))
    encoded = encode([[message]], start=4096)
    (record,) = records(encoded)
    checksum.verify(record)
    stored = decode_record(record)
    assert (stored.topic, stored.queue_id, stored.body) == ("orders", 0, b"body")
    assert (stored.log_offset, stored.queue_offset, stored.stored_ms) == (4096, 100, 22)
    assert (stored.flag, stored.born_ms, stored.sys_flag) == (3, 11, 8)
    assert (stored.reconsume_times, stored.prepared_offset) == (2, 77)
    assert stored.tags == "A"
    assert encoded.end == 4096 + len(record)
    assert encoded.last_record == 4096
    assert encoded.next_offsets == {"orders": {0: 101}}


@pytest.mark.parametrize("seal", [True, False])
@pytest.mark.parametrize("text", [b"", b"TAGS\x01A", b"TAGS\x01A\x02", b"a#\x01b\x02"])
def test_properties_stay_as_they_are_but_for_what_the_store_adds(text: bytes, seal: bool) -> None:
    (record,) = records(encode([[put(properties=text)]], seal=seal))
    raw = RecordView(record).raw_properties
    if seal:
        checksum.verify(record)
        raw = raw[:-SEAL_BYTES]
        assert raw == (text if not text or text.endswith(b"\x02") else text + b"\x02")
    else:
        assert raw == text


def test_a_queue_counts_on_over_all_groups_and_is_asked_once() -> None:
    asked: list[tuple[str, int]] = []

    def next_offset(topic: str, queue_id: int) -> int:
        asked.append((topic, queue_id))
        return 5

    maker = Appender(1 << 20, HOST, next_offset, seal=True)
    groups = [[put()], [put(queue_id=1)], [put(), put(topic="other"), put()], [put()]]
    encoded = maker.encode(groups, 0, 1)
    offsets = [[place.queue_offset for place in group] for group in encoded.placed]
    assert offsets == [[5], [5], [6, 5, 7], [8]]
    assert encoded.next_offsets == {"orders": {0: 9, 1: 6}, "other": {0: 6}}
    assert asked == [("orders", 0), ("orders", 1), ("other", 0)]
    stored = [decode_record(record) for record in records(encoded)]
    assert [message.queue_offset for message in stored] == [5, 5, 6, 5, 7, 8]


@pytest.mark.parametrize("state", [Transaction.PREPARED, Transaction.ROLLED_BACK])
def test_what_is_in_no_queue_takes_no_offset(state: Transaction) -> None:
    encoded = encode([[put()], [put(sys_flag=int(state))], [put()]])
    offsets = [place.queue_offset for (place,) in encoded.placed]
    assert offsets == [100, 0, 101]


def test_the_bits_of_the_hosts_are_those_of_the_hosts() -> None:
    lies = put(sys_flag=BORN_HOST_V6 | STORE_HOST_V6 | 1 << 9)
    (record,) = records(encode([[lies]]))
    assert decode_record(record).sys_flag == 1 << 9
    (wide,) = records(encode([[put(born_host=HOST_V6)]], host=HOST_V6))
    assert decode_record(wide).sys_flag == BORN_HOST_V6 | STORE_HOST_V6
    assert decode_record(wide).born_host.is_v6


def test_long_topics_have_the_other_magic() -> None:
    (record,) = records(encode([[put(topic="x" * 128)]]))
    assert RecordView(record).long_topic
    checksum.verify(record)


def test_every_record_of_a_group_knows_where_the_group_starts_and_ends() -> None:
    encoded = encode([[put()], [put(b"1"), put(b"22"), put(b"333")], [put()]], start=10)
    alone, *group, last = records(encoded)
    places = [each for group_places in encoded.placed for each in group_places]
    ends = (places[1].log_offset, places[3].log_offset + places[3].size)
    assert [read_mark(record, sealed=True) for record in group] == [ends] * 3
    assert read_mark(alone, sealed=True) is None
    assert read_mark(last, sealed=True) is None
    for record in group:
        checksum.verify(record)


def test_nobody_else_can_write_a_mark_or_a_checksum() -> None:
    forged = b"a\x01b\x02" + write_mark(0, 1 << 40) + b"__CRC32#\x010123456789\x02"
    (record,) = records(encode([[put(properties=forged)]]))
    checksum.verify(record)
    assert read_mark(record, sealed=True) is None
    assert dict(RecordView(record).properties).keys() == {"a", "__CRC32#"}
    (unsealed,) = records(encode([[put(properties=forged)]], seal=False))
    assert RecordView(unsealed).raw_properties == b"a\x01b\x02"


@given(
    start=st.integers(0, 3000),
    groups=st.lists(st.lists(st.integers(0, 700), min_size=1, max_size=4), min_size=1, max_size=6),
    seal=st.booleans(),
)
def test_records_and_fillers_lie_back_to_back_in_each_segment(
    start: int, groups: list[list[int]], seal: bool
) -> None:
    start = min(start, start - start % 1024 + 1024 - FILLER_BYTES)
    puts = [[put(bytes(length)) for length in group] for group in groups]
    encoded = encode(puts, start=start, segment_bytes=1024, seal=seal)
    expected = start
    found = iter(records(encoded))
    for group in encoded.placed:
        marks = set()
        for place in group:
            record = next(found)
            if place.log_offset != expected:
                # It did not fit, and a filler says how much was left.
                rest = 1024 - expected % 1024
                assert place.size + FILLER_BYTES > rest
                closing = b"".join(
                    data[expected - base : expected - base + FILLER_BYTES]
                    for base, data in encoded.chunks
                    if base <= expected < base + len(data)
                )
                assert closing == filler(rest)
                assert place.log_offset == expected + rest
            assert place.log_offset % 1024 + place.size + FILLER_BYTES <= 1024
            assert decode_record(record).log_offset == place.log_offset
            marks.add(read_mark(record, sealed=seal))
            expected = place.log_offset + place.size
        last = group[-1].log_offset + group[-1].size
        assert marks == ({(group[0].log_offset, last)} if len(group) > 1 else {None})
    assert encoded.end == expected
    for base, data in encoded.chunks:
        assert base % 1024 + len(data) <= 1024


def test_what_no_segment_could_hold_is_refused() -> None:
    with pytest.raises(RecordTooLarge):
        encode([[put(), put(bytes(1024))]], segment_bytes=1024)


def test_properties_leave_room_for_what_is_added() -> None:
    longest = MAX_PROPERTIES_BYTES - SEAL_BYTES
    encode([[put(properties=b"x" * (longest - 1) + b"\x02")]])
    with pytest.raises(PropertiesError):
        encode([[put(properties=b"x" * longest + b"\x02")]])
    with pytest.raises(PropertiesError):
        encode([[put(properties=b"x" * (longest - MARK_BYTES) + b"\x02")] * 2])


@pytest.mark.parametrize(
    "wrong", [{"topic": "../x"}, {"topic": ""}, {"topic": "x" * 256}, {"queue_id": -1}]
)
def test_what_can_be_no_queue_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidName):
        encode([[put(**wrong)]])
