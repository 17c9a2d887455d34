"""Stands between two processes on one machine, and can cut them off from each other.

    broker-a-1 ── zookeeper-1's relay for broker-a-1 ──▶ zookeeper-1
    broker-a-2 ──┐
    broker-a-3 ──┴ broker-a-1's HA relay ──▶ broker-a-1's HA port

What is cut is not closed: nothing passes any more, in either direction, as when a network drops
what is sent. Neither side is told, and whoever connects anew waits as well. When it is healed, what
was under way passes after all: late, as from a network that was slow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from rocketpipe.cli.cluster.layout import HOST

log = logging.getLogger(__name__)

#: So many connections wait to be healed; who comes then is turned away.
MOST_HELD: Final = 256


class Cuts:
    """Who is cut off from the others at this moment."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._relays: list[Relay] = []

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def between(self, server: str, client: str | None) -> bool:
        """Whether nothing passes between these two."""
        return server in self._names or client in self._names

    def add(self, name: str) -> None:
        """Cut one off, at once."""
        self._names.add(name)
        self._changed()

    def remove(self, name: str) -> None:
        """Heal it."""
        self._names.discard(name)
        self._changed()

    def watch(self, relay: Relay) -> None:
        """Have a relay obey."""
        self._relays.append(relay)

    def _changed(self) -> None:
        for relay in self._relays:
            relay.obey()


class Relay:
    """Listens on one port, and passes what comes on to another."""

    def __init__(
        self,
        *,
        server: str,
        target: int,
        client: str | Callable[[int], str | None],
        cuts: Cuts,
    ) -> None:
        """Take who is reached, at which port, and by whom.

        If that is more than one, ``client`` says who connects from a port.
        """
        self.server = server
        self._target = target
        self._client = client
        self._cuts = cuts
        self._links: set[_Link] = set()
        self._listening: asyncio.Server | None = None
        cuts.watch(self)

    async def open(self, port: int) -> int:
        """Listen, and give the port.

        Raises:
            OSError: If the port is taken.
        """
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._accepted, HOST, port)
        bound: int = self._listening.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        """Listen no longer, and close every connection."""
        if self._listening is not None:
            self._listening.close()
        for link in list(self._links):
            link.abort()

    def obey(self) -> None:
        """Hold or let go each connection, as it is cut or not."""
        for link in list(self._links):
            link.hold(held=self._cuts.between(self.server, link.client_name))

    @property
    def held(self) -> int:
        """How many connections wait to be healed."""
        return sum(link.held for link in self._links)

    def _accepted(self) -> _End:
        link = _Link(self)
        return link.client

    def connected(self, link: _Link) -> None:
        """A client has connected: find out who it is, and connect to the server for it."""
        name = self._client
        link.client_name = name if isinstance(name, str) else name(link.client.port)
        if self.held >= MOST_HELD:
            link.abort()
            return
        self._links.add(link)
        link.hold(held=self._cuts.between(self.server, link.client_name))
        link.opening = asyncio.ensure_future(link.open(self._target))

    def ended(self, link: _Link) -> None:
        """Both ends of it are closed."""
        self._links.discard(link)


class _Link:
    """One connection: its two ends, and whether anything passes."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.client_name: str | None = None
        self.held = False
        self._healed = asyncio.Event()
        self.client = _End(self)
        self.server = _End(self)
        self.client.other, self.server.other = self.server, self.client
        self.opening: asyncio.Future[None] | None = None

    async def open(self, target: int) -> None:
        await self._healed.wait()
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.server, HOST, target)
        except OSError as error:
            log.debug("%s is not there: %s", self._relay.server, error)
            self.abort()

    def hold(self, *, held: bool) -> None:
        self.held = held
        if held:
            self._healed.clear()
        else:
            self._healed.set()
        self.client.steer()
        self.server.steer()

    def abort(self) -> None:
        if self.opening is not None:
            self.opening.cancel()
        for end in (self.client, self.server):
            if end.transport is not None:
                end.transport.abort()
        self._relay.ended(self)

    def connected(self, end: _End) -> None:
        if end is self.client:
            self._relay.connected(self)
        self.client.steer()
        self.server.steer()

    def lost(self, end: _End) -> None:
        assert end.other is not None
        if end.other.transport is not None:
            end.other.transport.close()  # what was written there still goes
        else:
            self.abort()
        if self.client.is_lost and self.server.is_lost:
            self._relay.ended(self)


class _End(asyncio.Protocol):
    """One side of a connection: passes on what it reads, as fast as the other side takes it."""

    def __init__(self, link: _Link) -> None:
        self._link = link
        self.other: _End | None = None
        self.transport: asyncio.Transport | None = None
        self.port = 0
        self.is_lost = False
        self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.port = transport.get_extra_info("peername")[1]
        self._link.connected(self)

    def data_received(self, data: bytes) -> None:
        assert self.other is not None
        assert self.other.transport is not None, "not read before both are there"
        self.other.transport.write(data)

    def pause_writing(self) -> None:
        self._full = True
        assert self.other is not None
        self.other.steer()

    def resume_writing(self) -> None:
        self._full = False
        assert self.other is not None
        self.other.steer()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._link.lost(self)

    def steer(self) -> None:
        """Read if the other side is there and takes more, and nothing is cut."""
        if self.transport is None or self.is_lost:
            return
        assert self.other is not None
        there = self.other.transport is not None and not self.other.is_lost
        if there and not self.other._full and not self._link.held:  # noqa: SLF001 - its twin
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()
