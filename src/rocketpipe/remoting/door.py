"""The first byte of a connection, which tells TLS from plain; then the connection is another's.

    0x16 ──▶ a handshake, when there is room for one ──▶ the peer, behind a `TlsStream`
    else ──▶ permissive: the peer, on the transport itself, as if there had been no door
             enforcing: closed; what came is handed to nobody

No frame begins with that byte: it would have 369 MB. Only ports that have TLS have a door.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from rocketpipe.remoting.accepting import address_text
from rocketpipe.remoting.tls_failure import TlsFailure

if TYPE_CHECKING:
    from rocketpipe.remoting.tls import ServerTls

_HANDSHAKE: Final = 0x16


class Door(asyncio.Protocol):
    """One connection, until it is known whose it is."""

    def __init__(
        self,
        tls: ServerTls,
        peer: asyncio.Protocol,
        *,
        entered: Callable[[Door], None] = lambda _: None,
        left: Callable[[Door], None] = lambda _: None,
    ) -> None:
        """Take whose it will be; ``left`` is told if it will not.

        ``entered`` is told before the peer is, and one of the two always.
        """
        self._tls = tls
        self._peer = peer
        self._entered = entered
        self._left = left
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._first = b""
        self._is_shaking = self._is_paused = False
        self._is_over = False
        self.address = "unconnected"
        self.host = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        self.address = address_text(name)
        self.host = str(name[0]) if isinstance(name, tuple) else self.address
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._tls.patience_s, self._late)

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        assert transport is not None, "there is a connection"
        if self._first or self._is_over:
            self._first += data  # the loop had read it before it was asked to stop
        elif data[0] == _HANDSHAKE:
            self._first = data
            self._tls.handshakes.begin(self)
            if not self._is_shaking and not transport.is_closing():
                self._is_paused = True
                transport.pause_reading()
        elif self._tls.takes_plain:
            self._pass()
            transport.set_protocol(self._peer)
            self._peer.connection_made(transport)
            self._peer.data_received(data)
        else:
            self._tls.refused(
                self.address, "plain", "it does not speak TLS, and tls.server.mode is enforcing"
            )
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def shake(self) -> None:
        """Begin the handshake, with what has come so far."""
        transport, first = self._transport, self._first
        assert transport is not None, "there is a connection"
        if self._is_over or transport.is_closing():
            return
        self._is_shaking = True
        stream = self._tls.stream(self._peer, self._shaken)
        transport.set_protocol(stream)
        stream.connection_made(transport)
        if self._is_paused:
            transport.resume_reading()
        stream.data_received(first)

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()
        self._leave()

    def _shaken(self, failure: TlsFailure | None) -> None:
        if failure is None:
            self._tls.results["done"] += 1
            self._pass()
            return
        if not self._is_over:
            self._tls.refused(self.address, "failed", failure)
        self._leave()

    def _late(self) -> None:
        waited = f"no request, and no TLS, within {self._tls.patience_s:g} s"
        self._tls.refused(self.address, "late", waited)
        self.abort()

    def _pass(self) -> None:
        if self._end():
            self._entered(self)
            self._tls.handshakes.end(self)

    def _leave(self) -> None:
        if self._end():
            self._left(self)
            self._tls.handshakes.end(self)

    def _end(self) -> bool:
        """True the first time."""
        if self._is_over:
            return False
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        return True
