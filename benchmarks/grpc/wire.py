"""A gRPC client that costs little: one call at a time a connection, frames made by hand.

What is measured is the server, and a client of grpcio's takes as much of the machine as that does.
Headers are sent in full each time, without HPACK's tables.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from typing import Final, cast

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_ACK: Final = 1
_END_STREAM: Final = 1
_MOST: Final = 0x7FFFFFFF
#: Bytes that are taken before the server is told that it may send more.
_TOP_UP: Final = 1 << 29
_FRAME_BYTES: Final = 16384


class CallFailed(Exception):
    """A call that the server did not answer as it should."""


class Connection(asyncio.Protocol):
    """One connection; `call` waits for the answer, and there is one call at a time."""

    def __init__(self, metadata: tuple[tuple[str, str], ...]) -> None:
        self._metadata = metadata
        self._blocks: dict[str, bytes] = {}
        self._buffer = b""
        self._stream = self._staying = -1
        self._taken = 0
        self._body = bytearray()
        self._waiting: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def opened(
        cls, address: str, metadata: tuple[tuple[str, str], ...], *, tls: bool = False
    ) -> Connection:
        """Connect; behind TLS whoever answers is trusted, as RocketMQ's clients do."""
        host, _, port = address.rpartition(":")
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(lambda: cls(metadata), host, int(port), ssl=context)
        return made

    async def call(self, path: str, message: bytes) -> bytes:
        """Send a message; gives the bodies of the answer, each with its five bytes before it.

        Raises:
            CallFailed: If the connection, or the call, ended otherwise.
        """
        self._body.clear()
        self._waiting = asyncio.get_running_loop().create_future()
        self._ask(path, message, _END_STREAM)
        return await self._waiting

    async def tell(self, path: str, message: bytes) -> None:
        """Open a stream that stays, and say something on it; returns when it was answered.

        Raises:
            CallFailed: If the connection, or the stream, ended instead.
        """
        self._waiting = asyncio.get_running_loop().create_future()
        self._ask(path, message, 0)
        self._staying = self._stream
        await self._waiting

    def _ask(self, path: str, message: bytes, last: int) -> None:
        self._stream += 2
        number = self._stream.to_bytes(4, "big")
        block = self._blocks.get(path) or self._block(path)
        body = b"\0" + len(message).to_bytes(4, "big") + message
        frames = [len(block).to_bytes(3, "big"), b"\x01\x04", number, block]
        for at in range(0, len(body), _FRAME_BYTES):
            part = body[at : at + _FRAME_BYTES]
            ends = last if at + _FRAME_BYTES >= len(body) else 0
            frames += [len(part).to_bytes(3, "big"), bytes([_DATA, ends]), number, part]
        self._write(b"".join(frames))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        settings = struct.pack(">HI", 4, _MOST)
        opening = _PREFACE + _frame(_SETTINGS, 0, 0, settings)
        opening += _frame(_WINDOW, 0, 0, (_MOST - 65535).to_bytes(4, "big"))
        self._transport.write(opening)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        at, end = 0, len(buffer)
        while end - at >= 9:
            size = int.from_bytes(buffer[at : at + 3], "big")
            if end - at < 9 + size:
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            stream = int.from_bytes(buffer[at + 5 : at + 9], "big")
            self._take(kind, flags, stream, buffer[at + 9 : at + 9 + size])
            at += 9 + size
        self._buffer = buffer[at:]

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection ended ({exc})")

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _DATA:
            self._taken += len(payload)
            if stream != self._staying:
                self._body += payload
            elif self._stream == stream and self._waiting is not None:
                self._waiting.set_result(b"")
                self._stream += 2  # it was answered; what else comes on it is dropped
            if self._taken > _TOP_UP:
                self._write(_frame(_WINDOW, 0, 0, self._taken.to_bytes(4, "big")))
                self._taken = 0
        elif kind == _HEADERS and flags & _END_STREAM:
            if stream == self._staying:
                self._fail("the server ended the stream")
            elif self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(bytes(self._body))
        elif kind == _SETTINGS and not flags & _ACK:
            self._write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._write(_frame(_PING, _ACK, 0, payload))
        elif kind in (_RESET, _GOAWAY):
            self._fail(f"the server gave up: {payload!r}")

    def _write(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frame)

    def _fail(self, reason: str) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(CallFailed(reason))

    def _block(self, path: str) -> bytes:
        headers = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *self._metadata,
        )
        block = b"".join(
            b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
            for name, value in headers
        )
        self._blocks[path] = block
        return block


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def messages(body: bytes) -> list[bytes]:
    """The messages of an answer."""
    found, at = [], 0
    while at < len(body):
        size = int.from_bytes(body[at + 1 : at + 5], "big")
        found.append(body[at + 5 : at + 5 + size])
        at += 5 + size
    return found
