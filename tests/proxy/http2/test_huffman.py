from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.proxy.http2.frames import ErrorCode, Http2Fault
from rocketpipe.proxy.http2.huffman import codes, decode


def encoded(data: bytes, filled: int = 1) -> bytes:
    """By the table, and filled up with ones."""
    value = size = 0
    for byte in data:
        code, bits = codes()[byte]
        value, size = value << bits | code, size + bits
    more = -size % 8
    value = value << more | ((1 << more) - 1) * filled
    return value.to_bytes((size + more) // 8, "big")


def test_the_examples_of_the_standard() -> None:
    assert decode(bytes.fromhex("f1e3c2e5f23a6ba0ab90f4ff")) == b"www.example.com"
    assert decode(bytes.fromhex("a8eb10649cbf")) == b"no-cache"
    assert decode(bytes.fromhex("25a849e95bb8e8b4bf")) == b"custom-value"
    assert encoded(b"custom-key") == bytes.fromhex("25a849e95ba97d7f")


@given(st.binary(max_size=200))
def test_whatever_was_encoded_is_read(data: bytes) -> None:
    assert decode(encoded(data)) == data


@pytest.mark.parametrize(
    "broken",
    [
        encoded(b"a", filled=0),  # filled with zeros
        b"\xff\xff\xff\xff",  # the end, as a symbol
        encoded(b"abc") + b"\xff",  # more than seven bits to fill with
        encoded(b"\x02")[:-1],
    ],
)
def test_what_is_no_text_is_refused(broken: bytes) -> None:
    with pytest.raises(Http2Fault) as fault:
        decode(broken)
    assert fault.value.code is ErrorCode.COMPRESSION
