"""Checksum properties from a table."""

from __future__ import annotations

import random

from rocketpipe.record import checksum, hot
from rocketpipe.store.seals import HALF, seal_halves, seal_text


def test_they_are_what_formatting_gives() -> None:
    chance = random.Random(1)
    numbers = [0, 1, HALF - 1, HALF, HALF + 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
    for number in numbers + [chance.getrandbits(32) for _ in range(2000)]:
        digits = f"{number & 0x7FFFFFFF:010d}"[::-1]
        assert seal_text(number) == f"__CRC32#\x01{digits}\x02".encode()


def test_a_record_is_sealed_as_the_record_room_does_it() -> None:
    record = b"head and body" + checksum.reserve(b"a\x01b\x02")
    sealed = hot.seal(record)
    low, high = seal_halves()
    assert sealed[-20:-6] in set(low)
    assert sealed[-6:] in set(high)
