"""``rocketpipe top``: how a cluster fares, again and again, until Ctrl-C.

Brokers are asked each time. Of groups so many are asked each time as take no long while, in turns,
and those that are furthest behind are shown, with the lag that was last known of them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from rocketpipe.cli.parsers import Help
from rocketpipe.cli.terminal import connecting
from rocketpipe.cli.terminal.arguments import count, duration_ms
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.brokers import BrokerLoad
from rocketpipe.clock import SystemClock
from rocketpipe.errors import RocketPipeError

EXAMPLES: Final = """\
examples:
  rocketpipe top
  rocketpipe top --every 10s --groups 20
  rocketpipe top --once -o json
"""

#: So many groups are asked each time, and so many of them at once.
GROUPS_EACH_TIME: Final = 100
_AT_ONCE: Final = 10
_BROKERS: Final = ["broker", "cluster", "address", "in", "out", "disk", "unsynced"]
_GROUPS: Final = ["group", "lag", "rate", "topics"]
#: To the upper left corner, and nothing below it.
_ANEW: Final = "\x1b[H\x1b[J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    parser.epilog = EXAMPLES
    parser.formatter_class = Help
    connecting.add_flags(parser)
    parser.add_argument(
        "--every", type=duration_ms, default=2000, metavar="TIME", help="look so often (2s)"
    )
    parser.add_argument(
        "--groups", type=count, default=10, metavar="N", help="show so many groups (10)"
    )
    parser.add_argument("--once", action="store_true", help="look once, and end")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    return connecting.with_admin(options, lambda admin, printer: _watch(admin, printer, options))


async def _watch(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    groups, clock = Groups(), SystemClock()
    was_there = False
    while True:
        try:
            view = await looked(admin, groups, options.groups)
        except RocketPipeError as error:
            if options.once or not was_there:
                raise
            # It may come back: who watches wants to see that.
            sys.stderr.write(f"rocketpipe top: {datetime.now():%H:%M:%S} {error}\n")
        else:
            was_there = True
            _show(printer, view, anew=not options.once and sys.stdout.isatty())
            if options.once:
                return 0
        await clock.sleep(options.every)


@dataclass(slots=True)
class Groups:
    """What is known of the lag of groups, and whose turn it is to be asked."""

    names: Sequence[str] = ()
    #: By group; None where it could not be found out.
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    _next: int = 0

    async def ask(self, admin: Admin) -> None:
        """Ask the next ones."""
        try:
            self.names = sorted(await admin.groups.names())
        except RocketPipeError:
            return
        there = set(self.names)
        self.known = {name: row for name, row in self.known.items() if name in there}
        turn = [
            self.names[(self._next + place) % len(self.names)]
            for place in range(min(GROUPS_EACH_TIME, len(self.names)))
        ]
        self._next = (self._next + len(turn)) % max(len(self.names), 1)
        for begin in range(0, len(turn), _AT_ONCE):
            some = turn[begin : begin + _AT_ONCE]
            rows = await asyncio.gather(*(_group(admin, name) for name in some))
            self.known |= {row["group"]: row for row in rows}

    def furthest(self, most: int) -> list[dict[str, Any]]:
        """Those that are furthest behind; of whom it is not known, behind these."""
        rows = self.known.values()
        return sorted(rows, key=lambda row: (-(row["lag"] or -1), row["group"]))[:most]


@dataclass(frozen=True, slots=True)
class View:
    """What is shown at one time."""

    at: datetime
    brokers: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    group_count: int
    asked_count: int


async def looked(admin: Admin, groups: Groups, most: int) -> View:
    """Look at all brokers and some groups.

    Raises:
        ConnectionLost: If no NameServer answers.
        NoBroker: If there is no broker at all.
    """
    brokers = await admin.brokers.all()
    loads = await asyncio.gather(*(_load(admin, each.name) for each in brokers))
    rows = [
        {
            "broker": each.name,
            "cluster": each.cluster,
            "address": each.leader,
            "in": None if load is None else round(load.in_rate, 1),
            "out": None if load is None else round(load.out_rate, 1),
            "disk": None if load is None else f"{load.disk_percent:.0f} %",
            "unsynced": None if load is None else load.unsynced,
        }
        for each, load in zip(brokers, loads, strict=True)
    ]
    await groups.ask(admin)
    return View(
        at=datetime.now().astimezone(),
        brokers=rows,
        groups=groups.furthest(most),
        group_count=len(groups.names),
        asked_count=len(groups.known),
    )


async def _load(admin: Admin, broker: str) -> BrokerLoad | None:
    try:
        return await admin.brokers.load(broker)
    except RocketPipeError:
        return None


async def _group(admin: Admin, name: str) -> dict[str, Any]:
    try:
        progress = await admin.progress.of_group(name)
    except RocketPipeError:
        return {"group": name, "lag": None, "rate": None, "topics": None}
    topics = {each.queue.topic for each in progress.queues}
    return {
        "group": name,
        "lag": progress.lag if topics else None,
        "rate": round(progress.rate, 1),
        "topics": len(topics),
    }


def _show(printer: Printer, view: View, *, anew: bool) -> None:
    if printer.form != "table":
        row = {"at": view.at, "brokers": view.brokers, "groups": view.groups}
        printer.stream(row, ["at", "brokers", "groups"], "")
        return
    if anew:
        sys.stdout.write(_ANEW)
    known = [row["in"] for row in view.brokers if row["in"] is not None]
    least = "" if len(known) == len(view.brokers) else "at least "
    out = sum(row["out"] for row in view.brokers if row["out"] is not None)
    printer.line(
        printer.styled(
            f"{view.at:%H:%M:%S}  {len(view.brokers)} brokers  {view.group_count} groups  "
            f"in {least}{sum(known):,.0f}/s  out {least}{out:,.0f}/s",
            "head",
        )
    )
    printer.line("")
    printer.rows(view.brokers, _BROKERS, none="no brokers")
    printer.line("")
    printer.rows(view.groups, _GROUPS, none="no groups")
    if view.asked_count < view.group_count:
        left = view.group_count - view.asked_count
        printer.line(printer.styled(f"{left} groups were not asked yet", "dim"))
    sys.stdout.flush()
