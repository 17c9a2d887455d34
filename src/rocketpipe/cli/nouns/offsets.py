"""``rocketpipe offsets``: how far groups are, and moving them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from rocketpipe.cli.terminal import confirm
from rocketpipe.cli.terminal.arguments import Place, Where
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.findings import counted
from rocketpipe.client.admin.offsets import GroupPlace
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConfigError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

EXAMPLES: Final = """\
examples:
  rocketpipe offsets show shop orders
  rocketpipe offsets reset shop orders --to earliest --dry-run
  rocketpipe offsets reset shop orders --to '2h ago' --yes
  rocketpipe offsets reset shop orders --to -100 --queue 3 --yes
  rocketpipe offsets clone shop shop-copy orders --yes
"""

_CHANGE: Final = ["broker", "queue", "committed", "to", "change"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    show = verbs.add("show", "how far a group is in each queue of a topic", _show)
    show.add_argument("group", help="the group")
    show.add_argument("topic", help="the topic")

    reset = verbs.add("reset", "have a group go on from another place", _reset)
    reset.add_argument("group", help="the group")
    reset.add_argument("topic", help="the topic")
    reset.add_argument(
        "--to",
        required=True,
        metavar="PLACE",
        help="earliest, latest, now, a time, an offset, +N or -N from where the group is",
    )
    reset.add_argument("--queue", type=int, metavar="N", help="only this queue")
    reset.add_argument("--broker", metavar="NAME", help="only at this broker")
    reset.add_argument(
        "--offline",
        action="store_true",
        help="only write the offsets; members that run are not told, and overwrite them",
    )
    confirm.add_flags(reset)

    clone = verbs.add("clone", "have one group go on from where another is", _clone)
    clone.add_argument("source", help="the group to copy from")
    clone.add_argument("target", help="the group that goes on from there")
    clone.add_argument("topic", help="the topic")
    clone.set_defaults(offline=False)
    confirm.add_flags(clone)


async def _show(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    places = await admin.offsets.of_group(options.group, options.topic)
    rows = [
        {
            "broker": place.queue.broker_name,
            "queue": place.queue.queue_id,
            "committed": place.committed,
            "first": place.least,
            "end": place.end,
            "lag": place.lag,
        }
        for place in places
    ]
    printer.rows(rows, ["broker", "queue", "committed", "first", "end", "lag"])
    return 0


async def _reset(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    try:
        place = Place.parse(options.to, SystemClock().now_ms())
    except ValueError as error:
        raise ConfigError("--to", str(error)) from error
    await admin.groups.show(options.group)  # a name that no group has is a mistake
    places = {
        each.queue: each
        for each in await admin.offsets.of_group(options.group, options.topic)
        if options.queue in (None, each.queue.queue_id)
        and options.broker in (None, each.queue.broker_name)
    }
    if not places:
        raise ConfigError("--queue", f"topic {options.topic!r} has no such queue")
    wanted = await _wanted(admin, options.topic, place, places)
    what = f"move group {options.group!r} in {counted(len(wanted), 'queue')} of {options.topic!r}"
    return await _carry_out(admin, printer, options, options.group, what, places, wanted)


async def _clone(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    for group in (options.source, options.target):
        await admin.groups.show(group)
    source = await admin.offsets.of_group(options.source, options.topic)
    places = {
        each.queue: each for each in await admin.offsets.of_group(options.target, options.topic)
    }
    wanted = {each.queue: each.committed for each in source if each.committed is not None}
    if not wanted:
        raise ConfigError(
            "SOURCE", f"group {options.source!r} has committed nothing in {options.topic!r}"
        )
    what = f"move group {options.target!r} to where {options.source!r} is in {options.topic!r}"
    return await _carry_out(admin, printer, options, options.target, what, places, wanted)


async def _carry_out(
    admin: Admin,
    printer: Printer,
    options: argparse.Namespace,
    group: str,
    what: str,
    places: Mapping[MessageQueue, GroupPlace],
    wanted: Mapping[MessageQueue, QueueOffset],
) -> int:
    if not options.dry_run:
        confirm.confirm(what, options)
        if options.offline:
            await admin.offsets.commit(group, wanted)
        else:
            for queue, offset in wanted.items():
                await admin.progress.reset(group, queue.topic, to_offset=offset, queue=queue)
    printer.rows((_change(places[queue], to) for queue, to in wanted.items()), _CHANGE)
    if options.dry_run:
        printer.line("nothing was changed: leave out --dry-run to do it")
    return 0


def _change(place: GroupPlace, to: QueueOffset) -> dict[str, Any]:
    return {
        "broker": place.queue.broker_name,
        "queue": place.queue.queue_id,
        "committed": place.committed,
        "to": to,
        "change": None if place.committed is None else to - place.committed,
    }


async def _wanted(
    admin: Admin, topic: str, place: Place, places: Mapping[MessageQueue, GroupPlace]
) -> dict[MessageQueue, QueueOffset]:
    if place.where is Where.TIME:
        at = await admin.offsets.at_time(topic, place.number)
        return {queue: at[queue] for queue in places}
    return {queue: _target(place, each) for queue, each in places.items()}


def _target(place: Place, at: GroupPlace) -> QueueOffset:
    committed = at.least if at.committed is None else at.committed
    wanted = {
        Where.EARLIEST: int(at.least),
        Where.LATEST: int(at.end),
        Where.OFFSET: place.number,
        Where.BY: committed + place.number,
    }[place.where]
    return QueueOffset(min(max(wanted, at.least), at.end))
