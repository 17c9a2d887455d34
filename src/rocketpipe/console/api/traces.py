"""The way of a message, as its clients told it: what was done, by whom, from when to when."""

from __future__ import annotations

from typing import Any, Final

from rocketpipe.client.admin.traces import Handling, MessageTrace
from rocketpipe.console.asking import Ask, get
from rocketpipe.errors import NoRoute, RocketPipeError
from rocketpipe.model.names import TRACE_TOPIC
from rocketpipe.model.trace import Published

#: So many messages of one key are shown.
MAX_TRACES: Final = 32


async def traces(ask: Ask) -> dict[str, Any]:
    """What is told of a message, by its id or one of its keys."""
    key = ask.text("id") or ask.needed("key")
    try:
        found = await ask.admin.messages.trace(key, topic=ask.text("topic") or TRACE_TOPIC)
    except NoRoute:
        return {"rows": [], "untraced": True, "complete": True, "as_of_ms": ask.as_of_ms()}
    return {
        "rows": [await _shown(ask, trace) for trace in found[:MAX_TRACES]],
        "untraced": False,
        "complete": len(found) <= MAX_TRACES,
        "as_of_ms": ask.as_of_ms(),
    }


async def _shown(ask: Ask, trace: MessageTrace) -> dict[str, Any]:
    steps = [_sent(one) for one in trace.published]
    steps += [
        {
            "kind": "transaction",
            "group": one.group,
            "begin_ms": one.time_ms,
            "end_ms": one.time_ms,
            "ok": one.state == "COMMIT_MESSAGE",
            "note": one.state,
        }
        for one in trace.transactions
    ]
    steps += [
        {
            "kind": "recalled",
            "group": one.group,
            "begin_ms": one.time_ms,
            "end_ms": one.time_ms,
            "ok": one.success,
        }
        for one in trace.recalls
    ]
    steps += [_handled(one) for one in trace.handlings]
    steps.sort(key=lambda step: step["begin_ms"])
    first = trace.published[0] if trace.published else None
    told = {one.group for one in trace.handlings}
    return {
        "id": trace.message_id,
        "topic": first.topic if first is not None else None,
        "keys": sorted(trace.keys),
        "steps": steps,
        "silent_groups": await _silent(ask, first, told),
    }


def _sent(one: Published) -> dict[str, Any]:
    return {
        "kind": "sent",
        "group": one.group,
        "host": one.client_host,
        "begin_ms": one.time_ms,
        "end_ms": one.time_ms + one.cost_ms,
        "ok": one.success,
        "note": one.store_host,
        "offset_id": one.offset_id,
    }


def _handled(one: Handling) -> dict[str, Any]:
    before, after = one.before, one.after
    begin = before.time_ms if before is not None else (after.time_ms or 0) if after else 0
    return {
        "kind": "handled",
        "group": one.group,
        "begin_ms": begin,
        "end_ms": begin + after.cost_ms if after is not None else None,
        "ok": one.success,
        "retries": before.retries if before is not None else None,
        "note": after.outcome.name if after is not None else None,
    }


async def _silent(ask: Ask, first: Published | None, told: set[str | None]) -> list[str]:
    """The groups that read the topic, and told nothing of this message."""
    if first is None or not first.topic:
        return []
    try:
        groups = await ask.admin.progress.groups_of(first.topic)
    except RocketPipeError:
        return []
    return [group for group in groups if group not in told][:MAX_TRACES]


ENDPOINTS = (get("/traces", traces),)
