"""Asks peers by their address; connects on first use and again after a loss."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from rocketpipe.errors import ConnectionLost
from rocketpipe.protocol.request import Request
from rocketpipe.remoting.connection import Answer, ConnectionLimits, PeerConnection
from rocketpipe.remoting.router import Router

ReplyT = TypeVar("ReplyT")

CONNECT_TIMEOUT_MS: Final = 3000
CALL_TIMEOUT_MS: Final = 3000


class Caller:
    """One connection to each address, shared by everyone who asks there."""

    def __init__(
        self, answer: Answer | None = None, *, limits: ConnectionLimits | None = None
    ) -> None:
        self._answer = answer or Router().answer
        self._limits = limits or ConnectionLimits()
        self._peers: dict[str, PeerConnection] = {}
        self._connecting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        peers = list(self._peers.values())
        for peer in peers:
            peer.close()
        if peers:
            await asyncio.wait([peer.lost for peer in peers], timeout=CONNECT_TIMEOUT_MS / 1000)

    async def call(
        self, address: str, request: Request[ReplyT], timeout_ms: int = CALL_TIMEOUT_MS
    ) -> ReplyT:
        """Ask the peer at ``address``.

        Raises:
            ConnectionLost: If it cannot be reached, or the connection ends before the answer.
            CallTimeout: If no answer comes in time.
            RequestRejected: If it refuses.
        """
        peer = await self.connect(address)
        return await peer.call(request, timeout_ms)

    async def tell(self, address: str, request: Request[Any]) -> None:
        """Send a request that wants no answer.

        Raises:
            ConnectionLost: If the peer cannot be reached.
        """
        (await self.connect(address)).tell(request)

    async def connect(self, address: str) -> PeerConnection:
        """The open connection to ``address``, made anew when there is none.

        Raises:
            ConnectionLost: If the peer cannot be reached.
        """
        async with self._connecting[address]:
            peer = self._peers.get(address)
            if peer is None or not peer.is_open:
                peer = self._peers[address] = await self._open(address)
            return peer

    async def _open(self, address: str) -> PeerConnection:
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_MS / 1000):
                _, peer = await loop.create_connection(
                    lambda: PeerConnection(self._answer, limits=self._limits), host, port
                )
        except TimeoutError:
            reason = f"no connection within {CONNECT_TIMEOUT_MS} ms"
            raise ConnectionLost(address, reason) from None
        except OSError as error:
            reason = f"cannot connect ({error.strerror or error})"
            raise ConnectionLost(address, reason) from error
        return peer


def split_address(address: str) -> tuple[str, int]:
    """``host:port`` or ``[v6]:port`` → its two parts.

    Raises:
        ValueError: If there is no port, or it is not a number from 0 to 65535.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
