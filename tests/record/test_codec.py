from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketpipe.errors import CompressionError, PropertiesError, RecordError, RocketPipeError
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import (
    RecordView,
    decode_record,
    encode_record,
    size_at,
    view_records,
    walk,
)
from rocketpipe.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC

# messages.md vector, decoded and written again by Apache's MessageDecoder
HELLO = bytes.fromhex(
    "00000073daa320a73610a686000000030000000000000000000000070000000000001000000000000000018bcfe56800"
    "0a0000030000c3510000018bcfe5687b0a00000100002a9f0000000000000000000000000000000568656c6c6f015400"
    "12544147530154616741024b455953016b3102"
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
HOSTS = st.builds(
    Host, st.sampled_from([4, 16]).flatmap(lambda n: st.binary(min_size=n, max_size=n)), INT32
)
TOPICS = st.text(st.characters(exclude_categories=["Cs"]), max_size=63) | st.text(
    "ab%", min_size=120, max_size=140
)


def _as_stored(message: StoredMessage) -> StoredMessage:
    """What reading gives back: host bits follow the hosts, and the form of the topic is known."""
    sys_flag = message.sys_flag & ~48
    sys_flag |= 16 if message.born_host.is_v6 else 0
    sys_flag |= 32 if message.store_host.is_v6 else 0
    long_topic = message.long_topic
    if long_topic is None:
        long_topic = len(message.topic.encode()) > 127
    return dataclasses.replace(message, sys_flag=sys_flag, long_topic=long_topic)


MESSAGES = st.builds(
    StoredMessage,
    topic=TOPICS,
    body=st.binary(max_size=60),
    raw_properties=st.binary(max_size=60),
    queue_id=INT32,
    queue_offset=INT64.map(QueueOffset),
    log_offset=INT64.map(LogOffset),
    flag=INT32,
    sys_flag=INT32,
    born_ms=INT64,
    born_host=HOSTS,
    stored_ms=INT64,
    store_host=HOSTS,
    reconsume_times=INT32,
    prepared_offset=INT64.map(LogOffset),
).map(_as_stored)


def _message(**changes: Any) -> StoredMessage:
    return dataclasses.replace(decode_record(HELLO), **changes)


def test_a_record_of_apache_is_read_field_by_field() -> None:
    message = decode_record(HELLO)
    assert message == StoredMessage(
        topic="T",
        body=b"hello",
        raw_properties=b"TAGS\x01TagA\x02KEYS\x01k1\x02",
        queue_id=3,
        queue_offset=QueueOffset(7),
        log_offset=LogOffset(4096),
        born_ms=1700000000000,
        born_host=Host.parse("10.0.0.3:50001"),
        stored_ms=1700000000123,
        store_host=Host.parse("10.0.0.1:10911"),
        long_topic=False,
    )
    assert message.properties == {"TAGS": "TagA", "KEYS": "k1"}
    assert message.offset_id == "0A00000100002A9F0000000000001000"
    assert RecordView(HELLO).body_crc == 907060870
    assert encode_record(message) == HELLO


def test_records_of_apache_5_3_3_are_read_and_written_again(apache: dict[str, Any]) -> None:
    assert len(apache["records"]) == 4  # each mixture of IPv4 and IPv6
    for case in apache["records"]:
        raw = bytes.fromhex(case["record"])
        message = decode_record(raw)
        assert message.born_host == Host.parse(_address(case["born"], 50001))
        assert message.store_host == Host.parse(_address(case["store"], 10911))
        assert message.body.decode() == case["body"]
        assert dict(message.properties) == (case["properties"] or {})
        for name in ("topic", "flag", "queue_offset", "log_offset", "prepared_offset", "offset_id"):
            assert getattr(message, name) == case[name], name
        assert message.reconsume_times == case["reconsume_times"]
        assert encode_record(message) == raw


def test_records_of_a_store_of_apache_5_3_3_are_read_and_written_again(
    apache: dict[str, Any],
) -> None:
    raw = b"".join(map(bytes.fromhex, apache["sealed_records"]))
    messages = [view.message() for view in view_records(raw)]
    assert [message.log_offset for message in messages] == [at for at, _ in walk(raw)]
    assert [message.long_topic for message in messages] == [False, False, False, True, False]
    assert len(messages[3].topic) == 157
    assert b"".join(map(encode_record, messages)) == raw


def _address(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


@given(MESSAGES)
def test_what_was_written_is_read_back_whole(message: StoredMessage) -> None:
    record = encode_record(message)
    assert decode_record(record) == message
    assert encode_record(decode_record(record)) == record


@given(MESSAGES)
def test_a_short_topic_under_the_second_magic_keeps_it(message: StoredMessage) -> None:
    message = dataclasses.replace(message, long_topic=True)
    assert decode_record(encode_record(message)) == message


@given(MESSAGES)
def test_a_lazy_view_equals_the_full_record(message: StoredMessage) -> None:
    record = encode_record(message)
    view = RecordView(memoryview(b"##" + record + b"##"), 2)
    assert view.message() == message
    assert view.raw == record
    assert view.size == len(record)
    assert view.stored_body == message.body
    for field in dataclasses.fields(StoredMessage):
        if field.init and field.name != "body":
            assert getattr(view, field.name) == getattr(message, field.name), field.name
    for name in ("properties", "tags", "keys", "message_id", "offset_id", "user_properties"):
        assert getattr(view, name) == getattr(message, name), name


@given(MESSAGES)
def test_a_record_cut_at_any_byte_is_refused(message: StoredMessage) -> None:
    record = encode_record(message)
    for cut in range(len(record)):
        with pytest.raises(RecordError):
            decode_record(record[:cut])
        with pytest.raises(RecordError):
            size_at(record[:cut])


@given(MESSAGES, MESSAGES, st.data())
def test_records_back_to_back_are_read_until_the_cut(
    first: StoredMessage, second: StoredMessage, data: st.DataObject
) -> None:
    buffer = encode_record(first) + encode_record(second)
    assert [view.message() for view in view_records(buffer)] == [first, second]
    assert [view.size for view in view_records(buffer)] == [size for _, size in walk(buffer)]
    cut = data.draw(st.integers(len(encode_record(first)) + 1, len(buffer) - 1))
    reading = (view.message() for view in view_records(buffer[:cut]))
    assert next(reading) == first
    with pytest.raises(RecordError) as caught:
        next(reading)
    assert caught.value.at >= len(encode_record(first))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(MESSAGES, st.data())
def test_one_changed_byte_raises_nothing_unnamed(
    message: StoredMessage, data: st.DataObject
) -> None:
    record = bytearray(encode_record(message))
    at = data.draw(st.integers(0, len(record) - 1))
    record[at] ^= data.draw(st.integers(1, 255))
    try:
        changed = RecordView(record)
        assert changed.size <= len(record)
        assert encode_record(changed.message(verify=False))[12:] == changed.raw[12:]
        changed.message()
        _ = changed.body, changed.properties, changed.message_id
    except RocketPipeError:
        pass


def test_every_single_bit_of_a_record_of_apache_may_flip() -> None:
    for bit in range(len(HELLO) * 8):
        flipped = bytearray(HELLO)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            decode_record(flipped)
        except RecordError as error:
            # Named, and placed inside the record.
            at = error.at
        else:
            at = 0
        assert 0 <= at <= len(HELLO)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_by_name(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_record(data)


def _with(at: int, value: bytes) -> bytes:
    return HELLO[:at] + value + HELLO[at + len(value) :]


@pytest.mark.parametrize(
    ("record", "reason", "at"),
    [
        (b"", "0 bytes are no record", 0),
        (_with(0, b"\x00\x00\x00\x5a"), "size of 90", 0),
        (_with(0, b"\xff\xff\xff\xff"), "size of -1", 0),
        (_with(0, b"\x00\x00\x00\x74"), "size of 116, with 115", 0),
        (_with(0, b"\x7f\xff\xff\xff"), "size of 2147483647", 0),
        (_with(4, b"\x00\x00\x00\x00"), "0x00000000 is no magic", 4),
        (_with(4, b"\xcb\xd4\x31\x94"), "0xcbd43194 is no magic", 4),
        (_with(84, b"\xff\xff\xff\xff"), "body of -1", 84),
        (_with(84, b"\x7f\xff\xff\xff"), "body of 2147483647", 84),
        (_with(84, b"\x00\x00\x00\x1a"), "body of 26", 84),
        (_with(93, b"\x80"), "topic of 128 bytes under the first magic", 93),
        (_with(93, b"\x7f"), "topic of 127 bytes in a record of 115", 94),
        (_with(95, b"\x00\x13"), "properties of 19 bytes where 18", 95),
        (_with(95, b"\x00\x11"), "properties of 17 bytes where 18", 95),
        (_with(95, b"\xff\xff"), "properties of -1 bytes", 95),
        (_with(94, b"\xff"), "topic that is not UTF-8", 94),
        (_with(88, b"j"), "CRC is", 88),
        (_with(8, b"\xb6"), "CRC is", 88),
        (HELLO[:91].replace(b"\x00\x00\x00\x73", b"\x00\x00\x00\x5b", 1), "body of 5", 84),
        (_with(36, b"\x00\x00\x00\x10"), "body of 307511623", 96),
    ],
)
def test_what_does_not_add_up_is_refused_where_it_shows(
    record: bytes, reason: str, at: int
) -> None:
    with pytest.raises(RecordError, match=reason) as caught:
        decode_record(record)
    assert caught.value.at == at


def test_ipv6_flags_on_a_record_too_small_for_them_are_refused() -> None:
    small = bytearray(encode_record(_message(topic="", body=b"", raw_properties=b"")))
    assert len(small) == 91
    small[39] = 48
    with pytest.raises(RecordError, match="no room for IPv6"):
        decode_record(small)


def test_a_topic_of_negative_length_under_the_second_magic_is_refused() -> None:
    record = bytearray(encode_record(_message(long_topic=True)))
    record[93:95] = b"\xff\xfe"
    with pytest.raises(RecordError, match="topic of -2"):
        decode_record(record)


def test_a_wrong_crc_may_be_overlooked_on_request() -> None:
    record = _with(88, b"j")
    assert decode_record(record, verify=False).body == b"jello"
    assert RecordView(record).read_body(verify=False) == b"jello"
    with pytest.raises(RecordError, match="CRC"):
        _ = RecordView(record).body
    with pytest.raises(RecordError, match="CRC"):
        next(view_records(record)).message()


def test_properties_that_are_not_utf8_show_and_stay() -> None:
    record = encode_record(_message(raw_properties=b"a\x01\xff\x02b\x01"))
    message = decode_record(record)
    assert message.properties == {"a": "\ufffd"}
    assert encode_record(message) == record


def test_a_view_inflates_the_body_when_it_is_read() -> None:
    packed = zlib.compress(b"x" * 5000, 5)
    for sys_flag in (0x1, 0x301):
        record = encode_record(_message(body=packed, sys_flag=sys_flag))
        view = RecordView(record)
        assert view.body == b"x" * 5000
        assert view.body is view.body
        assert view.stored_body == packed
        assert view.message().body == packed
        with pytest.raises(CompressionError, match="more than 4999"):
            view.read_body(limit=4999)


def test_a_body_that_does_not_inflate_hurts_only_who_reads_it() -> None:
    view = RecordView(encode_record(_message(body=b"not zlib", sys_flag=1)))
    assert view.topic == "T"
    assert view.properties["TAGS"] == "TagA"
    with pytest.raises(CompressionError, match="zlib") as caught:
        _ = view.body
    assert caught.value.at == 88
    unknown = RecordView(encode_record(_message(sys_flag=0x701)))
    with pytest.raises(CompressionError, match="names no compression"):
        _ = unknown.body


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": "x" * 256},
        {"topic": "x" * 128, "long_topic": False},
        {"topic": "\ud800"},
        {"queue_id": 1 << 31},
        {"queue_offset": 1 << 63},
        {"log_offset": -(1 << 63) - 1},
        {"flag": -(1 << 31) - 1},
        {"sys_flag": 1 << 31},
        {"born_ms": 1 << 63},
        {"stored_ms": 1 << 63},
        {"reconsume_times": 1 << 31},
        {"prepared_offset": 1 << 63},
    ],
)
def test_what_no_record_can_hold_is_refused_by_name(changes: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match=str(next(iter(changes)))):
        encode_record(_message(**changes))


@pytest.mark.parametrize(("length", "long_topic"), [(127, False), (128, True), (255, True)])
def test_the_length_of_the_topic_chooses_the_magic(length: int, long_topic: bool) -> None:
    message = _message(topic="x" * length, long_topic=None)
    read = decode_record(encode_record(message))
    assert read == dataclasses.replace(message, long_topic=long_topic)


def test_properties_end_at_32767_bytes() -> None:
    fits = _message(raw_properties=b"x" * 32767)
    assert decode_record(encode_record(fits)) == fits
    with pytest.raises(PropertiesError, match="32768 bytes"):
        encode_record(_message(raw_properties=b"x" * 32768))


def test_a_walk_ends_at_the_filler_at_zeros_and_at_the_end() -> None:
    steps = [(0, 115), (115, 115)]
    filler = SIZE_AND_MAGIC.pack(1000, BLANK_MAGIC)
    assert list(walk(HELLO * 2)) == steps
    assert list(walk(HELLO * 2 + filler + b"garbage that nobody reads" * 40)) == steps
    assert list(walk(HELLO * 2 + bytes(500))) == steps
    assert list(walk(HELLO * 2 + bytes(3))) == steps
    assert list(walk(b"..." + HELLO, 3, 3 + 115)) == [(3, 115)]
    assert list(walk(b"")) == []


@pytest.mark.parametrize(
    "tail", [b"\x01", HELLO[:7], HELLO[:8], HELLO[:114], b"\x00\x00\x00\x5b" + bytes(100)]
)
def test_a_walk_names_where_the_log_is_torn(tail: bytes) -> None:
    steps = walk(HELLO + tail)
    assert next(steps) == (0, 115)
    with pytest.raises(RecordError) as caught:
        next(steps)
    assert 115 <= caught.value.at <= 119
