"""Groups: all names at once, figures for those on screen, one with lag and members, and resets."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from rocketpipe.client.admin.clients import NotOnline
from rocketpipe.client.admin.fleet import each
from rocketpipe.client.admin.offsets import GroupPlace
from rocketpipe.client.admin.progress import Move
from rocketpipe.console.answers import Problem, known, total, unknown
from rocketpipe.console.api.overview import shown
from rocketpipe.console.asking import Ask, change, get, paged
from rocketpipe.console.group_figures import figures as group_figures
from rocketpipe.console.noting import check_typed, noted
from rocketpipe.errors import NoRoute, RocketPipeError
from rocketpipe.model.names import retry_topic
from rocketpipe.model.route import MessageQueue

MAX_NAMES: Final = 10_000
MAX_FIGURES: Final = 50
#: So many can be put in the order of their lag: each has to be asked.
MAX_SORTED: Final = 500
_SORTS: Final = ("name", "lag", "lag_s")
_STATES: Final = ("all", "online", "offline")
#: Members have so long to say which queues they hold.
_OWNERS_S: Final = 3.0
_MOVES_TO: Final = ("time", "oldest", "newest", "offset")


class Reset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a group is to go on in a topic."""

    topic: str
    to: str
    at_ms: int | None = None
    broker: str | None = None
    queue: int | None = None
    offset: int | None = None
    may_skip: bool = False
    preview: bool = True
    confirm: str = ""
    #: How many messages the preview said are skipped: if it is more by now, nothing is done.
    seen_skipped: int | None = None


class NewGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group that is to be."""

    name: str


class Confirmed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name, typed."""

    confirm: str


async def groups(ask: Ask) -> dict[str, Any]:
    """The names of groups that contain ``q``; in order, or by lag with figures, the worst first."""
    q = (ask.text("q") or "").lower()
    sort, state = ask.choice("sort", _SORTS), ask.choice("state", _STATES)
    least_s = ask.number("lag_over", 0)
    names = [name for name in await ask.admin.groups.names() if q in name.lower()]
    if sort == "name" and state == "all" and not least_s:
        rows, after = paged(ask, names, ask.limit(MAX_NAMES, MAX_NAMES))
        return _listed(ask, [{"name": name} for name in rows], len(names), after)
    if len(names) > MAX_SORTED:
        raise Problem(
            400,
            f"{len(names)} groups would have to be asked for their lag",
            f"filter by name to {MAX_SORTED} or fewer first",
        )
    found = await each(names, lambda name: group_figures(ask.admin, name))
    kept = [
        {"name": name, **figures}
        for name, figures in found.items()
        if _has_state(figures, state) and (not least_s or _number(figures, "lag_s") > least_s)
    ]
    if sort != "name":
        kept.sort(key=lambda row: -_number(row, sort))
    return _listed(ask, kept, len(kept), None)


async def figures(ask: Ask) -> dict[str, Any]:
    """What is known of the groups that are named, by commas."""
    names = list(dict.fromkeys(name for name in ask.needed("names").split(",") if name))
    if len(names) > MAX_FIGURES:
        raise Problem(400, f"{len(names)} names were given", f"give {MAX_FIGURES} at most")
    return {"rows": await each(names, lambda name: group_figures(ask.admin, name))}


