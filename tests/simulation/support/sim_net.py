"""A network between simulated processes: bytes in order, late, in pieces, or not at all.

    SimNet          who reaches whom, and how slowly; a way that is cut loses nothing, it holds it
      SimListening  a socket that listens, as far as `HaPort` looks at it
      SimTransport  one end of a connection

What was written goes on its way even if its writer ends the connection right behind it; so a report
may come after its sender has closed. A machine that lost its power says nothing to anybody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from itertools import count
from random import Random
from typing import Any, Final

from tests.simulation.support.sim_loop import SimLoop, SimProcess, current_process

#: Milliseconds that a piece takes where nothing is wrong, and where the way is slow.
USUAL_MS: Final = (0.1, 2.0)
SLOW_MS: Final = (5.0, 150.0)
_HIGH_WATER: Final = 64 << 10


class SimNet:
    """The ways between hosts, which are named by what is before the colon of their addresses."""

    def __init__(self, loop: SimLoop, chance: Random) -> None:
        self.loop = loop
        self.chance = chance
        loop.sockets = self
        self._hosts: dict[SimProcess, str] = {}
        self._listening: dict[tuple[str, int], SimListening] = {}
        self._cut: set[tuple[str, str]] = set()
        self._slow: set[tuple[str, str]] = set()
        #: Machines without power: nothing is refused there, nothing comes.
        self.dark: set[str] = set()
        self._ends: list[SimTransport] = []
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._fds = count(1000)

    # What a schedule does to it

    def cut(self, a: str, b: str) -> None:
        """Nothing gets from ``a`` to ``b``."""
        self._cut.add((a, b))

    def slow(self, a: str, b: str) -> None:
        self._slow.add((a, b))

    def heal(self) -> None:
        """All ways are as they were."""
        self._cut.clear()
        self._slow.clear()
        self._flow()

    def _flow(self) -> None:
        for end in list(self._ends):
            end.flow()
        while self._waiting:
            if not (waiter := self._waiting.popleft()).done():
                waiter.set_result(None)

    def reset(self, a: str, b: str) -> None:
        """End each connection between two hosts, as a device between them does."""
        for end in list(self._ends):
            if end.host == a and end.peer_host == b:
                end.lose(ConnectionResetError("reset by the network"))
                end.other.lose(ConnectionResetError("reset by the network"))

    def reaches(self, a: str, b: str) -> bool:
        return (a, b) not in self._cut and b not in self.dark

    # Processes

    def place(self, process: SimProcess, host: str) -> None:
        self._hosts[process] = host
        if host in self.dark:
            self.dark.discard(host)
            self._flow()

    def host(self, process: SimProcess) -> str:
        return self._hosts[process]

    def lost(self, process: SimProcess, *, dark: bool) -> None:
        """A process was killed: its peers hear of that, unless its whole machine is gone."""
        host = self._hosts.pop(process)
        if dark:
            self.dark.add(host)
        self._listening = {at: each for at, each in self._listening.items() if at[0] != host}
        for end in [each for each in self._ends if each.process is process]:
            self._ends.remove(end)
            end.gone = True
            if dark:
                end.drop()
            else:
                end.send(_RESET)

    def listen(self, process: SimProcess, port: int) -> SimListening:
        host = self._hosts[process]
        listening = self._listening[host, port] = SimListening((host, port), next(self._fds))
        return listening

    def delay_s(self, a: str, b: str) -> float:
        low, high = SLOW_MS if (a, b) in self._slow else USUAL_MS
        return self.chance.uniform(low, high) / 1000

    async def way(self, a: str, b: str) -> None:
        """Let a message find its way; one that cannot comes when the ways are healed."""
        while not self.reaches(a, b):
            waiter: asyncio.Future[None] = self.loop.create_future()
            self._waiting.append(waiter)
            await waiter
        await asyncio.sleep(self.delay_s(a, b))

    # What the loop is asked for

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        process = current_process()
        assert process is not None
        own = self._hosts[process]
        await self.way(own, host)
        listening = self._listening.get((host, port))
        if listening is None:
            await self.way(host, own)
            raise ConnectionRefusedError(111, "nobody listens there")
        here = SimTransport(self, process, own, host)
        there = SimTransport(self, None, host, own)
        here.other, there.other = there, here
        self._ends += [here, there]
        listening.backlog.append(there)
        self.loop.readable(listening.fd)
        await self.way(host, own)
        protocol = factory()
        here.begin(protocol)
        return here, protocol

    async def accepted(self, factory: Callable[[], Any], sock: Any) -> tuple[Any, Any]:
        assert isinstance(sock, SimTransport)
        sock.process = current_process()
        await asyncio.sleep(0)
        protocol = factory()
        sock.begin(protocol)
        return sock, protocol

    def forget(self, end: SimTransport) -> None:
        if end in self._ends:
            self._ends.remove(end)


class SimListening:
    """What `HaPort` asks of a listening socket."""

    def __init__(self, address: tuple[str, int], fd: int) -> None:
        self._address = address
        self.fd = fd
        self.backlog: deque[SimTransport] = deque()

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def fileno(self) -> int:
        return self.fd

    def accept(self) -> tuple[SimTransport, tuple[str, int]]:
        if not self.backlog:
            raise BlockingIOError
        taken = self.backlog.popleft()
        return taken, (taken.peer_host, 1)


_RESET: Final = object()
_END: Final = object()


class SimTransport(asyncio.Transport):
    """One end; before it is accepted it is a socket, as far as that is asked for anything."""

    def __init__(self, net: SimNet, process: SimProcess | None, host: str, peer_host: str) -> None:
        super().__init__()
        self._net = net
        self.process = process
        self.host = host
        self.peer_host = peer_host
        self.other: SimTransport = self
        self._protocol: Any = None
        self._context: Context | None = None
        self._closing = False
        #: Its process is gone, or it was closed: what comes is not taken.
        self.gone = False
        self._on_way: deque[Any] = deque()
        self._unsent = 0
        self._flowing = False
        self._held: deque[Any] = deque()
        self._reading = True
        self._writing_paused = False
        self._high = _HIGH_WATER

    # What is asked of a socket

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""

    def setsockopt(self, *option: int) -> None:
        """It has none."""

    # asyncio.Transport

    def begin(self, protocol: Any) -> None:
        self._protocol = protocol
        assert self.process is not None
        self._context = self.process.context
        protocol.connection_made(self)
        self._take_held()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.peer_host, 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or _HIGH_WATER

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not data:
            return
        taken, chance = bytes(data), self._net.chance
        self._unsent += len(taken)
        at = 0
        while at < len(taken):
            size = len(taken) - at
            if chance.random() < 0.15:
                size = chance.randint(1, size)
            self._on_way.append(taken[at : at + size])
            at += size
        self.flow()
        if self._unsent > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def send(self, mark: object) -> None:
        self._on_way.append(mark)
        self.flow()

    def drop(self) -> None:
        """What was not under way yet never will be."""
        self._on_way.clear()

    def close(self) -> None:
        self._finish(_END)

    def abort(self) -> None:
        self._finish(_RESET)

    def _finish(self, mark: object) -> None:
        if self._protocol is None:  # it was never accepted
            self.gone = True
            self.send(mark)
        elif not self._closing:
            self._closing = True
            self.gone = True
            self.send(mark)
            self._call(self._lost, None)

    def lose(self, reason: Exception | None) -> None:
        """The connection is over, by what came from the other side."""
        self._on_way.clear()
        if self._protocol is None:
            self._held.append(_RESET)
        elif not self._closing:
            self._closing = True
            self.gone = True
            self._call(self._lost, reason)

    def _lost(self, reason: Exception | None) -> None:
        self._net.forget(self)
        self._protocol.connection_lost(reason)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._take_held()

    # The way to the other end

    def flow(self) -> None:
        """Have the next piece on its way, if there is one and the way is open."""
        net = self._net
        if self._flowing or not self._on_way or not net.reaches(self.host, self.peer_host):
            return
        self._flowing = True
        net.loop.call_later(
            net.delay_s(self.host, self.peer_host), self._arrive, context=_world(net)
        )

    def _arrive(self) -> None:
        self._flowing = False
        if not self._on_way:
            return
        if not self._net.reaches(self.host, self.peer_host):
            return  # it goes again when the way is healed
        # What was written meanwhile may come along, as with a real stream.
        piece = self._on_way.popleft()
        if isinstance(piece, bytes):
            while self._on_way and isinstance(self._on_way[0], bytes):
                if self._net.chance.random() < 0.3:
                    break
                piece += self._on_way.popleft()
            self._unsent -= len(piece)
            if self._writing_paused and self._unsent < self._high // 4 and not self.gone:
                self._writing_paused = False
                self._call(self._resume_writing)
        self.other.take(piece)
        self.flow()

    def _resume_writing(self) -> None:
        if not self._closing:
            self._protocol.resume_writing()

    def take(self, piece: Any) -> None:
        if self.gone:
            if isinstance(piece, bytes) and not self.other.gone:
                self.send(_RESET)  # nobody is here who would take it
            return
        self._held.append(piece)
        self._take_held()

    def _take_held(self) -> None:
        if self._protocol is not None and self._reading and self._held:
            self._call(self._receive)

    def _receive(self) -> None:
        while self._held and self._reading and not self._closing:
            piece = self._held.popleft()
            if piece is _RESET:
                self.lose(ConnectionResetError("reset by the peer"))
            elif piece is _END:
                self._protocol.eof_received()
                self.close()
            elif hasattr(self._protocol, "get_buffer"):
                self._fill(piece)
            else:
                self._protocol.data_received(piece)

    def _fill(self, piece: bytes) -> None:
        buffer = self._protocol.get_buffer(len(piece))
        size = min(len(buffer), len(piece))
        buffer[:size] = piece[:size]
        if size < len(piece):
            self._held.appendleft(piece[size:])
        self._protocol.buffer_updated(size)

    def _call(self, what: Callable[..., Any], *args: Any) -> None:
        self._net.loop.call_soon(what, *args, context=self._context)


def _world(net: SimNet) -> Context:
    return net.loop.world.context
