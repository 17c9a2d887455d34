from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.twins import WAYS, each_way

from rocketpipe.errors import RecordError
from rocketpipe.model.properties import decode_bytes
from rocketpipe.record import hot
from rocketpipe.record.batch import encode_batch
from rocketpipe.record.layout import MAGIC_V1, MAGIC_V2

HOST = bytes.fromhex("0a00000100002a9f")
BORN = bytes.fromhex("0a0000030000c351")
# messages.md vector, decoded and written again by Apache's MessageDecoder
HELLO = bytes.fromhex(
    "00000073daa320a73610a686000000030000000000000000000000070000000000001000000000000000018bcfe56800"
    "0a0000030000c3510000018bcfe5687b0a00000100002a9f0000000000000000000000000000000568656c6c6f015400"
    "12544147530154616741024b455953016b3102"
)
HELLO_PROPERTIES = b"TAGS\x01TagA\x02KEYS\x01k1\x02"


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, hot):
        yield


def _hash_by_definition(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for at in range(0, len(units), 2):
        total = (31 * total + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return total - (1 << 32) if total >= 1 << 31 else total


def _hello(sys_flag: int = 0, born: bytes = BORN, stored: bytes = HOST) -> bytes:
    magic, topic = hot.topic_head(b"T")
    return hot.encode(
        *(magic, 3, 0, 7, 4096, sys_flag, 1700000000000, born, 1700000000123, stored, 0, 0),
        *(b"hello", topic, HELLO_PROPERTIES),
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # messages.md vectors, from Java
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("a", 97),
        ("*", 42),
        ("", 0),
        ("T#k1", 2539445),
        ("TopicTest#order-1", -1829193424),  # an index keeps its absolute value
    ],
)
def test_hashes_are_those_of_java(text: str, code: int) -> None:
    assert hot.java_hash(text) == code


def test_hashes_of_any_script_are_those_of_java_17(apache: dict[str, Any]) -> None:
    assert len(apache["hashes"]) == 16
    for text, code in apache["hashes"].items():
        assert hot.java_hash(text) == code, text


@given(st.text(st.characters(), max_size=400))
def test_the_hash_is_its_definition_for_any_text(text: str) -> None:
    assert hot.java_hash(text) == _hash_by_definition(text)


@pytest.mark.parametrize("length", [127, 128, 129, 255, 256, 257, 4301, 32767])
def test_long_texts_hash_piece_by_piece(length: int) -> None:
    ascii_text = ("order-%d;" * length)[:length]
    assert hot.java_hash(ascii_text) == _hash_by_definition(ascii_text)
    wide_text = ("杭州😀x" * length)[:length]
    assert hot.java_hash(wide_text) == _hash_by_definition(wide_text)


@pytest.mark.parametrize(
    ("properties", "tag"),
    [
        (b"", None),
        (b"TAGS\x01TagA\x02", "TagA"),
        (b"TAGS\x01TagA", "TagA"),
        (b"KEYS\x01k\x02TAGS\x01TagA\x02x\x01y\x02", "TagA"),
        (b"MY_TAGS\x01TagA\x02", None),
        (b"x\x01TAGS\x01TagA\x02", None),
        (b"TAGS\x01\x02", None),
        (b"TAGS\x01TagA\x02TAGS\x01\x02", "TagA"),
        (b"TAGS\x01TagA\x02TAGS\x01TagB\x02", "TagB"),
        (b"TAGS\x01TagA\x02MY_TAGS\x01no\x02", "TagA"),
        ("TAGS\x01杭州\x02".encode(), "杭州"),
        (b"TAGS\x01" + b"x" * 100, "x" * 100),
        (b"TAGS", None),
        (b"TAGS\x01", None),
    ],
)
def test_the_tag_is_found_among_encoded_properties(properties: bytes, tag: str | None) -> None:
    assert hot.tag_code(properties) == (0 if tag is None else _hash_by_definition(tag))


@given(
    st.lists(
        st.sampled_from([b"TAGS", b"TAG", b"S", b"\x01", b"\x02", b"a", b"\xff", b"\xed\xa0\x80"]),
        max_size=14,
    ).map(b"".join)
)
def test_the_tag_code_is_that_of_the_parsed_tag(properties: bytes) -> None:
    assert hot.tag_code(properties) == _hash_by_definition(decode_bytes(properties).get("TAGS", ""))


def test_a_record_is_that_of_apache() -> None:
    assert _hello() == HELLO
    assert len(HELLO) == 115


def test_a_body_may_be_any_buffer() -> None:
    magic, topic = hot.topic_head(b"T")
    for body in (b"hello", bytearray(b"hello"), memoryview(b"..hello..")[2:7]):
        record = hot.encode(
            *(magic, 3, 0, 7, 4096, 0, 1700000000000, BORN, 1700000000123, HOST, 0, 0),
            *(body, topic, HELLO_PROPERTIES),
        )
        assert record == HELLO


def test_the_topic_decides_the_magic() -> None:
    assert hot.topic_head(b"x" * 127) == (MAGIC_V1, b"\x7f" + b"x" * 127)
    assert hot.topic_head(b"x" * 128) == (MAGIC_V2, b"\x00\x80" + b"x" * 128)


@pytest.mark.parametrize(
    ("sys_flag", "born", "stored"),
    [(0, 20, 8), (0, 8, 20), (16, 8, 8), (32, 8, 8), (48, 20, 8), (16, 8, 20), (0, 7, 8)],
)
def test_hosts_of_another_width_than_the_flags_say_never_get_into_a_record(
    sys_flag: int, born: int, stored: int
) -> None:
    with pytest.raises(AssertionError):
        _hello(sys_flag, bytes(born), bytes(stored))


def test_a_record_is_split_where_its_parts_are() -> None:
    buffer = b"before" + HELLO + b"after"
    head, body, topic, topic_end, properties, stop = hot.split(buffer, 6, len(buffer))
    assert head[0] == 115
    assert buffer[body : body + head[14]] == b"hello"
    assert buffer[topic:topic_end] == b"T"
    assert buffer[properties:stop] == HELLO_PROPERTIES
    assert stop == 6 + 115


def test_a_split_never_looks_beyond_its_end() -> None:
    for end in range(len(HELLO)):
        with pytest.raises(RecordError):
            hot.split(HELLO + HELLO, 0, end)


@given(st.integers(0, len(HELLO) - 1), st.integers(0, 255), st.sampled_from([bytes, memoryview]))
def test_a_cut_is_a_split_of_the_record_alone(place: int, byte: int, kind: type) -> None:
    changed = bytearray(HELLO)
    changed[place] = byte
    buffer = kind(b"before" + bytes(changed) + b"after" * 50)
    try:
        stop = hot.split(buffer, 6, len(buffer))[-1]
    except RecordError as error:
        with pytest.raises(RecordError, match=re.escape(str(error))):
            hot.cut(buffer, 6, len(buffer))
    else:
        record, parts = hot.cut(buffer, 6, len(buffer))
        assert record == bytes(buffer[6:stop])
        assert type(record) is bytes
        assert parts == hot.split(record, 0, len(record))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_body_is_given_if_its_checksum_is_right(kind: type) -> None:
    crc = hot.split(HELLO, 0, len(HELLO))[0][2]
    at = HELLO.index(b"hello")
    assert hot.checked_body(kind(HELLO), at, at + 5, crc) == b"hello"
    assert hot.checked_body(kind(HELLO), at, at + 4, crc) is None
    assert hot.checked_body(kind(HELLO), at, at + 5, crc ^ 1) is None
    assert hot.checked_body(kind(HELLO), at, at + 5, crc - (1 << 31)) is None
    assert hot.checked_body(kind(HELLO), at, at, 0) == b""
    assert hot.checked_body(kind(HELLO), at, at + 5, 1 << 70) is None


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_many_checksums_are_those_of_their_runs(kind: type) -> None:
    data = kind(bytes(range(256)) * 9)
    starts, ends = array("q", [0, 5, 5, 2304, 300]), array("q", [0, 6, 2304, 2304, 1200])
    found = array("I", hot.checksums(data, starts, ends))
    assert found.tolist() == [
        crc32(data[start:end]) for start, end in zip(starts, ends, strict=True)
    ]
    for before in (1, 0x80000000, crc32(b"what comes first")):
        found = array("I", hot.checksums(data, starts, ends, before))
        assert found.tolist() == [
            crc32(data[start:end], before) for start, end in zip(starts, ends, strict=True)
        ]
    assert hot.checksums(data, array("q"), array("q")) == b""
    # Whatever does not lie in the bytes is what slicing makes of it.
    odd = array("q", [2000]), array("q", [9999])
    assert array("I", hot.checksums(data, *odd)).tolist() == [crc32(data[2000:])]
    with pytest.raises(ValueError, match="zip"):
        hot.checksums(data, starts, array("q", [1]))


def test_records_that_follow_each_other_tell_their_places() -> None:
    head = hot.split(HELLO, 0, len(HELLO))[0]
    other = HELLO[:20] + (1 << 40).to_bytes(8, "big") + HELLO[28:]
    assert hot.queue_offsets(HELLO + other + HELLO) == [head[5], 1 << 40, head[5]]
    assert hot.queue_offsets(b"") == []
    for end in (1, 20, len(HELLO) - 1, len(HELLO) + 1, 2 * len(HELLO) - 1):
        with pytest.raises(RecordError):
            hot.queue_offsets((HELLO + other)[:end])


def test_a_seal_is_that_of_apache_5_3_3(apache: dict[str, Any]) -> None:
    for text in apache["sealed_records"]:
        record = bytes.fromhex(text)
        blank = record[:-20] + b"__CRC32#\x010000000000\x02"
        assert hot.seal(blank) == record
        assert hot.seal_holds(record)
        assert not hot.seal_holds(blank)


def test_a_seal_notices_any_changed_byte(apache: dict[str, Any]) -> None:
    record = bytes.fromhex(apache["sealed_records"][0])
    for at in range(len(record)):
        changed = bytearray(record)
        changed[at] ^= 0x10
        assert not hot.seal_holds(bytes(changed)), at


def test_a_record_without_a_seal_holds_none() -> None:
    assert not hot.seal_holds(HELLO)
    assert not hot.seal_holds(b"")


def test_a_batch_is_split_into_its_messages() -> None:
    entries = [(1, b"one", b"a\x01b\x02"), (-2, b"", b""), (3, b"x" * 1000, b"c\x01d")]
    batch = encode_batch(entries)
    assert hot.split_batch(batch, 1 << 20) == entries
    assert hot.split_batch(batch, len(batch) - 1) is None
    assert hot.split_batch(b"", 10) is None
    for end in range(len(batch)):
        assert hot.split_batch(batch[:end], 1 << 20) in (None, entries[:1], entries[:2])
