"""Who is connected: consumers by group, producers by broker, and one consumer in its own words."""

from __future__ import annotations

from typing import Any, Final

from rocketpipe.client.admin.clients import NotOnline
from rocketpipe.client.admin.fleet import each
from rocketpipe.console.asking import Ask, get, paged
from rocketpipe.errors import RocketPipeError

_KINDS: Final = ("consumer", "producer")
#: So many groups are asked for a page of consumers.
GROUPS_A_PAGE: Final = 100
#: So much of a client's stacks is shown.
MAX_STACKS: Final = 256 << 10


async def clients(ask: Ask) -> dict[str, Any]:
    """A page of clients of one kind, of groups that contain ``q``."""
    q = (ask.text("q") or "").lower()
    if ask.choice("kind", _KINDS) == "producer":
        return await _producers(ask, q)
    names = [name for name in await ask.admin.groups.names() if q in name.lower()]
    page, after = paged(ask, names, GROUPS_A_PAGE)

    async def members(group: str) -> list[dict[str, Any]]:
        try:
            found = await ask.admin.clients.consumers(group)
        except NotOnline:
            return []
        return [
            {
                "id": one.client_id,
                "kind": "consumer",
                "group": group,
                "address": one.address,
                "language": one.language.name if one.language is not None else None,
                "version": one.version,
                "brokers": list(one.brokers),
            }
            for one in found.members
        ]

    found = await each(page, members)
    return {
        "rows": [row for rows in found.values() for row in rows],
        "after": after,
        "complete": after is None,
        "scanned": len(page),
        "of": len(names),
        "as_of_ms": ask.as_of_ms(),
    }


async def client(ask: Ask) -> dict[str, Any]:
    """How a consumer fares, as it says itself; with ``stacks`` where its threads are."""
    info = await ask.admin.clients.running_info(
        ask.needed("group"), ask.needed("id"), stacks=ask.text("stacks") == "1"
    )
    stacks = info.stacks or ""
    return {
        "properties": info.properties,
        "subscriptions": [
            {"topic": one.topic, "expression": one.expression} for one in info.subscriptions
        ],
        "queues": [
            {
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "committed": held.commit_offset,
                "cached": held.cached_msg_count,
                "cached_mib": held.cached_mib,
                "locked": held.locked,
                "last_pull_ms": held.last_pull_timestamp or None,
                "last_consume_ms": held.last_consume_timestamp or None,
            }
            for queue, held in sorted(info.queues.items())
        ],
        "stacks": stacks[:MAX_STACKS] or None,
        "stacks_cut": len(stacks) > MAX_STACKS,
        "as_of_ms": ask.as_of_ms(),
    }


async def _producers(ask: Ask, q: str) -> dict[str, Any]:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    silent: dict[str, str] = {}
    for broker in await ask.admin.brokers.all():
        try:
            found = await ask.admin.clients.all_producers(broker.name)
        except RocketPipeError as error:
            silent[broker.name] = str(error)
            continue
        for group, producers in found.items():
            if q not in group.lower():
                continue
            for one in producers:
                row = rows.setdefault(
                    (group, one.client_id),
                    {
                        "id": one.client_id,
                        "kind": "producer",
                        "group": group,
                        "address": one.remote_address,
                        "language": one.language.name if one.language is not None else None,
                        "version": one.version,
                        "brokers": [],
                    },
                )
                row["brokers"].append(broker.name)
    limit = ask.limit(200)
    return {
        "rows": list(rows.values())[:limit],
        "after": None,
        "complete": len(rows) <= limit and not silent,
        "silent": silent,
        "as_of_ms": ask.as_of_ms(),
    }


ENDPOINTS = (get("/clients", clients), get("/clients/one", client))
