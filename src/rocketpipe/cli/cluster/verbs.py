"""The verbs of ``rocketpipe cluster`` for a cluster on this machine."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from rocketpipe.cli.children.events import Event, EventPrinter
from rocketpipe.cli.cluster import control, layout, leftovers, supervisor
from rocketpipe.cli.cluster.commands import Commands, Wishes
from rocketpipe.cli.cluster.layout import Layout, Mode
from rocketpipe.cli.serving import settings
from rocketpipe.cli.terminal.arguments import count, duration_ms
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.cli.verbs import Verbs
from rocketpipe.clock import SystemClock
from rocketpipe.coordination import zookeeper_server
from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.java import java_program

EXAMPLES: Final = """\
  rocketpipe cluster up --mode elected --replicas 3 --data DIR
  rocketpipe cluster up --mode two-masters
  rocketpipe cluster status --data DIR
  rocketpipe cluster status --data DIR -o json
  rocketpipe cluster kill broker-a-1 --data DIR
  rocketpipe cluster start broker-a-1 --data DIR
  rocketpipe cluster pause broker-a-2 --for 3s --data DIR
  rocketpipe cluster resume broker-a-2 --data DIR
  rocketpipe cluster cut broker-a-1 --data DIR
  rocketpipe cluster heal broker-a-1 --data DIR
  rocketpipe cluster down --data DIR
  rocketpipe cluster zookeeper --data zk
