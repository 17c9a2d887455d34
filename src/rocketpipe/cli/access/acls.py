"""``rocketpipe acl``: what users may do."""

from __future__ import annotations

import argparse
import difflib
from typing import Final

from rocketpipe.auth.explaining import Point
from rocketpipe.auth.policy import Action
from rocketpipe.cli.access import importing
from rocketpipe.cli.access.verbs import Access, AccessVerbs, SaidWrongly, told
from rocketpipe.cli.terminal import confirm
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.access.explanation import Explanation
from rocketpipe.client.admin.access.policies import entries_of
from rocketpipe.errors import ConfigError

EXAMPLES: Final = """\
examples:
  rocketpipe acl grant alice --topic orders --actions pub
  rocketpipe acl grant billing --topic orders --group billing --actions sub
  rocketpipe acl grant alice --topic 'orders*' --actions pub,sub --from 10.1.0.0/16
  rocketpipe acl grant ops --cluster '*' --actions get,list
  rocketpipe acl grant alice --topic orders-internal --actions all --deny
  rocketpipe acl revoke alice --topic orders --actions pub
  rocketpipe acl revoke alice --all --yes
  rocketpipe acl list
  rocketpipe acl list alice -o json
  rocketpipe acl explain alice 'pub orders'
  rocketpipe acl explain billing 'sub orders billing'
  rocketpipe acl explain billing 'sub %RETRY%billing'
  rocketpipe acl explain alice --topic orders --actions pub --from 10.1.2.3
  rocketpipe acl import plain_acl.yml --dry-run

Actions are pub, sub, create, update, delete, get, list, and all of them: all. A consumer needs sub
on its topic and on its group. Names end with * for all that begin so; '*' alone is all of them.
"""

_COLUMNS: Final = ["user", "part", "resource", "actions", "from", "decision", "missing_at"]
_NONE: Final = "no rights yet: `rocketpipe acl grant NAME --topic TOPIC --actions pub` gives some"
_GRAMMAR: Final = "'ACTION TOPIC [GROUP]', such as 'pub orders' or 'sub orders billing'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = AccessVerbs(parser, EXAMPLES)
    grant = verbs.add("grant", "allow a user something, or deny it", _grant, changes=True)
    grant.add_argument("user", metavar="WHO", help="the user")
    _add_resources(grant)
    grant.add_argument(
        "--actions",
        required=True,
        metavar="ACTION,…",
        help="what it may do: pub, sub, create, update, delete, get, list, all",
    )
    grant.add_argument(
        "--from",
        dest="sources",
        action="append",
        default=[],
        metavar="CIDR",
        help="only from this address or network; several times",
    )
    grant.add_argument("--deny", action="store_true", help="deny it instead")
    grant.add_argument(
        "--replace",
        action="store_true",
        help="put it in the place of what is said of the same resource, rather than add to it",
    )

    revoke = verbs.add("revoke", "take back what was granted, or denied", _revoke, changes=True)
    revoke.add_argument("user", metavar="WHO", help="the user")
    _add_resources(revoke)
    revoke.add_argument("--actions", default="", metavar="ACTION,…", help="only these actions")
    revoke.add_argument("--all", action="store_true", help="everything that the user has")
    confirm.add_flags(revoke, dry_run=False)

    listing = verbs.add("list", "list what users may do", _list)
    listing.add_argument("user", nargs="?", default="", metavar="WHO", help="only this user")
    listing.add_argument(
        "--resource", default="", metavar="TEXT", help="only resources that contain this"
    )

    explain = verbs.add("explain", "say whether a user may do something, and why", _explain)
    explain.description = (
        "Say whether a user may do something, which entry decides, and why. The exit code is 1 if "
        f"it may not. WHAT is {_GRAMMAR}; TOPIC may be a retry or dead letter topic, and "
        "Group:NAME or Cluster:NAME instead. Flags say the same."
    )
    explain.add_argument("user", metavar="WHO", help="the user")
    explain.add_argument("what", nargs="*", metavar="WHAT", help=_GRAMMAR)
    _add_resources(explain)
    explain.add_argument("--actions", default="", metavar="ACTION,…", help="what it wants to do")
    explain.add_argument(
        "--from", dest="source", default="", metavar="ADDRESS", help="from where it asks"
    )
    importing.add_verb(verbs)


def _add_resources(parser: argparse.ArgumentParser) -> None:
    for kind in ("topic", "group", "cluster"):
        parser.add_argument(
            f"--{kind}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"a {kind}; NAME* for all that begin so, '*' for all; several times",
        )


