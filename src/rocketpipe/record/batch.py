"""Many messages in one body, as one send carries them to one queue.

    0  4  size of the entry, these four bytes included
    4  4  magic, 0
    8  4  CRC, 0: the broker computes it
   12  4  flag, the producer's own
   16  4  length of the body, then the body
       2  length of the properties, then the properties

Entries follow each other without a count. The broker stores each as a record of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from rocketpipe.errors import BatchError
from rocketpipe.record import hot
from rocketpipe.record.hot import Bytes
from rocketpipe.record.layout import MAX_BODY_BYTES, MAX_PROPERTIES_BYTES, SHORT

_HEAD: Final = Struct(">iiiii")
_MIN_ENTRY_BYTES: Final = _HEAD.size + SHORT.size


class Entry(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    #: In their text form, as ``model.properties`` describes it.
    raw_properties: bytes


def encode_batch(
    entries: Iterable[tuple[int, bytes, bytes]], *, max_bytes: int = MAX_BODY_BYTES
) -> bytes:
    """Write messages as the body of one send: entries, or tuples of the same.

    Raises:
        BatchError: If there are none, or together they are longer than ``max_bytes``; or a
            message's flag or properties are longer than an entry can hold.
    """
    pieces: list[bytes] = []
    length = 0
    for flag, body, properties in entries:
        if len(properties) > MAX_PROPERTIES_BYTES:
            raise BatchError(f"properties of {len(properties)} bytes", length)
        if not -(1 << 31) <= flag < 1 << 31:
            raise BatchError(f"flag {flag} does not fit 32 bits", length)
        size = _MIN_ENTRY_BYTES + len(body) + len(properties)
        if length + size > max_bytes:
            raise BatchError(f"a batch of more than {max_bytes} bytes", length)
        head, between = entry_ends(len(body), len(properties), flag)
        pieces += (head, body, between, properties)
        length += size
    if not pieces:
        raise BatchError("a batch without messages")
    return b"".join(pieces)


def entry_ends(body_bytes: int, properties_bytes: int, flag: int = 0) -> tuple[bytes, bytes]:
    """What an entry has before its body, and what between body and properties.

    For who writes many entries of the same lengths, and has checked that they fit.
    """
    size = _MIN_ENTRY_BYTES + body_bytes + properties_bytes
    return _HEAD.pack(size, 0, 0, flag, body_bytes), SHORT.pack(properties_bytes)


def split_batch(buffer: bytes, max_bytes: int = MAX_BODY_BYTES) -> list[tuple[int, bytes, bytes]]:
    """Flag, body and properties of each message of a batch: ``decode_batch``, for whoever hurries.

    Raises:
        BatchError: As ``decode_batch``.
    """
    entries = hot.split_batch(buffer, max_bytes)
    if entries is not None:
        return entries
    return list(decode_batch(buffer, max_bytes=max_bytes))  # which says what is wrong


def decode_batch(buffer: Bytes, *, max_bytes: int = MAX_BODY_BYTES) -> Iterator[Entry]:
    """Read the messages of a batch, one by one.

    Nothing is yielded before the whole is known to be short enough, but an entry may turn out bad
    after others were fine: a broker that stores all or nothing lists them first.

    Raises:
        BatchError: If there are none, they are longer than ``max_bytes``, or the lengths of an
            entry do not add up.
    """
    end = len(buffer)
    if end == 0:
        raise BatchError("a batch without messages")
    if end > max_bytes:
        raise BatchError(f"a batch of {end} bytes, more than {max_bytes}", max_bytes)
    at = 0
    while at < end:
        if end - at < _MIN_ENTRY_BYTES:
            raise BatchError(f"{end - at} bytes are no entry", at)
        # Magic and CRC are whatever the producer put there: no broker reads them.
        size, _, _, flag, body_bytes = _HEAD.unpack_from(buffer, at)
        if not _MIN_ENTRY_BYTES <= size <= end - at:
            raise BatchError(f"an entry of {size} bytes, with {end - at} there", at)
        body = at + _HEAD.size
        body_end = body + body_bytes
        stop = at + size
        if body_bytes < 0 or body_end + SHORT.size > stop:
            raise BatchError(f"a body of {body_bytes} bytes in an entry of {size}", body - 4)
        (properties_bytes,) = SHORT.unpack_from(buffer, body_end)
        properties = body_end + SHORT.size
        if properties + properties_bytes != stop:
            raise BatchError(
                f"properties of {properties_bytes} bytes where {stop - properties} are left",
                body_end,
            )
        yield Entry(flag, bytes(buffer[body:body_end]), bytes(buffer[properties:stop]))
        at = stop
