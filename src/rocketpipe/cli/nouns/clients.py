"""``rocketpipe client``: who is connected."""

from __future__ import annotations

import argparse
from typing import Final

from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.clients import NotOnline
from rocketpipe.protocol.codes import Language

EXAMPLES: Final = """\
examples:
  rocketpipe client list
  rocketpipe client list --group shop
  rocketpipe client show shop 192.0.2.1@4711 --stacks
"""

_COLUMNS: Final = ["kind", "group", "client", "address", "language", "brokers"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    listing = verbs.add("list", "list consumers and producers", _list)
    listing.add_argument("--group", metavar="NAME", help="only the consumers of this group")
    show = verbs.add("show", "how a consumer fares, in its own words", _show)
    show.add_argument("group", help="its group")
    show.add_argument("client", help="its id, as list shows it")
    show.add_argument("--stacks", action="store_true", help="and where its threads are")


async def _list(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = []
    groups = [options.group] if options.group else await admin.groups.names()
    for group in groups:
        try:
            connected = await admin.clients.consumers(group)
        except NotOnline:
            continue
        rows += [
            {
                "kind": "consumer",
                "group": group,
                "client": each.client_id,
                "address": each.address,
                "language": _name(each.language),
                "brokers": list(each.brokers),
            }
            for each in connected.members
        ]
    if not options.group:
        for broker in await admin.brokers.all():
            for group, producers in (await admin.clients.all_producers(broker.name)).items():
                rows += [
                    {
                        "kind": "producer",
                        "group": group,
                        "client": each.client_id,
                        "address": each.remote_address,
                        "language": _name(each.language),
                        "brokers": [broker.name],
                    }
                    for each in producers
                ]
    printer.rows(rows, _COLUMNS, none="nobody is connected")
    return 0


def _name(language: Language | None) -> str | None:
    return None if language is None else language.name


async def _show(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    info = await admin.clients.running_info(options.group, options.client, stacks=options.stacks)
    queues = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "committed": each.commit_offset,
            "held": each.cached_msg_count,
            "locked": each.locked,
            "last_pull": moment(each.last_pull_timestamp),
            "last_consumed": moment(each.last_consume_timestamp),
        }
        for queue, each in info.queues.items()
    ]
    facts = {"client": options.client, "properties": dict(info.properties)}
    if options.stacks:
        facts["stacks"] = info.stacks
    if printer.form == "json":
        printer.record({**facts, "queues": queues})
        return 0
    printer.record(facts)
    printer.line("")
    columns = ["topic", "broker", "queue", "committed", "held", "locked", "last_pull"]
    printer.rows(queues, [*columns, "last_consumed"])
    return 0