async def group(ask: Ask) -> dict[str, Any]:
    """One group: its settings, its topics, what they want of them, and what is wrong with it."""
    name = ask.part("group")
    info = await ask.admin.groups.show(name)
    cluster = ask.cluster
    cluster.look()
    cluster.rings.watch(f"lag:{name}")
    subscriptions: list[dict[str, Any]] = []
    model = None
    try:
        online = await ask.admin.clients.consumers(name)
        model = online.model
        subscriptions = [
            {"topic": topic, "expression": wanted.expression, "kind": wanted.expression_type}
            for topic, wanted in online.subscriptions.items()
        ]
    except NotOnline:
        pass
    marks = (f"group {name}", f"group {name!r}")
    return {
        "name": name,
        **await group_figures(ask.admin, name),
        "model": model,
        "subscriptions": subscriptions,
        "settings": [
            {
                "broker": broker,
                "consuming": one.consume_enable,
                "broadcasting": one.consume_broadcast_enable,
                "ordered": one.ordered,
                "max_attempts": one.max_attempts,
                "retry_queues": one.retry_queues,
            }
            for broker, one in sorted(info.settings.items())
        ],
        "findings": [
            shown(one)
            for one in cluster.findings
            if one.what in marks or one.what.startswith(tuple(f"{mark} " for mark in marks))
        ],
        "series": cluster.rings.points(f"lag:{name}"),
        "as_of_ms": ask.as_of_ms(),
    }


async def lag(ask: Ask) -> dict[str, Any]:
    """How far a group is in each queue, since when messages wait there, and who holds it."""
    name = ask.part("group")
    own = retry_topic(name)
    topics = sorted({*await ask.admin.progress.topics_of(name), own})
    rows: list[dict[str, Any]] = []
    for topic in topics:
        try:
            places = await ask.admin.offsets.known_of_group(name, topic)
            delays = {
                span.message_queue: span.delay_time
                for span in await ask.admin.progress.spans(name, topic)
            }
        except NoRoute:
            continue
        except RocketPipeError as error:
            rows.append({"topic": topic, "problem": str(error)})
            continue
        if topic == own and not any(place and place.end for place in places.values()):
            continue
        owners = await _owners(ask, name, topic)
        rows += [
            _lag_row(queue, place, delays.get(queue, 0), owners) for queue, place in places.items()
        ]
    whole = total(
        known(row["lag"]) if row.get("lag") is not None else unknown("a broker does not answer")
        for row in rows
    )
    return {"rows": rows, "lag": whole, "complete": True, "as_of_ms": ask.as_of_ms()}


async def members(ask: Ask) -> dict[str, Any]:
    """Who consumes for a group now."""
    name = ask.part("group")
    try:
        found = await ask.admin.clients.consumers(name)
    except NotOnline:
        return {"rows": [], "complete": True, "as_of_ms": ask.as_of_ms()}
    rows = [
        {
            "id": one.client_id,
            "address": one.address,
            "language": one.language.name if one.language is not None else None,
            "version": one.version,
            "brokers": list(one.brokers),
        }
        for one in found.members[: ask.limit(200)]
    ]
    complete = len(rows) == len(found.members)
    return {"rows": rows, "complete": complete, "as_of_ms": ask.as_of_ms()}


async def reset(ask: Ask) -> dict[str, Any]:
    """Have a group go on elsewhere; by itself it only says what would change."""
    name = ask.part("group")
    wanted = await ask.body(Reset)
    if wanted.to not in _MOVES_TO:
        raise Problem(400, f"to={wanted.to!r} is unknown", f"give one of {', '.join(_MOVES_TO)}")
    queue = None
    if wanted.broker is not None and wanted.queue is not None:
        queue = MessageQueue(topic=wanted.topic, broker_name=wanted.broker, queue_id=wanted.queue)
    if wanted.to == "time" and wanted.at_ms is None:
        raise Problem(400, "at_ms is missing", "say to which moment")
    if wanted.to == "offset" and (queue is None or wanted.offset is None):
        raise Problem(400, "an offset is of one queue", "give broker, queue and offset")
    if not wanted.preview:
        check_typed(wanted.confirm, name)

    def work(*, preview: bool) -> Any:
        return ask.admin.progress.reset(
            name,
            wanted.topic,
            to_ms=wanted.at_ms if wanted.to == "time" else 0 if wanted.to == "oldest" else None,
            to_offset=wanted.offset if wanted.to == "offset" else None,
            to_end=wanted.to == "newest",
            queue=queue if wanted.to == "offset" else None,
            may_skip=wanted.may_skip or wanted.to == "newest",
            preview=preview,
        )

    planned = _moves(await work(preview=True))
    if wanted.preview:
        return planned
    most = wanted.seen_skipped
    if most is not None and wanted.to != "newest" and planned["skipped"] > most:
        raise Problem(
            409,
            f"it would skip {planned['skipped']} messages, not {most} as was shown: somebody moved "
            "the group since",
            "look at the preview again",
        )
    what = f"reset group {name} in {wanted.topic} to {_where(wanted)}"
    outcome = f"reads {planned['again']} again, skips {planned['skipped']}"
    return _moves(await noted(ask, what, work(preview=False), outcome))


