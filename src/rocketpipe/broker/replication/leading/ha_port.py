"""The port where followers connect, one for a broker's life.

    accepted → the leader of this moment welcomes it → with access control, it proves who it is
             → a connection that takes part
             → nobody leads here, or too many are here → closed at once

Whoever has not shown that it has the log, or takes it in, is a stranger; of those there are few,
and a new one takes the place of the oldest. So a flood of them keeps no follower out for long.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from rocketpipe.broker.replication.leading.challenged import Challenged, Doorkeeper
from rocketpipe.errors import PortUnavailable
from rocketpipe.remoting.accepting import Accepting, prepare
from rocketpipe.remoting.door import Door
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.remoting.tls import ServerTls

log = logging.getLogger(__name__)

#: Connections that have not shown yet that they follow.
MAX_STRANGERS: Final = 64
#: Connections in all: followers, and strangers.
MAX_CONNECTIONS: Final = 256
_BACKLOG: Final = 256


class HaConnection(Protocol):
    """A follower's connection, as the port sees it; it is an asyncio protocol too."""

    @property
    def is_stranger(self) -> bool:
        """Whether it has not shown yet that it follows."""
        ...

    def abort(self) -> None:
        """End it at once."""
        ...


class Outgoings(Protocol):
    """Who leads, as the port sees it."""

    def welcome(self, lost: Callable[[HaConnection], None]) -> HaConnection | None:
        """A connection for one more; ``lost`` is called at its end. None if nobody leads any more.

        What is given has to be an ``asyncio.Protocol``.
        """
        ...


class HaPort:
    """A listening socket, bound before anybody leads: its number is known from the start."""

    def __init__(
        self,
        listening: socket.socket,
        tls: ServerTls | None = None,
        keeper: Doorkeeper | None = None,
    ) -> None:
        self._listening = listening
        self._tls = tls
        self._keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._leader: Callable[[], Outgoings | None] = lambda: None
        #: In the order of their coming.
        self._open: dict[HaConnection, None] = {}
        self._arriving: set[asyncio.Task[None]] = set()
        #: Of whom it is not known yet whether they speak TLS: they go with their connections.
        self._doors: dict[HaConnection, Door] = {}
        #: Of whom it is not known yet whether they may follow.
        self._challenged: dict[HaConnection, Challenged] = {}
        self._accepting = Accepting(
            listening,
            lambda connected, address: self._take(connected, f"{address[0]}:{address[1]}"),
            lambda reason: self._refuse(f"{reason}: followers wait"),
        )
        self._lines = LogBudget(lines=3)
        self._said_nobody_leads = False
        #: Connections that were closed as soon as they came, or made room for others.
        self.refused = 0

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self._listening.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def serve(self, leader: Callable[[], Outgoings | None]) -> None:
        """Accept connections, for whoever ``leader`` gives when one comes; None: nobody leads."""
        self._leader = leader
        self._accepting.on()

    def close(self) -> None:
        """Accept nobody any more, and end every connection."""
        self._accepting.off()
        for task in self._arriving:
            task.cancel()
        for connection in list(self._open):
            connection.abort()

    def _take(self, connected: socket.socket, address: str) -> None:
        leader = self._leader()
        if leader is not None and not self._make_room():
            connected.close()
            self._refuse(f"{MAX_CONNECTIONS} connections are the most, {address} is sent away")
            return
        connection = leader.welcome(self._forget) if leader is not None else None
        if connection is None:
            connected.close()
            self.refused += 1
            if not self._said_nobody_leads:
                self._said_nobody_leads = True
                log.info("follower sent away peer=%s reason=this broker does not lead", address)
            return
        self._said_nobody_leads = False
        self._open[connection] = None
        prepare(connected)
        arriving = self._loop.create_task(self._welcome(connected, connection))
        self._arriving.add(arriving)
        arriving.add_done_callback(self._arriving.discard)

    def _make_room(self) -> bool:
        """Have room for one more stranger; False if followers take all there is."""
        strangers = [each for each in self._open if each.is_stranger]
        if len(strangers) < MAX_STRANGERS and len(self._open) < MAX_CONNECTIONS:
            return True
        if not strangers:
            return False
        strangers[0].abort()
        self._refuse(f"{len(strangers)} connections do not follow, and the oldest is ended")
        return True

    async def _welcome(self, connected: socket.socket, connection: HaConnection) -> None:
        assert isinstance(connection, asyncio.Protocol)
        protocol: asyncio.Protocol = connection
        if connection not in self._open:  # it had to make room already
            connected.close()
            return
        if self._keeper is not None:

            def refused(address: str, reason: str) -> None:
                self._refuse(f"{address}: {reason}")
                connection.abort()

            protocol = self._challenged[connection] = Challenged(
                connection,
                self._keeper,
                entered=lambda: self._proven(connection),
                refuse=refused,
            )
        if self._tls is not None:

            def entered(_: Door) -> None:
                del self._doors[connection]

            protocol = self._doors[connection] = Door(
                self._tls, protocol, entered=entered, left=lambda _: connection.abort()
            )
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, connected)
        except OSError as error:  # it has left already
            log.debug("follower lost on arrival reason=%s", error)
            connected.close()
            connection.abort()
        except asyncio.CancelledError:
            connected.close()
            raise

    def _forget(self, connection: HaConnection) -> None:
        self._open.pop(connection, None)
        if (door := self._doors.pop(connection, None)) is not None:
            door.abort()
        if (challenged := self._challenged.pop(connection, None)) is not None:
            challenged.abort()

    def _proven(self, connection: HaConnection) -> None:
        self._challenged.pop(connection, None)

    def _refuse(self, reason: str) -> None:
        self.refused += 1
        if self._lines.allows():
            log.warning("follower not accepted reason=%s%s", reason, self._lines.suppressed())


@asynccontextmanager
async def ha_port(
    host: str, port: int, tls: ServerTls | None = None, keeper: Doorkeeper | None = None
) -> AsyncIterator[HaPort]:
    """Hold the port inside the block; nobody is accepted until it is told to `serve`.

    With a ``keeper`` those alone get to the leader who have proven that they may follow.

    Raises:
        PortUnavailable: The port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise PortUnavailable(error, f"{host}:{port}", "for followers ") from error
    with listening:
        listening.setblocking(False)
        held = HaPort(listening, tls, keeper)
        try:
            yield held
        finally:
            held.close()
