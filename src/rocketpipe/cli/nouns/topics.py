"""``rocketpipe topic``: topics of a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from rocketpipe.cli.terminal import confirm
from rocketpipe.cli.terminal.arguments import count
from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.findings import counted
from rocketpipe.client.admin.topics import DEFAULT_QUEUES
from rocketpipe.errors import ConfigError
from rocketpipe.model.topic import MessageType, Perm

_PERMISSIONS: Final = {"r": Perm.READ, "w": Perm.WRITE, "rw": Perm.READ | Perm.WRITE}

EXAMPLES: Final = """\
examples:
  rocketpipe topic create orders --queues 4
  rocketpipe topic create payments --type FIFO --ordered
  rocketpipe topic list -o json
  rocketpipe topic show orders
  rocketpipe topic update orders --write-queues 8 --read-queues 8
  rocketpipe topic delete orders --yes
"""

_NONE: Final = "no topics yet: `rocketpipe topic create NAME` makes one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    create = verbs.add("create", "create a topic", _create)
    create.add_argument("topic", help="its name")
    queues = create.add_mutually_exclusive_group()
    queues.add_argument(
        "-q",
        "--queues",
        type=count,
        default=DEFAULT_QUEUES,
        metavar="N",
        help=f"queues at each broker, so that two brokers have twice as many ({DEFAULT_QUEUES})",
    )
    queues.add_argument(
        "--queues-in-all",
        type=count,
        metavar="N",
        help="queues at all brokers together, as many at each",
    )
    create.add_argument(
        "--if-missing", action="store_true", help="be content if the topic is there already"
    )
    create.add_argument(
        "--type",
        choices=[each.value for each in MessageType],
        help="the kind of messages it takes; brokers refuse others",
    )
    _add_settings(create)
    _add_where(create)

    update = verbs.add("update", "change settings of a topic; those not given stay", _update)
    update.add_argument("topic", help="its name")
    update.add_argument("--read-queues", type=count, metavar="N", help="queues that are read")
    update.add_argument("--write-queues", type=count, metavar="N", help="queues that are written")
    _add_settings(update)
    _add_where(update)

    listing = verbs.add("list", "list topics", _list)
    listing.add_argument("--cluster", metavar="NAME", help="only those of a cluster")
    listing.add_argument(
        "--internal", action="store_true", help="retry, dead letter and system topics too"
    )
    listing.add_argument(
        "--stats", action="store_true", help="with queues and messages; asks every broker"
    )

    show = verbs.add("show", "where a topic lives, its settings and its queues", _show)
    show.add_argument("topic", help="its name")

    delete = verbs.add("delete", "delete a topic with its messages", _delete)
    delete.add_argument("topic", help="its name")
    delete.add_argument("--cluster", metavar="NAME", help="only in this cluster")
    confirm.add_flags(delete)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--perm", choices=sorted(_PERMISSIONS), help="whether it may be read, written, or both"
    )
    parser.add_argument(
        "--ordered",
        action=argparse.BooleanOptionalAction,
        help="keep its order when a broker is down, rather than go on with the other queues",
    )
    parser.add_argument(
        "--attribute",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an attribute; may be given several times",
    )


def _add_where(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--cluster", metavar="NAME", help="at the brokers of this cluster")
    where.add_argument("--broker", metavar="NAME", help="at this broker only")


def _attributes(options: argparse.Namespace) -> dict[str, str]:
    found = {}
    for text in options.attribute:
        name, mark, value = text.partition("=")
        if not (name and mark):
            raise ConfigError("--attribute", f"{text!r} has no value: write NAME=VALUE")
        found[name] = value
    return found


async def _queues(admin: Admin, options: argparse.Namespace) -> int:
    """How many queues each broker is to have."""
    if options.queues_in_all is None:
        return int(options.queues)
    found = await admin.brokers.all(cluster=options.cluster)
    names = {each.name for each in found if options.broker in (None, each.name)}
    wanted: int = options.queues_in_all
    each, left = divmod(wanted, max(1, len(names)))
    if left or not each:
        more = (each + 1) * len(names)
        raise ConfigError(
            "--queues-in-all",
            f"{wanted} queues cannot be as many at each of "
            f"{counted(len(names), 'broker')}: {more} can"
            + (f", or {more - len(names)}" if each else ""),
        )
    return each


async def _create(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    await admin.topics.create(
        options.topic,
        queues=await _queues(admin, options),
        perm=_PERMISSIONS[options.perm or "rw"],
        ordered=bool(options.ordered),
        message_type=MessageType(options.type) if options.type else None,
        attributes=_attributes(options),
        cluster=options.cluster,
        broker=options.broker,
        if_missing=options.if_missing,
    )
    return await _show(admin, printer, options)


async def _update(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    await admin.topics.update(
        options.topic,
        read_queues=options.read_queues,
        write_queues=options.write_queues,
        perm=_PERMISSIONS[options.perm] if options.perm else None,
        ordered=options.ordered,
        attributes=_attributes(options) or None,
        cluster=options.cluster,
        broker=options.broker,
    )
    return await _show(admin, printer, options)


async def _list(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    if options.cluster:
        await admin.brokers.all(cluster=options.cluster)  # a name that none has is a mistake
    names = await admin.topics.names(cluster=options.cluster, internal=options.internal)
    if not options.stats:
        printer.rows(({"topic": name} for name in names), ["topic"], none=_NONE)
        return 0
    rows = []
    for name in names:
        stats = await admin.topics.stats(name)
        last = [each.last_stored_ms for each in stats.queues if each.last_stored_ms is not None]
        rows.append(
            {
                "topic": name,
                "brokers": len({each.queue.broker_name for each in stats.queues}),
                "queues": len(stats.queues),
                "messages": stats.messages,
                "last_stored": moment(max(last, default=None)),
            }
        )
    columns = ["topic", "brokers", "queues", "messages", "last_stored"]
    printer.rows(rows, columns, none=_NONE)
    return 0


async def _show(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    info = await admin.topics.show(options.topic)
    stats = await admin.topics.stats(options.topic)
    queues = [
        {
            "broker": each.queue.broker_name,
            "queue": each.queue.queue_id,
            "first": each.least,
            "end": each.end,
            "messages": each.messages,
            "last_stored": moment(each.last_stored_ms),
        }
        for each in stats.queues
    ]
    settings = [
        {
            "broker": broker,
            "read_queues": each.read_queues,
            "write_queues": each.write_queues,
            "perm": _perm_text(each.perm),
            "ordered": each.ordered,
            "attributes": dict(each.attributes),
        }
        for broker, each in sorted(info.settings.items())
    ]
    if printer.form == "json":
        printer.record({"topic": info.name, "settings": settings, "queues": queues})
        return 0
    if printer.form == "table":
        printer.rows(settings, list(settings[0]) if settings else ["broker"])
        if len(settings) > 1:
            printer.line(f"{len(queues)} queues in all, at {len(settings)} brokers")
        printer.line("")
    columns = ["broker", "queue", "first", "end", "messages", "last_stored"]
    printer.rows(queues, columns)
    return 0


async def _delete(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    stats = await admin.topics.stats(options.topic)
    what = f"delete topic {options.topic!r} with {counted(stats.messages, 'message')}"
    if options.dry_run:
        printer.record({"would_delete": options.topic, "messages": stats.messages})
        return 0
    confirm.confirm(what, options)
    await admin.topics.delete(options.topic, cluster=options.cluster)
    printer.record({"deleted": options.topic, "messages": stats.messages})
    return 0


def _perm_text(perm: int) -> str:
    return "".join(_letters(perm)) or "none"


def _letters(perm: int) -> Iterator[str]:
    for letter, bit in (("r", Perm.READ), ("w", Perm.WRITE)):
        if perm & bit:
            yield letter
