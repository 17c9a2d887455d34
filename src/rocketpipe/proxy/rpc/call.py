"""One call, as whoever serves it has it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.errors import RocketPipeError
from rocketpipe.proxy.http2.frames import USUAL_WINDOW
from rocketpipe.proxy.http2.stream import Stream
from rocketpipe.proxy.rpc import codes
from rocketpipe.proxy.rpc.codes import StatusCode, abort

if TYPE_CHECKING:
    from rocketpipe.proxy.rpc.server import Calls, Method, RpcServer

#: Before each message: whether it is compressed, and its length.
PREFIX: Final = struct.Struct(">BI")
#: Whoever writes more than so much in one go lets others have a turn.
_TURN_BYTES: Final = 256 * 1024
_MOST_S: Final = 10 * 365 * 86_400.0
_UNITS: Final[Mapping[str, float]] = {
    "H": 3600.0,
    "M": 60.0,
    "S": 1.0,
    "m": 1e-3,
    "u": 1e-6,
    "n": 1e-9,
}


class ReaderTooSlow(RocketPipeError):
    """A stream's reader took nothing for so long that it was dropped."""


class ReaderGone(RocketPipeError):
    """A stream's reader went away before it had all."""


class Call:
    """A call: who asks, what comes, and what is answered."""

    __slots__ = (
        "_arrival",
        "_headed",
        "_server",
        "_taken",
        "_written",
        "address",
        "connection",
        "counted",
        "deadline_s",
        "is_old",
        "is_served",
        "login_failed",
        "metadata",
        "method",
        "size",
        "stream",
        "task",
        "timer",
    )

    def __init__(
        self,
        server: RpcServer,
        calls: Calls,
        stream: Stream,
        method: Method,
        metadata: dict[str, str],
        address: str,
    ) -> None:
        self._server = server
        self.connection = calls.connection
        #: To be told that nobody was let in by it, and whether its address floods.
        self.login_failed = calls.login_failed
        self.stream = stream
        self.method = method
        #: The headers, those of HTTP/2 among them.
        self.metadata = metadata
        #: Where the client is, ``host:port``.
        self.address = address
        self.deadline_s: float | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        #: How long its request is to be, how much of it was counted, and since when it comes.
        self.size = -1
        self.counted = 0
        self.is_old = False
        self.is_served = False
        self._headed = False
        self._written = 0
        self._arrival: asyncio.Future[None] | None = None
        self._taken: asyncio.Future[None] | None = None

    def time_remaining(self) -> float | None:
        """Seconds until its deadline; None if it has none."""
        if self.deadline_s is None:
            return None
        return max(self.deadline_s - asyncio.get_running_loop().time(), 0.0)

    async def read(self) -> Any:
        """The next message of a call that has several; None at their end.

        Raises:
            RpcAborted: What comes is none.
        """
        stream = self.stream
        while (message := self._message()) is None:
            if stream.ends:
                if stream.body:
                    abort(StatusCode.INTERNAL, "the last message is cut")
                return None
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        return message

    async def write(self, message: Any) -> None:
        """Answer a message; returns when the client is ready for the next.

        Raises:
            ReaderTooSlow: It took nothing for too long, and was dropped.
            ReaderGone: It has left.
        """
        stream = self.stream
        if stream.is_over:
            raise ReaderGone("the reader of a stream is gone")
        if not self._headed:
            self._headed = True
            self.connection.head(stream, codes.HEAD)
        data = message.SerializeToString()
        if self.connection.write(stream, PREFIX.pack(0, len(data)) + data):
            self._written += len(data)
            if self._written > _TURN_BYTES:
                self._written = 0
                await asyncio.sleep(0)
            return
        self._taken = asyncio.get_running_loop().create_future()
        try:
            await self._taken
        finally:
            self._taken = None

    # What its server does with it

    def answer(self, message: Any) -> None:
        """Answer once, and be done."""
        data = message.SerializeToString()
        self.connection.answer(self.stream, codes.HEAD, PREFIX.pack(0, len(data)) + data, _DONE)

    def finish(self, code: StatusCode = StatusCode.OK, text: str = "") -> None:
        """End it, unless it is over."""
        if self._headed:
            self.connection.finish(self.stream, codes.trailers(code, text))
        elif code is StatusCode.OK:  # a stream that had nothing in it
            self.connection.head(self.stream, codes.HEAD)
            self.connection.finish(self.stream, _DONE)
        else:
            self.connection.finish(self.stream, codes.only_trailers(code, text))

    def grew(self) -> None:
        """More has come."""
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def took(self) -> None:
        """What had waited to be read was."""
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)

    def broke(self, error: RocketPipeError) -> None:
        """Nobody reads it any more."""
        if self._taken is not None and not self._taken.done():
            self._taken.set_exception(error)
            if not self.method.takes_stream:
                return
        if self.task is not None:
            self.task.cancel()

    def _message(self) -> Any:
        """The next message that is there whole."""
        body = self.stream.body
        if len(body) < PREFIX.size:
            return None
        packed, size = PREFIX.unpack_from(body)
        check_message(packed, size, self._server.max_message_bytes)
        end = PREFIX.size + size
        if len(body) < end:
            self.connection.allow(self.stream, end - len(body))
            return None
        data = bytes(body[PREFIX.size : end])
        del body[:end]
        if self.stream.allowed < USUAL_WINDOW // 2:
            self.connection.allow(self.stream, USUAL_WINDOW)
        return self.method.parsed(data)


_DONE: Final = codes.trailers(StatusCode.OK)


def check_message(packed: int, size: int, most: int) -> None:
    """Say whether a message is one that is read.

    Raises:
        RpcAborted: It is not.
    """
    if packed:
        abort(StatusCode.UNIMPLEMENTED, "compressed requests are not read: send them as they are")
    if size > most:
        abort(StatusCode.RESOURCE_EXHAUSTED, f"a request of {size} bytes, and {most} are the most")


def timeout_s(text: str) -> float | None:
    """Seconds of a ``grpc-timeout``, such as ``100m``.

    Raises:
        RpcAborted: It is none.
    """
    if not text:
        return None
    digits, unit = text[:-1], _UNITS.get(text[-1])
    if unit is None or not (digits.isascii() and digits.isdigit()) or len(digits) > 8:
        abort(StatusCode.INTERNAL, f"grpc-timeout is none: {text[:32]}")
    return min(int(digits) * unit, _MOST_S)
