"""Messages as the pages show them: a row of a list, and the whole of one, bounded."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.console.answers import Problem
from rocketpipe.console.asking import Ask
from rocketpipe.console.sight import Sight
from rocketpipe.filter.sql_eval import compile_sql
from rocketpipe.filter.tags import parse_tags

#: So much of a body is in a row, and on the page of one; the rest can be downloaded.
PREVIEW_CHARS: Final = 160
SHOWN_BYTES: Final = 64 << 10
_MAX_EXPRESSION: Final = 2000


def row(message: ReceivedMessage, sight: Sight) -> dict[str, Any]:
    """A line of a list."""
    return {
        "topic": message.queue.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "stored_ms": message.stored_ms,
        "tags": message.tags,
        "keys": list(message.keys),
        "size": message.body_bytes,
        "id": message.message_id,
        "offset_id": message.offset_id,
        "tries": message.reconsume_times,
        "preview": _preview(message, sight),
    }


def whole(message: ReceivedMessage, sight: Sight) -> dict[str, Any]:
    """All of one: of its body as much as a page can show."""
    found = row(message, sight) | {
        "born_ms": message.born_ms,
        "born_host": str(message.born_host),
        "store_host": str(message.store_host),
        "properties": dict(sight.properties(message)),
        #: What is shown is not what was sent, and nothing to send again.
        "masked": bool(sight.masks),
    }
    try:
        body = sight.body(message)
    except Problem as problem:
        return found | {"body": None, "why": problem.cause}
    return found | {
        "body": base64.b64encode(body[:SHOWN_BYTES]).decode(),
        "body_bytes": len(body),
        "cut": len(body) > SHOWN_BYTES,
    }


def picker(ask: Ask) -> Callable[[ReceivedMessage], dict[str, Any] | None]:
    """What makes rows of the messages that are asked for: by tags, SQL92, and words in the body.

    Raises:
        FilterError: If an expression is none.
        Problem: If both are given, or one is too long.
    """
    tags, sql, contains = ask.text("tags"), ask.text("sql"), ask.text("contains")
    if tags and sql:
        raise Problem(400, "tags and sql were given", "give one of them")
    for text in (tags, sql, contains):
        if text is not None and len(text) > _MAX_EXPRESSION:
            raise Problem(400, "the filter is too long", f"give {_MAX_EXPRESSION} characters")
    sight = ask.sight
    if contains and not sight.bodies:
        raise Problem(403, "bodies are searched for who is logged in", "log in")
    by_tags = parse_tags(tags) if tags else None
    by_sql = compile_sql(sql) if sql else None
    word = contains.encode() if contains else None

    def pick(message: ReceivedMessage) -> dict[str, Any] | None:
        if by_tags is not None and not by_tags.matches_tag(message.tags):
            return None
        if by_sql is not None and not by_sql.matches(sight.properties(message)):
            return None
        if word is not None and word not in _shown(message, sight):
            return None
        return row(message, sight)

    return pick


def _shown(message: ReceivedMessage, sight: Sight) -> bytes:
    """What is searched: nobody finds out by words what they may not see."""
    try:
        return sight.body(message)
    except Problem:
        return b""


def _preview(message: ReceivedMessage, sight: Sight) -> str | None:
    try:
        body = sight.body(message)
    except Problem as problem:
        return "" if problem.status == 422 else None
    text = body[: 4 * PREVIEW_CHARS].decode("utf-8", "replace")[:PREVIEW_CHARS]
    return "".join(each if each.isprintable() else "·" for each in text)
