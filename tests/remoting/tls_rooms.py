"""Servers with TLS, on asyncio's loop and uvloop's, for the tests of this room."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.requests.offsets import GetMinOffset, OffsetReply
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server
from rocketpipe.remoting.tls import ServerTls
from rocketpipe.remoting.tls_settings import TlsConfig

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
ASK = GetMinOffset(topic="t", queue_id=0)


class Counting:
    """Answers, and counts what it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    @handles(GetMinOffset)
    async def least(self, request: GetMinOffset, call: Call) -> OffsetReply:
        self.asked += 1
        return OffsetReply(offset=QueueOffset(self.asked))


def server_tls(authority: Authority, *, patience_s: float = 60, **settings: Any) -> ServerTls:
    """What a server needs, with a pair of its own unless the settings name one."""
    if "tls_cert" not in settings:
        pair = authority.server(["a.example"])
        settings |= {"tls_cert": pair.cert, "tls_key": pair.key}
    return ServerTls(TlsConfig(**settings), patience_s=patience_s)


@asynccontextmanager
async def answering(tls: ServerTls | None) -> AsyncIterator[tuple[str, Counting]]:
    """A server inside the block: its address, and who answers."""
    handler = Counting()
    async with Server.bound("127.0.0.1", 0) as server:
        async with server.serving(Router(handler).answer, tls=tls):
            yield server.address, handler


def on(loop: str, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on one of the loops."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(test())


def client_hello(version: bytes = b"") -> bytes:
    """How a client begins; ``version`` is what an older one would ask for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if version:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    outgoing = ssl.MemoryBIO()
    asking = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    try:
        asking.do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = outgoing.read()
    return hello[:9] + version + hello[9 + len(version) :]
