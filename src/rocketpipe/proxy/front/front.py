"""The gRPC port in front of grpcio: TLS and plaintext on one port, told apart by the first byte.

    0x16 ──▶ Door: a handshake, when there is room for one ──▶ TlsStream ──┐
    else ──▶ Door: permissive or disabled                                  ├─▶ Relay ──▶ grpcio
             enforcing: the end                                            ┘

TLS ends here, with what the remoting port uses for it, so all settings of TLS hold here too and
grpcio needs one plain socket: a unix one in a directory that nobody else may enter. A client's end
of it has a name, and by that name the service asks here where the client really comes from.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from rocketpipe.auth.failures import MAX_ON_CONNECTION
from rocketpipe.clock import Clock
from rocketpipe.descriptors import shares
from rocketpipe.errors import ConfigError, PortUnavailable
from rocketpipe.metrics import Family, Kind, Series, single
from rocketpipe.proxy.front.certificate import port_tls
from rocketpipe.proxy.front.relay import Relay
from rocketpipe.proxy.server import Port, client_address
from rocketpipe.remoting.accepting import Accepting, address_text, prepare
from rocketpipe.remoting.door import Door
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.remoting.tls import ServerTls
from rocketpipe.remoting.tls_settings import Mode, TlsConfig

log = logging.getLogger(__name__)

#: What is agreed upon behind TLS; some clients hang up without it.
SPOKEN: Final = ("h2",)
_BACKLOG: Final = 1024
#: The client's, ours towards grpcio, and grpcio's own.
_DESCRIPTORS_EACH: Final = 3
#: The longest name that a unix socket has everywhere, and what comes behind the directory's.
_SOCKET_NAME: Final = 103
_NAME_ROOM: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontLimits:
    """What one port bears."""

    #: Beside what the process may have open at all: half of what it has for connections.
    connections: int | None = None
    first_bytes_s: float = 10.0
    stalled_s: float = 60.0

    @property
    def most(self) -> int:
        room = max(1, shares().connections // 2 // _DESCRIPTORS_EACH)
        return room if self.connections is None else min(self.connections, room)


class Front:
    """One port, for as long as it is bound: ``async with front.listen(server, host, port)``."""

    def __init__(self, tls: ServerTls | None, limits: FrontLimits | None = None) -> None:
        """Without ``tls`` only plaintext is taken, and who speaks TLS is told so."""
        self._tls = tls
        self._limits = limits or FrontLimits()
        self.first_bytes_s = self._limits.first_bytes_s
        self.stalled_s = self._limits.stalled_s
        self.inside = Path()
        self._most = self._limits.most
        self._numbers = itertools.count()
        self._doors: set[Door] = set()
        self._relays: set[Relay] = set()
        self._arriving: set[asyncio.Task[None]] = set()
        #: Who has which name towards grpcio.
        self._by_name: dict[str, Relay] = {}
        self._names: dict[Relay, str] = {}
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
    async def listen(self, server: grpc.aio.Server, host: str, port: int) -> AsyncIterator[Port]:
        """Bind a server that has not started yet, and bring it clients inside the block.

        Raises:
            PortUnavailable: If the port is taken, or the address is not this machine's.
        """
        at = address_text((host, port))
        with _listening(host, port, at) as listening, _private_directory() as directory:
            self.inside = directory / "grpc"
            try:
                server.add_insecure_port(f"unix:{self.inside}")
            except RuntimeError as error:
                raise PortUnavailable(OSError(str(error)), str(self.inside), "for gRPC ") from error
            accepting = Accepting(listening, self._take, self._wait)
            accepting.on()
            try:
                address = address_text(listening.getsockname())
                yield Port(address, self.client_address, self.login_failed)
            finally:
                accepting.off()
                listening.close()
                await self._close()

    @property
    def connections(self) -> int:
        """How many there are, those among them of whom nothing is known yet."""
        return len(self._relays)

    def client_address(self, peer: str) -> str:
        """Where a client comes from, by what grpcio calls it: ``unix:`` and its name here."""
        relay = self._by_name.get(peer.removeprefix("unix:"))
        return client_address(peer) if relay is None else relay.address

    def login_failed(self, peer: str, is_flood: bool) -> None:
        """Send a client away whose calls nobody is let in by, as the remoting port does."""
        relay = self._by_name.get(peer.removeprefix("unix:"))
        if relay is None:
            return
        relay.failed_logins += 1
        if is_flood or relay.failed_logins >= MAX_ON_CONNECTION:
            relay.dismiss("too many of its logins, or of its address, failed")

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

    # What relays ask for

    def name(self, relay: Relay) -> Path:
        name = self.inside.with_name(f"c{next(self._numbers)}")
        self._by_name[str(name)] = relay
        self._names[relay] = str(name)
        return name

    def refused(self, address: str, word: str, reason: str) -> None:
        self._results[word] += 1
        if self._said.allows():
            log.warning(
                "gRPC connection refused peer=%s reason=%s%s",
                address,
                reason,
                self._said.suppressed(),
            )

    def ended(self, relay: Relay) -> None:
        self._relays.discard(relay)
        name = self._names.pop(relay, None)
        if name is not None:
            del self._by_name[name]

    # Who comes and goes

    def _take(self, connected: socket.socket, address: Any) -> None:
        if self.connections >= self._most:
            connected.close()
            self.refused(address_text(address), "full", f"{self._most} connections are the most")
            return
        prepare(connected)
        relay = Relay(self)
        self._relays.add(relay)
        arriving = asyncio.get_running_loop().create_task(self._welcome(connected, relay))
        self._arriving.add(arriving)
        arriving.add_done_callback(self._arriving.discard)

    def _wait(self, reason: str) -> None:
        if self._said.allows():
            log.warning("gRPC clients wait reason=%s%s", reason, self._said.suppressed())

    async def _welcome(self, connected: socket.socket, relay: Relay) -> None:
        first = relay if self._tls is None else self._door(self._tls, relay)
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: first, connected)
        except OSError as error:  # it has left already
            log.debug("gRPC client lost on arrival reason=%s", error)
            connected.close()
            self.ended(relay)
            if isinstance(first, Door):
                self._doors.discard(first)

    def _door(self, tls: ServerTls, relay: Relay) -> Door:
        def left(door: Door) -> None:
            self._doors.discard(door)
            self.ended(relay)

        door = Door(tls, relay, entered=self._doors.discard, left=left)
        self._doors.add(door)
        return door

    async def _close(self) -> None:
        """Let nobody stay: the server has stopped."""
        if self._arriving:
            await asyncio.wait(self._arriving)
        for door in list(self._doors):
            door.abort()
        for relay in list(self._relays):
            relay.abort()


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


@contextmanager
def _private_directory() -> Iterator[Path]:
    """A directory for sockets: of this user alone, and short, as names of sockets have to be."""
    for parent in (None, "/tmp"):  # noqa: S108 - what is made there is nobody else's
        try:
            made = Path(tempfile.mkdtemp(prefix="rocketpipe-", dir=parent))
        except OSError as error:
            raise ConfigError("TMPDIR", f"no directory can be made there ({error})") from error
        if len(str(made)) + _NAME_ROOM <= _SOCKET_NAME:
            break
        made.rmdir()
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
