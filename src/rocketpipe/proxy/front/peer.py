"""One client's connection to the gRPC port: a socket, or TLS, on one side, calls on the other.

Nothing is kept for a client before it has said that it speaks HTTP/2, for which it has a while. One
that takes nothing of what it is sent is not read any more, and sent away after a minute; one that
has gone without a word is found by a ping.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast

from rocketpipe.auth.failures import MAX_ON_CONNECTION
from rocketpipe.proxy.front.preface import stranger
from rocketpipe.proxy.http2.frames import PREFACE, Http2Fault
from rocketpipe.remoting.accepting import address_text

if TYPE_CHECKING:
    from rocketpipe.proxy.rpc.server import Calls, RpcServer

#: What may wait to be sent before more is held back, and so much is sent in one piece.
_HIGH_BYTES: Final = 256 << 10
_TRAIN_BYTES: Final = 64 << 10
#: How long one that is sent away has to take its last answer.
_GOODBYE_S: Final = 1.0


class Within(Protocol):
    """What a peer needs of the front that it is part of."""

    server: RpcServer
    #: How long a client may take to say what it speaks, and how long to take what it is sent.
    first_bytes_s: float
    stalled_s: float
    #: After which a client without a call is let go, and one that says nothing is asked.
    idle_s: float
    silent_s: float

    def refused(self, address: str, word: str, reason: str) -> None:
        """Count, and tell, who was sent away."""

    def ended(self, peer: Peer) -> None:
        """Forget it."""


class Peer(asyncio.Protocol):
    """A client; its transport may be TLS."""

    def __init__(self, front: Within) -> None:
        self._front = front
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._calls: Calls | None = None
        self._first = b""
        self._timer: asyncio.TimerHandle | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._heard_s = self._busy_s = self._loop.time()
        self._seen_calls = 0
        self._behind_tls = self._is_over = self._is_dismissed = False
        #: Calls on it that nobody was let in by.
        self._failed_logins = 0
        self.address = "unknown:0"

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_BYTES)
        self.address = address_text(transport.get_extra_info("peername"))
        self._behind_tls = transport.get_extra_info("ssl_object") is not None
        self._within(self._front.first_bytes_s, "late", "it did not say in time what it speaks")

    def data_received(self, data: bytes) -> None:
        if self._is_over or self._is_dismissed:
            return
        self._heard_s = self._loop.time()
        if self._calls is None:
            data = self._began(data)
        if self._calls is not None:
            try:
                self._calls.feed(data)
            except Http2Fault as fault:
                self._calls.connection.leave(fault.code, str(fault))
                self._front.refused(self.address, "http2", str(fault))
                self._dismiss()

    # A client that sends no more has left, whatever it waits for: HTTP/2 knows no half of one.

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._no_timer()
        self._front.ended(self)

    def pause_writing(self) -> None:
        self._within(self._front.stalled_s, "stalled", "it does not take what it asked for")
        if not self._is_over and self._calls is not None:
            self._calls.connection.pause()
            if not self._client.is_closing():
                self._client.pause_reading()

    def resume_writing(self) -> None:
        self._no_timer()
        if not self._is_over and self._calls is not None:
            if not (self._client.is_closing() or self._is_dismissed):
                self._client.resume_reading()
            self._calls.connection.resume()

    # What the front calls

    def look(self, now_s: float) -> None:
        """Let it go if it is idle, and ask whether it is there if it is silent."""
        calls = self._calls
        if calls is None or self._is_over:
            return
        if not calls.is_idle or calls.began_calls != self._seen_calls:
            self._seen_calls, self._busy_s = calls.began_calls, now_s
        silent_s = now_s - self._heard_s
        if now_s - self._busy_s > self._front.idle_s:
            calls.connection.leave()
            self._leave()
        elif silent_s > 2 * self._front.silent_s and calls.is_asked:
            self._late("silent", "it does not answer any more")
        elif silent_s > self._front.silent_s and not calls.is_asked:
            calls.is_asked = True
            calls.connection.ping()

    def close(self) -> None:
        """End it when what was written is out."""
        if self._transport is not None and not self._is_over:
            self._leave()

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    # Inside

    @property
    def _client(self) -> asyncio.Transport:
        assert self._transport is not None, "there is a connection"
        return self._transport

    def _began(self, data: bytes) -> bytes:
        """Read the first bytes; gives what comes behind the preface."""
        self._first += data
        found = stranger(self._first, behind_tls=self._behind_tls)
        if found is not None:
            self._front.refused(self.address, found.word, found.reason)
            if found.answer:
                self._client.write(found.answer)
            self._dismiss()
        elif len(self._first) >= len(PREFACE):
            self._no_timer()
            rest, self._first = self._first[len(PREFACE) :], b""
            self._calls = self._front.server.connected(self._send, self.address, self._login_failed)
            return rest
        return b""

    def _login_failed(self, is_flood: bool) -> None:
        """Send it away when its calls, or those of its address, guess, as other ports do."""
        self._failed_logins += 1
        if self._is_over or self._is_dismissed:
            return
        if is_flood or self._failed_logins >= MAX_ON_CONNECTION:
            self._is_dismissed = True
            reason = "too many of its logins, or of its address, failed"
            self._front.refused(self.address, "logins", reason)
            self._client.pause_reading()
            self._loop.call_later(_GOODBYE_S, self.abort)

    def _send(self, data: bytes) -> None:
        if self._is_over:
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes >= _TRAIN_BYTES:
            self._flush()
            self._out.append(b"")  # the call is on its way already

    def _flush(self) -> None:
        out, self._out, self._out_bytes = self._out, [], 0
        if out and not self._is_over and not self._client.is_closing():
            self._client.write(out[0] if len(out) == 1 else b"".join(out))

    def _leave(self) -> None:
        """End it behind what was written, which it has a minute to take."""
        self._flush()
        self._client.close()
        self._end()
        if self._client.get_write_buffer_size():
            self._timer = self._loop.call_later(self._front.stalled_s, self._client.abort)

    def _dismiss(self) -> None:
        """End one that does wrong when it has had time to read why.

        What it goes on sending is thrown away meanwhile: a socket that is closed with bytes unread
        takes our last words back.
        """
        self._flush()
        self._end()
        if self._client.can_write_eof():
            self._client.write_eof()
        self._loop.call_later(_GOODBYE_S, self.abort)

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
        """Forget its calls."""
        if not self._is_over:
            self._is_over = True
            self._no_timer()
            if self._calls is not None:
                self._calls.close()
