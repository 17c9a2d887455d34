"""TLS of a process that serves: its flags, its HTTP port, and what SIGHUP does."""

from __future__ import annotations

import argparse
import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from rocketpipe.cli.serving.banner import Fact
from rocketpipe.clock import SystemClock
from rocketpipe.health.http_port import Watched
from rocketpipe.remoting.tls import ServerTls, families, reload_all
from rocketpipe.remoting.tls_settings import TlsConfig

#: Flags that say the same as a key, and what they are called among the options.
_FLAGS: Final = {
    "--tls-cert": ("tls.server.certPath", "tls_cert"),
    "--tls-key": ("tls.server.keyPath", "tls_key"),
    "--tls-mode": ("tls.server.mode", "tls_mode"),
    "--tls-client-ca": ("tls.server.trustCertPath", "tls_client_ca"),
    "--tls-ca": ("tls.client.trustCertPath", "tls_ca"),
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what every server understands of TLS."""
    parser.add_argument(
        "--tls-cert", metavar="FILE", help="its certificate, PEM: with one, connections need TLS"
    )
    parser.add_argument("--tls-key", metavar="FILE", help="the key of the certificate, PEM")
    parser.add_argument(
        "--tls-mode",
        choices=["disabled", "permissive", "enforcing"],
        help="whether plain connections are taken, both kinds, or TLS alone (enforcing)",
    )
    parser.add_argument(
        "--tls-client-ca", metavar="FILE", help="clients must show a certificate of this CA, PEM"
    )
    parser.add_argument(
        "--tls-ca", metavar="FILE", help="the CA of the servers that it connects to, PEM"
    )
    parser.add_argument(
        "--tls-config",
        type=Path,
        metavar="FILE",
        help="RocketMQ's tls.properties; flags count more",
    )


def files(options: argparse.Namespace) -> list[Path]:
    """The files of settings, that of TLS among them."""
    return [*options.config, *([options.tls_config] if options.tls_config else [])]


def flags(options: argparse.Namespace) -> list[tuple[str, str | None, str]]:
    """Give what those flags said, as ``settings.given_to`` takes it."""
    told = [(key, getattr(options, name), flag) for flag, (key, name) in _FLAGS.items()]
    if options.tls_client_ca is not None:
        told.append(("tls.server.need.client.auth", "require", "--tls-client-ca"))
    return told


def passed_on(options: argparse.Namespace) -> list[str]:
    """The same flags for a child that serves."""
    words = []
    for flag, (_, name) in {**_FLAGS, "--tls-config": ("", "tls_config")}.items():
        if (text := getattr(options, name)) is not None:
            words += [flag, str(text)]
    return words


async def opened(
    stack: AsyncExitStack, config: TlsConfig | None, watched: Watched | None = None
) -> ServerTls | None:
    """TLS for the HTTP port; and SIGHUP has all servers of this process look at their files.

    Raises:
        ConfigError: If a file is not what it should be.
    """
    tls = await stack.enter_async_context(ServerTls.opened(config, SystemClock()))
    if tls is not None:
        if watched is not None:
            watched.add(lambda: None, families)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, reload_all)
        stack.callback(loop.remove_signal_handler, signal.SIGHUP)
    return tls


def fact(config: TlsConfig | None) -> list[Fact]:
    """What the banner says of it, if there is any."""
    if config is None or config.mode == "disabled":
        return []
    text = {
        "enforcing": "every connection, on every port",
        "permissive": "who wants it; plain connections are taken too",
    }[config.mode]
    if config.tls_client_auth == "require":
        text += "; clients show a certificate"
    return [Fact("TLS", text, "tls", config.mode, alarming=config.mode == "permissive")]
