"""Records of the log are checked against their place and their checksum."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from tests.twins import WAYS, each_way

from rocketpipe.errors import RecordError
from rocketpipe.record import checksum, hot
from rocketpipe.store.log.puts import Appended
from rocketpipe.store.log.records import check_record, known_run, value_of

# The record, its entry and the hashes are those of the facts, made by Apache's own classes.
APACHE_RECORD = bytes.fromhex(
    "00000073daa320a73610a68600000003000000000000000000000007000000000000100000000000"
    "0000018bcfe568000a0000030000c3510000018bcfe5687b0a00000100002a9f0000000000000000"
    "000000000000000568656c6c6f01540012544147530154616741024b455953016b3102"
)


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__]):
        yield


def sealed_record(at: int = 4096) -> bytes:
    magic, topic = hot.topic_head(b"orders")
    properties = checksum.reserve(b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02")
    host = bytes(8)
    return hot.seal(
        hot.encode(magic, 3, 0, 7, at, 0, 1, host, 2, host, 0, 0, b"hello", topic, properties)
    )


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (b"", b""),
        (b"A\x011\x02", b"1"),
        (b"A\x011", b"1"),
        (b"XA\x011\x02", b""),
        (b"XA\x011\x02A\x012\x02", b"2"),
        (b"A\x011\x02A\x012\x02", b"2"),
        (b"A\x011\x02A\x01\x02", b"1"),
        (b"B\x01A\x01\x02", b""),
    ],
)
def test_a_property_is_found_where_its_name_starts_a_piece(
    properties: bytes, expected: bytes
) -> None:
    assert value_of(properties, b"A\x01") == expected


def test_a_record_is_checked_against_its_place() -> None:
    assert check_record(APACHE_RECORD, 4096)[0][5] == 7
    with pytest.raises(RecordError, match="says that it is at 4096"):
        check_record(APACHE_RECORD, 4097)
    with pytest.raises(RecordError):
        check_record(APACHE_RECORD + b"\0", 4096)


def test_every_flipped_bit_of_a_sealed_record_is_noticed() -> None:
    record = sealed_record()
    check_record(record, 4096)
    name = range(8 * (len(record) - 20), 8 * (len(record) - 11))
    for bit in set(range(8 * len(record))) - set(name):  # the log itself looks for the name
        other = bytearray(record)
        other[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordError):
            check_record(bytes(other), 4096)


def test_records_that_follow_each_other_are_told_as_the_appender_tells_them() -> None:
    first = sealed_record()
    size = len(first)
    log = first + sealed_record(4096 + size)
    told = ("orders", 3, 0, b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02")
    both = [Appended(4096, size, 7, 2, *told), Appended(4096 + size, size, 7, 2, *told)]
    topics = {b"orders": "orders"}
    assert known_run(log, 4096, 0, topics) == (both, 2 * size)
    assert known_run(log, 4096, size, topics) == (both[1:], 2 * size)
    assert known_run(log[:-1], 4096, 0, topics) == (both[:1], size)
    assert known_run(log, 4096, 0, {b"others": "others"}) == ([], 0)
    assert known_run(log, 4097, 0, topics) == ([], 0)


def test_what_has_no_checksum_that_holds_is_not_told_of() -> None:
    assert known_run(APACHE_RECORD, 4096, 0, {b"T": "T"}) == ([], 0)
    record = sealed_record()
    for at in range(len(record)):
        other = bytearray(record)
        other[at] ^= 1
        assert known_run(bytes(other), 4096, 0, {b"orders": "orders"}) == ([], 0)
