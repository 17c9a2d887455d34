"""HPACK (RFC 7541): blocks of headers, read with the peer's table and written without one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from rocketpipe.proxy.http2 import huffman
from rocketpipe.proxy.http2.frames import ErrorCode, Http2Fault

Header = tuple[str, str]

TABLE_BYTES: Final = 4096
#: What the standard counts for a header beside its letters.
_EACH: Final = 32
#: No number in a block is longer; nothing that is served is as large.
_MOST_BITS: Final = 28
#: Longer ones are decoded each time.
_KEPT: Final = 64

#: From 17 on, which have no value.
_NAMES: Final = """
    accept-language accept-ranges accept access-control-allow-origin age allow authorization
    cache-control content-disposition content-encoding content-language content-length
    content-location content-range content-type cookie date etag expect expires from host if-match
    if-modified-since if-none-match if-range if-unmodified-since last-modified link location
    max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after server
    set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate
"""
#: By number, from 1.
STATIC: Final[tuple[Header, ...]] = (
    ("", ""),
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    *((":status", code) for code in ("200", "204", "206", "304", "400", "404", "500")),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    *((name, "") for name in _NAMES.split()),
)
_STATIC: Final = len(STATIC)


class HeaderReader:
    """Reads the blocks of one connection, in their order."""

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes`` of headers, as the standard counts them, are read of one block."""
        self._most = most_bytes
        #: The newest is the last.
        self._table: list[Header] = []
        self._size = 0
        self._room = TABLE_BYTES
        #: Of the headers of the last block, as the standard counts them.
        self.size = 0

    def read(self, block: bytes) -> list[Header] | None:
        """The headers of a block; None if they are too many.

        Raises:
            Http2Fault: It is none; nothing that follows could be read.
        """
        try:
            return self._read(block)
        except IndexError:
            raise Http2Fault(ErrorCode.COMPRESSION, "a block of headers that ends early") from None

    def _read(self, block: bytes) -> list[Header] | None:
        found: list[Header] = []
        size = at = 0
        end = len(block)
        while at < end:
            first = block[at]
            if first & 0x80:
                index, at = _number(block, at, 7)
                header = self._indexed(index)
            elif first & 0xE0 == 0x20:
                if found or size:
                    raise Http2Fault(ErrorCode.COMPRESSION, "a table resized among headers")
                room, at = _number(block, at, 5)
                self._resize(room)
                continue
            else:
                kept = first & 0x40
                index, at = _number(block, at, 6 if kept else 4)
                if index:
                    name = self._indexed(index)[0]
                else:
                    name, at = _text(block, at)
                value, at = _text(block, at)
                header = (name, value)
                if kept:
                    self._keep(header)
            size += len(header[0]) + len(header[1]) + _EACH
            if size <= self._most:
                found.append(header)
        self.size = size
        return found if size <= self._most else None

    def _indexed(self, index: int) -> Header:
        if 0 < index < _STATIC:
            return STATIC[index]
        if _STATIC <= index < _STATIC + len(self._table):
            return self._table[_STATIC - 1 - index]
        raise Http2Fault(ErrorCode.COMPRESSION, f"header {index} is not in the table")

    def _keep(self, header: Header) -> None:
        self._table.append(header)
        self._size += len(header[0]) + len(header[1]) + _EACH
        self._shrink()

    def _resize(self, room: int) -> None:
        if room > TABLE_BYTES:
            raise Http2Fault(ErrorCode.COMPRESSION, f"a table of {room} bytes was not allowed")
        self._room = room
        self._shrink()

    def _shrink(self) -> None:
        if self._size <= self._room:
            return
        gone = 0
        while self._size > self._room:
            name, value = self._table[gone]
            self._size -= len(name) + len(value) + _EACH
            gone += 1
        del self._table[:gone]


def written(headers: Iterable[Header]) -> bytes:
    """Headers as a block that leaves no trace in the peer's table."""
    return b"".join(b"\0" + _plain(name) + _plain(value) for name, value in headers)


def _plain(text: str) -> bytes:
    data = text.encode("latin-1")
    size = len(data)
    if size < 127:
        return bytes((size,)) + data
    size -= 127
    head = bytearray(b"\x7f")
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    head.append(size)
    return bytes(head) + data


def _number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        value += (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > _MOST_BITS:
            raise Http2Fault(ErrorCode.COMPRESSION, "a number without end among headers")


def _text(block: bytes, at: int) -> tuple[str, int]:
    is_coded = block[at] & 0x80
    size, at = _number(block, at, 7)
    end = at + size
    if end > len(block):
        raise IndexError
    piece = block[at:end]
    if not is_coded:
        return str(piece, "latin-1"), end
    if size <= _KEPT:
        return _decoded(piece), end
    return str(huffman.decode(piece), "latin-1"), end


@lru_cache(maxsize=1024)
def _decoded(piece: bytes) -> str:
    """Kept for a while: clients say most of what they say again and again."""
    return str(huffman.decode(piece), "latin-1")
