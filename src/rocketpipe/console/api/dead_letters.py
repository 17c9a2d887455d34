"""Dead letters: which groups have any, what they are, and giving chosen ones back, each once."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import msgspec

from rocketpipe.client.admin.dead_letters import Replay, ReplayOutcome, origin_of
from rocketpipe.client.admin.fleet import each
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.console.answers import Figure, Problem, known, unknown
from rocketpipe.console.asking import Ask, change, get, pack, paged, unpack
from rocketpipe.console.message_rows import row
from rocketpipe.console.noting import noted
from rocketpipe.errors import RocketPipeError
from rocketpipe.model import properties
from rocketpipe.model.names import dlq_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

#: So many are replayed by one request.
MAX_CHOSEN: Final = 200
_MAX_RATE: Final = 1000
_Left = list[tuple[str, int, int, int]]


class Chosen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Letters to give back, by their offset ids: to their group, or to the topic they came from."""

    ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_CHOSEN)]
    to: str = "group"
    rate: Annotated[int, msgspec.Meta(ge=1, le=_MAX_RATE)] = 10


async def groups(ask: Ask) -> dict[str, Any]:
    """The groups that have a topic of dead letters, and how many are in it."""
    q = (ask.text("q") or "").lower()
    names = [name for name in await ask.admin.dead_letters.groups() if q in name.lower()]
    rows, after = paged(ask, names, ask.limit())

    async def count(group: str) -> Figure:
        try:
            spans = await ask.admin.dead_letters.spans(group)
        except RocketPipeError as error:
            return unknown(error)
        return known(sum(end - first for first, end in spans.values()))

    counted = await each(rows, count)
    return {
        "rows": [{"group": name, "letters": letters} for name, letters in counted.items()],
        "after": after,
        "total": len(names),
        "complete": after is None,
        "as_of_ms": ask.as_of_ms(),
    }


async def letters(ask: Ask) -> dict[str, Any]:
    """A page of a group's letters, the newest first, each with whether it was replayed."""
    group = ask.part("group")
    after = ask.text("after")
    spans = await ask.admin.dead_letters.spans(group)
    whole = sum(end - first for first, end in spans.values())
    if after is not None:
        spans = {
            MessageQueue(topic=dlq_topic(group), broker_name=broker, queue_id=queue): (
                QueueOffset(first),
                QueueOffset(end),
            )
            for broker, queue, first, end in unpack(after, _Left)
        }
    sight = ask.sight

    def pick(letter: ReceivedMessage) -> tuple[dict[str, Any], ReceivedMessage]:
        said = letter.properties
        shown = row(letter, sight) | {
            "origin": origin_of(letter),
            "reason": said.get(properties.DLQ_REASON),
        }
        return shown, letter

    page = await ask.admin.browsing.newest(spans, pick, limit=ask.limit())

    async def replayed(at: int) -> bool | None:
        try:
            return await ask.admin.dead_letters.replayed(group, page.rows[at][1])
        except RocketPipeError:
            return None

    known_replays = await each(range(len(page.rows)), replayed)
    left: _Left = [
        (queue.broker_name, queue.queue_id, first, end) for queue, (first, end) in page.left.items()
    ]
    return {
        "rows": [
            {**shown, "replayed": known_replays[at]} for at, (shown, _) in enumerate(page.rows)
        ],
        "total": whole,
        "after": pack(left) if left else None,
        "complete": page.is_complete,
        "as_of_ms": ask.as_of_ms(),
    }


async def replay(ask: Ask) -> dict[str, Any]:
    """Give chosen letters back; each row says what became of it."""
    group = ask.part("group")
    chosen = await ask.body(Chosen)
    if chosen.to not in ("group", "topic"):
        raise Problem(400, f"to={chosen.to!r} is unknown", "give group or topic")
    what = f"replay {len(chosen.ids)} dead letters of {group} to the {chosen.to}"
    rows = await noted(ask, what, _replayed(ask, group, chosen))
    counts = {
        outcome.name.lower(): sum(one["outcome"] == outcome.value for one in rows)
        for outcome in ReplayOutcome
    }
    return {"rows": rows, **counts}


async def _replayed(ask: Ask, group: str, chosen: Chosen) -> list[dict[str, Any]]:
    rows = []
    for at, offset_id in enumerate(chosen.ids):
        if at:
            await asyncio.sleep(1 / chosen.rate)
        try:
            letter = await ask.admin.messages.by_id(offset_id)
        except (RocketPipeError, ValueError) as error:
            outcome, reason = ReplayOutcome.FAILED.value, str(error)
        else:
            done = await _replay_one(ask, group, letter, to_topic=chosen.to == "topic")
            outcome, reason = done.outcome.value, done.reason or ""
        rows.append({"offset_id": offset_id, "outcome": outcome, "reason": reason or None})
    return rows


async def _replay_one(ask: Ask, group: str, letter: ReceivedMessage, *, to_topic: bool) -> Replay:
    if letter.queue.topic != dlq_topic(group):
        return Replay(letter, ReplayOutcome.FAILED, f"it is no dead letter of {group}")
    return await ask.admin.dead_letters.replay(group, letter, to_topic=to_topic)


ENDPOINTS = (
    get("/dlq", groups),
    get("/dlq/{group}", letters),
    change("/dlq/{group}/replay", replay),
)
