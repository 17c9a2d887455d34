"""A client of a gRPC port that writes its frames by hand: one that need not behave."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from rocketpipe.proxy.http2 import frames
from rocketpipe.proxy.http2.frames import HEAD, MAX_FRAME, PREFACE, frame
from rocketpipe.proxy.http2.hpack import HeaderReader, written

WHOLE = frames.END_HEADERS | frames.END_STREAM
HEADERS = (
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "localhost"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
)


def block(path: str, *more: tuple[str, str]) -> bytes:
    """Headers of a call."""
    return written([*HEADERS, (":path", path), *more])


def message(data: bytes, packed: int = 0) -> bytes:
    """A message of gRPC's."""
    return bytes([packed]) + len(data).to_bytes(4, "big") + data


@dataclass
class RawClient:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    headers: HeaderReader = field(default_factory=lambda: HeaderReader(1 << 20))

    @classmethod
    async def opened(cls, host: str, port: int, settings: bytes = b"") -> RawClient:
        """Connect, and say what HTTP/2 says first."""
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(PREFACE + frame(frames.SETTINGS, 0, 0, settings))
        return cls(reader, writer)

    def call(self, stream: int, path: str, data: bytes = b"", *more: tuple[str, str]) -> None:
        """Ask once."""
        self.begin(stream, path, *more)
        body = message(data)
        for at in range(0, len(body), MAX_FRAME):
            ends = frames.END_STREAM if at + MAX_FRAME >= len(body) else 0
            self.writer.write(frame(frames.DATA, ends, stream, body[at : at + MAX_FRAME]))

    def begin(self, stream: int, path: str, *more: tuple[str, str]) -> None:
        """Begin a call."""
        self.writer.write(frame(frames.HEADERS, frames.END_HEADERS, stream, block(path, *more)))

    async def next(self) -> tuple[int, int, int, bytes]:
        """The next frame: kind, flags, stream and payload."""
        high, low, kind, flags, stream = HEAD.unpack(await self.reader.readexactly(9))
        payload = await self.reader.readexactly(high << 8 | low)
        return kind, flags, stream, payload

    async def status(self, stream: int) -> dict[str, str]:
        """The last headers of a stream; what else comes is passed over."""
        while True:
            kind, flags, number, payload = await self.next()
            if kind == frames.HEADERS:
                said = dict(self.headers.read(payload) or ())
                if number == stream and flags & frames.END_STREAM:
                    return said
            if kind == frames.RESET and number == stream:
                return {"reset": str(int.from_bytes(payload, "big"))}

    async def goodbye(self) -> int:
        """The code by which the server ends the connection; it does."""
        while True:
            kind, _, _, payload = await self.next()
            if kind == frames.GOAWAY:
                assert await self.reader.read() == b""
                return int.from_bytes(payload[4:8], "big")

    def close(self) -> None:
        self.writer.close()
