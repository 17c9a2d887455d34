"""One socket: bytes in, commands out, answers matched to questions by their opaque.

Both sides may ask. What the peer asks goes to the lane first, if there is one, and else to
``answer``; what we ask waits in ``_waiting`` until its answer, its deadline or the end of the
connection. While the peer does not take what we wrote, or too many of its requests are being
answered, nothing is read from it and no further answer is begun: nothing grows without bound. What
all peers together may make us hold is in ``buffers``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol, TypeVar, cast

from rocketpipe.errors import CallTimeout, ConnectionLost, RemoteProtocolError
from rocketpipe.model.host import Host
from rocketpipe.protocol.command import Command, Sign
from rocketpipe.protocol.connection import Connection, Frame
from rocketpipe.protocol.frame import MAX_FRAME_BYTES, encode_frame
from rocketpipe.protocol.request import Request, read_reply, to_command
from rocketpipe.remoting.accepting import address_text
from rocketpipe.remoting.buffers import Buffers, Total
from rocketpipe.remoting.lane import Lane
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.remoting.tls_failure import closed_by_peer, has_ended

log = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT")

Answer = Callable[[Command, "PeerConnection"], Awaitable[Command]]

#: Gives the frame of a request that is to have this number.
Write = Callable[[int], bytes]


class Told(Protocol):
    """An answer that was read without becoming a command."""

    @property
    def opaque(self) -> int: ...


#: Reads the answer that lies between two places of the bytes; None if that takes a command.
QuickRead = Callable[[bytes, int, int], Told | None]

_broken = LogBudget()
_unlimited = Total.unlimited()


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How much one peer may make us hold."""

    max_frame_bytes: int = MAX_FRAME_BYTES
    #: Pulls that wait among them, one for each queue that the peer reads.
    max_requests: int = 16_384
    max_unsent_bytes: int = 8 * 1024 * 1024