async def create(ask: Ask) -> dict[str, Any]:
    """Make a group at every broker."""
    new = await ask.body(NewGroup)
    await noted(ask, f"create group {new.name}", ask.admin.groups.create(new.name))
    return {"name": new.name}


async def delete(ask: Ask) -> dict[str, Any]:
    """Delete a group's settings, after its name was typed."""
    name = ask.part("group")
    check_typed((await ask.body(Confirmed)).confirm, name)
    await noted(ask, f"delete group {name}", ask.admin.groups.delete(name))
    return {"name": name}


async def _owners(ask: Ask, group: str, topic: str) -> dict[MessageQueue, str]:
    """Who holds each queue, as far as members say so in time."""
    try:
        async with asyncio.timeout(_OWNERS_S):
            places = await ask.admin.clients.places(group, topic)
    except (RocketPipeError, TimeoutError):
        return {}
    return {queue: client for client, held in places.items() for queue in held}


def _lag_row(
    queue: MessageQueue, place: GroupPlace | None, delay_ms: int, owners: dict[MessageQueue, str]
) -> dict[str, Any]:
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "committed": place and place.committed,
        "end": place and place.end,
        "lag": place and place.lag,
        "waits_s": round(delay_ms / 1000, 1) if place and place.lag else 0 if place else None,
        "owner": owners.get(queue),
    }


def _moves(moves: list[Move]) -> dict[str, Any]:
    rows = [
        {
            "broker": move.queue.broker_name,
            "queue": move.queue.queue_id,
            "before": move.before,
            "after": move.after,
            "difference": None if move.before is None else move.after - move.before,
        }
        for move in moves
    ]
    steps = [move.after - move.before for move in moves if move.before is not None]
    return {
        "rows": rows,
        "again": -sum(step for step in steps if step < 0),
        "skipped": sum(step for step in steps if step > 0),
        "complete": True,
    }


def _where(wanted: Reset) -> str:
    if wanted.to == "time":
        return f"time {wanted.at_ms}"
    if wanted.to == "offset":
        return f"offset {wanted.offset} of {wanted.broker}/{wanted.queue}"
    return wanted.to


def _listed(ask: Ask, rows: list[dict[str, Any]], whole: int, after: str | None) -> dict[str, Any]:
    return {
        "rows": rows,
        "after": after,
        "total": whole,
        "complete": after is None,
        "as_of_ms": ask.as_of_ms(),
    }


def _has_state(row: dict[str, Any], state: str) -> bool:
    if state == "all" or "members" not in row:
        return True
    return bool(row["members"].value) == (state == "online")


def _number(row: dict[str, Any], name: str) -> float:
    """A figure to sort by; what is unknown comes first: somebody should look at it."""
    figure = row.get(name)
    return float("inf") if figure is None or figure.value is None else float(figure.value)


ENDPOINTS = (
    get("/groups", groups),
    get("/groups/figures", figures),
    get("/groups/{group}", group),
    get("/groups/{group}/lag", lag),
    get("/groups/{group}/members", members),
    change("/groups", create),
    change("/groups/{group}/reset", reset),
    change("/groups/{group}/delete", delete),
)
