"""Checksum properties from a table."""

from __future__ import annotations

import random

from rocketpipe.record import checksum, hot
from rocketpipe.record.seals import HIGH, LOW, MIDDLE, PIECE


def test_they_are_what_formatting_gives() -> None:
    chance = random.Random(1)
    edges = [edge + near for edge in (PIECE, PIECE**2) for near in (-1, 0, 1)]
    numbers = [0, 1, *edges, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
    for number in numbers + [chance.getrandbits(32) for _ in range(2000)]:
        digits = f"{number & 0x7FFFFFFF:010d}"[::-1]
        upper, low = divmod(number & 0x7FFFFFFF, PIECE)
        found = LOW[low] + MIDDLE[upper % PIECE] + HIGH[upper // PIECE]
        assert found == f"__CRC32#\x01{digits}\x02".encode()


def test_a_record_is_sealed_as_the_record_room_does_it() -> None:
    record = b"head and body" + checksum.reserve(b"a\x01b\x02")
    sealed = hot.seal(record)
    assert sealed[-20:-7] in LOW
    assert sealed[-7:-3] in MIDDLE
    assert sealed[-3:] in HIGH
