"""How commands reach a cluster: which NameServers they ask, and for how long."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from rocketpipe.cli.terminal.printing import Printer, add_format_flags
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.name_servers import VARIABLES, NameServers, of_environment
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.tls_settings import CA_FILE, SWITCH

DEFAULT: Final = "127.0.0.1:9876"

T = TypeVar("T")


class _TlsFlag(argparse.Action):
    """Speaks as the environment does: whatever is opened hears it, in children too."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        options: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        os.environ[SWITCH] = "true"
        if values:
            os.environ[CA_FILE] = values
        setattr(options, self.dest, values or True)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what every command understands that asks a cluster, and prints what it is told."""
    add_connection_flags(parser)
    add_format_flags(parser)


def add_connection_flags(parser: argparse.ArgumentParser) -> None:
    """Add what says which cluster is asked, and how."""
    parser.add_argument(
        "-n",
        "--namesrv",
        metavar="HOST:PORT[;HOST:PORT]",
        help=f"the NameServers; else ${VARIABLES[0]}, ${VARIABLES[1]}, then {DEFAULT}",
    )
    parser.add_argument(
        "--tls", action=_TlsFlag, nargs=0, help=f"connect with TLS; else ${SWITCH} says so"
    )
    parser.add_argument(
        "--ca-file",
        action=_TlsFlag,
        metavar="FILE",
        help=f"with TLS, the CA of the servers, PEM; else ${CA_FILE}, then those of the system",
    )


def name_servers(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The NameServers to ask: those given, else those of the environment, else this machine's.

    Raises:
        ConfigError: If it is no list of addresses; it says which flag or variable was wrong.
    """
    named = ("--namesrv", given) if given else of_environment(environment)
    if named is None:
        return DEFAULT
    origin, text = named
    try:
        return str(NameServers.parse(text))
    except ValueError as error:
        raise ConfigError(origin, f"{error}; write it like {DEFAULT}") from error


def with_admin(options: argparse.Namespace, work: Callable[[Admin, Printer], Awaitable[T]]) -> T:
    """Have ``work`` done with an open `Admin` and the printer that was asked for."""

    async def run() -> T:
        async with Admin(name_servers(options.namesrv)) as admin:
            return await work(admin, Printer.of(options))

    return asyncio.run(run())
