"""``rocketpipe console``: a cluster in a browser, also one of Apache's servers."""

from __future__ import annotations

import argparse
import secrets
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rocketpipe._version import __version__
from rocketpipe.auth.secret import Secret
from rocketpipe.cli.parsers import Help
from rocketpipe.cli.serving import console_option, process, settings
from rocketpipe.cli.terminal import connecting
from rocketpipe.errors import ConfigError
from rocketpipe.health.http_port import Watched, health_port
from rocketpipe.remoting.tls_settings import TlsSettings

if TYPE_CHECKING:
    from rocketpipe.console.console import ConsoleConfig

EXAMPLES = """examples:
  rocketpipe console                                look at the cluster of this machine
  rocketpipe console -n a:9876 --allow-changes      and change things, with the printed link
  rocketpipe console --mask email --mask card       and show nobody what is in these fields
  rocketpipe console --public-url https://mq.example.org/    behind a proxy that has TLS
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    parser.description = (
        "Show a cluster in a browser until SIGINT or SIGTERM. On a cluster with access control one "
        "logs in as one of its users; on one without, everybody may look, and only who has the "
        "token may change things. When it serves, the last line begins with 'ready'."
    )
    parser.epilog = EXAMPLES
    parser.formatter_class = Help
    connecting.add_connection_flags(parser)
    parser.add_argument(
        "--http",
        type=settings.address,
        default=("127.0.0.1", 8080),
        metavar="HOST:PORT",
        help="where it listens (127.0.0.1:8080); port 0 takes a free one",
    )
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="on a cluster without users: print a link that lets change things",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="keep the token of --allow-changes there, the same at each start",
    )
    parser.add_argument(
        "--public-url",
        metavar="URL",
        help="where people open it, if a proxy stands before it; its name is answered then",
    )
    parser.add_argument(
        "--hide-bodies", action="store_true", help="show bodies only to who is logged in"
    )
    parser.add_argument(
        "--mask",
        action="append",
        default=[],
        metavar="FIELD",
        help="show no value of this field of JSON bodies, and of this property; several times",
    )
    parser.add_argument(
        "--pipeline",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="show the pipeline of this folder too; several times",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="allow an address that other machines can reach",
    )
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        help="what the log on standard error begins with (info; on a terminal warning)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal says stop."""
    process.set_up_log(options.log_level)
    if lacking := console_option.missing():
        raise ConfigError(", ".join(lacking), f"is not installed, {console_option.HINT}")
    servers = connecting.name_servers(options.namesrv)
    host, port = options.http
    settings.refuse_strangers(host, "--http", insecure=options.insecure)
    public = _public(options.public_url)
    token = _token(options)

    async def start(stack: AsyncExitStack) -> list[str]:
        watched, later = Watched(), console_option.Later()
        address = await stack.enter_async_context(health_port(host, port, watched, more=later))
        config = _config(options, servers, address, token, public)
        await later.open(stack, config, watched, TlsSettings.of(None))
        watched.started = True
        url = options.public_url or f"http://{address}/"
        lines = [f"RocketPipe {__version__}: console of {servers}", f"Console: {url}"]
        if token is not None:
            lines.append(f"To change things: {url}#/login?token={token.reveal()}")
        return [*lines, f"ready console={address}"]

    return process.serve_until_signal(start)


def _config(
    options: argparse.Namespace,
    servers: str,
    address: str,
    token: Secret | None,
    public: tuple[frozenset[str], bool],
) -> ConsoleConfig:
    from rocketpipe.console.console import ConsoleConfig
    from rocketpipe.console.masking import Masks

    try:
        masks = Masks(options.mask)
    except ValueError as error:
        raise ConfigError("--mask", str(error)) from error
    return ConsoleConfig(
        name_servers=servers,
        token=token,
        public_hosts=public[0],
        is_https=public[1],
        hide_bodies=options.hide_bodies,
        masks=masks,
        pipelines=tuple(options.pipeline),
        address=address,
    )


def _token(options: argparse.Namespace) -> Secret | None:
    if not options.allow_changes:
        if options.token_file is not None:
            raise ConfigError("--token-file", "is of use with --allow-changes: add it")
        return None
    if options.token_file is not None:
        return console_option.kept_token(options.token_file)
    return Secret(secrets.token_urlsafe(32))


def _public(url: str | None) -> tuple[frozenset[str], bool]:
    """The names that are answered, and whether browsers come by HTTPS."""
    if url is None:
        return frozenset(), False
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("--public-url", f"{url!r} is no address: write it like https://host/")
    return frozenset({parts.hostname}), parts.scheme == "https"
