"""Checksum properties as text, from a table: each record needs one when it is written or checked.

See ``record.checksum`` for the property. Its ten digits go backwards; two halves of five, looked up
and put together, take half as long as formatting the number and turning it round.
"""

from __future__ import annotations

from functools import cache
from typing import Final

#: ``divmod`` of a checksum by this gives the places of its halves: the rest first, as written.
HALF: Final = 100_000


@cache
def seal_halves() -> tuple[list[bytes], list[bytes]]:
    """Name and lower digits by the rest of a checksum, higher digits and end by the quotient.

    They are some 6 MB, made when first asked for.
    """
    low = [b"__CRC32#\x01" + (b"%05d" % number)[::-1] for number in range(HALF)]
    high = [(b"%05d" % number)[::-1] + b"\x02" for number in range(0x7FFFFFFF // HALF + 1)]
    return low, high


def seal_text(crc: int) -> bytes:
    """The property of a checksum, of which the top bit does not count."""
    low, high = seal_halves()
    quotient, rest = divmod(crc & 0x7FFFFFFF, HALF)
    return low[rest] + high[quotient]
