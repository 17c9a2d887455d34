"""One socket: bytes in, commands out, answers matched to questions by their opaque.

Both sides may ask. What the peer asks goes to ``answer``; what we ask waits in ``_waiting`` until
its answer, its deadline or the end of the connection. Reading pauses while the peer does not take
what we wrote, or while too many of its requests are being answered: nothing grows without bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from rocketpipe.errors import CallTimeout, ConnectionLost, RemoteProtocolError
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import MAX_FRAME_BYTES, encode_frame
from rocketpipe.protocol.request import Request, read_reply, to_command

log = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT")

Answer = Callable[[Command, "PeerConnection"], Awaitable[Command]]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How much one peer may make us hold."""

    max_frame_bytes: int = MAX_FRAME_BYTES
    max_requests: int = 1024
    max_unsent_bytes: int = 8 * 1024 * 1024


class PeerConnection(asyncio.Protocol):
    """One connected peer, from either side."""

    def __init__(
        self,
        answer: Answer,
        *,
        limits: ConnectionLimits,
        on_lost: Callable[[PeerConnection], None] = lambda _: None,
    ) -> None:
        self._answer = answer
        self._limits = limits
        self._on_lost = on_lost
        self._wire = Connection(max_frame_bytes=limits.max_frame_bytes)
        self._opaques = count(1)
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport | None = None
        self._peer_is_slow = False
        self.address = "unconnected"
        self.lost = asyncio.get_running_loop().create_future()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=self._limits.max_unsent_bytes)
        self.address = _address_text(transport.get_extra_info("peername"))

    def data_received(self, data: bytes) -> None:
        try:
            commands = self._wire.receive(data)
        except RemoteProtocolError:
            commands = []
        for command in commands:
            if command.is_response:
                self._settle(command)
            else:
                task = asyncio.ensure_future(self._respond(command))
                self._answering.add(task)
                task.add_done_callback(self._answered)
        if self._wire.failure is not None:
            log.warning("connection closed peer=%s reason=%s", self.address, self._wire.failure)
            self.close()
        self._regulate()

    def pause_writing(self) -> None:
        self._peer_is_slow = True
        self._regulate()

    def resume_writing(self) -> None:
        self._peer_is_slow = False
        self._regulate()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for task in self._answering:
            task.cancel()
        error = ConnectionLost(self.address, str(exc) if exc else "closed by the peer")
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)
        self._waiting.clear()
        if not self.lost.done():
            self.lost.set_result(None)
        self._on_lost(self)

    # What callers use

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def local_host(self) -> str:
        """The address of this machine that the peer is connected to."""
        assert self._transport is not None
        host: str = self._transport.get_extra_info("sockname")[0]
        return host

    async def call(self, request: Request[ReplyT], timeout_ms: int) -> ReplyT:
        """Ask the peer and wait for its answer.

        Raises:
            RequestRejected: If the peer refuses.
            CallTimeout: If no answer comes in time.
            ConnectionLost: If the connection ends first.
        """
        opaque = next(self._opaques) & 0x7FFF_FFFF
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = answer
        try:
            self._write(to_command(request, opaque))
            async with asyncio.timeout(timeout_ms / 1000):
                command = await answer
        except TimeoutError:
            raise CallTimeout(self.address, type(request).__name__, timeout_ms) from None
        finally:
            self._waiting.pop(opaque, None)
        return read_reply(request, command)

    def tell(self, request: Request[Any]) -> None:
        """Send a request that wants no answer.

        Raises:
            ConnectionLost: If the connection has ended.
        """
        self._write(to_command(request, next(self._opaques) & 0x7FFF_FFFF, oneway=True))

    def close(self) -> None:
        """Send what was written, then end the connection."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once; what was written may be lost."""
        if self._transport is not None:
            self._transport.abort()

    # Inside

    async def _respond(self, command: Command) -> None:
        answer = await self._answer(command, self)
        if not command.is_oneway and self.is_open:
            self._write(answer)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("answer failed peer=%s", self.address, exc_info=error)
            self.close()
        self._regulate()

    def _settle(self, command: Command) -> None:
        waiting = self._waiting.pop(command.opaque, None)
        if waiting is None:
            log.debug("late answer peer=%s opaque=%d", self.address, command.opaque)
        elif not waiting.done():
            waiting.set_result(command)

    def _write(self, command: Command) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost(self.address, "the connection has ended")
        self._transport.write(encode_frame(command))

    def _regulate(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._peer_is_slow or len(self._answering) >= self._limits.max_requests:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


def _address_text(peername: Any) -> str:
    if isinstance(peername, tuple) and len(peername) >= 2:
        host, port = peername[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return str(peername or "unknown")
