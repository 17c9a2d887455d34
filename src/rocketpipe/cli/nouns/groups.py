"""``rocketpipe group``: consumer groups, who is in them and how far they are."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from rocketpipe.cli.terminal import confirm
from rocketpipe.cli.terminal.arguments import count
from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.fleet import each
from rocketpipe.client.admin.groups import GroupChanges
from rocketpipe.client.admin.offsets import GroupPlace
from rocketpipe.errors import CallTimeout, ConnectionLost, NoRoute
from rocketpipe.model.names import is_retry_topic, retry_topic
from rocketpipe.model.route import MessageQueue

EXAMPLES: Final = """\
examples:
  rocketpipe group list
  rocketpipe group show shop
  rocketpipe group lag shop -o json
  rocketpipe group lag shop --topic orders
  rocketpipe group create shop --max-attempts 5
  rocketpipe group delete shop --offsets --yes
"""

_LAG: Final = ["topic", "broker", "queue", "committed", "end", "lag", "lag_since"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    listing = verbs.add("list", "groups, their members, and how far they are behind", _list)
    listing.add_argument("--cluster", metavar="NAME", help="only those of a cluster")
    listing.add_argument("--internal", action="store_true", help="RocketMQ's own too")
    show = verbs.add("show", "settings and members of a group", _show)
    show.add_argument("group", help="its name")
    lag = verbs.add("lag", "how far a group is behind, queue by queue", _lag)
    lag.add_argument("group", help="its name")
    lag.add_argument("--topic", metavar="NAME", help="only in this topic")
    lag.add_argument("--summary", action="store_true", help="one line for each topic")
    create = verbs.add("create", "create a group", _create)
    create.add_argument("group", help="its name")
    create.add_argument(
        "--if-missing", action="store_true", help="be content if the group is there already"
    )
    create.add_argument(
        "--max-attempts",
        type=count,
        metavar="N",
        help="attempts before the dead letters, the first included (17; no end if ordered)",
    )
    create.add_argument("--broadcast", action="store_true", help="allow broadcasting")
    create.add_argument(
        "--ordered",
        action="store_true",
        help="clients that speak gRPC get the next message of a queue when the last is done with",
    )
    delete = verbs.add("delete", "delete a group's settings", _delete)
    delete.add_argument("group", help="its name")
    delete.add_argument("--offsets", action="store_true", help="and how far it has come")
    confirm.add_flags(delete, dry_run=False)


async def _list(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    names = await admin.groups.names(cluster=options.cluster, internal=options.internal)

    async def row(name: str) -> dict[str, Any]:
        members = await admin.groups.members(name)
        progress = await admin.progress.of_group(name)
        topics = {each.queue.topic for each in progress.queues}
        return {
            "group": name,
            "members": len(members),
            "topics": sum(not is_retry_topic(topic) for topic in topics),
            "lag": progress.lag if topics else None,
        }

    rows = (await each(names, row)).values()
    printer.rows(rows, ["group", "members", "topics", "lag"], none="no groups")
    return 0


async def _show(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    info = await admin.groups.show(options.group)
    members = await admin.groups.members(options.group)
    settings = [
        {
            "broker": broker,
            "consuming": each.consume_enable,
            "broadcasting": each.consume_broadcast_enable,
            "max_attempts": each.max_attempts,
            "retry_queues": each.retry_queues,
        }
        for broker, each in sorted(info.settings.items())
    ]
    people = [{"client": each.client_id, "brokers": list(each.brokers)} for each in members]
    if printer.form == "json":
        printer.record({"group": info.name, "settings": settings, "members": people})
        return 0
    printer.rows(settings, list(settings[0]) if settings else ["broker"])
    if printer.form == "table":
        printer.line("")
        printer.rows(people, ["client", "brokers"], none="no members are connected")
    return 0


#: How far a group is in each queue of a topic; None where the broker does not answer.
_Places = dict[MessageQueue, GroupPlace | None]


async def _places(admin: Admin, group: str, topic: str | None) -> dict[str, _Places]:
    found = {}
    # Its retries wait for a group before it has a place among them.
    retries = retry_topic(group)
    names = [topic] if topic else sorted({*await admin.progress.topics_of(group), retries})
    for name in names:
        try:
            places = await admin.offsets.known_of_group(group, name)
        except NoRoute:
            if topic:
                raise
            continue
        known = [place for place in places.values() if place is not None]
        has_begun = any(
            each.committed is not None or (name == retries and each.end) for each in known
        )
        if topic or len(known) < len(places) or has_begun:
            found[name] = places
    return found


async def _lag(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    try:
        await admin.groups.show(options.group)
    except (ConnectionLost, CallTimeout):
        if not options.topic:  # only all brokers together know where a group has been
            raise
    found = await _places(admin, options.group, options.topic)
    if options.summary:
        rows = [_sum(topic, places) for topic, places in found.items()]
        printer.rows(rows, ["topic", "queues", "lag"])
    else:
        rows = [
            await _lag_row(admin, topic, queue, place)
            for topic, places in found.items()
            for queue, place in places.items()
        ]
        printer.rows(rows, _LAG)
    if not found:
        printer.line(f"group {options.group!r} has committed nothing anywhere yet")
    silent = {
        queue.broker_name
        for places in found.values()
        for queue, place in places.items()
        if place is None
    }
    for name in sorted(silent):
        sys.stderr.write(f"broker {name!r} does not answer: what it knows is unknown here\n")
    return 1 if silent else 0


async def _lag_row(
    admin: Admin, topic: str, queue: MessageQueue, place: GroupPlace | None
) -> dict[str, Any]:
    return {
        "topic": topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "committed": place and place.committed,
        "end": place and place.end,
        "lag": place and place.lag,
        "lag_since": place and await _since(admin, place),
    }


def _sum(topic: str, places: _Places) -> dict[str, Any]:
    """One line for a topic; with a queue that is unknown, so is the sum."""
    lags = [None if place is None else place.lag for place in places.values()]
    whole = None if None in lags else sum(lag for lag in lags if lag is not None)
    return {"topic": topic, "queues": len(places), "lag": whole}


async def _since(admin: Admin, place: GroupPlace) -> str | None:
    """When the first message that is still to be read was stored."""
    if not place.lag or place.committed is None:
        return None
    waiting = await admin.messages.at(place.queue, max(place.committed, place.least))
    return moment(waiting.stored_ms)


async def _create(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    settings = GroupChanges(consume_broadcast_enable=options.broadcast, ordered=options.ordered)
    if options.max_attempts is not None:
        settings["max_attempts"] = options.max_attempts
    await admin.groups.create(options.group, if_missing=options.if_missing, **settings)
    return await _show(admin, printer, options)


async def _delete(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    await admin.groups.show(options.group)
    behind = " and how far it has come" if options.offsets else ""
    confirm.confirm(f"delete group {options.group!r}{behind}", options)
    await admin.groups.delete(options.group, offsets=options.offsets)
    printer.record({"deleted": options.group, "offsets": options.offsets})
    return 0
