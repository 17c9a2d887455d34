"""The gRPC port: the service behind whoever listens for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final

from rocketpipe.background import running
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.http2.receiver import Http2Limits, Unread
from rocketpipe.proxy.rpc.server import RpcLimits, RpcServer
from rocketpipe.proxy.service import Service

#: What is under way when the port closes has so long.
GRACE_S: Final = 1.0

#: Brings a server clients from a host and a port, of which 0 takes a free one; gives the address.
Listen = Callable[[RpcServer, str, int], AbstractAsyncContextManager[str]]


@asynccontextmanager
async def grpc_port(
    backend: Backend,
    host: str,
    port: int,
    *,
    listen: Listen,
    config: ProxyConfig | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[str]:
    """Serve gRPC clients inside the block, which is given the address they come to.

    Raises:
        PortUnavailable: If the port is taken.
    """
    config, clock = config or ProxyConfig(), clock or SystemClock()
    unread = Unread()
    service = Service(backend, config, clock, unread)
    server = RpcServer(service.methods(), _limits(config, backend.max_body_bytes), unread)
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(listen(server, host, port))
        stack.push_async_callback(service.close)
        # Who waits is told that the port is closed, and comes again elsewhere.
        stack.push_async_callback(server.stop, GRACE_S)
        await stack.enter_async_context(running(service.keep_current(), "gRPC clients"))
        yield address


def _limits(config: ProxyConfig, max_body_bytes: int) -> RpcLimits:
    return RpcLimits(
        calls=config.max_rpcs,
        message_bytes=config.max_inbound_bytes(max_body_bytes),
        unfinished_bytes=max(
            config.max_unfinished_bytes, 2 * config.max_inbound_bytes(max_body_bytes)
        ),
        patience_s=config.slow_reader_ms / 1000,
        http2=Http2Limits(streams=config.max_streams, header_bytes=config.max_header_bytes),
    )
