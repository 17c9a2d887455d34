"""gRPC on HTTP/2: calls that come, each served by a task of its own, within bounds.

request     whole before it is served, unless its method takes a stream
answer      headers, messages, and the status in headers behind them
bounds      calls at a time, a request's length, and all requests that have come in part;
what comes in part, or is not read, has so long
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from rocketpipe.errors import RocketPipeError
from rocketpipe.proxy.http2.connection import Connection
from rocketpipe.proxy.http2.frames import ErrorCode
from rocketpipe.proxy.http2.receiver import Http2Limits, Unread
from rocketpipe.proxy.http2.stream import Stream
from rocketpipe.proxy.rpc import codes
from rocketpipe.proxy.rpc.call import (
    PREFIX,
    Call,
    ReaderGone,
    ReaderTooSlow,
    check_message,
    timeout_s,
)
from rocketpipe.proxy.rpc.codes import RpcAborted, StatusCode, abort
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

#: Whoever reads less than so much while it is waited for is too slow.
_SOME_BYTES: Final = 16 * 1024

_failures = LogBudget()


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC: how its request is read, and who serves it."""

    read: Callable[[bytes], Any]
    #: ``(request, call) -> answer``; ``(request, call)`` if it answers by a stream; ``(call)`` if
    #: it takes one.
    serve: Callable[..., Awaitable[Any]]
    takes_stream: bool = False
    gives_stream: bool = False

    def parsed(self, data: bytes) -> Any:
        """A request.

        Raises:
            RpcAborted: It is none.
        """
        try:
            return self.read(data)
        except Exception as error:  # whatever protobuf raises
            raise RpcAborted(StatusCode.INTERNAL, f"the request cannot be read: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcLimits:
    """What one port bears."""

    calls: int = 30_000
    message_bytes: int = 4 << 20
    #: Requests that have come in part, all together.
    unfinished_bytes: int = 128 << 20
    #: How long a request may come, and what was written may wait to be read.
    patience_s: float = 10.0
    http2: Http2Limits = field(default_factory=Http2Limits)


class RpcServer:
    """Serves calls of all connections of a port."""

    def __init__(
        self, methods: Mapping[str, Method], limits: RpcLimits, unread: Unread | None = None
    ) -> None:
        """``methods`` by their paths; ``unread`` is what clients have not taken yet."""
        self.methods = methods
        self.limits = limits
        self.max_message_bytes = limits.message_bytes
        self.unread = unread or Unread()
        #: Calls whose requests have not come whole, and what has come of them.
        self.coming = 0
        self.unfinished_bytes = 0
        #: Those that are served; a call that was given up is one until its task has ended.
        self.calls: set[Call] = set()
        self._connections: set[Calls] = set()
        self.is_stopping = False

    def connected(
        self,
        send: Callable[[bytes], None],
        address: str,
        login_failed: Callable[[bool], None] = lambda _: None,
    ) -> Calls:
        """Serve a connection whose preface is there.

        ``login_failed`` hears of a call that nobody was let in by, and whether its address floods.
        """
        calls = Calls(self, send, address, login_failed)
        self._connections.add(calls)
        return calls

    def disconnected(self, calls: Calls) -> None:
        """Forget a connection."""
        self._connections.discard(calls)

    def start(self, call: Call, request: Any) -> None:
        """Have a call served."""
        call.is_served = True
        self.calls.add(call)
        call.task = asyncio.get_running_loop().create_task(self._serve(call, request))
        call.task.add_done_callback(partial(self._ended, call))

    async def stop(self, grace_s: float) -> None:
        """Let what is under way have so long, and end the rest."""
        self.is_stopping = True
        for each in self._connections:
            each.connection.leave()
        tasks = [call.task for call in self.calls if call.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        left = list(self.calls)
        for call in left:
            call.finish(StatusCode.UNAVAILABLE, "this server is stopping")
            if call.task is not None:
                call.task.cancel()
        if left:
            await asyncio.wait([call.task for call in left if call.task is not None])

    async def _serve(self, call: Call, request: Any) -> None:
        method = call.method
        try:
            if method.takes_stream:
                await method.serve(call)
                call.finish()
            elif method.gives_stream:
                await method.serve(request, call)
                call.finish()
            else:
                call.answer(await method.serve(request, call))
        except RpcAborted as error:
            call.finish(error.code, str(error))
        except (ReaderGone, ReaderTooSlow) as error:
            log.debug("gRPC stream ended peer=%s reason=%s", call.address, error)
        except asyncio.CancelledError:
            call.finish(StatusCode.CANCELLED, "the call was given up")
            raise
        except Exception:
            call.finish(StatusCode.INTERNAL, "the call failed; the log says why")
            if _failures.allows():
                log.exception("gRPC call failed peer=%s%s", call.address, _failures.suppressed())

    def _ended(self, call: Call, task: asyncio.Task[None]) -> None:
        """Forget a call; its task may have been given up before it ran at all."""
        if call.timer is not None:
            call.timer.cancel()
        call.task = call.stream.owner = None  # so that nothing is left for the collector
        self.calls.discard(call)


class Calls:
    """The calls of one connection."""

    def __init__(
        self,
        server: RpcServer,
        send: Callable[[bytes], None],
        address: str,
        login_failed: Callable[[bool], None],
    ) -> None:
        self._server = server
        self.login_failed = login_failed
        self._address = address
        self._loop = asyncio.get_running_loop()
        self.connection = Connection(
            self, send, self._loop.time, server.unread, server.limits.http2
        )
        #: Whose requests have not come whole.
        self._coming: dict[Call, None] = {}
        self._watch: asyncio.TimerHandle | None = None
        #: How many there were.
        self.began_calls = 0
        #: Whether a ping was not answered yet.
        self.is_asked = False
        self.connection.begin()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not self.connection.streams

    def feed(self, data: bytes) -> None:
        """Take bytes of the client.

        Raises:
            Http2Fault: It broke a rule of HTTP/2.
        """
        self.is_asked = False
        self.connection.feed(data)
        if self._coming and self._watch is None:
            self._look_later()

    def close(self) -> None:
        """The connection is gone."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self.connection.close()
        self._server.disconnected(self)

    # What the connection tells

    def began(self, stream: Stream) -> None:
        self.began_calls += 1
        try:
            self._begin(stream)
        except RpcAborted as error:
            self._refuse(stream, error)

    def grew(self, stream: Stream) -> None:
        call: Call | None = stream.owner
        if call is None or call.is_served:
            if call is not None:
                call.grew()
            return
        try:
            self._collect(call, stream)
        except RpcAborted as error:
            self._left(call)
            self._refuse(stream, error)

    def gone(self, stream: Stream, reason: str) -> None:
        call: Call | None = stream.owner
        if call is not None:
            self._left(call)
            call.broke(ReaderGone(f"the reader of a stream is gone: {reason}"))

    def blocked(self, stream: Stream) -> None:
        if self._watch is None:
            self._look_later()

    def taken(self, stream: Stream) -> None:
        if stream.owner is not None:
            stream.owner.took()

    def ponged(self) -> None:
        self.is_asked = False

    # Inside

    def _begin(self, stream: Stream) -> None:
        server, limits = self._server, self._server.limits
        if stream.headers is None:
            most = limits.http2.header_bytes
            abort(StatusCode.RESOURCE_EXHAUSTED, f"more than {most} bytes of headers")
        metadata = dict(stream.headers)
        stream.headers = None
        if metadata.get(":method") != "POST":
            self.connection.finish(stream, codes.plain_status(405))
            return
        if not metadata.get("content-type", "").startswith("application/grpc"):
            self.connection.finish(stream, codes.plain_status(415))
            return
        path = metadata.get(":path", "")
        method = server.methods.get(path)
        if method is None:
            abort(StatusCode.UNIMPLEMENTED, f"no such method: {path[:200]}")
        if server.is_stopping:
            abort(StatusCode.UNAVAILABLE, "this server is stopping")
        if len(server.calls) + server.coming >= limits.calls:
            abort(StatusCode.RESOURCE_EXHAUSTED, f"{limits.calls} calls are served at a time")
        waits_s = timeout_s(metadata.get("grpc-timeout", ""))
        call = Call(server, self, stream, method, metadata, self._address)
        stream.owner = call
        if waits_s is not None:
            call.deadline_s = self._loop.time() + waits_s
            call.timer = self._loop.call_later(waits_s, self._expire, call)
        if method.takes_stream:
            server.start(call, None)
        elif stream.ends:
            self._collect(call, stream)
        else:
            self._coming[call] = None
            server.coming += 1
            self._count(call, stream.header_bytes)

    def _count(self, call: Call, size: int) -> None:
        """Bound what is there of requests that are not whole."""
        server = self._server
        server.unfinished_bytes += size - call.counted
        call.counted = size
        if server.unfinished_bytes > server.limits.unfinished_bytes:
            self._left(call)
            abort(StatusCode.RESOURCE_EXHAUSTED, "too many requests that have come in part")

    def _collect(self, call: Call, stream: Stream) -> None:
        """Have a request whole, and then served."""
        server, body = self._server, stream.body
        have = len(body)
        if call.size < 0 and have >= PREFIX.size:
            packed, size = PREFIX.unpack_from(body)
            check_message(packed, size, server.max_message_bytes)
            call.size = PREFIX.size + size
        if 0 <= call.size < have:
            abort(StatusCode.INTERNAL, "more than one request in a call that has one")
        if not stream.ends:
            self.connection.allow(stream, call.size - have)
            self._count(call, have + stream.header_bytes)
            return
        if have != call.size:
            abort(StatusCode.INTERNAL, "the request is cut")
        self._arrived(call)
        request = call.method.parsed(bytes(memoryview(body)[PREFIX.size :]))
        stream.body = bytearray()
        server.start(call, request)

    def _arrived(self, call: Call) -> None:
        if call in self._coming:
            del self._coming[call]
            self._server.coming -= 1
            self._server.unfinished_bytes -= call.counted
            call.counted = 0

    def _left(self, call: Call) -> None:
        """A call that is not served any more, or never was."""
        self._arrived(call)
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None

    def _refuse(self, stream: Stream, error: RpcAborted) -> None:
        self.connection.finish(stream, codes.only_trailers(error.code, str(error)))

    def _expire(self, call: Call) -> None:
        self._left(call)
        if call.stream.unsent:  # a status would wait behind what is not read
            self.connection.reset(call.stream, ErrorCode.CANCEL)
        call.finish(StatusCode.DEADLINE_EXCEEDED, "the deadline is over")
        call.broke(ReaderGone("the deadline is over"))

    def _look_later(self) -> None:
        self._watch = self._loop.call_later(self._server.limits.patience_s, self._look)

    def _look(self) -> None:
        """Drop who takes too long: with a request, or with what was written."""
        self._watch = None
        for call in list(self._coming):
            if not call.is_old:
                call.is_old = True
                continue
            late = RpcAborted(StatusCode.DEADLINE_EXCEEDED, "the request did not come in time")
            self._left(call)
            self._refuse(call.stream, late)
        for stream in list(self.connection.waiting):
            if stream.sent - stream.seen >= _SOME_BYTES:
                stream.seen = stream.sent
                continue
            self.connection.reset(stream, ErrorCode.CANCEL)
            if stream.owner is not None:
                stream.owner.broke(_too_slow())
        if self._coming or self.connection.waiting:
            self._look_later()


def _too_slow() -> RocketPipeError:
    return ReaderTooSlow("the reader of a stream was too slow")
