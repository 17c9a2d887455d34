from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest
from tests.twins import WAYS, each_way

from rocketpipe.errors import RecordError
from rocketpipe.record import checksum, hot
from rocketpipe.store.hot import (
    BLANK_ENTRY,
    check_record,
    key_hash,
    key_hashes,
    queue_entry,
    value_of,
    whole_entries,
)

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


def test_a_queue_entry_has_apaches_bytes() -> None:
    expected = "000000000000100000000073000000000027a807"
    assert queue_entry(4096, 115, hot.tag_code(b"TAGS\x01TagA\x02")).hex() == expected


def test_keys_have_apaches_hashes() -> None:
    assert key_hash("T", "k1") == 2539445
    assert key_hash("TopicTest", "order-1") == 1829193424


def test_the_hash_that_has_no_positive_counterpart_is_0() -> None:
    # Its Java hash is -2147483648.
    assert hot.java_hash("polygenelubricants") == -(1 << 31)
    topic, _, key = "a#" + "polygenelubricants", "", ""
    assert 0 <= key_hash(topic, key) <= 0x7FFFFFFF
    found = _with_least_hash()
    assert hot.java_hash(f"{found[0]}#{found[1]}") == -(1 << 31)
    assert key_hash(*found) == 0


def _with_least_hash() -> tuple[str, str]:
    """A topic and key whose text has the least Java hash: the end makes up for the start."""
    start = (hot.java_hash("T#") * pow(31, 7, 1 << 32)) & 0xFFFFFFFF
    missing = ((1 << 31) - start) % (1 << 32)
    units = []
    for power in range(6, -1, -1):
        unit = min(missing // 31**power, 0xD7FF)
        units.append(unit)
        missing -= unit * 31**power
    assert missing == 0
    return "T", "".join(map(chr, units))


def test_a_message_is_indexed_under_its_unique_key_and_each_of_its_keys() -> None:
    properties = b"KEYS\x01k1  k2 \x02UNIQ_KEY\x01U1\x02TAGS\x01TagA\x02"
    keys = [key_hash("T", key) for key in ("U1", "k1", "k2")]
    assert key_hashes("T", properties) == keys
    assert key_hashes("T", properties, tags=True) == [*keys, key_hash("T", "T#TagA")]
    assert key_hashes("T", b"") == []


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


def test_whole_entries_end_where_order_does() -> None:
    entries = [queue_entry(n * 200, 100, n) for n in range(10)]
    data = b"".join(entries)
    assert whole_entries(data, 0, 10_000) == (10, 1900)
    assert whole_entries(data + bytes(40), 0, 10_000) == (10, 1900)
    assert whole_entries(data, 0, 1899) == (9, 1700)
    assert whole_entries(data, 1, 10_000) == (0, 1)
    assert whole_entries(BLANK_ENTRY * 3 + data, 0, 10_000) == (13, 1900)
    assert whole_entries(data + BLANK_ENTRY, 0, 10_000) == (10, 1900)
    assert whole_entries(entries[1] + entries[1], 0, 10_000) == (1, 300)
    assert whole_entries(queue_entry(-1, 100, 0), 0, 10_000) == (0, 0)
    assert whole_entries(queue_entry(0, 90, 0), 0, 10_000) == (0, 0)


def test_whole_entries_never_raises() -> None:
    chance = random.Random(1)
    for _ in range(200):
        data = chance.randbytes(20 * chance.randrange(5))
        count, behind = whole_entries(data, 0, 1 << 40)
        assert 0 <= count <= len(data) // 20
        assert behind >= 0
