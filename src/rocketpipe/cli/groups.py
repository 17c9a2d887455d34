"""``rocketpipe group``: consumer groups, who is in them and how far they are."""

from __future__ import annotations

import argparse
from typing import Any, Final

from rocketpipe.cli import consent
from rocketpipe.cli.printing import Printer, moment
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.groups import GroupChanges
from rocketpipe.client.admin.offsets import GroupPlace
from rocketpipe.errors import NoRoute

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
    listing = verbs.add("list", "list groups", _list)
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
        "--max-attempts", type=int, metavar="N", help="retries before the dead letters (16)"
    )
    create.add_argument("--broadcast", action="store_true", help="allow broadcasting")
    delete = verbs.add("delete", "delete a group's settings", _delete)
    delete.add_argument("group", help="its name")
    delete.add_argument("--offsets", action="store_true", help="and how far it has come")
    consent.add_flags(delete, dry_run=False)


async def _list(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    names = await admin.groups.names(cluster=options.cluster, internal=options.internal)
    rows = []
    for name in names:
        members = await admin.groups.members(name)
        rows.append({"group": name, "members": len(members)})
    printer.rows(rows, ["group", "members"])
    return 0


async def _show(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    info = await admin.groups.show(options.group)
    members = await admin.groups.members(options.group)
    settings = [
        {
            "broker": broker,
            "consuming": each.consume_enable,
            "broadcasting": each.consume_broadcast_enable,
            "max_attempts": each.retry_max_times,
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
        printer.rows(people, ["client", "brokers"])
    return 0


async def _places(admin: Admin, group: str, topic: str | None) -> dict[str, list[GroupPlace]]:
    found = {}
    for name in [topic] if topic else await admin.progress.topics_of(group):
        try:
            places = await admin.offsets.of_group(group, name)
        except NoRoute:
            if topic:
                raise
            continue
        if topic or any(place.committed is not None for place in places):
            found[name] = places
    return found


async def _lag(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    await admin.groups.show(options.group)
    found = await _places(admin, options.group, options.topic)
    rows: list[dict[str, Any]] = []
    for topic, places in found.items():
        for place in places:
            rows.append(
                {
                    "topic": topic,
                    "broker": place.queue.broker_name,
                    "queue": place.queue.queue_id,
                    "committed": place.committed,
                    "end": place.end,
                    "lag": place.lag,
                    "lag_since": await _since(admin, place),
                }
            )
    if options.summary:
        rows = [
            {"topic": topic, "queues": len(places), "lag": sum(place.lag for place in places)}
            for topic, places in found.items()
        ]
        printer.rows(rows, ["topic", "queues", "lag"])
    else:
        printer.rows(rows, _LAG)
    if not found:
        printer.line(f"group {options.group!r} has committed nothing anywhere yet")
    return 0


async def _since(admin: Admin, place: GroupPlace) -> str | None:
    """When the first message that is still to be read was stored."""
    if not place.lag or place.committed is None:
        return None
    waiting = await admin.messages.at(place.queue, max(place.committed, place.least))
    return moment(waiting.stored_ms)


async def _create(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    settings = GroupChanges(consume_broadcast_enable=options.broadcast)
    if options.max_attempts is not None:
        settings["retry_max_times"] = options.max_attempts
    await admin.groups.create(options.group, **settings)
    return await _show(admin, printer, options)


async def _delete(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    await admin.groups.show(options.group)
    behind = " and how far it has come" if options.offsets else ""
    consent.confirm(f"delete group {options.group!r}{behind}", options)
    await admin.groups.delete(options.group, offsets=options.offsets)
    printer.record({"deleted": options.group, "offsets": options.offsets})
    return 0
