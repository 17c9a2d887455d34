"""The service: a method per RPC, and what all of them have in common.

What goes wrong is told in the ``status`` of an answer, and the call itself ends well: so clients
have it. Only telemetry, which has no such answer, ends with a status of gRPC's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.calls import Entrance, RpcCall
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.handling import Handling
from rocketpipe.proxy.http2.receiver import Unread
from rocketpipe.proxy.pulling import Pulling
from rocketpipe.proxy.receipts import Receipts
from rocketpipe.proxy.receiving import Receiving
from rocketpipe.proxy.routes import Routes
from rocketpipe.proxy.rpc.call import Call, ReaderGone, ReaderTooSlow
from rocketpipe.proxy.rpc.codes import StatusCode, abort
from rocketpipe.proxy.rpc.server import Method
from rocketpipe.proxy.sending import Sending
from rocketpipe.proxy.sessions import Session, Sessions
from rocketpipe.proxy.slow_readers import SlowReaders
from rocketpipe.proxy.status import Refused, ok, status_of
from rocketpipe.proxy.telemetry import Telemetry
from rocketpipe.proxy.transactions import Transactions
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.proxy.v2.rpcs import RPCS, Rpc

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class Service:
    """RocketMQ's MessagingService on a backend."""

    def __init__(
        self,
        backend: Backend,
        config: ProxyConfig,
        clock: Clock,
        unread: Unread,
    ) -> None:
        """``unread`` is what clients have not taken yet of what was written to them."""
        self._backend = backend
        self._config = config
        self._clock = clock
        self.sessions = Sessions(config, clock)
        self._entrance = Entrance(backend, self.sessions)
        self.receipts = Receipts(backend, config, clock)
        self._routes = Routes(backend)
        self._sending = Sending(backend, config, clock)
        self._handling = Handling(backend, config, clock, self.receipts)
        self.readers = SlowReaders(config, unread)
        self._receiving = Receiving(
            backend, config, clock, self.receipts, self._handling, self.readers
        )
        self._pulling = Pulling(backend, config, self.readers)
        self._transactions = Transactions(backend, config)
        self._telemetry = Telemetry(backend, config)
        self._unary: dict[str, Callable[[Any, RpcCall], Awaitable[Any]]] = {
            "QueryRoute": self._routes.route,
            "Heartbeat": self._heartbeat,
            "SendMessage": self._sending.send,
            "QueryAssignment": self._routes.assignment,
            "AckMessage": self._handling.acknowledge,
            "ForwardMessageToDeadLetterQueue": self._handling.forward,
            "UpdateOffset": self._pulling.update,
            "GetOffset": self._pulling.get,
            "QueryOffset": self._pulling.query,
            "EndTransaction": self._transactions.end,
            "NotifyClientTermination": self._terminated,
            "ChangeInvisibleDuration": self._handling.change,
            "RecallMessage": self._sending.recall,
            "SyncLiteSubscription": self._no_lite,
        }
        self._streamed: dict[str, Callable[[Any, RpcCall, Any], Awaitable[None]]] = {
            "ReceiveMessage": self._receiving.receive,
            "PullMessage": self._pulling.pull,
        }

    def methods(self) -> dict[str, Method]:
        """What a server is given to serve."""
        return {rpc.path: self._method(rpc) for rpc in RPCS}

    async def keep_current(self) -> None:
        """Let silent clients go and renew receipts, for as long as the port is open."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._let_silent_go())
            tasks.create_task(self.receipts.keep_renewed())

    async def close(self) -> None:
        """Take leave of everybody: what they hold comes again soon."""
        for session in self.sessions.all():
            await self._end(session)
        await self._handling.finish()

    # How it is called

    def _method(self, rpc: Rpc) -> Method:
        read = rpc.request.FromString
        if rpc.takes_stream:
            return Method(read, self._serve_telemetry, takes_stream=True)
        if rpc.gives_stream:
            return Method(read, self._served_stream(rpc), gives_stream=True)
        return Method(read, self._served(rpc))

    def _served(self, rpc: Rpc) -> Callable[[Any, Call], Awaitable[Any]]:
        method, response, name = self._unary[rpc.name], rpc.response, rpc.name
        enter = self._entrance.enter

        async def serve(request: Any, call: Call) -> Any:
            try:
                return await method(request, enter(call, name))
            except Exception as error:  # whatever it is becomes an answer
                return response(status=status_of(error, name))

        return serve

    def _served_stream(self, rpc: Rpc) -> Callable[[Any, Call], Awaitable[None]]:
        method, response, name = self._streamed[rpc.name], rpc.response, rpc.name

        async def serve(request: Any, call: Call) -> None:
            try:
                await method(request, self._entrance.enter(call, name), call)
            except (ReaderGone, ReaderTooSlow):
                raise
            except Exception as error:  # whatever it is becomes an answer
                await call.write(response(status=status_of(error, name)))
                if response is pb.ReceiveMessageResponse:  # its last word, whatever came before
                    last = pb.ReceiveMessageResponse()
                    last.delivery_timestamp.FromMilliseconds(self._clock.now_ms())
                    await call.write(last)

        return serve

    async def _serve_telemetry(self, call: Call) -> None:
        try:
            entered = self._entrance.enter(call, "Telemetry")
        except RocketPipeError as error:
            told = status_of(error, "Telemetry")
            code = StatusCode.INVALID_ARGUMENT
            if told.code in (pb.UNAUTHORIZED, pb.FORBIDDEN):
                code = StatusCode.UNAUTHENTICATED
            elif told.code == pb.TOO_MANY_REQUESTS:
                code = StatusCode.RESOURCE_EXHAUSTED
            abort(code, f"{pb.Code.Name(told.code)}: {told.message}")
        await self._telemetry.serve(call, entered)

    # What is about clients

    async def _heartbeat(self, request: pb.HeartbeatRequest, call: RpcCall) -> pb.HeartbeatResponse:
        session = call.session
        if session.data is None:
            raise Refused(
                pb.UNRECOGNIZED_CLIENT_TYPE,
                "this client has told no settings yet: open a telemetry stream first",
            )
        await self._backend.beat(session, session.data, call.by)
        return pb.HeartbeatResponse(status=ok())

    async def _terminated(
        self, request: pb.NotifyClientTerminationRequest, call: RpcCall
    ) -> pb.NotifyClientTerminationResponse:
        await self._end(call.session)
        return pb.NotifyClientTerminationResponse(status=ok())

    async def _no_lite(
        self, request: pb.SyncLiteSubscriptionRequest, call: RpcCall
    ) -> pb.SyncLiteSubscriptionResponse:
        raise Refused(pb.UNSUPPORTED, "lite topics are not served: subscribe to a plain topic")

    async def _let_silent_go(self) -> None:
        while True:
            await self._clock.sleep(self._config.sweep_ms)
            for session in self.sessions.silent():
                await self._end(session)

    async def _end(self, session: Session) -> None:
        if self.sessions.end(session):
            await self.receipts.give_back(session)
            await self._backend.leave(session)
