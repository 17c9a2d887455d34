"""``rocketpipe broker``: a broker, told what to do as RocketMQ's is."""

from __future__ import annotations

import argparse
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from rocketpipe.broker.advertise import advertised_address
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config import BrokerConfig
from rocketpipe.broker.settings import broker_settings, load_broker
from rocketpipe.cli import process, settings, watching

#: What ``-m`` prints: what operators look at first.
IMPORTANT: Final = frozenset(
    {
        "namesrvAddr",
        "brokerIP1",
        "bindAddress",
        "listenPort",
        "brokerName",
        "brokerClusterName",
        "brokerId",
        "brokerPermission",
        "autoCreateTopicEnable",
        "autoCreateSubscriptionGroup",
        "storePathRootDir",
        "flushDiskType",
        "fileReservedTime",
        "deleteWhen",
        "maxMessageSize",
        "messageDelayLevel",
    }
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    parser.description = (
        "Run a broker until SIGINT or SIGTERM. When it serves, one line is printed "
        "that begins with 'ready' and names its address."
    )
    parser.add_argument(
        "-n",
        "--namesrvAddr",
        metavar="HOST:PORT[;HOST:PORT]",
        help="the NameServers it registers with; NAMESRV_ADDR says the same",
    )
    parser.add_argument("--data", metavar="DIR", help="where it keeps its data (~/store)")
    parser.add_argument("--bind", metavar="HOST", help="the address it listens on (127.0.0.1)")
    parser.add_argument(
        "--port",
        type=settings.port,
        metavar="PORT",
        help="where it listens (10911); 0 takes a free one",
    )
    add_broker_flags(parser)
    settings.add_shared_flags(parser)
    parser.add_argument(
        "-p",
        "--printConfigItem",
        action="store_true",
        dest="print_config",
        help="the same as --print-config",
    )
    parser.add_argument(
        "-m",
        "--printImportantConfig",
        action="store_true",
        dest="print_important",
        help="the same, for what matters most",
    )
    parser.set_defaults(run=run)


def add_broker_flags(parser: argparse.ArgumentParser) -> None:
    """Add what a broker understands, alone or beside a NameServer."""
    parser.add_argument(
        "--advertise",
        metavar="HOST[:PORT]",
        help="where clients are told to connect, if it is not where the broker listens",
    )
    parser.add_argument(
        "--flush",
        choices=["async", "sync"],
        help="acknowledge a message once the operating system has it (async), or the disk (sync)",
    )
    parser.add_argument(
        "--profile",
        choices=["dev", "prod"],
        help="prod creates no topic because somebody sends to it (dev)",
    )
    parser.add_argument(
        "--small-files",
        action="store_true",
        help="make files of 16 MiB instead of 1 GiB where the data begins: for tests, small disks",
    )


def broker_flags(options: argparse.Namespace) -> list[tuple[str, str | None, str]]:
    """Give what those flags said, as ``settings.given_to`` takes it."""
    flush = f"{options.flush}_FLUSH".upper() if options.flush else None
    return [
        ("storePathRootDir", options.data, "--data"),
        ("brokerIP1", options.advertise, "--advertise"),
        ("flushDiskType", flush, "--flush"),
        ("profile", options.profile, "--profile"),
    ]


def run(options: argparse.Namespace) -> int:
    """Serve until a signal says stop."""
    process.set_up_log(options.log_level)
    given = settings.given_to(
        broker_settings(),
        file=options.config,
        tables=("broker", "store"),
        flags=[
            *broker_flags(options),
            ("namesrvAddr", options.namesrvAddr, "-n"),
            ("bindAddress", options.bind, "--bind"),
            ("listenPort", options.port, "--port"),
        ],
    )
    loaded = load_broker(given, small_files=options.small_files)
    if options.print_config or options.print_important:
        settings.print_items(
            item for item in loaded.items() if options.print_config or item[0] in IMPORTANT
        )
        return 0
    config = loaded.config
    settings.refuse_strangers(
        config.host, loaded.choice.origin("bindAddress"), insecure=options.insecure
    )
    watching.refuse_strangers(options)
    settings.claim_directory(config.data, loaded.choice.origin("storePathRootDir"))
    settings.warn(loaded.choice.warnings())
    settings.warn_of_no_access_control()
    if not config.name_servers:
        settings.warn(["no NameServer to register with, so no client finds this broker: add -n"])

    async def start(stack: AsyncExitStack) -> list[str]:
        watched, lines = await watching.opened(stack, options)
        watch = partial(watching.watch_broker, watched)
        address = await stack.enter_async_context(broker(config, watch=watch))
        watched.started = True
        return [*lines, boot_line(config, address), f"ready broker={address}"]

    return process.serve_until_signal(start)


def boot_line(config: BrokerConfig, address: str) -> str:
    """Say that it runs, in the words that RocketMQ's scripts look for."""
    known_as = advertised_address(config.advertise, address)
    line = f"The broker[{config.name}, {known_as}] boot success. serializeType=JSON"
    if config.name_servers:
        line += f" and name server is {';'.join(config.name_servers)}"
    return line
