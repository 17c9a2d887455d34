"""Where one frame ends and the next begins.

     0  4  length of all that follows
     4  1  how the header is written: 0 JSON, 1 binary
     5  3  length of the header
     8  …  header
     …  …  body: what is left; may be empty

Numbers are big-endian. The length is signed at the peers, so one with its top bit set is negative.
A frame that is impossible is refused as soon as the bytes that say so are there, before any room
is made for the rest.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from rocketpipe.errors import FrameError, LocalProtocolError
from rocketpipe.protocol import header_binary, header_json
from rocketpipe.protocol.command import Command, HeaderKind

#: What can be looked into without a copy.
Bytes: TypeAlias = bytes | bytearray | memoryview

#: The largest frame Java's peers take, its length word included.
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024

MAX_HEADER_BYTES: Final = 0xFFFFFF

LENGTH: Final = struct.Struct(">i")
HEAD: Final = struct.Struct(">iI")
_MIN_LENGTH: Final = HEAD.size - LENGTH.size

_KINDS: Final = {int(kind): kind for kind in HeaderKind}


class FrameBounds(NamedTuple):
    """Where the parts of a whole frame lie in a buffer."""

    kind: HeaderKind
    header: int
    body: int
    end: int


def bounds_at(
    data: Bytes, at: int, end: int, max_frame_bytes: int = MAX_FRAME_BYTES
) -> FrameBounds | None:
    """Find the frame that starts at ``at`` in ``data[:end]``; None if some of it is yet to come.

    Raises:
        FrameError: If no frame begins like this, or it is beyond the limit.
    """
    there = end - at
    if there < LENGTH.size:
        return None
    (length,) = LENGTH.unpack_from(data, at)
    if length < _MIN_LENGTH:
        raise FrameError(f"a frame of length {length}", at)
    if length + LENGTH.size > max_frame_bytes:
        raise FrameError(f"a frame of length {length}, {max_frame_bytes} bytes are the most", at)
    if there < HEAD.size:
        return None
    _, word = HEAD.unpack_from(data, at)
    kind = _KINDS.get(word >> 24)
    if kind is None:
        raise FrameError(f"a header of kind {word >> 24}", at + LENGTH.size)
    header_bytes = word & MAX_HEADER_BYTES
    if header_bytes > length - _MIN_LENGTH:
        raise FrameError(
            f"a header of {header_bytes} bytes in a frame of length {length}", at + LENGTH.size
        )
    if there < LENGTH.size + length:
        return None
    header = at + HEAD.size
    return FrameBounds(kind, header, header + header_bytes, at + LENGTH.size + length)


def decode_frame(data: Bytes, bounds: FrameBounds) -> Command:
    """Read the command of a frame that was found whole.

    Raises:
        HeaderError: If its header cannot be read; ``at`` counts from the header's first byte.
    """
    with memoryview(data) as view:
        header = bytes(view[bounds.header : bounds.body])
        body = bytes(view[bounds.body : bounds.end])
    if bounds.kind is HeaderKind.JSON:
        return header_json.decode(header, body)
    return header_binary.decode(header, body)


def encode_frame(command: Command) -> bytes:
    """Write a command as a frame, its header in the form the command names.

    Raises:
        LocalProtocolError: If a value does not fit the header, or the header its length field.
    """
    if command.header is HeaderKind.JSON:
        header = header_json.encode(command)
    else:
        header = header_binary.encode(command)
    if len(header) > MAX_HEADER_BYTES:
        raise LocalProtocolError(
            f"a header of {len(header)} bytes, {MAX_HEADER_BYTES} are the most"
        )
    length = _MIN_LENGTH + len(header) + len(command.body)
    if length > 0x7FFFFFFF:
        raise LocalProtocolError(f"a frame of length {length}")
    head = HEAD.pack(length, command.header << 24 | len(header))
    return b"".join((head, header, command.body))
