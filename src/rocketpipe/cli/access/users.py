"""``rocketpipe user``: who is let in."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from rocketpipe.auth.policy import Part
from rocketpipe.auth.secret import LEAST_CHARACTERS, LEAST_ON_THE_WIRE, Secret, check_secret
from rocketpipe.cli.access.verbs import Access, AccessVerbs, told
from rocketpipe.cli.terminal import confirm
from rocketpipe.cli.terminal.arguments import duration_ms, time_ms
from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.client.admin.access.users import UserState
from rocketpipe.client.admin.fleet import PartlyDone
from rocketpipe.client.credentials import ACCESS_KEY, SECRET_KEY_FILE, read_secret
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConfigError, RocketPipeError

EXAMPLES: Final = """\
examples:
  rocketpipe user create alice
  rocketpipe user create ops --super -o json
  rocketpipe user create billing --secret-file billing.key
  rocketpipe user list
  rocketpipe user show alice
  rocketpipe user rotate alice --for 7d
  rocketpipe user disable alice
  rocketpipe user enable alice
  rocketpipe user delete alice --yes
  rocketpipe user create rescue --super --data rocketpipe-data

Users are made at every NameServer and broker that has access control. --data uses the files of
servers that are stopped: so does one come in again who was locked out.
"""

_A_DAY: Final = "1d"
#: A secret that stays valid for longer beside another one was not rotated.
_LONGEST_MS: Final = 366 * 86_400_000
_COLUMNS: Final = ["user", "type", "status", "old_secret_until", "missing_at"]
_NONE: Final = "no users yet: `rocketpipe user create NAME` makes one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = AccessVerbs(parser, EXAMPLES)
    create = verbs.add("create", "make a user; its secret is shown once", _create, changes=True)
    create.add_argument("user", metavar="NAME", help="its name: letters, digits and _ . @ -")
    create.add_argument("--super", action="store_true", help="one who may do everything")
    _add_secret(create)

    listing = verbs.add("list", "list users", _list)
    listing.add_argument("contains", nargs="?", default="", help="only names that contain this")

    show = verbs.add("show", "one user, where it is known, and what it may do", _show)
    show.add_argument("user", metavar="NAME", help="its name")

    rotate = verbs.add(
        "rotate", "give a user another secret; for a while both are valid", _rotate, changes=True
    )
    rotate.add_argument("user", metavar="NAME", help="its name")
    until = rotate.add_mutually_exclusive_group()
    until.add_argument(
        "--for",
        dest="how_long",
        type=duration_ms,
        metavar="DURATION",
        help=f"how long the last secret stays valid: 30m, 12h, 7d; 0s for not at all ({_A_DAY})",
    )
    until.add_argument("--until", metavar="TIME", help="until when it does: 2026-12-01T08:00:00Z")
    _add_secret(rotate)

    disable = verbs.add("disable", "let a user in no longer; its rights stay", _able, changes=True)
    disable.add_argument("user", metavar="NAME", help="its name")
    enable = verbs.add("enable", "let a user in again", _able, changes=True)
    enable.add_argument("user", metavar="NAME", help="its name")

    delete = verbs.add("delete", "remove a user with all its rights", _delete, changes=True)
    delete.add_argument("user", metavar="NAME", help="its name")
    confirm.add_flags(delete, dry_run=False)


def _add_secret(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--secret-file",
        type=Path,
        metavar="FILE",
        help="its secret is the first line of this file; else one is made and shown",
    )
    parser.add_argument(
        "--weak",
        action="store_true",
        help=f"take a secret of fewer than {LEAST_CHARACTERS} characters, though it can be guessed",
    )


def _secret(options: argparse.Namespace) -> Secret:
    if options.secret_file is not None:
        try:
            secret = read_secret(options.secret_file)
            least = LEAST_ON_THE_WIRE if options.weak else LEAST_CHARACTERS
            return check_secret(secret.reveal(), least=least)
        except ConfigError as error:
            raise ConfigError("--secret-file", error.reason) from error
        except ValueError as error:
            hint = "" if options.weak else ", or say --weak"
            raise ConfigError("--secret-file", f"{error}{hint}") from error
    if options.weak:
        raise ConfigError("--weak", "goes with --secret-file: a secret that is made is never weak")
    return Secret.generate()


def _shown(options: argparse.Namespace, secret: Secret) -> dict[str, Any]:
    """The secret, to whom does not have it yet."""
    made = options.secret_file is None and not options.dry_run
    return {"secret": secret.reveal()} if made else {}


async def _create(access: Access, printer: Printer, options: argparse.Namespace) -> int:
    secret, name = _secret(options), options.user
    facts = {"user": name, "type": "Super" if options.super else "Normal"}
    change = access.users.create(
        name,
        secret,
        is_super=options.super,
        weak=options.weak,
        where_missing=options.secret_file is not None,
        dry_run=options.dry_run,
    )
    try:
        await told(printer, facts | _shown(options, secret), change, options)
    except PartlyDone as error:
        raise _unfinished("create", name, error) from error
    if not options.dry_run:
        _tell_of_secret(printer, options)
        if not options.super:
            printer.line(
                f"rights:   rocketpipe acl grant {name} --topic TOPIC --group GROUP --actions "
                "pub,sub"
            )
    return 0


def _tell_of_secret(printer: Printer, options: argparse.Namespace) -> None:
    if options.secret_file is None:
        printer.line("")
        printer.line("The secret is not shown again: put it into a file that only its user reads.")
    file = options.secret_file or f"{options.user}.key"
    printer.line(f"clients:  export {ACCESS_KEY}={options.user} {SECRET_KEY_FILE}={file}")


class SecretNotEverywhere(RocketPipeError):
    """Some servers have a new secret, and others do not."""


def _unfinished(verb: str, name: str, error: PartlyDone) -> SecretNotEverywhere:
    failed = "; ".join(f"{server} ({reason})" for server, reason in error.failed.items())
    return SecretNotEverywhere(
        f"done at {', '.join(error.done) or 'none'}, not at {failed}: put that right, then give "
        f"the others the same secret: `rocketpipe user {verb} {name} --secret-file FILE`"
    )


async def _list(access: Access, printer: Printer, options: argparse.Namespace) -> int:
    users = [_facts(each) for each in await access.users.all(options.contains)]
    columns = list(_COLUMNS)
    if printer.form == "table" and not any(row["missing_at"] for row in users):
        columns.remove("missing_at")
    printer.rows(users, columns, none=_NONE)
    return 0


def _facts(user: UserState) -> dict[str, Any]:
    now = SystemClock().now_ms()
    old = user.old_until_ms if user.old_until_ms and user.old_until_ms > now else None
    return {
        "user": user.name,
        "type": "Super" if user.is_super else "Normal",
        "status": "enabled" if user.is_enabled else "disabled",
        "old_secret_until": moment(old),
        "missing_at": list(user.missing),
    }


async def _show(access: Access, printer: Printer, options: argparse.Namespace) -> int:
    user = await access.users.show(options.user)
    entries = await _rights(access, user.name)
    facts = _facts(user) | {"servers": list(user.servers)}
    if user.different:
        facts["different_at"] = list(user.different)
    if user.silent:
        facts["no_answer_from"] = list(user.silent)
    if printer.form != "table":
        printer.record(facts | {"rights": entries})
        return 0
    printer.record({key: value for key, value in facts.items() if value not in (None, [])})
    printer.line("")
    if user.is_super:
        printer.line("may do everything")
    for entry in entries:
        printer.line(entry)
    if not entries and not user.is_super:
        printer.line("no rights yet: `rocketpipe acl grant` gives some")
    return 0


async def _rights(access: Access, name: str) -> list[str]:
    """All entries that some server has, of those that answer."""
    found = {
        str(entry)
        for policy in (await access.policies.of(name)).values()
        for part in Part
        for entry in policy.of(part)
    }
    return sorted(found)


async def _rotate(access: Access, printer: Printer, options: argparse.Namespace) -> int:
    secret, name, until = _secret(options), options.user, _until(options)
    before = await access.users.show(name)
    now = SystemClock().now_ms()
    facts = {"user": name, "old_secret_until": moment(until) if until else "now"}
    change = access.users.rotate(
        name, secret, old_until_ms=until, weak=options.weak, dry_run=options.dry_run
    )
    try:
        await told(printer, facts | _shown(options, secret), change, options)
    except PartlyDone as error:
        raise _unfinished("rotate", name, error) from error
    if before.old_until_ms and before.old_until_ms > now and options.secret_file is None:
        sys.stderr.write(
            f"rocketpipe user rotate: the secret before the last one, which was good until "
            f"{moment(before.old_until_ms)}, is good no longer\n"
        )
    if not options.dry_run:
        _tell_of_secret(printer, options)
    return 0


def _until(options: argparse.Namespace) -> int:
    """Until when the last secret is good, in ms since 1970; 0 for not at all."""
    now = SystemClock().now_ms()
    flag = "--for" if options.until is None else "--until"
    if options.until is not None:
        until = time_ms(options.until, now)
        if until <= now:
            raise ConfigError(flag, f"{options.until!r} is past: say --for 0s to end it now")
    else:
        lasts = duration_ms(_A_DAY) if options.how_long is None else options.how_long
        until = now + lasts if lasts else 0
    if until - now > _LONGEST_MS:
        raise ConfigError(flag, "more than a year is no rotation: name a time that comes sooner")
    return until


async def _able(access: Access, printer: Printer, options: argparse.Namespace) -> int:
    act = access.users.enable if options.verb == "enable" else access.users.disable
    facts = {"user": options.user, "status": f"{options.verb}d"}
    await told(printer, facts, act(options.user, dry_run=options.dry_run), options)
    return 0


async def _delete(access: Access, printer: Printer, options: argparse.Namespace) -> int:
    user = await access.users.show(options.user)
    entries = await _rights(access, user.name)
    facts = {"user": user.name, "deleted": not options.dry_run, "rights": len(entries)}
    if not options.dry_run:
        confirm.confirm(f"delete user {user.name!r} with its rights ({len(entries)})", options)
    change = access.users.delete(user.name, dry_run=options.dry_run)
    await told(printer, facts, change, options)
    return 0
