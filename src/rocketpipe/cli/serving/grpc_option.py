"""The gRPC port of a broker's process: ``--grpc HOST:PORT``.

``serve`` has it by itself where no address was given, and does without where it cannot be had; who
asks for it has it, or is told why not.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketpipe.broker.broker import Inside
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.cli.serving import banner, settings
from rocketpipe.cli.serving.banner import Fact
from rocketpipe.errors import ConfigError, PortUnavailable

if TYPE_CHECKING:
    from rocketpipe.proxy.server import Listen

#: As RocketMQ's proxy has it; not imported from there, which takes grpcio.
USUAL: Final = ("127.0.0.1", 8081)
INSTALL: Final = "pip install grpcio protobuf"


def add_flag(parser: argparse.ArgumentParser, usual: str) -> None:
    """Add ``--grpc``; ``usual`` says where the port is without it."""
    parser.add_argument(
        "--grpc",
        type=settings.address,
        metavar="HOST:PORT",
        help=f"where clients of RocketMQ 5 that speak gRPC connect ({usual}); port 0 takes a free "
        "one",
    )


@dataclass(slots=True)
class GrpcOption:
    """What the flag came to."""

    host: str
    port: int
    #: Whether it was asked for.
    asked: bool
    #: Where clients come, once it serves; and why it does not.
    address: str | None = None
    reason: str | None = None

    def beside(self, config: BrokerConfig) -> Callable[[Inside], AbstractAsyncContextManager[None]]:
        """What serves the port beside a broker.

        Raises:
            ConfigError: It was asked for, and cannot be had here.
        """
        if importlib.util.find_spec("grpc") is None:
            self.reason = f"not served: grpcio is not installed ({INSTALL})"
        elif banner.enforces(config.tls):
            self.reason = "not served: connections need TLS, and this port has none yet"
        if self.reason is not None and self.asked:
            raise ConfigError("--grpc", self.reason)
        return self._serving

    @asynccontextmanager
    async def _serving(self, inside: Inside) -> AsyncIterator[None]:
        if self.reason is not None:
            yield
            return
        # Here, as grpcio is an extra, and takes a while to load.
        from rocketpipe.proxy.local import LocalBackend
        from rocketpipe.proxy.server import grpc_port

        async with AsyncExitStack() as stack:
            serving = grpc_port(LocalBackend(inside), self.host, self.port, listen=_listen())
            try:
                self.address = await stack.enter_async_context(serving)
            except PortUnavailable as error:
                if self.asked:
                    raise
                self.reason = f"not served: {error}; take another by --grpc HOST:PORT"
            yield

    def facts(self) -> list[Fact]:
        """What the banner says of it."""
        if self.address is None:
            return [Fact("gRPC", str(self.reason), "grpc_missing", self.reason, alarming=False)]
        text = f"{self.address}, for clients of RocketMQ 5"
        return [Fact("gRPC", text, "grpc_address", self.address)]

    def ready(self) -> dict[str, str]:
        """What the last line names."""
        return {} if self.address is None else {"grpc": self.address}


def _listen() -> Listen:
    """Who binds the port."""
    from rocketpipe.proxy.server import plain_port

    return plain_port


def wanted(options: argparse.Namespace) -> GrpcOption | None:
    """What was asked for, or what `serve` has where nothing was said of addresses."""
    if options.grpc is not None:
        host, port = options.grpc
        return GrpcOption(host, port, asked=True)
    said = (getattr(options, "namesrv", ""), getattr(options, "broker", ""))
    if said == (None, None):
        return GrpcOption(*USUAL, asked=False)
    return None


def refuse_strangers(options: argparse.Namespace, *, guarded: bool) -> None:
    """Let the port be where others reach it only if the user insists, or users are known.

    Raises:
        ConfigError: If they can, and neither is so.
    """
    if options.grpc is not None:
        settings.refuse_strangers(options.grpc[0], "--grpc", insecure=options.insecure or guarded)
