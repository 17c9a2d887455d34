"""A listening port: accepts peers, keeps them, lets them go."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from rocketpipe.remoting.connection import Answer, ConnectionLimits, PeerConnection

CLOSE_TIMEOUT_MS: Final = 3000
_BACKLOG: Final = 1024


class Server:
    """One port, bound before it serves: its real number is known even when 0 was asked for."""

    def __init__(self, listener: asyncio.Server, peers: _Peers) -> None:
        self._listener = listener
        self._peers = peers

    @classmethod
    @asynccontextmanager
    async def bound(
        cls, host: str, port: int, *, limits: ConnectionLimits | None = None
    ) -> AsyncIterator[Server]:
        """Hold the port inside the block; nobody is accepted until ``serving``.

        Raises:
            OSError: If the port is taken or the address is not this machine's.
        """
        peers = _Peers(limits or ConnectionLimits())
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            reason = f"cannot listen on {host}:{port} ({error.strerror})"
            raise OSError(error.errno, reason) from error
        listener = await asyncio.get_running_loop().create_server(
            peers.accept, sock=listening, start_serving=False, backlog=_BACKLOG
        )
        try:
            yield cls(listener, peers)
        finally:
            listener.close()

    @property
    def address(self) -> str:
        host, port = self._listener.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @asynccontextmanager
    async def serving(
        self, answer: Answer, on_lost: Callable[[PeerConnection], None] = lambda _: None
    ) -> AsyncIterator[None]:
        """Accept peers and answer them inside the block; then close the port and every peer."""
        self._peers.answer = answer
        self._peers.on_lost = on_lost
        await self._listener.start_serving()
        try:
            yield
        finally:
            self._listener.close()
            await self._peers.close()


class _Peers:
    """Everyone who is connected."""

    answer: Answer
    on_lost: Callable[[PeerConnection], None]

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._open: set[PeerConnection] = set()

    def accept(self) -> PeerConnection:
        peer = PeerConnection(self.answer, limits=self._limits, on_lost=self._forget)
        self._open.add(peer)
        return peer

    async def close(self) -> None:
        leaving = list(self._open)
        for peer in leaving:
            peer.close()
        if leaving:
            await asyncio.wait([peer.lost for peer in leaving], timeout=CLOSE_TIMEOUT_MS / 1000)
        for peer in list(self._open):
            peer.abort()

    def _forget(self, peer: PeerConnection) -> None:
        self._open.discard(peer)
        self.on_lost(peer)
