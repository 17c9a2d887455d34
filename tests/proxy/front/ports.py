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
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.tls import ServerTls
from rocketpipe.remoting.tls_settings import TlsConfig

#: Of the machine: far above what a test needs.
LONG_S = 120.0
ECHO = "/test.Service/Echo"
WHO = "/test.Service/Who"
FLOOD = "/test.Service/Flood"
CHUNK = 1 << 20


class Service(grpc.GenericRpcHandler):
    """Says the same again, who asked, or more than anybody takes."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self.flooded = 0

    def service(self, details: Any) -> Any:
        match details.method:
            case "/test.Service/Echo":
                return grpc.unary_unary_rpc_method_handler(self._echo)
            case "/test.Service/Who":
                return grpc.unary_unary_rpc_method_handler(self._who)
        return grpc.unary_stream_rpc_method_handler(self._flood)

    async def _echo(self, request: bytes, context: Any) -> bytes:
        return request

    async def _who(self, request: bytes, context: Any) -> bytes:
        return self._front.client_address(context.peer()).encode()

    async def _flood(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        while True:
            self.flooded += 1
            yield bytes(CHUNK)


@dataclass(slots=True)
class Open:
    """A port that is open."""

    host: str
    number: int
    front: Front
    service: Service

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
async def opened(tls: ServerTls | None = None, **limits: Any) -> AsyncIterator[Open]:
    """A port inside the block."""
    front = Front(tls, FrontLimits(**{"first_bytes_s": LONG_S, "stalled_s": LONG_S, **limits}))
    server = grpc.aio.server()
    service = Service(front)
    server.add_generic_rpc_handlers((service,))
    async with front.listen(server, "127.0.0.1", 0) as port:
        await server.start()
        host, _, number = port.address.rpartition(":")
        try:
            yield Open(host, int(number), front, service)
        finally:
            await server.stop(None)


def shaking(context_of: Authority) -> ssl.SSLContext:
    """What a client that trusts this authority and speaks nothing in particular has."""
    return ssl.create_default_context(cafile=str(context_of.ca_file))
