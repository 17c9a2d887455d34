"""A checksum of the whole record, as the last of its properties.

    __CRC32#  0x01  ten digits, the least first  0x02        20 bytes

The number is the CRC-32, without its top bit, of the record up to these 20 bytes; they are counted
in the record's size and in the length of its properties. The body's own CRC leaves topic, offsets
and properties unprotected; this one does not. Brokers write it if ``enabledAppendPropCRC`` is set,
and consumers see it among the properties.

A record is written in two steps, for the checksum covers offsets that are known last: its
properties are given room by ``reserve``, and ``hot.seal`` fills it once the record is complete.
"""

from __future__ import annotations

from typing import Final

from rocketpipe.errors import PropertiesError, RecordError
from rocketpipe.record import hot
from rocketpipe.record.layout import MAX_PROPERTIES_BYTES, SEAL_BYTES

_NAME: Final = b"__CRC32#\x01"
_ROOM: Final = _NAME + b"0000000000\x02"

assert len(_ROOM) == SEAL_BYTES


def reserve(properties: bytes) -> bytes:
    """Give encoded properties with room for a checksum at their end, and no other one in them.

    Raises:
        PropertiesError: If they would be longer than a record can hold.
    """
    properties = strip(properties)
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    if len(properties) + SEAL_BYTES > MAX_PROPERTIES_BYTES:
        raise PropertiesError(
            f"properties of {len(properties)} bytes leave no room for a checksum", len(properties)
        )
    return properties + _ROOM


def strip(properties: bytes) -> bytes:
    """Give encoded properties without any checksum; those without one stay byte for byte."""
    if _NAME not in properties:
        return properties
    pieces = properties.split(b"\x02")
    return b"\x02".join(piece for piece in pieces if not piece.startswith(_NAME))


def is_sealed(record: bytes) -> bool:
    """Tell whether a record ends in a checksum, be it right or wrong."""
    return record[-SEAL_BYTES:].startswith(_NAME) and record.endswith(b"\x02")


def verify(record: bytes) -> None:
    """Refuse a record that ends in no checksum, or in that of another record.

    Raises:
        RecordError: If it does.
    """
    if not is_sealed(record):
        raise RecordError("a record without a checksum", len(record))
    if not hot.seal_holds(record):
        raise RecordError(
            "a record that its checksum was not computed of", len(record) - SEAL_BYTES
        )
