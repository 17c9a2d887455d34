"""Producers and consumers that live as long as an ASGI application: FastAPI, Starlette, Django.

    messaging = Messaging("127.0.0.1:9876")
    billing = messaging.consumer(group="billing")

    @billing.on("orders")
    async def bill(message): ...

    app = FastAPI(lifespan=messaging.lifespan)

    @app.post("/orders")
    async def create(order: Order):
        await messaging.producer.send("orders", order.model_dump_json().encode())

Each process of a server opens its own when it starts, and when it ends handlers finish what they
have, offsets are saved and sends are waited for. Brokers may be away meanwhile: the application
serves, sends fail with an error that says so, and consumers begin when brokers are back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Self, TypeAlias

from rocketpipe import Admin, Producer, PushConsumer, RocketPipeError, Session
from rocketpipe.clock import within
from rocketpipe.errors import ConnectionLost
from rocketpipe.integrations.readiness import PROBE_MS, Readiness

log = logging.getLogger(__name__)

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Messaging:
    """One producer and any number of consumers; see the top of this file."""

    def __init__(
        self,
        name_servers: str | Session,
        *,
        producer: Producer | None = None,
        required: bool = False,
    ) -> None:
        """Prepare clients of these NameServers; nothing is opened yet.

        ``producer`` takes the place of the usual one. With brokers ``required`` the application
        does not start while none answers; else it does, and is not ready.

        Raises:
            ValueError: If ``name_servers`` is no list such as ``a:9876;b:9876``.
        """
        self.session = Session.of(name_servers)
        self.producer = producer or Producer(self.session)
        self._required = required
        self._consumers: list[PushConsumer] = []
        self._running: AsyncExitStack | None = None

    def consumer(self, *, group: str, **options: Any) -> PushConsumer:
        """Make a consumer that starts and stops with the application.

        The options are those of ``PushConsumer``.

        Raises:
            InvalidName, ValueError, TypeError: As by ``PushConsumer``.
            ValueError: If the application runs already.
        """
        if self._running is not None:
            raise ValueError(f"group {group!r}: make consumers before the application starts")
        made = PushConsumer(self.session, group=group, **options)
        self._consumers.append(made)
        return made

    # Its life

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[dict[str, Messaging]]:
        """What ``FastAPI(lifespan=…)`` and ``Starlette(lifespan=…)`` take."""
        async with self:
            yield {"messaging": self}

    def around(self, app: Application) -> Application:
        """The same application, with the lifespan that it lacks; Django's lacks one."""
        return with_lifespan(app, lambda: self)

    async def __aenter__(self) -> Self:
        """Open everything.

        Raises:
            ConnectionLost, NoBroker: If brokers are required, and none answers.
            RequestRejected, GroupTaken, ValueError: If a consumer cannot be: it has no handler,
                say, or no rights.
        """
        if self._running is not None:
            raise ValueError("the application's clients are open already")
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self.session)
            await opening.enter_async_context(self.producer)
            if self._required and not await self._answering():
                raise ConnectionLost(str(self.session.name_servers), "no broker answers")
            opening.push_async_callback(self._close_consumers)
            for consumer in self._consumers:
                await consumer.open()  # brokers may be away: it looks for them from then on
            self._running = opening.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        opened, self._running = self._running, None
        if opened is not None:
            await opened.aclose()

    async def _close_consumers(self) -> None:
        opened = [each for each in self._consumers if each.is_open]
        results = await asyncio.gather(*(each.close() for each in opened), return_exceptions=True)
        for consumer, result in zip(opened, results, strict=True):
            if isinstance(result, BaseException):
                log.error("not closed cleanly group=%s", consumer.group, exc_info=result)

    # For probes

    async def readiness(self, *, timeout_ms: int = PROBE_MS) -> Readiness:
        """Whether a broker answers; it takes ``timeout_ms`` at most."""
        if self._running is None:
            return Readiness(False, "the application's clients are not open")
        answering: list[str] = []

        async def ask() -> None:
            answering.extend(await self._answering())

        try:
            if not await within(self.session.clock, timeout_ms, ask()):
                return Readiness(False, f"no broker answers within {timeout_ms} ms")
        except RocketPipeError as error:
            return Readiness(False, str(error))
        return Readiness.of(answering)

    async def _answering(self) -> list[str]:
        async with Admin(self.session) as admin:
            return await admin.brokers.answering()


def with_lifespan(
    app: Application, opened: Callable[[], AbstractAsyncContextManager[object]]
) -> Application:
    """Open something when a server starts an application, and close it when it ends."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        phase = "startup"
        await receive()
        try:
            async with opened():
                await send({"type": "lifespan.startup.complete"})
                await receive()
                phase = "shutdown"
        except Exception as error:
            log.exception("the application's clients failed phase=%s", phase)
            await send({"type": f"lifespan.{phase}.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    return wrapped
