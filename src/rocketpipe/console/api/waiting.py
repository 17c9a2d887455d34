"""What brokers keep from consumers for now: messages before their moment, and open transactions."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from rocketpipe.console.answers import Problem
from rocketpipe.console.asking import Ask, change, get
from rocketpipe.console.noting import check_typed, noted

#: All that wait are read, however few are shown: so long that may take.
DEADLINE_S: Final = 10.0


class Cancel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message that waits, by what its send gave."""

    topic: str
    handle: str


class Decide(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An open transaction, and how it is to end; its id is typed to confirm."""

    broker: str
    id: str
    commit: bool
    confirm: str


async def timed(ask: Ask) -> dict[str, Any]:
    """Messages that wait for their moment, the first due first."""
    limit = ask.limit()
    try:
        async with asyncio.timeout(DEADLINE_S):
            found = await ask.admin.waiting.timed(topic=ask.text("topic"), limit=limit + 1)
    except TimeoutError:
        raise _too_many("delayed") from None
    rows = [
        {
            "broker": one.broker,
            "topic": one.topic,
            "id": one.message_id,
            "due_ms": one.due_ms,
            "handle": one.recall_handle,
            "offset_id": one.offset_id,
        }
        for one in found[:limit]
    ]
    return {"rows": rows, "complete": len(found) <= limit, "as_of_ms": ask.as_of_ms()}


async def transactions(ask: Ask) -> dict[str, Any]:
    """Transactions that nobody has decided, the oldest of each broker first."""
    limit = ask.limit()
    try:
        async with asyncio.timeout(DEADLINE_S):
            found = await ask.admin.waiting.transactions(limit=limit + 1)
    except TimeoutError:
        raise _too_many("transaction") from None
    rows = [
        {
            "broker": one.broker,
            "topic": one.topic,
            "id": one.message_id,
            "group": one.group,
            "checks": one.checks,
            "born_ms": one.born_ms,
            "age_s": round(one.age_ms / 1000, 1),
            "offset_id": one.offset_id,
        }
        for one in found[:limit]
    ]
    return {"rows": rows, "complete": len(found) <= limit, "as_of_ms": ask.as_of_ms()}


async def cancel(ask: Ask) -> dict[str, Any]:
    """Take a message back before its moment."""
    wanted = await ask.body(Cancel)
    producer = await ask.cluster.producer()
    what = f"cancel a delayed message of {wanted.topic}"
    message_id = await noted(ask, what, producer.recall(wanted.topic, wanted.handle))
    return {"id": message_id}


async def decide(ask: Ask) -> dict[str, Any]:
    """End a transaction in the place of its producers."""
    wanted = await ask.body(Decide)
    check_typed(wanted.confirm, wanted.id)
    found = await ask.admin.waiting.transactions(broker=wanted.broker)
    one = next((each for each in found if each.message_id == wanted.id), None)
    if one is None:
        raise Problem(404, f"no transaction is open under {wanted.id}", "look at the list again")
    verb = "commit" if wanted.commit else "roll back"
    work = ask.admin.waiting.decide(one, commit=wanted.commit)
    await noted(ask, f"{verb} transaction {wanted.id} of {one.group}", work)
    return {"id": wanted.id, "outcome": "committed" if wanted.commit else "rolled back"}


def _too_many(noun: str) -> Problem:
    return Problem(
        504,
        f"there are more than can be read within {DEADLINE_S:g} s",
        f"list them by: rocketpipe {noun} list",
    )


ENDPOINTS = (
    get("/waiting/timed", timed),
    get("/waiting/transactions", transactions),
    change("/waiting/timed/cancel", cancel),
    change("/waiting/transactions/decide", decide),
)
