"""One client's connection, carried to grpcio and back.

    client ──▶ Relay ──▶ Inside ──▶ unix socket ──▶ grpcio
           ◀──       ◀──

grpcio cannot be handed a connection that is there already, so bytes are. What one side cannot take
is not read from the other: between the two there is never more than a read and the transports'
own buffers. A client that takes nothing for a minute is sent away; so is one that does not say in
time that it speaks HTTP/2, before grpcio has heard of it.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Final, Protocol, cast

from rocketpipe.proxy.front.preface import PREFACE, stranger
from rocketpipe.remoting.accepting import address_text

#: How long to wait when grpcio is behind with accepting.
_AGAIN_S: Final = 0.02
#: How long one that is sent away has to take its last answer.
_GOODBYE_S: Final = 1.0
#: What may wait to be sent, to either side, before the other is not read any more.
_HIGH_BYTES: Final = 256 << 10


class Within(Protocol):
    """What a relay needs of the front that it is part of."""

    #: Where grpcio listens.
    inside: Path
    #: How long a client may take to say what it speaks, and how long to take what it is sent.
    first_bytes_s: float
    stalled_s: float

    def name(self, relay: Relay) -> Path:
        """A name for its end of the unix socket, by which grpcio knows it."""

    def refused(self, address: str, word: str, reason: str) -> None:
        """Count, and tell, who was sent away."""

    def ended(self, relay: Relay) -> None:
        """Forget it."""


class Relay(asyncio.Protocol):
    """The client's side; its transport may be TLS."""

    def __init__(self, front: Within) -> None:
        self._front = front
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._inside: asyncio.Transport | None = None
        self._first = b""
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None
        self._behind_tls = self._is_over = self._ends = self._is_dismissed = False
        #: Calls on it that nobody was let in by.
        self.failed_logins = 0
        self.address = "unknown:0"

    # What the client's transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_BYTES)
        self.address = address_text(transport.get_extra_info("peername"))
        self._behind_tls = transport.get_extra_info("ssl_object") is not None
        self._within(self._front.first_bytes_s, "late", "it did not say in time what it speaks")

    def data_received(self, data: bytes) -> None:
        if self._is_over or self._is_dismissed:
            return
        if self._inside is not None:
            self._inside.write(data)
            return
        self._first += data
        if self._opening is not None:  # the loop had read it before it was asked to stop
            return
        found = stranger(self._first, behind_tls=self._behind_tls)
        if found is not None:
            self._front.refused(self.address, found.word, found.reason)
            self._refuse(found.answer)
        elif len(self._first) >= len(PREFACE):
            self._pause()
            self._opening = self._loop.create_task(self._open())

    def eof_received(self) -> bool:
        """A client that sends no more is still answered: grpcio ends it when it has."""
        if self._inside is None:
            self._ends = self._opening is not None
            return self._ends
        if self._inside.can_write_eof() and not self._inside.is_closing():
            self._inside.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def pause_writing(self) -> None:
        self._within(self._front.stalled_s, "stalled", "it does not take what it asked for")
        if self._inside is not None:
            self._inside.pause_reading()

    def resume_writing(self) -> None:
        self._no_timer()
        if self._inside is not None:
            self._inside.resume_reading()

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    def dismiss(self, reason: str) -> None:
        """Take nothing more from it; it has a moment to hear why."""
        if self._is_over or self._is_dismissed:
            return
        self._is_dismissed = True
        self._front.refused(self.address, "logins", reason)
        self._pause()
        self._loop.call_later(_GOODBYE_S, self.abort)

    # What grpcio's side calls

    def inside_made(self, inside: asyncio.Transport) -> None:
        if self._is_over:
            inside.abort()
            return
        self._no_timer()
        inside.set_write_buffer_limits(high=_HIGH_BYTES)
        self._inside = inside
        inside.write(self._first)
        self._first = b""
        if self._ends:
            inside.write_eof()
        if not self._client.is_closing():
            self._client.resume_reading()

    def inside_said(self, data: bytes) -> None:
        self._client.write(data)

    def inside_lost(self) -> None:
        self._inside = None
        self._client.close()  # what grpcio said last still goes out, if it is taken
        self._within(self._front.stalled_s, "stalled", "it does not take what it asked for")

    def inside_paused(self) -> None:
        self._pause()

    def inside_resumed(self) -> None:
        if not (self._client.is_closing() or self._is_dismissed):
            self._client.resume_reading()

    # Inside

    @property
    def _client(self) -> asyncio.Transport:
        assert self._transport is not None, "there is a connection"
        return self._transport

    async def _open(self) -> None:
        """Connect to grpcio, under a name by which the client is found again."""
        connecting = socket.socket(socket.AF_UNIX)
        try:
            connecting.setblocking(False)
            name = self._front.name(self)
            connecting.bind(str(name))
            name.unlink()  # the socket keeps it; nobody connects to it
            while not self._connects(connecting):  # noqa: ASYNC110 - grpcio tells nobody
                await asyncio.sleep(_AGAIN_S)
            await self._loop.create_unix_connection(lambda: Inside(self), sock=connecting)
        except OSError as error:  # grpcio is about to stop, or there is no descriptor left
            connecting.close()
            self._front.refused(self.address, "inside", f"the service did not take it: {error}")
            self.abort()

    def _connects(self, connecting: socket.socket) -> bool:
        if self._is_over:
            raise ConnectionAbortedError("the client has left")
        try:
            connecting.connect(str(self._front.inside))
        except BlockingIOError:
            return False
        return True

    def _pause(self) -> None:
        if not self._client.is_closing():
            self._client.pause_reading()

    def _refuse(self, answer: bytes) -> None:
        self._no_timer()
        if answer:
            self._client.write(answer)
        self._client.close()
        self._end()

    def _within(self, seconds: float, word: str, reason: str) -> None:
        """Have the client do what is waited for in time."""
        self._no_timer()
        if not self._is_over:
            self._timer = self._loop.call_later(seconds, self._late, word, reason)

    def _late(self, word: str, reason: str) -> None:
        self._front.refused(self.address, word, reason)
        self.abort()

    def _no_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._no_timer()
        if self._inside is not None:
            self._inside.close()
        self._front.ended(self)


class Inside(asyncio.Protocol):
    """grpcio's side of a relay."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._relay.inside_made(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        self._relay.inside_said(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.inside_lost()

    def pause_writing(self) -> None:
        self._relay.inside_paused()

    def resume_writing(self) -> None:
        self._relay.inside_resumed()
