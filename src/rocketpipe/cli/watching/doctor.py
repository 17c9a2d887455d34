"""``rocketpipe doctor``: looks a cluster over, and says what to do about what it finds."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from rocketpipe.cli.parsers import Help
from rocketpipe.cli.serving import host_checks
from rocketpipe.cli.terminal import connecting
from rocketpipe.cli.terminal.printing import Printer, on_one_line
from rocketpipe.cli.terminal.progress import Progress
from rocketpipe.cli.tls import checks
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.diagnosis import MOST_LAG, Diagnosis
from rocketpipe.client.admin.findings import Finding, Level, counted
from rocketpipe.client.session import Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.remoting.tls_settings import TlsSettings

EXAMPLES: Final = """\
examples:
  rocketpipe doctor
  rocketpipe doctor --quiet --lag 1000
  rocketpipe doctor -n 'a:9876;b:9876' -o json
  rocketpipe doctor --data rocketpipe-data

It exits with 1 if there is a problem. Warnings and what is unknown are no problem.
"""

_COLUMNS: Final = ["level", "what", "detail", "remedy"]
_STYLES: Final = {
    Level.OK: "good",
    Level.WARNING: "warn",
    Level.PROBLEM: "bad",
    Level.UNKNOWN: "dim",
}
_WIDTH: Final = max(len(level) for level in Level)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    parser.epilog = EXAMPLES
    parser.formatter_class = Help
    connecting.add_flags(parser)
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="look at this directory of a store here too"
    )
    parser.add_argument(
        "--lag",
        type=int,
        default=MOST_LAG,
        metavar="N",
        help=f"a group may be so many messages behind ({MOST_LAG})",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing of what is well")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    found = asyncio.run(_findings(options))
    shown = [each for each in found if not (options.quiet and each.level is Level.OK)]
    printer = Printer.of(options)
    if printer.form == "table":
        _print(printer, shown)
        counts = Counter(each.level for each in found)
        printer.line(", ".join(_counted(counts[level], level) for level in Level))
    else:
        rows = [
            dict(
                zip(_COLUMNS, (each.level.value, each.what, each.detail, each.remedy), strict=True)
            )
            for each in shown
        ]
        printer.rows(rows, _COLUMNS)
    return 1 if any(each.level is Level.PROBLEM for each in found) else 0


def _counted(number: int, level: Level) -> str:
    if level in (Level.WARNING, Level.PROBLEM):
        return counted(number, level.value)
    return f"{number} {level.value}"


async def _findings(options: argparse.Namespace) -> list[Finding]:
    found = []
    with Progress("looking") as progress:
        async with Session(connecting.name_servers(options.namesrv)) as session:
            async for finding in Diagnosis(session, most_lag=options.lag).findings():
                found.append(finding)
                progress.advance()
            if (tls := TlsSettings.of(None)) is not None:
                found += checks.files(tls)
                found += await checks.servers(await _addresses(session), tls)
        found.append(host_checks.open_files())
        if options.data is not None:
            found += host_checks.store_directory(options.data)
    return found


async def _addresses(session: Session) -> list[str]:
    """All servers that are known, as far as anybody tells."""
    addresses = list(session.name_servers.addresses)
    async with Admin(session) as admin:
        with suppress(RocketPipeError):
            for each in await admin.brokers.all():
                addresses += each.addresses.values()
    return addresses


def _print(printer: Printer, found: list[Finding]) -> None:
    for each in found:
        level = printer.styled(f"{each.level.value:<{_WIDTH}}", _STYLES[each.level])
        printer.line(f"{level}  {on_one_line(each.what)}: {on_one_line(each.detail)}")
        if each.remedy:
            printer.line(f"{'':<{_WIDTH}}    {on_one_line(each.remedy)}")
