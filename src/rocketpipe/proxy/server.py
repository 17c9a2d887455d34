"""The gRPC port: a service on grpc.aio, bound by whoever is given to bind it.

What listens is a parameter: grpcio's own port here (``plain_port``), a front that tells TLS from
plaintext elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import grpc

from rocketpipe.errors import PortUnavailable


@dataclass(frozen=True, slots=True)
class Port:
    """Where clients come in."""

    #: ``host:port``, as it really is.
    address: str
    #: From what grpcio says of a call's peer to the ``host:port`` that the client has.
    client_address: Callable[[str], str]


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
        raise PortUnavailable(OSError(str(error)), f"{at}:{port}", "gRPC") from error
    yield Port(f"{at}:{bound}", client_address)


def client_address(peer: str) -> str:
    """``ipv4:127.0.0.1:4711`` or ``ipv6:%5B::1%5D:4711``, as grpcio says it → ``host:port``."""
    _, _, rest = peer.partition(":")
    return rest.replace("%5B", "[").replace("%5D", "]") or "unknown:0"