"""

#: What people see of a row; the other facts are for programs.
_SHOWN: Final = (
    *("kind", "name", "id", "role", "state", "cut", "address", "pid"),
    *("epoch", "lag", "in_sync", "starts"),
)
_READY_EVERY_S: Final = 0.1


def add_verbs(verbs: Verbs) -> None:
    """Teach the noun these verbs."""
    up = verbs.add_local("up", "run a whole cluster on this machine, in the foreground", _up)
    up.add_argument(
        "--mode",
        type=Mode,
        choices=list(Mode),
        metavar="{" + ",".join(Mode) + "}",
        help="one master; two; two with slaves, asynchronous or synchronous; or replicas of which "
        "one is elected (elected)",
    )
    up.add_argument(
        "--replicas",
        type=count,
        metavar="N",
        help="copies of each broker (elected: 3, async and sync: 2); more than there were are "
        "added",
    )
    up.add_argument(
        "--zookeepers", type=count, metavar="N", help="nodes of the coordinator, for elected (1)"
    )
    up.add_argument(
        "--session",
        type=_session,
        metavar="TIME",
        help="a leader that the coordinator hears nothing of for so long is replaced (3s)",
    )
    _add_data_flag(up)
    up.add_argument(
        "--namesrv-port",
        type=settings.port,
        metavar="PORT",
        help="where clients find the NameServer, such as 9876; without it a free one is chosen",
    )
    settings.add_profile_flag(up, "serve", "what the servers are for; see `rocketpipe broker`")
    up.add_argument(
        "--flush", choices=["async", "sync"], help="the same as for `rocketpipe broker`"
    )
    up.add_argument(
        "-c",
        "--config",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="more settings, for every broker",
    )
    up.add_argument(
        "-o",
        "--output",
        choices=["text", "json"],
        default="text",
        help="say what happens in words (default), or in a line of JSON each",
    )
    for name, summary in (
        ("kill", "kill a process without warning; it stays dead until it is started"),
        ("start", "start a process that was killed"),
        ("pause", "stop a process in the middle of whatever it does"),
        ("resume", "let a paused process go on"),
        ("cut", "cut a broker off from the coordinator and its replicas, but not from clients"),
        ("heal", "let a broker that was cut off reach the others again"),
    ):
        parser = verbs.add_local(name, summary, _tell)
        parser.add_argument("name", metavar="NAME", help="as `cluster status` has it")
        _add_data_flag(parser)
        if name == "pause":
            parser.add_argument(
                "--for",
                type=duration_ms,
                dest="for_ms",
                metavar="TIME",
                help="for so long, such as 3s; without it until it is resumed",
            )
    _add_data_flag(verbs.add_local("down", "end a cluster, in order", _down))
    zookeeper = verbs.add_local(
        "zookeeper", "run one ZooKeeper, from the jars that PySpark brings", _zookeeper
    )
    zookeeper.add_argument("--data", type=Path, required=True, metavar="DIR", help="what it keeps")
    zookeeper.add_argument(
        "--port", type=settings.port, default="2181", metavar="PORT", help="where it listens (2181)"
    )
    zookeeper.add_argument(
        "--bind", default="127.0.0.1", metavar="HOST", help="the address (127.0.0.1)"
    )
    zookeeper.add_argument(
        "--insecure",
        action="store_true",
        help="allow an address that other machines can reach, though there is no access control",
    )


def _add_data_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(layout.USUAL_DIRECTORY),
        metavar="DIR",
        help=f"where the cluster lives ({layout.USUAL_DIRECTORY})",
    )


def _session(text: str) -> int:
    length = duration_ms(text)
    least, most = zookeeper_server.LEAST_SESSION_MS, zookeeper_server.MOST_SESSION_MS
    if not least <= length <= most:
        raise argparse.ArgumentTypeError(
            f"{text!r}: from {least // 1000}s to {most // 1000}s is possible"
        )
    return length


def _up(options: argparse.Namespace) -> int:
    directory: Path = options.data.absolute()
    settings.claim_directory(directory, "--data")
    with supervisor.claimed(directory):
        known = layout.load(directory)
        wanted = layout.laid_out(
            known,
            mode=options.mode,
            replicas=options.replicas,
            zookeepers=options.zookeepers,
            session_ms=options.session,
            namesrv_port=int(options.namesrv_port) if options.namesrv_port else None,
        )
        wishes = Wishes(
            profile=options.profile or settings.USUAL_PROFILE["serve"],
            flush=options.flush,
            config=options.config,
        )
        commands = Commands(wanted, directory, wishes)
        commands.check()
        tell = EventPrinter(options.output)
        for name in leftovers.end(directory):
            tell(Event(name, "ended", f"{name} was left over from before, and has ended"))
        wanted.save(directory)
        _tell_addresses(wanted, directory, tell)
        asyncio.run(_supervised(wanted, directory, commands, tell))
    return 0


async def _supervised(
    wanted: Layout, directory: Path, commands: Commands, tell: EventPrinter
) -> None:
    await supervisor.Supervisor(wanted, directory, commands, SystemClock(), tell).run()


def _tell_addresses(wanted: Layout, directory: Path, tell: EventPrinter) -> None:
    for place in wanted.places:
        facts = {"kind": place.kind, "address": place.address}
        tell(Event(place.name, "place", f"{place.name:<14} {place.address}", facts))
    lines = (
        f"clients: export ROCKETPIPE_NAMESRV={wanted.name_server}",
        f"look:    rocketpipe cluster status --data {directory}",
    )
    for line in lines:
        tell(Event("", "hint", line))


def status(options: argparse.Namespace) -> int:
    """Print a row for each process of the cluster in ``options.data``."""
    rows = control.ask(options.data.absolute(), "status")["rows"]
    columns = _SHOWN if options.output == "table" else supervisor.COLUMNS
    Printer.of(options).rows(rows, columns)
    return 0


def _tell(options: argparse.Namespace) -> int:
    what = {"name": options.name, "for_ms": getattr(options, "for_ms", None)}
    _say(control.ask(options.data.absolute(), options.verb, **what)["done"])
    return 0


def _down(options: argparse.Namespace) -> int:
    directory = options.data.absolute()
    try:
        _say(control.ask(directory, "down")["done"])
    except control.NoClusterRuns:
        ended = leftovers.end(directory)
        if not ended:
            raise
        _say(f"ended what was left over: {', '.join(ended)}")
    return 0


def _zookeeper(options: argparse.Namespace) -> int:
    """Run ZooKeeper until SIGINT or SIGTERM, which go to it as well."""
    settings.refuse_strangers(options.bind, "--bind", insecure=options.insecure)
    settings.claim_directory(options.data, "--data")
    port = int(options.port)
    if port == 0:
        raise ConfigError("--port", "0 is none that brokers could be told: name one, such as 2181")
    java = java_program(os.environ, "ZooKeeper")
    node = zookeeper_server.Node(1, port)
    command = zookeeper_server.server_command(java, options.data, node, host=options.bind)
    process = subprocess.Popen(command)  # noqa: S603 - our own server, without a shell

    def pass_on(number: int, _: object) -> None:
        process.send_signal(number)

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, pass_on)
    ready = False
    while (code := _ended(process)) is None:
        if not ready and zookeeper_server.mode_of(port, host=options.bind):
            ready = True
            _say(f"ready zookeeper={options.bind}:{port}")
    # The JVM says by its code that a signal ended it, as it should.
    stopped = {128 + signal.SIGTERM, 128 + signal.SIGINT, -signal.SIGTERM, -signal.SIGINT}
    return 0 if code in stopped else code


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(_READY_EVERY_S)
    except subprocess.TimeoutExpired:
        return None


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
