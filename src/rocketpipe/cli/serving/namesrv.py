"""``rocketpipe namesrv``: a NameServer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AsyncExitStack

from rocketpipe.cli.serving import (
    audit_option,
    banner,
    hints,
    http_option,
    process,
    settings,
    tls_option,
)
from rocketpipe.cli.serving.banner import Banner, Fact
from rocketpipe.config.known_keys import NAMESRV_KEYS
from rocketpipe.config.load import Choice, Given
from rocketpipe.config.setting import Setting, settings_of
from rocketpipe.namesrv.config import PROFILES, NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.remoting.tls_loading import HEARD, TLS_SETTINGS, tls_items, tls_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    parser.description = (
        "Run a NameServer until SIGINT or SIGTERM, as in a real deployment: by itself, with "
        "profile prod. When it serves, it says so, and last comes a line that begins with 'ready' "
        "and names its address."
    )
    parser.add_argument(
        "-p",
        "--port",
        type=settings.port,
        metavar="PORT",
        help="where it listens (9876); 0 takes a free one",
    )
    parser.add_argument("--bind", metavar="HOST", help="the address it listens on (127.0.0.1)")
    settings.add_profile_flag(
        parser,
        "namesrv",
        "prod keeps key-values in ~/namesrv, as RocketMQ does; dev for as long as it runs",
    )
    settings.add_shared_flags(parser)
    http_option.add_flags(parser)
    banner.add_flag(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal says stop."""
    process.set_up_log(options.log_level, options.log_format)
    given = settings.given_to(
        namesrv_settings(),
        files=tls_option.files(options),
        tables=("namesrv",),
        flags=[
            *tls_option.flags(options),
            *audit_option.flags(options),
            ("listenPort", options.port, "--port"),
            ("bindAddress", options.bind, "--bind"),
            ("profile", options.profile, "--profile"),
        ],
        name_servers=False,
    )
    config, choice = load_namesrv(given, profile=settings.USUAL_PROFILE["namesrv"])
    if options.print_config:
        settings.print_items(namesrv_items(config, choice))
        return 0
    settings.refuse_strangers(
        bound_host(config),
        choice.origin("bindAddress"),
        insecure=options.insecure or config.authenticates,
    )
    http_option.refuse_strangers(options)
    settings.tell_of(choice)
    settings.warn_of_no_access_control(config)
    settings.warn_of_replay([config.host], config, config.tls)

    async def start(stack: AsyncExitStack) -> list[str]:
        watched, http = await http_option.opened(stack, options, config.tls)
        address = await stack.enter_async_context(name_server(config))
        watched.started = True
        kept = str(config.kv_path) if config.kv_path else None
        told = Banner(
            boot=[boot_line(address)],
            ready={"namesrv": address, **({"http": http} if http else {})},
            facts=[
                banner.version(),
                Fact("NameServer", address, "address", address),
                *banner.http(http, config.tls),
                Fact("Profile", config.profile, "profile", config.profile),
                Fact(
                    "Data",
                    "routes are what brokers tell; key-values are "
                    + (f"in {kept}" if kept else "kept for as long as it runs"),
                    "data",
                    kept,
                ),
                *tls_option.fact(config.tls),
                banner.access([config.host, *([options.http[0]] if options.http else [])], config),
                *banner.audit(config),
                *hints.faster(),
            ],
            next_steps=banner.next_steps(address, ours=False, tls=config.tls),
        )
        return told.lines(options.output)

    with audit_option.written(config):
        return process.serve_until_signal(start)


def namesrv_settings() -> tuple[Setting, ...]:
    """List all that a NameServer can be told: about itself, and TLS."""
    return (*settings_of(NamesrvConfig), *TLS_SETTINGS)


def namesrv_items(config: NamesrvConfig, choice: Choice) -> list[tuple[str, str, str]]:
    """List every setting: its key, its value as text, and where it comes from."""
    rows = {one.key: one.show(getattr(config, one.attribute)) for one in settings_of(NamesrvConfig)}
    rows |= tls_items(config.tls)
    return [(key, text, choice.origin(key)) for key, text in rows.items()]


def load_namesrv(
    given: Sequence[Given], *, profile: str | None = None
) -> tuple[NamesrvConfig, Choice]:
    """Make settings of what was given, in order of strength.

    ``profile`` is the one that counts where none is given.

    Raises:
        ConfigError: If a value is wrong.
    """
    known = namesrv_settings()
    (one,) = (one for one in known if one.attribute == "profile")
    usual = [Given(one.key, profile, "default")] if profile else []
    chosen = Choice([*usual, *given], known, NAMESRV_KEYS).read(one)
    weaker = [Given(key, text, f"profile {chosen}") for key, text in PROFILES[chosen].items()]
    choice = Choice([*usual, *weaker, *given], known, NAMESRV_KEYS, heard=HEARD)
    values = choice.values(settings_of(NamesrvConfig))
    if values.get("kv_path") is not None:
        values["kv_path"] = values["kv_path"].expanduser()
    config = choice.build(NamesrvConfig, **values, tls=tls_of(choice))
    config.check_auth()
    return config, choice


def bound_host(config: NamesrvConfig) -> str:
    """Give the address it listens on."""
    (one,) = (one for one in settings_of(NamesrvConfig) if one.key == "bindAddress")
    host: str = getattr(config, one.attribute)
    return host


def boot_line(address: str) -> str:
    """Say that it runs, in the words that RocketMQ's scripts look for."""
    return f"The Name Server boot success. serializeType=JSON, address {address}"
