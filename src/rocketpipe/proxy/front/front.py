"""The gRPC port: TLS and plaintext on one port, told apart by the first byte.

    0x16 ──▶ Door: a handshake, when there is room for one ──▶ TlsStream ──┐
    else ──▶ Door: permissive or disabled                                  ├─▶ Peer ──▶ calls
             enforcing: the end                                            ┘

TLS is what the remoting port uses, so all settings of TLS hold here too.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocketpipe.background import running
from rocketpipe.clock import Clock
from rocketpipe.descriptors import shares
from rocketpipe.errors import PortUnavailable
from rocketpipe.metrics import Family, Kind, Series, single
from rocketpipe.proxy.front.certificate import port_tls
from rocketpipe.proxy.front.peer import Peer
from rocketpipe.proxy.rpc.server import RpcServer
from rocketpipe.remoting.accepting import Accepting, address_text, prepare
from rocketpipe.remoting.door import Door
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.remoting.tls import ServerTls
from rocketpipe.remoting.tls_settings import Mode, TlsConfig

log = logging.getLogger(__name__)

#: What is agreed upon behind TLS; some clients hang up without it.
SPOKEN: Final = ("h2",)
_BACKLOG: Final = 1024
#: How often it is looked who is idle or silent.
_SWEEP_S: Final = 5.0
#: Of them are looked at before others have a turn.
_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontLimits:
    """What one port bears."""

    #: Beside what the process may have open at all: half of what it has for connections.
    connections: int | None = None
    first_bytes_s: float = 10.0
    stalled_s: float = 60.0
    idle_s: float = 120.0
    silent_s: float = 60.0

    @property
    def most(self) -> int:
        room = max(1, shares().connections // 2)
        return room if self.connections is None else min(self.connections, room)


class Front:
    """One port, for as long as it is bound: ``async with front.listen(server, host, port)``."""

    def __init__(self, tls: ServerTls | None, limits: FrontLimits | None = None) -> None:
        """Without ``tls`` only plaintext is taken, and who speaks TLS is told so."""
        self._tls = tls
        self._limits = limits or FrontLimits()
        self.first_bytes_s = self._limits.first_bytes_s
        self.stalled_s = self._limits.stalled_s
        self.idle_s = self._limits.idle_s
        self.silent_s = self._limits.silent_s
        self.server: RpcServer
        self._most = self._limits.most
        self._doors: set[Door] = set()
        self._peers: set[Peer] = set()
        self._arriving: set[asyncio.Task[None]] = set()
        self._results: Counter[str] = Counter()
        self._said = LogBudget()

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, given: TlsConfig | None, directory: Path, host: str, clock: Clock
    ) -> AsyncIterator[Front]:
        """A front with the TLS that is ``given``, or else of its own; its files are looked after.

        What it makes for that is kept in ``directory``.

        Raises:
            ConfigError: If a file, or the directory, is not what it should be.
        """
        tls = port_tls(given, directory, host)
        async with ServerTls.opened(tls, clock, speaks=SPOKEN) as secured:
            yield cls(secured)

    @property
    def mode(self) -> Mode:
        """Which connections are taken."""
        return "disabled" if self._tls is None else self._tls.mode

    @asynccontextmanager
    async def listen(self, server: RpcServer, host: str, port: int) -> AsyncIterator[str]:
        """Bring a server clients inside the block, which is given the address they come to.

        Raises:
            PortUnavailable: If the port is taken, or the address is not this machine's.
        """
        self.server = server
        at = address_text((host, port))
        with _listening(host, port, at) as listening:
            accepting = Accepting(listening, self._take, self._wait)
            accepting.on()
            try:
                async with running(self._look(), "gRPC connections"):
                    yield address_text(listening.getsockname())
            finally:
                accepting.off()
                listening.close()
                await self._close()

    @property
    def connections(self) -> int:
        """How many there are, those among them of whom nothing is known yet."""
        return len(self._peers)

    def families(self) -> Iterator[Family]:
        """What is measured here."""
        yield single(
            "rocketpipe_grpc_connections",
            Kind.GAUGE,
            "Connections to the gRPC port.",
            self.connections,
        )
        yield Family(
            "rocketpipe_grpc_connections_refused_total",
            Kind.COUNTER,
            "Connections to the gRPC port that were ended by it, by why.",
            [Series(count, {"why": word}) for word, count in sorted(self._results.items())],
        )

    # What peers ask for

    def refused(self, address: str, word: str, reason: str) -> None:
        self._results[word] += 1
        if self._said.allows():
            log.warning(
                "gRPC connection refused peer=%s reason=%s%s",
                address,
                reason,
                self._said.suppressed(),
            )

    def ended(self, peer: Peer) -> None:
        self._peers.discard(peer)

    # Who comes and goes

    def _take(self, connected: socket.socket, address: Any) -> None:
        if self.connections >= self._most:
            connected.close()
            self.refused(address_text(address), "full", f"{self._most} connections are the most")
            return
        prepare(connected)
        peer = Peer(self)
        self._peers.add(peer)
        arriving = asyncio.get_running_loop().create_task(self._welcome(connected, peer))
        self._arriving.add(arriving)
        arriving.add_done_callback(self._arriving.discard)

    def _wait(self, reason: str) -> None:
        if self._said.allows():
            log.warning("gRPC clients wait reason=%s%s", reason, self._said.suppressed())

    async def _welcome(self, connected: socket.socket, peer: Peer) -> None:
        first = peer if self._tls is None else self._door(self._tls, peer)
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: first, connected)
        except OSError as error:  # it has left already
            log.debug("gRPC client lost on arrival reason=%s", error)
            connected.close()
            self.ended(peer)
            if isinstance(first, Door):
                self._doors.discard(first)

    def _door(self, tls: ServerTls, peer: Peer) -> Door:
        def left(door: Door) -> None:
            self._doors.discard(door)
            self.ended(peer)

        door = Door(tls, peer, entered=self._doors.discard, left=left)
        self._doors.add(door)
        return door

    async def _close(self) -> None:
        """Let nobody stay: the server has stopped."""
        if self._arriving:
            await asyncio.wait(self._arriving)
        for door in list(self._doors):
            door.abort()
        for peer in list(self._peers):
            peer.close()
        await asyncio.sleep(0)  # what was written last goes out
        for peer in list(self._peers):
            peer.abort()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            for number, peer in enumerate(list(self._peers)):
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
                peer.look(asyncio.get_running_loop().time())


@contextmanager
def _listening(host: str, port: int, at: str) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise PortUnavailable(error, at, "for gRPC ") from error
    with listening:
        listening.setblocking(False)
        yield listening
