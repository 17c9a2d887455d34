"""``rocketpipe serve``: a NameServer and a broker in one process, or several as its children."""

from __future__ import annotations

import argparse
import dataclasses
from functools import partial

from rocketpipe.auth.config import AuthConfig
from rocketpipe.broker.config.loading import LoadedBroker, broker_settings, load_broker
from rocketpipe.cli.serving import (
    banner,
    grpc_option,
    http_option,
    process,
    settings,
    tls_option,
)
from rocketpipe.cli.serving.broker import (
    OwnNameServer,
    add_broker_flags,
    broker_flags,
    serve_broker,
)
from rocketpipe.cli.serving.fleet import directory
from rocketpipe.cli.serving.fleet.serving import serve_fleet
from rocketpipe.cli.serving.namesrv import (
    boot_line,
    bound_host,
    load_namesrv,
    namesrv_settings,
)
from rocketpipe.config.load import Choice, Given
from rocketpipe.errors import ConfigError
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    parser.description = (
        "Run a NameServer and a broker in one process until SIGINT or SIGTERM, by itself with "
        "profile dev; or several brokers, each in a process of its own, to use as many cores. When "
        "all serve, they say so, and last comes a line that begins with 'ready' and names their "
        "addresses."
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help=f"the directory where they keep everything ({settings.SERVE_DATA.text})",
    )
    parser.add_argument(
        "--namesrv",
        type=settings.address,
        metavar="HOST:PORT",
        help="where the NameServer listens (127.0.0.1:9876); port 0 takes a free one",
    )
    parser.add_argument(
        "--broker",
        type=settings.address,
        metavar="HOST:PORT",
        help="where the broker listens (127.0.0.1:10911), each further one ten behind; port 0 "
        "takes free ones",
    )
    parser.add_argument(
        "--brokers",
        type=_brokers,
        metavar="N|auto",
        help="so many brokers, each a process with a part of the directory; auto: one for each "
        "core. A directory keeps those it has, and may be opened with more",
    )
    parser.add_argument(
        "--pin-cores",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep each of several brokers on a core of its own, while there are enough (yes)",
    )
    add_broker_flags(parser, "serve")
    grpc_option.add_flag(parser, "127.0.0.1:8081, where no address is given")
    settings.add_shared_flags(parser)
    banner.add_flag(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal says stop."""
    process.set_up_log(options.log_level)
    loaded = _load_broker(options)
    names, names_choice = _load_namesrv(options, loaded)
    if options.print_config:
        settings.print_items(loaded.items())
        return 0
    for host, choice in ((bound_host(names), names_choice), (loaded.config.host, loaded.choice)):
        settings.refuse_strangers(
            host,
            choice.origin("bindAddress"),
            insecure=options.insecure or loaded.config.authenticates,
        )
    http_option.refuse_strangers(options)
    grpc_option.refuse_strangers(options, guarded=loaded.config.authenticates)
    with settings.claimed_directory(loaded.config.data, loaded.choice.origin("storePathRootDir")):
        settings.tell_of(names_choice, loaded.choice)
        settings.warn_of_no_access_control(loaded.config)
        if given := loaded.choice.given("namesrvAddr"):
            settings.warn(
                [f"{given.origin}: serve registers with its own NameServer, not with others"]
            )
        own = OwnNameServer(partial(name_server, names), bound_host(names), boot_line)
        directory.finish_leaving(loaded.config.data)
        if (wished := directory.wanted(loaded.config, options.brokers)) is not None:
            if loaded.config.authenticates:
                raise ConfigError(
                    loaded.choice.origin("authenticationEnabled"),
                    "several brokers in one directory have no access control yet: serve one, or "
                    "start each by `rocketpipe broker`",
                )
            if options.grpc is not None:
                raise ConfigError(
                    "--grpc",
                    "several brokers have no such port: serve one, or run `rocketpipe proxy` in "
                    "front of them",
                )
            return serve_fleet(options, loaded, wished, own)
        return serve_broker(options, loaded.config, own)


def _brokers(text: str) -> int | str:
    if text == directory.AUTO:
        return text
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= directory.MOST):
        raise argparse.ArgumentTypeError(f"{text!r}: 1 to {directory.MOST}, or auto, is expected")
    return int(text)


def _load_broker(options: argparse.Namespace) -> LoadedBroker:
    host, port = options.broker or (None, None)
    given = settings.given_to(
        broker_settings(),
        files=tls_option.files(options),
        tables=("broker", "store"),
        flags=[
            *tls_option.flags(options),
            *broker_flags(options),
            ("bindAddress", host, "--broker"),
            ("listenPort", None if port is None else str(port), "--broker"),
        ],
        name_servers=False,
    )
    return load_broker(
        [settings.SERVE_DATA, *given],
        profile=settings.USUAL_PROFILE["serve"],
        small_files=options.small_files,
    )


def _load_namesrv(
    options: argparse.Namespace, loaded: LoadedBroker
) -> tuple[NamesrvConfig, Choice]:
    host, port = options.namesrv or (None, None)
    # The environment speaks to the broker here; who needs more says it in a table of the file.
    given = settings.given_to(
        namesrv_settings(),
        files=options.config,
        tables=("namesrv",),
        outside=False,
        environment=False,
        flags=[
            ("bindAddress", host, "--namesrv"),
            ("listenPort", None if port is None else str(port), "--namesrv"),
        ],
    )
    kept = loaded.config.data / "namesrv" / "kvConfig.json"
    names, choice = load_namesrv([Given("kvConfigPath", str(kept), "default"), *given])
    names = dataclasses.replace(names, tls=names.tls or loaded.config.tls)
    return _guarded(names, loaded), choice


def _guarded(names: NamesrvConfig, loaded: LoadedBroker) -> NamesrvConfig:
    """A NameServer that lets in whom its broker does, unless it is told of its own users.

    Raises:
        ConfigError: If the broker could not register with it.
    """
    config = loaded.config
    if config.authenticates and not names.authenticates:
        same = {each.name: getattr(config, each.name) for each in dataclasses.fields(AuthConfig)}
        same |= {"auth_directory": config.data / "namesrv" / "auth"}
        names = dataclasses.replace(names, auth_cluster=config.cluster, **same)
    if names.authenticates and config.inner_client() is None:
        raise ConfigError(
            "innerClientAuthenticationCredentials",
            "is missing: the broker registers with its NameServer as a user: add "
            '{"accessKey":"…","secretKey":"…"}',
        )
    return names
