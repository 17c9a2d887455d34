"""The gRPC port: a service on grpc.aio, bound by whoever is given to bind it.

What listens is a parameter: grpcio's own port here (``plain_port``), a front that tells TLS from
plaintext elsewhere.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import grpc

from rocketpipe.background import running
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.errors import PortUnavailable
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.service import Service

#: All headers of one call.
MAX_METADATA_BYTES: Final = 16 * 1024
KEEPALIVE_MS: Final = 60_000
LEAST_PING_MS: Final = 5_000
#: What is under way when the port closes has so long.
GRACE_S: Final = 1.0
_INTERNET: Final = ("ipv4", "ipv6")
_NOWHERE: Final = "0.0.0.0:0"


@dataclass(frozen=True, slots=True)
class Port:
    """Where clients come in."""

    #: ``host:port``, as it really is.
    address: str
    #: From what grpcio says of a call's peer to the ``host:port`` that the client has.
    client_address: Callable[[str], str]
    #: Told of a peer by whose call nobody was let in, and whether its address floods.
    login_failed: Callable[[str, bool], None] = lambda _, __: None


#: Binds a server that has not started yet to a host and a port; 0 takes a free one.
Listen = Callable[[grpc.aio.Server, str, int], AbstractAsyncContextManager[Port]]


@asynccontextmanager
async def plain_port(server: grpc.aio.Server, host: str, port: int) -> AsyncIterator[Port]:
    """Have grpcio listen by itself, without TLS.

    Raises:
        PortUnavailable: If the port is taken.
    """
    at = f"[{host}]" if ":" in host else host
    try:
        bound = server.add_insecure_port(f"{at}:{port}")
    except RuntimeError as error:
        taken = OSError(errno.EADDRINUSE, str(error))
        raise PortUnavailable(taken, f"{at}:{port}", "for gRPC ") from error
    yield Port(f"{at}:{bound}", client_address)


@asynccontextmanager
async def grpc_port(
    backend: Backend,
    host: str,
    port: int,
    *,
    config: ProxyConfig | None = None,
    clock: Clock | None = None,
    listen: Listen = plain_port,
) -> AsyncIterator[str]:
    """Serve gRPC clients inside the block, which is given the address they come to.

    Raises:
        PortUnavailable: If the port is taken.
    """
    config, clock = config or ProxyConfig(), clock or SystemClock()
    server = grpc.aio.server(
        options=_options(config, backend.max_body_bytes), maximum_concurrent_rpcs=config.max_rpcs
    )
    async with AsyncExitStack() as stack:
        bound = await stack.enter_async_context(listen(server, host, port))
        service = Service(backend, config, clock, bound.client_address, bound.login_failed)
        server.add_generic_rpc_handlers((service.handlers(),))
        await server.start()
        stack.push_async_callback(service.close)
        # Who waits is told that the port is closed, and comes again elsewhere.
        stack.push_async_callback(server.stop, GRACE_S)
        await stack.enter_async_context(running(service.keep_current(), "gRPC clients"))
        yield bound.address


def _options(config: ProxyConfig, max_body_bytes: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", config.max_inbound_bytes(max_body_bytes)),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", 2 * MAX_METADATA_BYTES),
        ("grpc.max_concurrent_streams", config.max_streams),
        ("grpc.max_connection_idle_ms", config.idle_connection_ms),
        # A peer that is gone without a word is found, and others may ask as often.
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", LEAST_PING_MS),
        ("grpc.http2.max_pings_without_data", 0),
        # Or a second server would share the port, and half of the clients.
        ("grpc.so_reuseport", 0),
    ]


def client_address(peer: str) -> str:
    """``ipv4:127.0.0.1:4711`` or ``ipv6:%5B::1%5D:4711``, as grpcio says it → ``host:port``."""
    kind, _, rest = peer.partition(":")
    return rest.replace("%5B", "[").replace("%5D", "]") if kind in _INTERNET else _NOWHERE
