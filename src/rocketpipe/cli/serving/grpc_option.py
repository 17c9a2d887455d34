"""The gRPC port of a broker's process: ``--grpc HOST:PORT``.

``serve`` has it by itself where no address was given, and does without where it cannot be had; who
asks for it has it, or is told why not.
"""

from __future__ import annotations

import argparse
import importlib.metadata
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from rocketpipe.broker.broker import Inside
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.cli.serving import settings
from rocketpipe.cli.serving.banner import Fact
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConfigError, PortUnavailable
from rocketpipe.metrics import Family
from rocketpipe.remoting.tls_settings import Mode

#: As RocketMQ's proxy has it; not imported from there, which takes protobuf.
USUAL: Final = ("127.0.0.1", 8081)
#: Where a certificate of its own is, in the directory of its data.
CERTIFICATES: Final = "grpc-tls"
INSTALL: Final = "pip install 'protobuf>=6.31' cryptography"
#: What the extra has, and since which version it will do: others bring an older protobuf.
_NEEDED: Final = {"protobuf": (6, 31), "cryptography": (44,)}


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
    mode: Mode = "disabled"
    _families: Callable[[], Iterable[Family]] = tuple

    def beside(self, config: BrokerConfig) -> Callable[[Inside], AbstractAsyncContextManager[None]]:
        """What serves the port beside a broker.

        Raises:
            ConfigError: It was asked for, and cannot be had here.
        """
        if (lacking := missing()) is not None:
            self.reason = f"not served: {lacking}"
        if self.reason is not None and self.asked:
            raise ConfigError("--grpc", self.reason)
        return partial(self._serving, config)

    @asynccontextmanager
    async def _serving(self, config: BrokerConfig, inside: Inside) -> AsyncIterator[None]:
        if self.reason is not None:
            yield
            return
        # Here, as protobuf is an extra, and takes a while to load.
        from rocketpipe.proxy.front.front import Front
        from rocketpipe.proxy.local import LocalBackend
        from rocketpipe.proxy.server import grpc_port

        async with AsyncExitStack() as stack:
            try:
                kept = config.data / CERTIFICATES
                front = await stack.enter_async_context(
                    Front.opened(config.tls, kept, self.host, SystemClock())
                )
                self.mode, self._families = front.mode, front.families
                serving = grpc_port(LocalBackend(inside), self.host, self.port, listen=front.listen)
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
        return [fact(self.address, self.mode)]

    def families(self) -> Iterable[Family]:
        """What is measured of the port."""
        return self._families()

    def ready(self) -> dict[str, str]:
        """What the last line names."""
        return {} if self.address is None else {"grpc": self.address}


def missing() -> str | None:
    """What of the extra is not installed, and what installs it; None if all is."""
    for name, least in _NEEDED.items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return f"{name} is not installed ({INSTALL})"
        if tuple(int(part) for part in found.split(".")[:2] if part.isdigit()) < least:
            return f"{name} {found} is too old ({INSTALL})"
    return None


def fact(address: str, mode: Mode) -> Fact:
    """What a banner says of a port that serves."""
    kinds = {
        "disabled": "without TLS, which clients have on by default",
        "permissive": "with TLS or without",
        "enforcing": "with TLS",
    }
    text = f"{address}, for clients of RocketMQ 5, {kinds[mode]}"
    return Fact("gRPC", text, "grpc_address", address)


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
