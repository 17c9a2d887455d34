"""Topics: all names at once, figures for those on screen, and one topic with its queues."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import msgspec

from rocketpipe.client.admin.fleet import each
from rocketpipe.client.admin.topics import TopicStats
from rocketpipe.console.answers import Figure, Problem, known, total, unknown
from rocketpipe.console.asking import Ask, change, get, paged
from rocketpipe.console.noting import check_typed, noted
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.names import is_dlq_topic, is_retry_topic
from rocketpipe.model.topic import MessageType, Perm

#: Names are short: so many are given at once.
MAX_NAMES: Final = 10_000
#: Figures are for what is on screen.
MAX_FIGURES: Final = 50
#: What does not answer by then is unknown.
DEADLINE_S: Final = 4.0
_KINDS: Final = ("user", "retry", "dead", "system", "all")
_MOST_QUEUES: Final = 1024

Queues = Annotated[int, msgspec.Meta(ge=1, le=_MOST_QUEUES)]


class NewTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic that is to be."""

    name: str
    queues: Queues = 8
    #: What it is for; a topic that does not say takes all kinds.
    type: MessageType | None = None


class TopicChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a topic that are to be others; what is not given stays."""

    read_queues: Queues | None = None
    write_queues: Queues | None = None
    readable: bool | None = None
    writable: bool | None = None
    confirm: str = ""


class Confirmed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name, typed."""

    confirm: str


async def topics(ask: Ask) -> dict[str, Any]:
    """The names of topics of one kind that contain ``q``, in order."""
    kind = ask.choice("kind", _KINDS)
    users = await ask.admin.topics.names()
    names = users
    if kind != "user":
        own = set(users)
        every = await ask.admin.topics.names(internal=True)
        names = [name for name in every if kind in ("all", _kind(name, own))]
    q = (ask.text("q") or "").lower()
    found = [name for name in names if q in name.lower()]
    rows, after = paged(ask, found, ask.limit(MAX_NAMES, MAX_NAMES))
    return {
        "rows": [{"name": name} for name in rows],
        "after": after,
        "total": len(found),
        "complete": after is None,
        "as_of_ms": ask.as_of_ms(),
    }


async def figures(ask: Ask) -> dict[str, Any]:
    """What is known of the topics that are named, by commas."""
    return {"rows": await each(_named(ask), lambda name: _figures(ask, name))}


async def topic(ask: Ask) -> dict[str, Any]:
    """One topic: its queues, its settings at each broker, and who reads it."""
    name = ask.part("topic")
    info = await ask.admin.topics.show(name)
    ask.cluster.look()
    stats = await ask.admin.topics.known_stats(name)
    queues = [
        {
            "broker": one.queue.broker_name,
            "queue": one.queue.queue_id,
            "first": one.least,
            "end": one.end,
            "messages": one.messages,
            "last_ms": one.last_stored_ms,
        }
        for found in stats.values()
        if isinstance(found, TopicStats)
        for one in found.queues
    ]
    return {
        "name": name,
        "queues": queues,
        "silent": {
            broker: str(found)
            for broker, found in stats.items()
            if isinstance(found, RocketPipeError)
        },
        "messages": _messages(stats),
        "settings": [
            {
                "broker": broker,
                "read_queues": one.read_queues,
                "write_queues": one.write_queues,
                "readable": bool(one.perm & Perm.READ),
                "writable": bool(one.perm & Perm.WRITE),
                "ordered": one.ordered,
                "type": one.message_type.value,
                "attributes": one.attributes,
            }
            for broker, one in sorted(info.settings.items())
        ],
        "as_of_ms": ask.as_of_ms(),
    }


async def groups(ask: Ask) -> dict[str, Any]:
    """Who reads a topic, now or before."""
    rows = await ask.admin.progress.groups_of(ask.part("topic"))
    found, after = paged(ask, rows, ask.limit(200))
    return {"rows": found, "after": after, "complete": after is None, "as_of_ms": ask.as_of_ms()}


async def create(ask: Ask) -> dict[str, Any]:
    """Make a topic at every broker."""
    new = await ask.body(NewTopic)
    work = ask.admin.topics.create(new.name, queues=new.queues, message_type=new.type)
    await noted(ask, f"create topic {new.name} with {new.queues} queues", work)
    return {"name": new.name}


async def update(ask: Ask) -> dict[str, Any]:
    """Change settings of a topic, after its name was typed."""
    name = ask.part("topic")
    wanted = await ask.body(TopicChange)
    check_typed(wanted.confirm, name)
    perm = None
    if wanted.readable is not None or wanted.writable is not None:
        if wanted.readable is None or wanted.writable is None:
            raise Problem(400, "one permission was given", "give readable and writable")
        perm = Perm.READ * wanted.readable | Perm.WRITE * wanted.writable
    work = ask.admin.topics.update(
        name,
        read_queues=wanted.read_queues,
        write_queues=wanted.write_queues,
        perm=None if perm is None else Perm(perm),
    )
    await noted(ask, f"change topic {name}", work)
    return {"name": name}


async def delete(ask: Ask) -> dict[str, Any]:
    """Delete a topic with its messages, after its name was typed."""
    name = ask.part("topic")
    check_typed((await ask.body(Confirmed)).confirm, name)
    await noted(ask, f"delete topic {name}", ask.admin.topics.delete(name))
    return {"name": name}


async def _figures(ask: Ask, name: str) -> dict[str, Any]:
    try:
        async with asyncio.timeout(DEADLINE_S):
            stats = await ask.admin.topics.known_stats(name)
            info = await ask.admin.topics.show(name)
            readers = await ask.admin.progress.groups_of(name)
            rate = total([await _rate(ask, broker, name) for broker in stats])
    except TimeoutError:
        return {"problem": f"no answer within {DEADLINE_S:g} s"}
    except RocketPipeError as error:
        return {"problem": str(error)}
    known_queues = [
        one for found in stats.values() if isinstance(found, TopicStats) for one in found.queues
    ]
    first = next(iter(info.settings.values()), None)
    return {
        "type": first.message_type.value if first is not None else None,
        "queues": len(known_queues),
        "messages": _messages(stats),
        "rate": rate,
        "last_ms": max((one.last_stored_ms or 0 for one in known_queues), default=0) or None,
        "groups": len(readers),
    }


async def _rate(ask: Ask, broker: str, topic: str) -> Figure:
    try:
        found = await ask.admin.brokers.stats(broker, "TOPIC_PUT_NUMS", topic)
    except RequestRejected:
        return known(0)  # it counted none
    except RocketPipeError as error:
        return unknown(error)
    return known(found.minute.tps if found.minute is not None else 0)


def _messages(stats: dict[str, TopicStats | RocketPipeError]) -> Figure:
    return total(
        known(found.messages) if isinstance(found, TopicStats) else unknown(found)
        for found in stats.values()
    )


def _kind(name: str, users: set[str]) -> str:
    if name in users:
        return "user"
    if is_retry_topic(name):
        return "retry"
    return "dead" if is_dlq_topic(name) else "system"


def _named(ask: Ask) -> list[str]:
    names = list(dict.fromkeys(name for name in ask.needed("names").split(",") if name))
    if len(names) > MAX_FIGURES:
        raise Problem(400, f"{len(names)} names were given", f"give {MAX_FIGURES} at most")
    return names


ENDPOINTS = (
    get("/topics", topics),
    get("/topics/figures", figures),
    get("/topics/{topic}", topic),
    get("/topics/{topic}/groups", groups),
    change("/topics", create),
    change("/topics/{topic}/settings", update),
    change("/topics/{topic}/delete", delete),
)
