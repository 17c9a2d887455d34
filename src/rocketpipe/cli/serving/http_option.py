"""The HTTP port of a process that serves, if it was asked for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rocketpipe.auth import measured
from rocketpipe.broker.config.advertise import is_loopback
from rocketpipe.cli.serving import console_option, settings, tls_option
from rocketpipe.errors import ConfigError
from rocketpipe.health.bearer import BearerToken
from rocketpipe.health.http_port import Told, Watched, health_port
from rocketpipe.remoting.tls import ServerTls
from rocketpipe.remoting.tls_settings import TlsConfig

if TYPE_CHECKING:
    from rocketpipe.broker.core import Core


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add where the port is, and who may ask there."""
    parser.add_argument(
        "--http",
        type=settings.address,
        metavar="HOST:PORT",
        help="answer /healthz, /readyz, /metrics and /version there, and serve has its console "
        "there; port 0 takes a free one",
    )
    parser.add_argument(
        "--http-token-file",
        type=Path,
        metavar="FILE",
        help="/metrics and /version are for those who show the token in its first line: "
        "Authorization: Bearer TOKEN",
    )


def refuse_strangers(options: argparse.Namespace) -> None:
    """Let the port be where others reach it only if they show a token, or the user insists.

    Raises:
        ConfigError: If they can, and the user does not.
    """
    if options.http is None or options.insecure or options.http_token_file is not None:
        return
    if not is_loopback(options.http[0]):
        raise ConfigError(
            "--http",
            f"{options.http[0]} can be reached from other machines, and whoever asks is told of "
            "topics and groups: add --http-token-file FILE, or --insecure if you mean it",
        )


def later(options: argparse.Namespace) -> console_option.Later | None:
    """What is to become the console on the port; None without a port, or without its packages."""
    if options.http is None or not console_option.is_installed():
        return None
    return console_option.Later()


async def opened(
    stack: AsyncExitStack,
    options: argparse.Namespace,
    tls: TlsConfig | None,
    more: console_option.Later | None = None,
) -> tuple[Watched, str | None]:
    """Open the port before anything else starts, so that probes see it start; gives its address.

    What is asked there beside its own pages is for ``more``.

    Raises:
        OSError: If the port is taken.
        ConfigError: If a file of the TLS settings is not what it should be.
    """
    watched = Watched()
    watched.add(lambda: None, measured.families)
    secured = await tls_option.opened(stack, tls, watched)
    if getattr(options, "supervised", False):
        secured = None  # its parent asks there, on this machine
    return watched, await opened_for(stack, options, watched, secured, more)


async def opened_for(
    stack: AsyncExitStack,
    options: argparse.Namespace,
    told: Told,
    tls: ServerTls | None = None,
    more: console_option.Later | None = None,
) -> str | None:
    """Open the port for what is ``told`` there; gives its address.

    Raises:
        OSError: If the port is taken.
        ConfigError: If there is no token in its file.
    """
    if options.http is None:
        return None
    host, port = options.http
    file = options.http_token_file
    token = BearerToken(file) if file is not None else None
    if more is not None:
        more.token = token
    hint = "" if console_option.is_installed() else f"for a console: {console_option.HINT}\n"
    return await stack.enter_async_context(
        health_port(host, port, told, tls=tls, token=token, more=more, hint=hint)
    )


def given_up(cores: Sequence[Core]) -> str | None:
    """Why the process is to end, if one of its brokers is to."""
    from rocketpipe.broker.metrics.problems import end_of

    return next((reason for core in cores if (reason := end_of(core)) is not None), None)


def watch_broker(watched: Watched, core: Callable[[], Core]) -> None:
    """Have the port tell of a broker; ``core`` gives its parts of the moment."""
    # Only here: a NameServer has a port too, and loads no broker.
    from rocketpipe.broker.metrics.families import families
    from rocketpipe.broker.metrics.problems import problem_of

    watched.add(lambda: problem_of(core()), lambda: families(core()))
