"""``rocketpipe dlq``: what groups have given up, giving it to them again, or up for good."""

from __future__ import annotations

import argparse
from typing import Any, Final

from rocketpipe.cli.terminal import confirm
from rocketpipe.cli.terminal.arguments import count
from rocketpipe.cli.terminal.message_rows import message_row
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.cli.terminal.progress import Progress
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.dead_letters import Replay, ReplayOutcome, origin_of
from rocketpipe.client.admin.findings import counted
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.errors import ConfigError
from rocketpipe.model import properties

EXAMPLES: Final = """\
examples:
  rocketpipe dlq list
  rocketpipe dlq show shop
  rocketpipe dlq show shop --limit 5 -o json
  rocketpipe dlq replay shop --all --dry-run
  rocketpipe dlq replay shop --all --yes
  rocketpipe dlq replay shop --id 7F0000010A2B18B4AAC2000000000001 --yes
  rocketpipe dlq replay shop --all --to-topic --yes
  rocketpipe dlq purge shop
"""

_LETTER: Final = ["message_id", "origin", "attempts", "stored", "tags", "keys", "reason", "body"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    verbs.add("list", "groups that have dead letters, and how many", _list)
    show = verbs.add("show", "the dead letters of a group", _show)
    show.add_argument("group", help="the group")
    show.add_argument("--limit", type=count, default=100, metavar="N", help="so many at most (100)")
    replay = verbs.add("replay", "give dead letters to their group again, each once", _replay)
    replay.add_argument("group", help="the group")
    which = replay.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="all of them")
    which.add_argument("--id", action="append", metavar="ID", help="this one; several times")
    replay.add_argument(
        "--to-topic",
        action="store_true",
        help="send them to the topic they came from, where all groups get them; groups that "
        "consume in order need it",
    )
    confirm.add_flags(replay)
    purge = verbs.add("purge", "have a group's dead letters no longer listed or counted", _purge)
    purge.add_argument("group", help="the group")
    confirm.add_flags(purge)


async def _list(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = []
    for group in await admin.dead_letters.groups():
        found = await admin.dead_letters.count(group)
        if found.letters:
            rows.append({"group": group, "letters": found.letters, "replayed": found.replayed})
    printer.rows(rows, ["group", "letters", "replayed"], none="no group has dead letters")
    return 0


async def _show(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    letters = await admin.dead_letters.letters(options.group, limit=options.limit)
    if not letters:
        await admin.groups.show(options.group)  # a name that no group has is a mistake
    rows = []
    for letter in letters:
        replayed = await admin.dead_letters.replayed(options.group, letter)
        rows.append({**_row(letter, printer), "replayed": replayed})
    columns = [*_LETTER, "replayed"]
    if printer.form == "table":
        columns = [name for name in columns if name not in ("attempts", "tags")]
    printer.rows(rows, columns, none=f"group {options.group!r} has no dead letters")
    return 0


async def _replay(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    letters = await admin.dead_letters.letters(options.group)
    if not letters:
        await admin.groups.show(options.group)
    if options.id:
        wanted = set(options.id)
        letters = [each for each in letters if wanted & {each.message_id, each.offset_id}]
        known = {name for each in letters for name in (each.message_id, each.offset_id)}
        if missing := sorted(wanted - known):
            raise ConfigError("--id", f"group {options.group!r} has no dead letter {missing[0]}")
    if options.dry_run:
        return await _show_plan(admin, printer, options, letters)
    letters_of = f"{counted(len(letters), 'dead letter')} of group {options.group!r}"
    confirm.confirm(f"replay {letters_of}", options)
    done: list[Replay] = []
    with Progress("replaying", len(letters)) as progress:
        for letter in letters:
            done.append(
                await admin.dead_letters.replay(options.group, letter, to_topic=options.to_topic)
            )
            progress.advance()
    rows = [
        {
            "message_id": each.message.message_id,
            "origin": origin_of(each.message),
            "outcome": each.outcome.value,
            "reason": each.reason,
        }
        for each in done
    ]
    printer.rows(rows, ["message_id", "origin", "outcome", "reason"])
    counts = {outcome: sum(each.outcome is outcome for each in done) for outcome in ReplayOutcome}
    printer.line(", ".join(f"{count} {outcome.value}" for outcome, count in counts.items()))
    return 1 if counts[ReplayOutcome.FAILED] else 0


async def _purge(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    ends = await admin.dead_letters.ends(options.group)
    if not ends:
        await admin.groups.show(options.group)
    found = await admin.dead_letters.count(options.group)
    waiting = "" if found.replayed is None else f", of which {found.waiting} were not replayed"
    what = f"{counted(found.letters, 'dead letter')} of group {options.group!r}{waiting}"
    if options.dry_run:
        printer.line(f"would be purged: {what}")
        return 0
    confirm.confirm(f"purge {what}", options)
    await admin.dead_letters.purge(ends)
    printer.line(f"purged: {what}")
    return 0


async def _show_plan(
    admin: Admin, printer: Printer, options: argparse.Namespace, letters: list[ReceivedMessage]
) -> int:
    rows = []
    for letter in letters:
        before = await admin.dead_letters.replayed(options.group, letter)
        planned = "replayed before" if before else "would be replayed"
        rows.append({**_row(letter, printer), "plan": planned})
    printer.rows(rows, ["message_id", "origin", "plan", "body"])
    printer.line("nothing was replayed: leave out --dry-run to do it")
    return 0


def _row(letter: ReceivedMessage, printer: Printer) -> dict[str, Any]:
    return {
        **message_row(letter, printer),
        "origin": origin_of(letter),
        "attempts": letter.reconsume_times,
        "reason": letter.properties.get(properties.DLQ_REASON),
    }
