"""A gRPC port with a service behind it, on either loop, for the tests of this room."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from rocketpipe.proxy.front.front import SPOKEN, Front, FrontLimits
from rocketpipe.proxy.http2.receiver import Http2Limits
from rocketpipe.proxy.rpc.call import Call
from rocketpipe.proxy.rpc.server import Method, RpcLimits, RpcServer
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.tls import ServerTls
from rocketpipe.remoting.tls_settings import TlsConfig

#: Of the machine: far above what a test needs.
LONG_S = 120.0
ECHO = "/test.Service/Echo"
WHO = "/test.Service/Who"
FLOOD = "/test.Service/Flood"
CHAT = "/test.Service/Chat"
WAIT = "/test.Service/Wait"
CHUNK = 1 << 20


class Raw(bytes):
    """Bytes as a message."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - as protobuf has it
        return self


class Service:
    """Says the same again, who asked, or more than anybody takes."""

    def __init__(self) -> None:
        self.flooded = 0
        self.reads: list[bytes] = []
        #: What those who wait have to wait for.
        self.waiting = 0

    def methods(self) -> dict[str, Method]:
        return {
            ECHO: Method(Raw, self._echo),
            WHO: Method(Raw, self._who),
            FLOOD: Method(Raw, self._flood, gives_stream=True),
            CHAT: Method(Raw, self._chat, takes_stream=True),
            WAIT: Method(Raw, self._wait),
        }

    async def _echo(self, request: Raw, call: Call) -> Raw:
        return request

    async def _who(self, request: Raw, call: Call) -> Raw:
        return Raw(call.address.encode())

    async def _flood(self, request: Raw, call: Call) -> None:
        while True:
            self.flooded += 1
            await call.write(Raw(CHUNK))

    async def _chat(self, call: Call) -> None:
        while (said := await call.read()) is not None:
            await call.write(said)

    async def _wait(self, request: Raw, call: Call) -> Raw:
        self.waiting += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.waiting -= 1
        return request


@dataclass(slots=True)
class Open:
    """A port that is open."""

    host: str
    number: int
    front: Front
    service: Service
    server: RpcServer

    @property
    def address(self) -> str:
        return f"{self.host}:{self.number}"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.number)

    def channel(self, authority: Authority | None = None) -> grpc.aio.Channel:
        """A client's way in; behind TLS, if there is somebody to trust."""
        if authority is None:
            return grpc.aio.insecure_channel(self.address)
        trusted = grpc.ssl_channel_credentials(authority.ca_file.read_bytes())
        return grpc.aio.secure_channel(
            self.address, trusted, [("grpc.ssl_target_name_override", "localhost")]
        )


def tls_of(authority: Authority, **settings: Any) -> ServerTls:
    """TLS with a pair of this authority; both kinds are taken unless the settings say otherwise."""
    pair = authority.server(["localhost"])
    config = TlsConfig(
        **{"tls_mode": "permissive", "tls_cert": pair.cert, "tls_key": pair.key, **settings}
    )
    return ServerTls(config, patience_s=LONG_S, speaks=SPOKEN)


@asynccontextmanager
async def opened(
    tls: ServerTls | None = None, *, server_limits: RpcLimits | None = None, **limits: Any
) -> AsyncIterator[Open]:
    """A port inside the block."""
    front = Front(tls, FrontLimits(**{"first_bytes_s": LONG_S, "stalled_s": LONG_S, **limits}))
    service = Service()
    server = RpcServer(service.methods(), server_limits or rpc_limits())
    async with front.listen(server, "127.0.0.1", 0) as address:
        host, _, number = address.rpartition(":")
        try:
            yield Open(host, int(number), front, service, server)
        finally:
            await server.stop(0)


def rpc_limits(*, streams: int = 100, **limits: Any) -> RpcLimits:
    """Limits in which nobody is late, unless it is said."""
    usual = {"patience_s": LONG_S, "message_bytes": 4 << 20}
    return RpcLimits(**{**usual, **limits, "http2": Http2Limits(streams=streams)})


def shaking(context_of: Authority) -> ssl.SSLContext:
    """What a client that trusts this authority and speaks nothing in particular has."""
    return ssl.create_default_context(cafile=str(context_of.ca_file))
