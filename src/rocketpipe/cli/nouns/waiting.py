"""``rocketpipe delayed`` and ``rocketpipe transaction``: what brokers keep back for now."""

from __future__ import annotations

import argparse
from typing import Final

from rocketpipe.cli.terminal import confirm
from rocketpipe.cli.terminal.arguments import count
from rocketpipe.cli.terminal.connecting import name_servers
from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.findings import counted
from rocketpipe.client.admin.waiting import LISTED
from rocketpipe.client.producer.producer import Producer
from rocketpipe.errors import ConfigError

EXAMPLES: Final = """\
examples:
  rocketpipe delayed list
  rocketpipe delayed list --topic orders -o json
  rocketpipe delayed cancel orders HANDLE --yes
  rocketpipe transaction list
  rocketpipe transaction commit 7F0000010A2B18B4AAC2000000000001
  rocketpipe transaction rollback 7F0000010A2B18B4AAC2000000000001 --yes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of whichever of the two nouns it is for."""
    noun = parser.prog.rpartition(" ")[2]
    mine = [line for line in EXAMPLES.splitlines() if f"rocketpipe {noun} " in line]
    verbs = Verbs(parser, "\n".join(["examples:", *mine]))
    if noun == "transaction":
        listing = verbs.add("list", "transactions that nobody has decided", _transactions)
        for name, summary in (
            ("commit", "have consumers get the message of an open transaction"),
            ("rollback", "drop the message of an open transaction"),
        ):
            deciding = verbs.add(name, summary, _decide)
            deciding.add_argument("id", nargs="+", help="its message's id, as list shows it")
            confirm.add_flags(deciding, dry_run=False)
    else:
        listing = verbs.add("list", "messages that wait for their moment", _delayed)
        listing.add_argument("--topic", metavar="NAME", help="only of this topic")
        cancel = verbs.add("cancel", "take a message back before it is delivered", _cancel)
        cancel.add_argument("topic", help="its topic")
        cancel.add_argument("handle", help="its recall handle, or its id, as list shows them")
        confirm.add_flags(cancel, dry_run=False)
    listing.add_argument("--broker", metavar="NAME", help="only at this broker")
    listing.add_argument(
        "--limit", type=count, default=LISTED, metavar="N", help=f"so many at most ({LISTED})"
    )


async def _transactions(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = [
        {
            "topic": each.topic,
            "group": each.group,
            "message_id": each.message_id,
            "born": moment(each.born_ms),
            "age_s": each.age_ms / 1000,
            "checks": each.checks,
            "broker": each.broker,
        }
        for each in await admin.waiting.transactions(broker=options.broker, limit=options.limit)
    ]
    printer.rows(
        rows,
        ["topic", "group", "message_id", "born", "age_s", "checks", "broker"],
        none="no transactions are open",
    )
    return 0


async def _decide(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    waiting = {each.message_id: each for each in await admin.waiting.transactions()}
    for message_id in options.id:
        if message_id not in waiting:
            raise ConfigError("ID", f"no transaction is open under {message_id}")
    whose = ", ".join(sorted({waiting[each].group for each in options.id}))
    what = f"{options.verb} {counted(len(options.id), 'transaction')} in the place of {whose}"
    confirm.confirm(what, options)
    rows = []
    for message_id in options.id:
        one = waiting[message_id]
        await admin.waiting.decide(one, commit=options.verb == "commit")
        done = "committed" if options.verb == "commit" else "rolled back"
        rows.append({"topic": one.topic, "message_id": message_id, "outcome": done})
    printer.rows(rows, ["topic", "message_id", "outcome"])
    return 0


async def _delayed(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    found = await admin.waiting.timed(
        broker=options.broker, topic=options.topic, limit=options.limit
    )
    rows = [
        {
            "due": moment(each.due_ms),
            "topic": each.topic,
            "message_id": each.message_id,
            "broker": each.broker,
            "handle": each.recall_handle,
        }
        for each in found
    ]
    columns = ["due", "topic", "message_id", "broker", "handle"]
    printer.rows(rows, columns, none="no messages wait")
    return 0


async def _cancel(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    waiting = await admin.waiting.timed(topic=options.topic)
    found = [each for each in waiting if options.handle in (each.recall_handle, each.message_id)]
    if not found:
        raise ConfigError("HANDLE", f"no message of {options.topic!r} waits under it")
    confirm.confirm(f"take back message {found[0].message_id}", options)
    async with Producer(name_servers(options.namesrv)) as producer:
        recalled = await producer.recall(options.topic, found[0].recall_handle)
    printer.record({"cancelled": recalled, "was_due": moment(found[0].due_ms)})
    return 0
