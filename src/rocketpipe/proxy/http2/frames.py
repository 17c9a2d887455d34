"""HTTP/2's frames as bytes (RFC 9113): kinds, flags, codes of errors, and how each is written."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from rocketpipe.errors import RocketPipeError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES: Final = 9
#: The longest frame that either side sends, as long as nobody says otherwise; we never do.
MAX_FRAME: Final = 16_384
USUAL_WINDOW: Final = 65_535
MAX_WINDOW: Final = 2**31 - 1

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RESET: Final = 3
SETTINGS: Final = 4
PUSH: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 1
ACK: Final = 1
END_HEADERS: Final = 4
PADDED: Final = 8
WITH_PRIORITY: Final = 0x20

MAX_STREAMS: Final = 3
INITIAL_WINDOW: Final = 4
FRAME_SIZE: Final = 5
MAX_HEADERS: Final = 6

#: Of the length (24 bits, in two parts), kind, flags and stream.
HEAD: Final = struct.Struct(">HBBBI")
SETTING: Final = struct.Struct(">HI")
NUMBER: Final = struct.Struct(">I")


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL = 1
    INTERNAL = 2
    FLOW_CONTROL = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION = 9
    ENHANCE_YOUR_CALM = 11


class Http2Fault(RocketPipeError):
    """What ends a connection: the peer broke a rule, or is too much."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    size = len(payload)
    return HEAD.pack(size >> 8, size & 255, kind, flags, stream) + payload


def settings(said: dict[int, int]) -> bytes:
    """A frame of settings."""
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*each) for each in said.items()))


def window(stream: int, more: int) -> bytes:
    """Let the peer send so many bytes more."""
    return frame(WINDOW, 0, stream, NUMBER.pack(more))


def reset(stream: int, code: ErrorCode) -> bytes:
    """End a stream."""
    return frame(RESET, 0, stream, NUMBER.pack(code))


def goaway(last: int, code: ErrorCode, text: str = "") -> bytes:
    """Say that no streams after the last are served."""
    return frame(GOAWAY, 0, 0, NUMBER.pack(last) + NUMBER.pack(code) + text.encode()[:256])


def check_of_connection(what: str, number: int, is_whole: bool) -> None:
    """Raise Http2Fault if a frame of the connection itself is on a stream, or of a wrong length."""
    if number:
        raise Http2Fault(ErrorCode.PROTOCOL, f"{what} on stream {number}")
    if not is_whole:
        raise Http2Fault(ErrorCode.FRAME_SIZE, f"{what} of another length")


def unpadded(payload: bytes) -> bytes:
    """What is between the length of the padding and the padding.

    Raises:
        Http2Fault: There is less than that.
    """
    if not payload or payload[0] >= len(payload):
        raise Http2Fault(ErrorCode.PROTOCOL, "more padding than there is")
    return payload[1 : len(payload) - payload[0]]
