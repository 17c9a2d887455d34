"""Verbs about users and rights: for servers that run, and by ``--data`` for those that do not."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rocketpipe.cli.access.stopped import StoppedServers, stopped
from rocketpipe.cli.terminal import connecting
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.access.policies import PolicyAdmin
from rocketpipe.client.admin.access.servers import Change
from rocketpipe.client.admin.access.users import UserAdmin
from rocketpipe.client.admin.fleet import PartlyDone
from rocketpipe.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Access:
    """Users and rights of a cluster, or of a directory."""

    users: UserAdmin
    policies: PolicyAdmin
    #: The files, where no server is asked.
    files: StoppedServers | None = None


class SaidWrongly(ConfigError):
    """Something that no flag alone is to blame for."""

    def __init__(self, reason: str) -> None:
        super().__init__("", reason)

    def __str__(self) -> str:
        return self.reason


#: Carries a verb out; the number is the exit code.
Work = Callable[[Access, Printer, argparse.Namespace], Awaitable[int]]


class AccessVerbs:
    """Collects the verbs of one noun."""

    def __init__(self, parser: argparse.ArgumentParser, examples: str) -> None:
        self._verbs = Verbs(parser, examples)

    def add(
        self, name: str, summary: str, work: Work, *, changes: bool = False
    ) -> argparse.ArgumentParser:
        """Add a verb; one that changes something takes ``--dry-run``."""
        parser = self._verbs.add_local(name, summary, partial(_run, work))
        connecting.add_flags(parser)
        parser.add_argument(
            "--data",
            type=Path,
            metavar="DIR",
            help="ask no server: use the files of one that is stopped, in its --data directory",
        )
        if changes:
            parser.add_argument(
                "--dry-run", action="store_true", help="show what would be done, and do nothing"
            )
        return parser


def _run(work: Work, options: argparse.Namespace) -> int:
    try:
        return _carried_out(work, options)
    except ValueError as error:
        raise SaidWrongly(str(error)) from error


def _carried_out(work: Work, options: argparse.Namespace) -> int:
    if options.data is None:
        return connecting.with_admin(
            options,
            lambda admin, printer: work(Access(admin.users, admin.policies), printer, options),
        )
    if options.namesrv:
        raise ConfigError("--data", "names files, and --namesrv servers: give one of them")
    with stopped(options.data) as files:
        users = UserAdmin(files)
        access = Access(users, PolicyAdmin(files, users), files)
        return asyncio.run(_awaited(work(access, Printer.of(options), options)))


async def _awaited(work: Awaitable[int]) -> int:
    return await work


async def told(
    printer: Printer,
    facts: dict[str, Any],
    change: Awaitable[Change],
    options: argparse.Namespace,
) -> Change:
    """Make a change, and print whom it is about and where it was made, as far as it was.

    Raises:
        PartlyDone: If some servers did not do it, after it was printed which did.
    """
    dry = {"dry_run": True} if options.dry_run else {}
    try:
        done = await change
    except PartlyDone as error:
        failed = {server: str(reason) for server, reason in error.failed.items()}
        _print(printer, {**facts, **dry, "servers": list(error.done), "failed": failed})
        raise
    where: dict[str, Any] = {"servers": list(done.done)}
    if done.unchanged:
        where["unchanged"] = list(done.unchanged)
    if done.without:
        where["without_access_control"] = list(done.without)
    _print(printer, {**facts, **dry, **where})
    return done


def _print(printer: Printer, record: dict[str, Any]) -> None:
    if printer.form == "table":
        record = {
            key: ", ".join(value) if isinstance(value, list) else value
            for key, value in record.items()
        }
    printer.record(record)
