"""A listening port: accepts peers, keeps them, lets them go."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from rocketpipe.background import running
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.descriptors import shares
from rocketpipe.errors import PortUnavailable
from rocketpipe.remoting.accepting import Accepting, prepare
from rocketpipe.remoting.buffers import Buffers
from rocketpipe.remoting.connection import Answer, ConnectionLimits, PeerConnection
from rocketpipe.remoting.door import Door
from rocketpipe.remoting.lane import Lane
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.remoting.peer_timeouts import PeerTimeouts, Watch
from rocketpipe.remoting.tls import ServerTls

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_MS: Final = 3000
_BACKLOG: Final = 1024


class Server:
    """One port, bound before it serves: its real number is known even when 0 was asked for."""

    def __init__(self, listening: socket.socket, limits: ConnectionLimits) -> None:
        self._listening = listening
        self._limits = limits

    @classmethod
    @asynccontextmanager
    async def bound(
        cls, host: str, port: int, *, limits: ConnectionLimits | None = None
    ) -> AsyncIterator[Server]:
        """Hold the port inside the block; nobody is accepted until ``serving``.

        Raises:
            PortUnavailable: If the port is taken or the address is not this machine's.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise PortUnavailable(error, f"{host}:{port}") from error
        with listening:
            listening.setblocking(False)
            yield cls(listening, limits or ConnectionLimits())

    @property
    def address(self) -> str:
        host, port = self._listening.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @asynccontextmanager
    async def serving(
        self,
        answer: Answer,
        on_lost: Callable[[PeerConnection], None] = lambda _: None,
        *,
        lane: Lane | None = None,
        clock: Clock | None = None,
        patience: PeerTimeouts | None = None,
        max_connections: int | None = None,
        buffers: Buffers | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
        tls: ServerTls | None = None,
    ) -> AsyncIterator[None]:
        """Accept peers and answer them inside the block; then close the port and every peer.

        What was asked by then is still answered: ``on_close`` is the moment to finish what the
        lane began, and to stop waiting for what may take long. Ports that are given the same
        ``buffers`` share them.
        """
        together = buffers or Buffers()
        peers = _Peers(
            self._listening,
            lambda: PeerConnection(
                answer, limits=self._limits, lane=lane, on_lost=peers.forget, buffers=together
            ),
            on_lost,
            most_connections(max_connections),
            tls,
        )
        watching = peers.watch(Watch(patience or PeerTimeouts()), clock or SystemClock())
        peers.accepting.on()
        try:
            async with running(watching, "watch"):
                yield
        finally:
            peers.accepting.off()
            self._listening.close()
            await peers.close(on_close)


def most_connections(asked: int | None = None) -> int:
    """How many connections there is room for, beside what else needs a descriptor."""
    room = shares().connections
    return room if asked is None else min(asked, room)


class _Peers:
    """Everyone who is connected."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], PeerConnection],
        on_lost: Callable[[PeerConnection], None],
        most: int,
        tls: ServerTls | None,
    ) -> None:
        self.accepting = Accepting(
            listening, self._take, lambda reason: self._refuse(f"{reason}: new peers wait")
        )
        self._make = make
        self._on_lost = on_lost
        self._most = most
        self._tls = tls
        #: Of whom it is not known yet whether they speak TLS.
        self._doors: set[Door] = set()
        self._loop = asyncio.get_running_loop()
        self._open: set[PeerConnection] = set()
        self._arriving: set[asyncio.Task[None]] = set()
        self._refused = LogBudget()
        self._ended = LogBudget()

    def _take(self, connected: socket.socket, address: object) -> None:
        if len(self._open) + len(self._arriving) + len(self._doors) >= self._most:
            connected.close()
            self._refuse(f"{self._most} connections are the most, {address} is sent away")
            return
        prepare(connected)
        arriving = self._loop.create_task(self._welcome(connected))
        self._arriving.add(arriving)
        arriving.add_done_callback(self._arriving.discard)

    def _refuse(self, reason: str) -> None:
        if self._refused.allows():
            log.warning("peer not accepted reason=%s%s", reason, self._refused.suppressed())

    async def _welcome(self, connected: socket.socket) -> None:
        peer = self._make()
        first = peer if self._tls is None else self._door(self._tls, peer)
        try:
            await self._loop.connect_accepted_socket(lambda: first, connected)
        except OSError as error:  # it has left already
            log.debug("peer lost on arrival reason=%s", error)
            connected.close()
            if isinstance(first, Door):
                self._doors.discard(first)
            return
        if peer.is_open:
            self._open.add(peer)

    def _door(self, tls: ServerTls, peer: PeerConnection) -> Door:
        def entered(door: Door) -> None:
            self._doors.discard(door)
            self._open.add(peer)

        door = Door(tls, peer, entered=entered, left=self._doors.discard)
        self._doors.add(door)
        return door

    def forget(self, peer: PeerConnection) -> None:
        self._open.discard(peer)
        self._on_lost(peer)

    async def watch(self, watch: Watch, clock: Clock) -> None:
        """End the connections of those who take too long."""
        while True:
            await clock.sleep(watch.every_ms)
            now_ms = clock.monotonic_ms()
            for peer in list(self._open):
                reason = watch.overdue(peer, now_ms)
                if reason is None:
                    continue
                if self._ended.allows():
                    log.info(
                        "connection ended peer=%s reason=%s%s",
                        peer.address,
                        reason,
                        self._ended.suppressed(),
                    )
                peer.abort()

    async def close(self, on_close: Callable[[], Awaitable[None]] | None) -> None:
        """Let what was asked be answered, then end every connection."""
        if self._arriving:
            await asyncio.wait(self._arriving)
        for door in list(self._doors):
            door.abort()
        for peer in self._open:
            peer.stop_reading()
        if on_close is not None:
            await on_close()
        deadline = self._loop.time() + CLOSE_TIMEOUT_MS / 1000
        while (answers := self._answers()) and self._loop.time() < deadline:
            await asyncio.wait(answers, timeout=deadline - self._loop.time())
        leaving = list(self._open)
        for peer in leaving:
            peer.close()
        if leaving:
            await asyncio.wait([peer.lost for peer in leaving], timeout=CLOSE_TIMEOUT_MS / 1000)
        for peer in list(self._open):
            peer.abort()

    def _answers(self) -> set[asyncio.Task[None]]:
        return set().union(*(peer.answering for peer in self._open))
