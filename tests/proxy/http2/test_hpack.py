from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.proxy.http2.frames import Http2Fault
from rocketpipe.proxy.http2.hpack import HeaderReader, written

FIRST = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")]


def test_requests_of_the_standard_and_the_table_that_they_make() -> None:
    reader = HeaderReader(16_384)
    assert reader.read(bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff")) == FIRST
    again = reader.read(bytes.fromhex("828684be5886a8eb10649cbf"))
    assert again == [*FIRST, ("cache-control", "no-cache")]
    third = reader.read(bytes.fromhex("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"))
    assert third is not None
    assert third[-2:] == [(":authority", "www.example.com"), ("custom-key", "custom-value")]


@given(st.lists(st.tuples(st.text("abc-", min_size=1), st.text("xyz 0", max_size=300))))
def test_what_is_written_is_read(headers: list[tuple[str, str]]) -> None:
    assert HeaderReader(1 << 20).read(written(headers)) == headers


def test_the_table_forgets_the_oldest() -> None:
    reader = HeaderReader(1 << 20)
    for name in ("one", "two", "three"):
        block = b"\x40" + bytes([len(name)]) + name.encode() + b"\x7f\x81\x0f" + b"v" * 2048
        assert reader.read(block) == [(name, "v" * 2048)]
    assert reader.read(b"\xbe") == [("three", "v" * 2048)]
    with pytest.raises(Http2Fault):
        reader.read(b"\xbf")  # but for one, of which two are more than there is room for


def test_a_header_larger_than_the_table_empties_it() -> None:
    reader = HeaderReader(1 << 20)
    reader.read(b"\x40\x01a\x01b")
    reader.read(b"\x40\x01c\x7f\xa1\x1f" + b"v" * 4128)
    with pytest.raises(Http2Fault):
        reader.read(b"\xbe")


def test_headers_that_are_too_many_are_none_and_the_table_stays_right() -> None:
    reader = HeaderReader(100)
    assert reader.read(b"\x40\x01a\x01b" + b"\xbe" * 50) is None
    assert reader.read(b"\xbe") == [("a", "b")]


def test_one_byte_for_a_long_header_again_and_again_costs_no_memory() -> None:
    reader = HeaderReader(16_384)
    reader.read(b"\x40\x01a\x7f\x81\x1e" + b"v" * 3968)
    assert reader.read(b"\xbe" * 60_000) is None


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # number 0
        b"\xff\xff\xff\xff\xff\xff\xff",  # a number without end
        b"\xff",  # cut
        b"\x40\x05abc",  # longer than there is
        b"\x00\x01a",  # no value
        b"\x3f\xe1\x1f\x82" + b"\x3f\xe2\x1f",  # a larger table than allowed, and too late
        b"\x3f\xe2\x1f",  # 4097
        b"\xbe",  # nothing is there yet
    ],
)
def test_what_is_no_block_is_refused(block: bytes) -> None:
    with pytest.raises(Http2Fault):
        HeaderReader(16_384).read(block)


@given(st.binary(max_size=100))
def test_whatever_comes_is_read_or_refused(block: bytes) -> None:
    try:
        HeaderReader(1000).read(block)
    except Http2Fault:
        return
