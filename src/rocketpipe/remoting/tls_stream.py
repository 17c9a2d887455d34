"""TLS between a transport and a peer: to the one it is a protocol, to the other a transport.

    transport ── records ──▶ incoming ─┐                ┌─▶ peer.data_received
                                       ├─ SSLObject ────┤
    transport ◀── records ── outgoing ─┘                └── peer's write, close, pause_reading …

The peer is told of its connection when the handshake is done, and from then on notices nothing:
what one read brought comes in one piece, so that lanes serve it as they serve others. No loop's own
TLS is used: it costs more, and asyncio's keeps 256 KB for each connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from rocketpipe.remoting.tls_failure import TlsFailure, closed_early, why_failed

#: What one read of a socket brings at the most.
SCRATCH_BYTES: Final = 256 << 10
#: A record has so much at the most.
_RECORD_BYTES: Final = 16 << 10
#: So much is encrypted before the transport gets it.
_TRAIN_BYTES: Final = 256 << 10


def new_scratch() -> memoryview:
    """Room to decrypt into, for all streams of one loop: nothing stays there."""
    return memoryview(bytearray(SCRATCH_BYTES))


class TlsStream(asyncio.Protocol, asyncio.Transport):
    """One connection, of either side."""

    def __init__(
        self,
        peer: asyncio.Protocol | asyncio.BufferedProtocol,
        context: ssl.SSLContext,
        scratch: memoryview,
        *,
        host: str | None = None,
        done: Callable[[TlsFailure | None], None] = lambda _: None,
    ) -> None:
        """Take whose connection it is; ``host`` is who should answer, None on the server's side.

        ``done`` is told once that the handshake is over, and why it failed if it did.
        """
        asyncio.Transport.__init__(self)
        self._peer = peer
        self._buffered = isinstance(peer, asyncio.BufferedProtocol)
        self._scratch = scratch
        self._done = done
        self._host = host
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self._transport: asyncio.Transport | None = None
        self._is_ready = False
        self._is_over = False
        self._closing = False
        #: Why it ended, if that was for TLS.
        self.failure: TlsFailure | None = None

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._host is not None:
            self._shake()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._incoming.write(data)
        if self._is_ready or self._shake():
            self._deliver()

    def eof_received(self) -> bool:
        if not self._is_ready:
            return False
        return bool(self._peer.eof_received())

    def pause_writing(self) -> None:
        if self._is_ready:
            self._peer.pause_writing()

    def resume_writing(self) -> None:
        if self._is_ready:
            self._peer.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._is_ready:
            self._peer.connection_lost(self.failure or exc)
        else:
            self._over(closed_early(exc))

    # What the peer calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        transport = self._transport
        if self._closing or transport is None or not data:
            return
        tls, outgoing = self._tls, self._outgoing
        try:
            used = tls.write(data)
            if used < len(data):  # OpenSSL takes a record at a time
                rest = memoryview(data)[used:]
                while rest:
                    if outgoing.pending >= _TRAIN_BYTES:
                        transport.write(outgoing.read())
                    rest = rest[tls.write(rest) :]
        except ssl.SSLError as error:
            self._fail(error)
            return
        transport.write(outgoing.read())

    def close(self) -> None:
        if self._closing or self._transport is None:
            return
        self._closing = True
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # the peer's own goodbye is not waited for
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def is_closing(self) -> bool:
        return self._closing or self._transport is None or self._transport.is_closing()

    def pause_reading(self) -> None:
        self._under.pause_reading()

    def resume_reading(self) -> None:
        self._under.resume_reading()

    def is_reading(self) -> bool:
        return self._under.is_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._under.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        return self._under.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._under.get_write_buffer_limits()

    def can_write_eof(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        match name:
            case "ssl_object":
                return self._tls
            case "sslcontext":
                return self._tls.context
            case "peercert":
                return self._tls.getpeercert()
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._peer = cast("asyncio.Protocol", protocol)
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._peer

    # Inside

    @property
    def _under(self) -> asyncio.Transport:
        assert self._transport is not None, "there is a connection"
        return self._transport

    def _shake(self) -> bool:
        """Go on with the handshake; True when it is done."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._fail(error)
            return False
        self._flush()
        self._is_ready = True
        self._over(None)
        self._peer.connection_made(self)
        return not self._closing

    def _deliver(self) -> None:
        """Hand on all that can be decrypted, in one piece as long as there is room for it."""
        if self._buffered:
            self._fill()
            return
        tls, incoming, scratch = self._tls, self._incoming, self._scratch
        peer = cast("asyncio.Protocol", self._peer)
        at, ended = 0, False
        try:
            # To ask for what is not there costs an exception; a whole record leaves nothing.
            while incoming.pending or tls.pending():
                size = tls.read(SCRATCH_BYTES - at, scratch[at:] if at else scratch)
                if not size:
                    ended = True
                    break
                at += int(size)
                if SCRATCH_BYTES - at < _RECORD_BYTES:
                    peer.data_received(bytes(scratch[:at]))
                    at = 0
                    if self._closing:
                        return
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)
            return
        if self._outgoing.pending:  # an answer to a change of keys
            self._flush()
        if at:
            peer.data_received(bytes(scratch[:at]))
        if ended:
            self._said_goodbye()

    def _fill(self) -> None:
        """Hand on what can be decrypted, into the peer's own buffer."""
        peer = cast("asyncio.BufferedProtocol", self._peer)
        try:
            while not self._closing and (self._incoming.pending or self._tls.pending()):
                buffer = cast("memoryview", peer.get_buffer(-1))
                size = self._tls.read(len(buffer), buffer)
                if not size:
                    self._said_goodbye()
                    return
                peer.buffer_updated(int(size))
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()

    def _said_goodbye(self) -> None:
        if not self._closing and not self._peer.eof_received():
            self.close()

    def _flush(self) -> None:
        if self._outgoing.pending and self._transport is not None:
            self._transport.write(self._outgoing.read())

    def _fail(self, error: Exception) -> None:
        """End it for what OpenSSL did not like; the other side is told by an alert."""
        self._closing = True
        failure = why_failed(error, self._host)
        self.failure = failure
        self._flush()
        if not self._is_ready:
            self._over(failure)
        if self._transport is not None:
            self._transport.close()

    def _over(self, failure: TlsFailure | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._done(failure)
