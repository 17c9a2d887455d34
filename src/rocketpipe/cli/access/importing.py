"""``rocketpipe acl import``: the accounts of a ``plain_acl.yml`` as users of today.

A user that is there keeps its secret and its type, and gets the rights of the file beside its own;
with ``--replace`` the file has the last word. So to import a file twice is to import it once.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocketpipe.auth.plain.acl import PlainAccount, PlainAcl, read_plain_acl
from rocketpipe.auth.plain.yaml import MAX_BYTES
from rocketpipe.auth.policy import Part, Policy
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.cli.access.stopped import StoppedServers
from rocketpipe.cli.access.verbs import Access, AccessVerbs
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.cli.terminal.progress import Progress
from rocketpipe.client.admin.access.servers import LastSuperuser
from rocketpipe.client.admin.access.users import UserState
from rocketpipe.errors import RocketPipeError

_COLUMNS: Final = ["user", "type", "does", "rights"]
_NEW: Final = "create"
_THERE: Final = "is there: add rights"
_REPLACED: Final = "is there: replace"


class ImportStopped(RocketPipeError):
    """An account could not be taken over; those before it were."""

    def __init__(self, account: str, done: int, error: RocketPipeError) -> None:
        self.hint = "put right what it says, then import the file again: it goes on where it was"
        super().__init__(f"account {account!r}, after {done} others: {error}: {self.hint}")


@dataclass(frozen=True, slots=True)
class _Step:
    """What is done about one account."""

    account: PlainAccount
    does: str


def add_verb(verbs: AccessVerbs) -> None:
    """Add the verb."""
    parser = verbs.add(
        "import", "make users and rights of RocketMQ 4.9's plain_acl.yml", _import, changes=True
    )
    parser.description = (
        "Make users and rights of a plain_acl.yml, and say what is not as it was: who was let in "
        "by an address alone, secrets that can be guessed. A file with a permission that is "
        "misspelt is refused, with every line that has one: it would have opened a door."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the plain_acl.yml")
    parser.add_argument(
        "--replace",
        action="store_true",
        help="users that are there get secret, type and rights of the file, and no others",
    )


async def _import(access: Access, printer: Printer, options: argparse.Namespace) -> int:
    with options.file.open("rb") as file:
        found = read_plain_acl(file.read(MAX_BYTES + 1), str(options.file))
    known = {each.name: each for each in await access.users.all()}
    steps = [_Step(each, _does(each, known, options)) for each in found.accounts]
    if not options.dry_run:
        with Progress("importing", len(steps)) as progress:
            if access.files is not None:
                _take_over(access.files, steps, replace=options.replace)
            else:
                await _tell(access, steps, known, progress)
    _print(printer, options, found, steps)
    return 0


def _does(account: PlainAccount, known: dict[str, UserState], options: argparse.Namespace) -> str:
    if account.user.name not in known:
        return _NEW
    return _REPLACED if options.replace else _THERE


async def _tell(
    access: Access, steps: list[_Step], known: dict[str, UserState], progress: Progress
) -> None:
    """Have servers that run do it, an account at a time."""
    for done, step in enumerate(steps):
        user, state = step.account.user, known.get(step.account.user.name)
        try:
            if state is None or state.missing:
                await access.users.create(
                    user.name,
                    user.secret,
                    is_super=user.is_super,
                    weak=True,
                    where_missing=True,
                )
            if step.does == _REPLACED:
                await access.users.rotate(user.name, user.secret, weak=True)
                await access.users.set_type(user.name, is_super=user.is_super)
            await access.policies.put(
                user.name, step.account.policy, keep_others=step.does != _REPLACED
            )
        except RocketPipeError as error:
            raise ImportStopped(user.name, done, error) from error
        progress.advance()


def _take_over(files: StoppedServers, steps: list[_Step], *, replace: bool) -> None:
    """Put all accounts into files, each of which is written once: users first, then rights."""
    for users, policies in files.tables.values():
        _put(users, policies, steps, replace=replace)


def _put(users: UserTable, policies: PolicyTable, steps: list[_Step], *, replace: bool) -> None:
    new = [
        step.account.user for step in steps if replace or users.get(step.account.user.name) is None
    ]
    left = {each.name: each for each in [*users.all(), *new]}.values()
    if users.has_super and not any(each.is_super and each.is_enabled for each in left):
        raise LastSuperuser(next(each.name for each in new if users.get(each.name) is not None))
    users.put_all(new)
    policies.put_all(
        policy
        for step in steps
        if (policy := _joined(policies, step.account.policy, replace=replace)).entries or replace
    )


def _joined(policies: PolicyTable, policy: Policy, *, replace: bool) -> Policy:
    there = policies.get(policy.subject)
    if there is None or replace:
        return policy
    for part in Part:
        if policy.of(part):
            there = there.with_entries(part, policy.of(part))
    return there


def _print(
    printer: Printer, options: argparse.Namespace, found: PlainAcl, steps: list[_Step]
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "user": step.account.user.name,
            "type": step.account.user.type.value,
            "does": step.does,
            "rights": [str(entry) for part in Part for entry in step.account.policy.of(part)],
        }
        for step in steps
    ]
    weak = [step.account.user.name for step in steps if step.account.is_weak]
    if printer.form == "json":
        printer.record(
            {
                "dry_run": options.dry_run,
                "accounts": rows,
                "doors_closed": list(map(str, found.doors)),
                "remarks": list(map(str, found.remarks)),
                "weak_secrets": weak,
            }
        )
        return
    if printer.form == "table":
        for row in rows:
            row["rights"] = "; ".join(row["rights"])
    printer.rows(rows, _COLUMNS, none="no accounts")
    for remark in found.doors:
        sys.stderr.write(f"closed: {options.file} {remark}\n")
    for remark in found.remarks:
        sys.stderr.write(f"note: {options.file} {remark}\n")
    if weak:
        sys.stderr.write(
            f"weak: secrets of fewer than 16 characters can be guessed: `rocketpipe user rotate` "
            f"{', '.join(weak[:10])}{' and others' if len(weak) > 10 else ''}\n"
        )
    if options.dry_run:
        printer.line("nothing was changed: leave --dry-run out to do it")
