"""``rocketpipe namesrv``: a NameServer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AsyncExitStack

from rocketpipe.cli import process, settings, watching
from rocketpipe.config.known_keys import NAMESRV_KEYS
from rocketpipe.config.load import Choice, Given
from rocketpipe.config.setting import settings_of
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    parser.description = (
        "Run a NameServer until SIGINT or SIGTERM. When it serves, one line is printed "
        "that begins with 'ready' and names its address."
    )
    parser.add_argument(
        "-p",
        "--port",
        type=settings.port,
        metavar="PORT",
        help="where it listens (9876); 0 takes a free one",
    )
    parser.add_argument("--bind", metavar="HOST", help="the address it listens on (127.0.0.1)")
    settings.add_shared_flags(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal says stop."""
    process.set_up_log(options.log_level)
    given = settings.given_to(
        settings_of(NamesrvConfig),
        file=options.config,
        tables=("namesrv",),
        flags=[
            ("listenPort", options.port, "--port"),
            ("bindAddress", options.bind, "--bind"),
        ],
        name_servers=False,
    )
    config, choice = load_namesrv(given)
    if options.print_config:
        settings.print_items(
            (one.key, one.write(getattr(config, one.attribute)), choice.origin(one.key))
            for one in settings_of(NamesrvConfig)
        )
        return 0
    settings.refuse_strangers(
        bound_host(config), choice.origin("bindAddress"), insecure=options.insecure
    )
    watching.refuse_strangers(options)
    settings.warn(choice.warnings())
    settings.warn_of_no_access_control()

    async def start(stack: AsyncExitStack) -> list[str]:
        watched, lines = await watching.opened(stack, options)
        address = await stack.enter_async_context(name_server(config))
        watched.started = True
        return [*lines, boot_line(address), f"ready namesrv={address}"]

    return process.serve_until_signal(start)


def load_namesrv(given: Sequence[Given]) -> tuple[NamesrvConfig, Choice]:
    """Make settings of what was given, in order of strength.

    Raises:
        ConfigError: If a value is wrong.
    """
    choice = Choice(given, settings_of(NamesrvConfig), NAMESRV_KEYS)
    return choice.build(NamesrvConfig, **choice.values(settings_of(NamesrvConfig))), choice


def bound_host(config: NamesrvConfig) -> str:
    """Give the address it listens on."""
    (one,) = (one for one in settings_of(NamesrvConfig) if one.key == "bindAddress")
    host: str = getattr(config, one.attribute)
    return host


def boot_line(address: str) -> str:
    """Say that it runs, in the words that RocketMQ's scripts look for."""
    return f"The Name Server boot success. serializeType=JSON, address {address}"
