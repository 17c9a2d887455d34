from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import BatchError
from rocketpipe.model.properties import decode_bytes
from rocketpipe.record.batch import Entry, decode_batch, encode_batch, entry_ends, split_batch

# messages.md vector, from Apache's MessageDecoder
HELLO = bytes.fromhex(
    "0000002d0000000000000000000000000000000568656c6c6f0012544147530154616741024b455953016b3102"
)
ENTRY = Entry(0, b"hello", b"TAGS\x01TagA\x02KEYS\x01k1\x02")
ENTRIES = st.builds(
    Entry,
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.binary(max_size=40),
    st.binary(max_size=40),
)


def test_an_entry_is_that_of_apache() -> None:
    assert len(HELLO) == 45
    assert encode_batch([ENTRY]) == HELLO
    assert list(decode_batch(HELLO)) == [ENTRY]


def test_a_batch_of_apache_5_3_3_is_read_and_written_again(apache: dict[str, Any]) -> None:
    raw = bytes.fromhex(apache["batch"])
    first, second, third = decode_batch(raw)
    assert (first.flag, first.body) == (5, b"hello")
    assert decode_bytes(first.raw_properties) == {"KEYS": "k1", "TAGS": "TagA", "WAIT": "true"}
    assert (second.flag, second.body) == (-1, b"b2")
    assert third == Entry(0, b"", b"")
    assert encode_batch([first, second, third]) == raw


@given(st.lists(ENTRIES, min_size=1, max_size=5))
def test_what_was_written_is_read_back(entries: list[Entry]) -> None:
    raw = encode_batch(entries)
    assert list(decode_batch(raw)) == entries
    assert list(decode_batch(memoryview(raw))) == entries


@given(st.lists(ENTRIES, min_size=1, max_size=3))
def test_a_batch_cut_inside_an_entry_is_refused(entries: list[Entry]) -> None:
    raw = encode_batch(entries)
    ends = {len(encode_batch(entries[:n])) for n in range(1, len(entries) + 1)}
    for cut in set(range(len(raw))) - ends:
        with pytest.raises(BatchError) as caught:
            list(decode_batch(raw[:cut]))
        assert 0 <= caught.value.at <= cut


@given(st.lists(ENTRIES, min_size=1, max_size=2), st.data())
def test_one_changed_byte_raises_nothing_unnamed(entries: list[Entry], data: st.DataObject) -> None:
    raw = bytearray(encode_batch(entries))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        list(decode_batch(raw))
    except BatchError:
        pass


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        entries = list(decode_batch(raw))
    except BatchError:
        return
    assert sum(22 + len(entry.body) + len(entry.raw_properties) for entry in entries) == len(raw)


def _with(at: int, value: bytes) -> bytes:
    return HELLO + HELLO[:at] + value + HELLO[at + len(value) :]


@pytest.mark.parametrize(
    ("raw", "reason", "at"),
    [
        (b"", "without messages", 0),
        (HELLO + b"x" * 21, "21 bytes are no entry", 45),
        (_with(0, b"\x00\x00\x00\x15"), "entry of 21 bytes", 45),
        (_with(0, b"\x00\x00\x00\x2e"), "entry of 46 bytes, with 45", 45),
        (_with(0, b"\x80\x00\x00\x00"), "entry of -2147483648", 45),
        (_with(16, b"\xff\xff\xff\xff"), "body of -1", 61),
        (_with(16, b"\x00\x00\x00\x18"), "body of 24", 61),
        (_with(25, b"\x00\x11"), "properties of 17 bytes where 18", 70),
        (_with(25, b"\xff\xff"), "properties of -1", 70),
    ],
)
def test_what_does_not_add_up_is_refused_where_it_shows(raw: bytes, reason: str, at: int) -> None:
    with pytest.raises(BatchError, match=reason) as caught:
        list(decode_batch(raw))
    assert caught.value.at == at


def test_magic_and_crc_are_not_looked_at() -> None:
    changed = HELLO[:4] + b"\xda\xa3\x20\xa7\x12\x34\x56\x78" + HELLO[12:]
    assert list(decode_batch(changed)) == [ENTRY]


def test_a_batch_is_bounded_both_ways() -> None:
    assert encode_batch([ENTRY, ENTRY], max_bytes=90) == HELLO + HELLO
    with pytest.raises(BatchError, match="more than 89") as caught:
        encode_batch([ENTRY, ENTRY], max_bytes=89)
    assert caught.value.at == 45
    with pytest.raises(BatchError, match="90 bytes, more than 89"):
        next(decode_batch(HELLO + HELLO, max_bytes=89))


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([], "without messages"),
        ([Entry(1 << 31, b"", b"")], "flag"),
        ([Entry(0, b"", b"x" * 32768)], "properties of 32768"),
    ],
)
def test_what_no_batch_can_hold_is_refused(entries: list[Entry], reason: str) -> None:
    with pytest.raises(BatchError, match=reason):
        encode_batch(entries)


@given(st.lists(ENTRIES, min_size=1, max_size=4), st.data())
def test_whoever_hurries_reads_the_same_and_refuses_the_same(
    entries: list[Entry], data: st.DataObject
) -> None:
    raw = bytearray(encode_batch(entries))
    assert split_batch(bytes(raw)) == entries
    cut = data.draw(st.integers(0, len(raw)))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    for damaged in (bytes(raw), bytes(raw[:cut])):
        try:
            wanted: object = list(decode_batch(damaged))
        except BatchError as error:
            wanted = str(error)
        try:
            found: object = split_batch(damaged)
        except BatchError as error:
            found = str(error)
        assert found == wanted
    with pytest.raises(BatchError, match="more than 3"):
        split_batch(b"four", 3)


def test_what_stands_around_a_body_makes_an_entry_of_it() -> None:
    before, between = entry_ends(len(ENTRY.body), len(ENTRY.raw_properties), ENTRY.flag)
    assert before + ENTRY.body + between + ENTRY.raw_properties == HELLO
