"""How far behind a group is, in messages and in seconds; what is not known is said to be so."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.progress import GroupLag
from rocketpipe.console.answers import Figure, known, total, unknown
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.names import is_retry_topic

#: What does not answer by then is unknown.
DEADLINE_S: Final = 4.0
#: Of so many topics it is looked up since when messages wait.
MAX_TOPICS: Final = 16


async def figures(admin: Admin, group: str) -> dict[str, Any]:
    """Members, lag in messages and seconds, topics, and what the group is given a second."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            parts = await admin.progress.known_of_group(group)
            seconds = await lag_seconds(admin, group, parts)
            try:
                members = known(len(await admin.groups.members(group)))
            except RocketPipeError as error:
                members = unknown(error)
    except TimeoutError:
        return {"problem": f"no answer within {DEADLINE_S:g} s"}
    except RocketPipeError as error:
        return {"problem": str(error)}
    lags = {name: part for name, part in parts.items() if isinstance(part, GroupLag)}
    topics = {one.queue.topic for part in lags.values() for one in part.queues}
    return {
        "members": members,
        "lag": lag(parts),
        "lag_s": seconds,
        "topics": sum(not is_retry_topic(topic) for topic in topics),
        "rate": sum(part.rate for part in lags.values()),
    }


def lag(parts: dict[str, GroupLag | RocketPipeError]) -> Figure:
    """How many messages a group has still to read, at all brokers."""
    return total(
        known(part.lag) if isinstance(part, GroupLag) else unknown(part) for part in parts.values()
    )


async def lag_seconds(
    admin: Admin, group: str, parts: dict[str, GroupLag | RocketPipeError]
) -> Figure:
    """For how long the oldest message waits that a group has still to read; 0 if none does."""
    silent = [str(part) for part in parts.values() if not isinstance(part, GroupLag)]
    waiting = sorted(
        {
            one.queue.topic
            for part in parts.values()
            if isinstance(part, GroupLag)
            for one in part.queues
            if one.lag
        }
    )
    oldest_ms = 0
    try:
        for topic in waiting[:MAX_TOPICS]:
            for span in await admin.progress.spans(group, topic):
                oldest_ms = max(oldest_ms, span.delay_time)
    except RocketPipeError as error:
        silent.append(str(error))
    if len(waiting) > MAX_TOPICS:
        silent.append(f"{len(waiting)} topics have lag; {MAX_TOPICS} were looked at")
    seconds = round(oldest_ms / 1000, 1)
    if silent:
        return Figure(seconds if oldest_ms else None, "; ".join(silent), at_least=bool(oldest_ms))
    return known(seconds)
