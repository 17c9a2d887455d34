"""Checksum properties as text, from tables: each record needs one when it is written.

See ``record.checksum`` for the property. Its ten digits go backwards; three pieces, looked up and
put together, take less time than formatting the number and turning it round. The tables are small
enough to stay in a processor's cache: with two pieces of five digits they were not, and each look
cost as much as the checksum itself.
"""

from __future__ import annotations

from typing import Final

#: ``divmod`` of a checksum by this, twice, gives the places of its pieces: the rest first.
PIECE: Final = 10_000

_DIGITS: Final = [(b"%04d" % number)[::-1] for number in range(PIECE)]
#: Name and the four lowest digits; the four in the middle; the two highest and the end.
LOW: Final = [b"__CRC32#\x01" + digits for digits in _DIGITS]
MIDDLE: Final = _DIGITS
HIGH: Final = [(b"%02d" % number)[::-1] + b"\x02" for number in range(0x7FFFFFFF // PIECE**2 + 1)]
