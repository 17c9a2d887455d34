from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rocketpipe.errors import PropertiesError, RecordError
from rocketpipe.model import properties
from rocketpipe.record import checksum, hot
from rocketpipe.record.codec import decode_record, encode_record

# What was put into the store of Apache 5.3.3 whose log is ``sealed_records``.
SENT = [
    b"TAGS\x01TagA\x02KEYS\x01k1\x02",
    b"TAGS\x01TagB\x02KEYS\x01k1",
    b"",
    "城市\x01杭州\x02".encode(),
    b"a\x011\x02__CRC32#\x010000000001\x02",
]
TEXT = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=9
)


def test_records_of_apache_5_3_3_are_sealed_the_same(apache: dict[str, Any]) -> None:
    assert len(apache["sealed_records"]) == len(SENT)
    for text, sent in zip(apache["sealed_records"], SENT, strict=True):
        expected = bytes.fromhex(text)
        message = decode_record(expected)
        fresh = dataclasses.replace(message, raw_properties=checksum.reserve(sent))
        assert hot.seal(encode_record(fresh)) == expected
        checksum.verify(expected)
        assert message.properties["__CRC32#"] == expected[-11:-1].decode()


# Only the store writes the checksum's own name: what a sender put there does not stay.
@given(
    st.dictionaries(TEXT.filter(lambda name: name != "__CRC32#"), TEXT, max_size=4),
    st.binary(max_size=40),
    st.booleans(),
)
def test_what_is_sealed_verifies_and_reads_the_same(
    written: dict[str, str], body: bytes, trailing: bool
) -> None:
    raw = properties.encode_bytes(written)
    raw = raw if trailing else raw.removesuffix(b"\x02")
    record = hot.seal(_record(checksum.reserve(raw), body))
    checksum.verify(record)
    message = decode_record(record)
    assert dict(message.properties) == written | {"__CRC32#": message.properties["__CRC32#"]}
    assert properties.decode_bytes(checksum.strip(message.raw_properties)) == written


def _record(raw_properties: bytes, body: bytes = b"hello") -> bytes:
    magic, topic = hot.topic_head(b"T")
    return hot.encode(
        *(magic, 0, 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0, 0, body, topic, raw_properties)
    )


def test_each_changed_byte_is_noticed() -> None:
    record = hot.seal(_record(checksum.reserve(b"a\x011\x02")))
    for at in range(len(record)):
        changed = bytearray(record)
        changed[at] ^= 0xFF
        with pytest.raises(RecordError):
            checksum.verify(bytes(changed))


def test_a_record_without_a_checksum_is_told_from_a_wrong_one() -> None:
    assert not checksum.is_sealed(_record(b"a\x011\x02"))
    with pytest.raises(RecordError, match="without a checksum"):
        checksum.verify(_record(b"a\x011\x02"))
    unfilled = _record(checksum.reserve(b""))
    assert checksum.is_sealed(unfilled)
    with pytest.raises(RecordError, match="not computed of") as caught:
        checksum.verify(unfilled)
    assert caught.value.at == len(unfilled) - 20


def test_a_checksum_that_came_along_is_taken_out() -> None:
    assert checksum.strip(b"a\x011\x02__CRC32#\x0112\x02b\x012\x02") == b"a\x011\x02b\x012\x02"
    assert checksum.strip(b"__CRC32#\x0112") == b""
    assert checksum.strip(b"a\x01__CRC32#\x01x\x02") == b"a\x01__CRC32#\x01x\x02"
    assert checksum.strip(b"my__CRC32#\x01x\x02") == b"my__CRC32#\x01x\x02"


@given(st.binary(max_size=60))
def test_what_has_no_checksum_stays_byte_for_byte(raw: bytes) -> None:
    assume(b"\x02__CRC32#\x01" not in b"\x02" + raw)
    assert checksum.strip(raw) == raw


def test_the_checksum_counts_in_the_length_of_the_properties() -> None:
    fits = b"x" * (32767 - 20 - 1)  # and the separator it lacks
    assert len(checksum.reserve(fits)) == 32767
    with pytest.raises(PropertiesError, match="no room"):
        checksum.reserve(fits + b"x")