def _actions(options: argparse.Namespace) -> list[str]:
    """The actions that were named, as policies have them."""
    known = {each.value.lower(): each.value for each in Action}
    found = []
    for word in filter(None, (each.strip() for each in options.actions.split(","))):
        if word.lower() not in known:
            near = difflib.get_close_matches(word.lower(), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"these are {', '.join(known)}"
            raise ConfigError("--actions", f"{word!r} is no action: {hint}")
        found.append(known[word.lower()])
    return found


def _resources(options: argparse.Namespace) -> list[str]:
    return [
        f"{kind}:{name}"
        for kind in ("Topic", "Group", "Cluster")
        for name in getattr(options, kind.lower())
    ]


def _some_resources(options: argparse.Namespace) -> list[str]:
    found = _resources(options)
    if not found:
        raise SaidWrongly("of what? Name at least one --topic, --group or --cluster")
    return found


def _some_actions(options: argparse.Namespace) -> list[str]:
    found = _actions(options)
    if not found:
        known = ", ".join(each.value.lower() for each in Action)
        raise ConfigError("--actions", f"names none: these are {known}")
    return found


async def _grant(access: Access, printer: Printer, options: argparse.Namespace) -> int:
    resources, actions = _some_resources(options), _some_actions(options)
    entries = entries_of(resources, actions, options.sources, deny=options.deny)
    facts = {"user": options.user, "granted": list(map(str, entries))}
    change = access.policies.grant(
        options.user,
        resources,
        actions,
        sources=options.sources,
        deny=options.deny,
        replace_others=options.replace,
        dry_run=options.dry_run,
    )
    await told(printer, facts, change, options)
    if (await access.users.show(options.user)).is_super:
        printer.line(f"{options.user} is Super and may do everything: entries are not asked")
    return 0


async def _revoke(access: Access, printer: Printer, options: argparse.Namespace) -> int:
    resources = [] if options.all else _some_resources(options)
    if options.all and (_resources(options) or options.actions):
        raise ConfigError("--all", "takes everything back: name nothing beside it")
    if options.all and not options.dry_run:
        confirm.confirm(f"take back all rights of {options.user!r}", options)
    facts = {"user": options.user, "revoked": resources or "everything"}
    change = access.policies.revoke(
        options.user, resources, _actions(options), dry_run=options.dry_run
    )
    await told(printer, facts, change, options)
    return 0


async def _list(access: Access, printer: Printer, options: argparse.Namespace) -> int:
    found = await access.policies.all(options.user, options.resource)
    rows = [each.record() for each in found]
    columns = list(_COLUMNS)
    if printer.form == "table" and not any(row["missing_at"] for row in rows):
        columns.remove("missing_at")
    printer.rows(rows, columns, none=_NONE)
    return 0


async def _explain(access: Access, printer: Printer, options: argparse.Namespace) -> int:
    asked = _asked(options)
    found = await access.policies.explain(options.user, asked, source=options.source)
    if printer.form == "table":
        _print(printer, found)
    else:
        printer.record(found.record())
    return 0 if found.allowed else 1


def _asked(options: argparse.Namespace) -> list[tuple[str, str]]:
    """What is asked: pairs of an action and a resource."""
    words = " ".join(options.what).split()
    if words:
        if _resources(options) or options.actions:
            raise ConfigError("WHAT", "is given, and flags that say the same: give one of them")
        if len(words) not in (2, 3):
            raise ConfigError("WHAT", f"{' '.join(words)!r} is not understood: write {_GRAMMAR}")
        options.actions = words[0]
        first = words[1] if ":" in words[1] else f"Topic:{words[1]}"
        resources = [first, *(f"Group:{group}" for group in words[2:])]
    else:
        resources = _resources(options)
        if not resources or not options.actions:
            raise SaidWrongly(f"may it do what? Write {_GRAMMAR}, or --actions and --topic")
    actions = _some_actions(options)
    pairs = [(action, resource) for resource in resources for action in actions]
    several = any(each.startswith("Topic:") for each in resources)
    # Whoever sends needs nothing of a producer's group, as in RocketMQ.
    return [
        (action, resource)
        for action, resource in pairs
        if not (several and action == "Pub" and resource.startswith("Group:"))
    ]


def _print(printer: Printer, found: Explanation) -> None:
    word = printer.styled("yes", "good") if found.allowed else printer.styled("no", "bad")
    verdict = found.verdict
    if verdict:
        printer.line(f"{word}: {verdict}")
        return
    for servers, answer in found.answers:
        if len(found.answers) > 1:
            printer.line(f"at {', '.join(servers)}:")
        if not answer.points:
            printer.line(f"{printer.styled('no', 'bad')}: there is no user {found.user.name} here")
        for point in answer.points:
            _print_point(printer, point)
    if found.user.silent:
        printer.line(f"no answer from {', '.join(found.user.silent)}")


def _print_point(printer: Printer, point: Point) -> None:
    word = printer.styled("yes", "good") if point.allowed else printer.styled("no", "bad")
    meaning = "" if point.asked == point.wanted else f", which needs {point.wanted}"
    printer.line(f"{word}: {point.asked}{meaning}")
    if point.entry is not None and point.part is not None:
        printer.line(f"  decided by  {point.entry} ({point.part.value})")
    printer.line(f"  because     {point.why}")
    for entry in point.others:
        printer.line(f"  not by      {entry}")
    for entry in point.elsewhere:
        printer.line(f"  elsewhere   {entry}: add --from to ask as from there")
