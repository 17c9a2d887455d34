"""Asks peers by their address; connects on first use and again after a loss.

There is one connection to an address, shared by everyone who asks there, and one attempt at a time
to make it: who comes meanwhile waits for that one, and fails with it. Of too many connections one
that nobody waits on is given up for the next.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from rocketpipe.errors import ConnectionLost, ProcessForked
from rocketpipe.protocol.command import Sign
from rocketpipe.protocol.request import Request
from rocketpipe.remoting.connection import Answer, ConnectionLimits, PeerConnection, Write
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.tls import ClientTls
from rocketpipe.remoting.tls_failure import TlsFailure
from rocketpipe.remoting.tls_settings import TlsSettings

ReplyT = TypeVar("ReplyT")

CONNECT_TIMEOUT_MS: Final = 3000
CALL_TIMEOUT_MS: Final = 3000
MAX_CONNECTIONS: Final = 1024
_NO_HOST: Final = re.compile(r"\A\Z|[\s/,;]")


class _Here:
    """Which process this is, without asking the system each time: that takes a microsecond."""

    def __init__(self) -> None:
        self.process = os.getpid()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.process = os.getpid()


_here = _Here()


@dataclass(slots=True)
class _Link:
    """An open connection, and what was seen of it when somebody last looked for idle ones."""

    peer: PeerConnection
    #: Whether somebody asked for it since.
    used: bool = True
    reads: int = 0
    idle_since_ms: int | None = None


class Caller:
    """One connection to each address, shared by everyone who asks there."""

    def __init__(
        self,
        answer: Answer | None = None,
        *,
        limits: ConnectionLimits | None = None,
        max_connections: int = MAX_CONNECTIONS,
        on_connected: Callable[[str], None] = lambda _: None,
        tls: TlsSettings | None = None,
        sign: Sign | None = None,
    ) -> None:
        """Take who answers what peers ask, and who is told of each new connection's address.

        With ``tls`` nobody is asked in the clear; ``sign`` puts a name under what is asked.
        """
        self._sign = sign
        self._answer = answer or Router().answer
        self._limits = limits or ConnectionLimits()
        self._max_connections = max_connections
        self._on_connected = on_connected
        self._tls = None if tls is None else ClientTls(tls)
        self._links: dict[str, _Link] = {}
        self._opening: dict[str, asyncio.Task[PeerConnection]] = {}
        self._closed = False
        self._process: int | None = None

    @property
    def signs(self) -> bool:
        """Whether a name is put under what is asked."""
        return self._sign is not None

    async def __aenter__(self) -> Self:
        self._closed = False
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._process is not None and self._process != os.getpid():
            return  # a forked child would take the parent's connections from its loop
        self._closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        peers = [link.peer for link in self._links.values()]
        for peer in peers:
            peer.close()
        if peers:
            await asyncio.wait([peer.lost for peer in peers], timeout=CONNECT_TIMEOUT_MS / 1000)
        for peer in peers:
            peer.abort()  # it did not take what was written in all that time
        self._process = None

    async def call(
        self,
        address: str,
        request: Request[ReplyT],
        timeout_ms: int = CALL_TIMEOUT_MS,
        write: Write | None = None,
    ) -> ReplyT:
        """Ask the peer at ``address``; the time covers connecting, if that is needed.

        ``write`` is for who has another way to the frame, where requests are not signed: what it
        writes is sent, and ``request`` says only how the answer is read.

        Raises:
            ConnectionLost: If it cannot be reached, or the connection ends before the answer.
            CallTimeout: If no answer comes in time.
            RequestRejected: If it refuses.
            ProcessForked: If the connections are another process's.
        """
        peer = self.connected(address)
        if peer is None:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            peer = await self._connect(address, timeout_ms)
            timeout_ms = max(1, timeout_ms - round((loop.time() - began_s) * 1000))
        assert write is None or not self.signs, "frames that somebody else writes are not signed"
        return await peer.call(request, timeout_ms, write)

    async def tell(self, address: str, request: Request[Any]) -> None:
        """Send a request that wants no answer.

        Raises:
            ConnectionLost: If the peer cannot be reached.
            ProcessForked: If the connections are another process's.
        """
        (await self.connect(address)).tell(request)

    async def connect(self, address: str) -> PeerConnection:
        """The open connection to ``address``, made anew when there is none.

        Raises:
            ConnectionLost: If the peer cannot be reached.
            ProcessForked: If the connections are another process's.
        """
        return self.connected(address) or await self._connect(address, CONNECT_TIMEOUT_MS)

    def connected(self, address: str) -> PeerConnection | None:
        """The open connection to ``address``, if there is one.

        Raises:
            ProcessForked: If the connections are another process's.
        """
        self.check_process()
        link = self._links.get(address)
        if link is None or not link.peer.is_open:
            return None
        link.used = True
        return link.peer

    def check_process(self) -> None:
        """Say so if connections were made in another process.

        Raises:
            ProcessForked: If they were.
        """
        if self._process is not None and self._process != _here.process:
            raise ProcessForked(self._process, os.getpid())

    def close_idle(self, now_ms: int, idle_ms: int) -> int:
        """End the connections that nobody used for ``idle_ms``; give how many those are.

        It compares with the last look, so it wants to be called from time to time.
        """
        closed = 0
        for link in list(self._links.values()):
            peer = link.peer
            if link.used or peer.asking or peer.answering or peer.reads != link.reads:
                link.used, link.reads, link.idle_since_ms = False, peer.reads, now_ms
            elif link.idle_since_ms is not None and now_ms - link.idle_since_ms >= idle_ms:
                peer.close()
                closed += 1
        return closed

    async def _connect(self, address: str, timeout_ms: int) -> PeerConnection:
        opening = self._opening.get(address)
        if opening is None:
            if self._closed:
                raise ConnectionLost(address, "not connected: this side is closed already")
            self._make_room(address)
            self._process = _here.process
            opening = asyncio.create_task(self._open(address), name=f"connect {address}")
            self._opening[address] = opening
            opening.add_done_callback(lambda task: self._opened(address, task))
        # Not cancelled with one of those who wait for it.
        done, _ = await asyncio.wait([opening], timeout=timeout_ms / 1000)
        if not done:
            raise ConnectionLost(address, f"no connection within {timeout_ms} ms")
        if opening.cancelled():
            raise ConnectionLost(address, "not connected: this side is closing")
        return opening.result()

    def _opened(self, address: str, task: asyncio.Task[PeerConnection]) -> None:
        del self._opening[address]
        if not task.cancelled():
            task.exception()  # whoever waited has it; perhaps nobody waits any more

    def _make_room(self, address: str) -> None:
        if len(self._links) + len(self._opening) < self._max_connections:
            return
        for link in self._links.values():  # the oldest first
            if not link.peer.asking and not link.peer.answering:
                link.peer.close()
                self._forget(link.peer)
                return
        raise ConnectionLost(
            address,
            f"{self._max_connections} connections are open, and each is waited on: try again",
        )

    async def _open(self, address: str) -> PeerConnection:
        host, port = split_address(address)
        peer = PeerConnection(
            self._answer, limits=self._limits, on_lost=self._forget, sign=self._sign
        )
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_MS / 1000):
                await connected(peer, host, port, self._tls)
        except TimeoutError:
            reason = f"no connection within {CONNECT_TIMEOUT_MS} ms"
            raise ConnectionLost(address, reason) from None
        except TlsFailure as failure:
            raise ConnectionLost(address, str(failure)) from failure
        except OSError as error:
            reason = f"cannot connect ({_reason(error)})"
            raise ConnectionLost(address, reason) from error
        self._links[address] = _Link(peer)
        self._on_connected(address)
        return peer

    def _forget(self, peer: PeerConnection) -> None:
        for address, link in self._links.items():
            if link.peer is peer:
                del self._links[address]
                return


async def connected(
    peer: asyncio.Protocol | asyncio.BufferedProtocol, host: str, port: int, tls: ClientTls | None
) -> None:
    """Connect a protocol, with TLS if it is given.

    Raises:
        OSError: If there is no connection.
        TlsFailure: If there is no TLS with who answers.
        ConfigError: If a file of the TLS settings is not what it should be.
    """
    loop = asyncio.get_running_loop()
    if tls is None:
        await loop.create_connection(lambda: peer, host, port)
        return
    shaken: asyncio.Future[None] = loop.create_future()

    def done(failure: TlsFailure | None) -> None:
        if not shaken.done():
            if failure is None:
                shaken.set_result(None)
            else:
                shaken.set_exception(failure)

    stream = tls.stream(peer, host, done)
    transport, _ = await loop.create_connection(lambda: stream, host, port)
    try:
        await shaken
        if stream.failure is not None:  # a certificate of ours is refused behind the handshake
            raise stream.failure
    except BaseException:
        transport.abort()
        raise


def _reason(error: OSError) -> str:
    """What the operating system says; asyncio puts the address there, which is known."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)


def split_address(address: str) -> tuple[str, int]:
    """``host:port`` or ``[v6]:port`` → its two parts.

    Raises:
        ValueError: If there is no port, or it is not a number from 0 to 65535, or what stands
            before it is no host: a URL, or several addresses.
    """
    host, colon, port = address.rpartition(":")
    if not colon or _NO_HOST.search(host) or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
