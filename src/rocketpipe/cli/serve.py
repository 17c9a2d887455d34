"""``rocketpipe serve``: a NameServer and a broker in one process."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config import BrokerConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.remoting.caller import split_address
from rocketpipe.store.config import FlushMode, StoreConfig

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    Commands = _SubParsersAction[argparse.ArgumentParser]


def add_command(commands: Commands) -> None:
    """Teach the parser this command."""
    parser = commands.add_parser(
        "serve",
        help="run a NameServer and a broker",
        description="Run a NameServer and a broker in one process until SIGINT or SIGTERM. When "
        "both serve, one line is printed that begins with 'ready' and names their addresses.",
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="where the broker keeps its data"
    )
    parser.add_argument(
        "--namesrv",
        type=_address,
        default=("127.0.0.1", 9876),
        metavar="HOST:PORT",
        help="where the NameServer listens (127.0.0.1:9876); port 0 takes a free one",
    )
    parser.add_argument(
        "--broker",
        type=_address,
        default=("127.0.0.1", 10911),
        metavar="HOST:PORT",
        help="where the broker listens (127.0.0.1:10911); port 0 takes a free one",
    )
    parser.add_argument(
        "--flush",
        choices=["async", "sync"],
        default="async",
        help="acknowledge a message once the operating system has it (async), or the disk (sync)",
    )
    parser.add_argument(
        "--small-files",
        action="store_true",
        help="make files of 16 MiB instead of 1 GiB where the data begins: for tests, small disks",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="allow addresses that other machines can reach, though there is no access control",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal says stop."""
    for name in ("namesrv", "broker"):
        host, _ = getattr(options, name)
        if not options.insecure and not _is_loopback(host):
            sys.stderr.write(
                f"rocketpipe serve: --{name} {host} can be reached from other machines, and there "
                "is no access control yet: use 127.0.0.1, or add --insecure if you mean it\n"
            )
            return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(_serve(options))
    return 0


async def _serve(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    host, port = options.broker
    async with name_server(*options.namesrv) as namesrv_address:
        config = BrokerConfig(
            data=options.data,
            name_servers=(namesrv_address,),
            host=host,
            port=port,
            store=_store(options),
        )
        async with broker(config) as broker_address:
            sys.stdout.write(f"ready namesrv={namesrv_address} broker={broker_address}\n")
            sys.stdout.flush()
            await stop.wait()


def _store(options: argparse.Namespace) -> StoreConfig:
    flush = FlushMode.SYNC if options.flush == "sync" else FlushMode.ASYNC
    if options.small_files:
        return StoreConfig.embedded(options.data, flush=flush)
    return StoreConfig(root=options.data, flush=flush)


def _address(text: str) -> tuple[str, int]:
    try:
        return split_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