class PeerConnection(asyncio.Protocol):
    """One connected peer, from either side."""

    def __init__(
        self,
        answer: Answer,
        *,
        limits: ConnectionLimits,
        lane: Lane | None = None,
        on_lost: Callable[[PeerConnection], None] = lambda _: None,
        buffers: Buffers | None = None,
        sign: Sign | None = None,
    ) -> None:
        self._answer = answer
        self._sign = sign or (lambda command: command)
        self._lane = lane
        self._limits = limits
        self.max_frame_bytes = limits.max_frame_bytes
        self._on_lost = on_lost
        self._buffers = buffers
        self._unsent = _unlimited if buffers is None else buffers.unsent
        self._wire = Connection(max_frame_bytes=limits.max_frame_bytes)
        self._opaques = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        #: How answers are read to what was asked by `ask`, and who waits for those.
        self._quick_read: QuickRead | None = None
        self._quick: dict[int, asyncio.Future[Any]] = {}
        #: Its requests that are being answered.
        self.answering: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._drained: asyncio.Future[None] | None = None
        self._draining = False
        #: How many reads brought something; and what grows when frames become whole.
        self.reads = 0
        self.frames = 0
        self._is_between_frames = True
        #: Whole frames that leave together, with the next `flush`.
        self.outbox: list[bytes] = []
        #: Of the outbox, what was said to be much; and what went on to the transport, ever.
        self.posted_bytes = 0
        self.given_bytes = 0
        self._is_held_back = False
        self._ended: Exception | None = None
        self.address = "unconnected"
        self.visit: Any = None  # what the guard of the port keeps of this peer
        #: What `packed_host` gave, if it was asked for.
        self.known_host = b""
        #: Kept: to ask for it costs a system call, which is much for every frame.
        self.loop = asyncio.get_running_loop()
        self.lost = self.loop.create_future()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: other loops have transports of their own.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._limits.max_unsent_bytes)
        self.address = address_text(transport.get_extra_info("peername"))
        if self._buffers is not None:
            self._buffers.join(self)

    def data_received(self, data: bytes) -> None:
        self.reads += 1
        wire = self._wire
        lane = self._lane
        # What `is_slow` says, written out: this is done for every read.
        if lane and self._is_between_frames and not (self._drained or self._unsent.is_full):
            used = lane.take_first(data, self)
            if used:
                self.frames += 1
                if used == len(data):
                    return
                data = data[used:]
        try:
            buffer, frames = wire.frames(data)
        except RemoteProtocolError:
            buffer, frames = b"", []
        self._is_between_frames = wire.is_between_frames
        self.frames += len(frames)
        if self._buffers is not None and wire.buffered_bytes:
            self._buffers.unfinished.grew(len(data))
        if frames:
            if self._lane is not None:
                self._lane.take_frames(buffer, frames, self)
            else:
                self.take(buffer, frames)
        if wire.failure is not None:
            self._is_between_frames = False
            if _broken.allows():
                log.warning(
                    "connection closed peer=%s reason=%s%s",
                    self.address,
                    wire.failure,
                    _broken.suppressed(),
                )
            self.close()

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()
        self._regulate()

    def resume_writing(self) -> None:
        if self._is_held_back and self._transport is not None:
            self._is_held_back = False
            self._transport.set_write_buffer_limits(high=self._limits.max_unsent_bytes)
        self._let_go()
        self._regulate()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._buffers is not None:
            self._buffers.leave(self)
        self._let_go()
        for task in self.answering:
            task.cancel()
        self._ended = exc
        error = ConnectionLost(self.address, str(exc) if exc else closed_by_peer(self.reads))
        for waiting in (*self._waiting.values(), *self._quick.values()):
            if not waiting.done():
                waiting.set_exception(error)
        self._waiting.clear()
        self._quick.clear()
        self._wire.clear()
        self.outbox.clear()
        self.posted_bytes = 0
        if not self.lost.done():
            self.lost.set_result(None)
        self._on_lost(self)

    # What callers use

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_slow(self) -> bool:
        """Whether the peer does not take what it asked for as fast as it asks, or all do not."""
        return self._drained is not None or self._unsent.is_full

    @property
    def asking(self) -> int:
        """How many of our own questions it has not answered yet."""
        return len(self._waiting) + len(self._quick)

    @property
    def buffered_bytes(self) -> int:
        """How much there is of a frame that is not whole yet."""
        return self._wire.buffered_bytes

    @property
    def unsent_bytes(self) -> int:
        """How much is held that the peer has not taken."""
        transport = self._transport
        return self.posted_bytes + (0 if transport is None else transport.get_write_buffer_size())

    @property
    def taken_bytes(self) -> int:
        """How much it has taken in all."""
        transport = self._transport
        return self.given_bytes - (0 if transport is None else transport.get_write_buffer_size())

    def hold_back(self, most_bytes: int) -> None:
        """Answer nothing more until the peer has taken most of all but so much."""
        if self._transport is not None and not self._is_held_back:
            self._is_held_back = True
            self._transport.set_write_buffer_limits(high=most_bytes)

    @property
    def packed_host(self) -> bytes:
        """The peer's address as records have it: 8 bytes, or 20 for IPv6."""
        if not self.known_host:
            self.known_host = Host.parse(self.address).pack()
        return self.known_host

    async def call(
        self, request: Request[ReplyT], timeout_ms: int, write: Write | None = None
    ) -> ReplyT:
        """Ask the peer and wait for its answer.

        Whoever writes the frame of a request for less gives how; it leaves with others of this
        turn of the loop.

        Raises:
            RequestRejected: If the peer refuses.
            CallTimeout: If no answer comes in time.
            ConnectionLost: If the connection ends first.
        """
        opaque = next(self._opaques) & 0x7FFF_FFFF
        answer: asyncio.Future[Command] = self.loop.create_future()
        self._waiting[opaque] = answer
        timer: asyncio.TimerHandle | None = None
        try:
            if write is None:
                self._write(self._sign(to_command(request, opaque)))
            else:
                self.ask(opaque, write(opaque), answer)
            timer = self.loop.call_later(timeout_ms / 1000, self._late, answer, request, timeout_ms)
            command = await answer
        finally:
            self._waiting.pop(opaque, None)
            if timer is not None:
                timer.cancel()
        return read_reply(request, command)

    def tell(self, request: Request[Any]) -> None:
        """Send a request that wants no answer.

        Raises:
            ConnectionLost: If the connection has ended.
        """
        self._write(self._sign(to_command(request, self.next_opaque(), oneway=True)))

    def next_opaque(self) -> int:
        """The number of the next question, for a frame that its sender writes; see ``ask``."""
        return next(self._opaques) & 0x7FFF_FFFF

    def ask(
        self,
        opaque: int,
        frame: bytes,
        answer: asyncio.Future[Any] | None,
        quick_read: QuickRead | None = None,
    ) -> None:
        """Send a whole frame; ``answer`` gets what the peer says to it, or the loss of the peer.

        It gets what ``quick_read``, always the same one, makes of that, or else a Command. Frames
        that are sent in one turn of the loop leave together. Whoever stops waiting for the answer
        says so by ``forget``.

        Raises:
            ConnectionLost: If the connection has ended.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionLost(self.address, has_ended(self._transport, self._ended))
        if quick_read is None:
            if answer is not None:
                self._waiting[opaque] = answer
        else:
            assert answer is not None, "what is read quickly is waited for"
            self._quick_read = quick_read
            self._quick[opaque] = answer
        outbox = self.outbox
        outbox.append(frame)
        if len(outbox) == 1:
            self.loop.call_soon(self.flush)

    def forget(self, opaque: int) -> None:
        """Wait no longer for this answer."""
        if self._quick.pop(opaque, None) is None:
            self._waiting.pop(opaque, None)

    async def drained(self) -> None:
        """Wait until the peer has taken most of what was written, or is gone.

        Whoever is about to answer with much, after having waited, asks this first.
        """
        while self.is_slow:
            if self._drained is not None:
                await asyncio.shield(self._drained)
            else:
                await self._unsent.has_room()

    def post(self, frame: bytes) -> None:
        """Keep a whole frame for the next `flush`."""
        self.outbox.append(frame)

    def posted_much(self, size: int) -> None:
        """Count what was posted, where it is more than a few words."""
        self.posted_bytes += size
        self._unsent.grew(size)

    def flush(self) -> bool:
        """Write what is in the outbox, all at once; True if the peer keeps up."""
        outbox = self.outbox
        if outbox:
            self.write(outbox[0] if len(outbox) == 1 else b"".join(outbox))
            outbox.clear()
            self.posted_bytes = 0
        return not self.is_slow

    def write(self, data: bytes) -> None:
        """Write whole frames, if the peer is still there."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self.given_bytes += len(data)
            transport.write(data)

    def stop_reading(self) -> None:
        """Take nothing more from the peer: what was asked is answered, and that is all."""
        self._draining = True
        self._regulate()

    def close(self) -> None:
        """Send what was written, then end the connection."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once; what was written may be lost."""
        if self._transport is not None:
            self._transport.abort()

    def take(self, buffer: bytes, frames: list[Frame]) -> None:
        """Answer frames, or hand them to whoever asked, without the lane."""
        quick, read = self._quick, self._quick_read
        for at, body, _ in frames:
            if quick:
                assert read is not None, "a quick answer is waited for"
                told = read(buffer, at, body)
                if told is not None:
                    waiting = quick.pop(told.opaque, None)
                    if waiting is not None:
                        if not waiting.done():
                            waiting.set_result(told)
                        continue
            try:
                command = self._wire.command(buffer, at)
            except RemoteProtocolError:
                break
            if command.is_response:
                self._settle(command)
            else:
                task = asyncio.ensure_future(self._respond(command))
                self.answering.add(task)
                task.add_done_callback(self._answered)
        self._regulate()

    # Inside

    def _late(
        self, answer: asyncio.Future[Command], request: Request[Any], timeout_ms: int
    ) -> None:
        if not answer.done():
            answer.set_exception(CallTimeout(self.address, type(request).__name__, timeout_ms))

    async def _respond(self, command: Command) -> None:
        if self.is_slow:
            await self.drained()
        answer = await self._answer(command, self)
        if not command.is_oneway and self.is_open:
            self._write(answer)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self.answering.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("answer failed peer=%s", self.address, exc_info=error)
            self.close()
        self._regulate()

    def _settle(self, command: Command) -> None:
        waiting = self._waiting.pop(command.opaque, None) or self._quick.pop(command.opaque, None)
        if waiting is None:
            log.debug("late answer peer=%s opaque=%d", self.address, command.opaque)
        elif not waiting.done():
            waiting.set_result(command)

    def _write(self, command: Command) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost(self.address, has_ended(self._transport, self._ended))
        frame = encode_frame(command)
        self.given_bytes += len(frame)
        self._transport.write(frame)
        self._unsent.grew(len(frame))

    def _let_go(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    def _regulate(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        pause = (
            self._drained is not None
            or self._draining
            or len(self.answering) >= self._limits.max_requests
        )
        if pause is not self._paused:
            self._paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
