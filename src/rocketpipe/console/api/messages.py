"""Messages: found by time, offset, key or id, shown, downloaded, and sent."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Final

import msgspec
from starlette.responses import Response

from rocketpipe.client.admin.fleet import each
from rocketpipe.client.admin.messages import MAX_FOUND, NoMessage
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.console.answers import Problem
from rocketpipe.console.asking import Ask, change, get, pack, unpack
from rocketpipe.console.message_rows import picker, row, whole
from rocketpipe.console.noting import noted
from rocketpipe.errors import InvalidName, RocketPipeError
from rocketpipe.model.ids import OffsetId
from rocketpipe.model.message import Message
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

_WAYS: Final = ("time", "offset", "key", "id")
_MAX_READERS: Final = 50
_LONGEST_DELAY_MS: Final = 3 * 24 * 3_600_000
#: What is left to scan: broker, queue, first offset, the one behind the last.
_Left = list[tuple[str, int, int, int]]


class NewMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message that is to be sent."""

    topic: str
    body: str
    #: How the body is written here: text, or base64.
    encoding: str = "text"
    tags: str | None = None
    keys: list[str] = []
    properties: dict[str, str] = {}
    delay_ms: Annotated[int, msgspec.Meta(ge=0, le=_LONGEST_DELAY_MS)] = 0
    deliver_at_ms: int | None = None
    broker: str | None = None
    queue: int | None = None


async def messages(ask: Ask) -> dict[str, Any]:
    """A page of messages; it says whether that is all, and how to go on."""
    way = ask.choice("from", _WAYS)
    if way == "id":
        return _answer(ask, await _by_id(ask, ask.needed("id"), ask.text("topic")))
    topic = ask.needed("topic")
    if way == "key":
        found = await ask.admin.messages.by_key(
            topic,
            ask.needed("key"),
            begin_ms=ask.number("begin", 0),
            end_ms=ask.number("end", (1 << 63) - 1),
            limit=MAX_FOUND,
        )
        pick = picker(ask)
        rows = [made for message in found if (made := pick(message)) is not None]
        return _answer(ask, rows, scanned=len(found), complete=len(found) < MAX_FOUND)
    spans = await _spans(ask, topic, way)
    to_scan = sum(end - first for first, end in spans.values())
    page = await ask.admin.browsing.newest(spans, picker(ask), limit=ask.limit())
    left: _Left = [
        (queue.broker_name, queue.queue_id, first, end) for queue, (first, end) in page.left.items()
    ]
    return _answer(
        ask,
        list(page.rows),
        scanned=page.scanned,
        of=to_scan,
        complete=page.is_complete,
        after=pack(left) if left else None,
    )


async def message(ask: Ask) -> dict[str, Any]:
    """One message by its offset id."""
    found = await ask.admin.messages.by_id(ask.part("id"))
    return whole(found, ask.sight)


async def readers(ask: Ask) -> dict[str, Any]:
    """Which groups have read a message, as far as that is known."""
    found = await ask.admin.messages.by_id(ask.part("id"))
    queue = found.queue
    names = await ask.admin.progress.groups_of(queue.topic)

    async def state(group: str) -> dict[str, Any]:
        try:
            places = await ask.admin.offsets.known_of_group(group, queue.topic)
        except RocketPipeError as error:
            return {"group": group, "read": None, "why": str(error)}
        place = places.get(queue)
        if place is None:
            return {"group": group, "read": None, "why": "its broker does not answer"}
        return {"group": group, "read": (place.committed or 0) > found.queue_offset}

    rows = list((await each(names[:_MAX_READERS], state)).values())
    return {"rows": rows, "complete": len(names) <= _MAX_READERS}


async def body(ask: Ask) -> Response:
    """The whole body, to be kept as a file; a browser never shows it."""
    if not ask.sight.bodies:
        raise Problem(403, "bodies are shown to who is logged in", "log in")
    found = await ask.admin.messages.by_id(ask.part("id"))
    content = ask.sight.body(found)
    name = f"{found.queue.broker_name}-{found.queue.queue_id}-{found.queue_offset}.bin"
    safe = "".join(each if each.isalnum() or each in "-._" else "_" for each in name)
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{safe}"'},
    )


async def send(ask: Ask) -> dict[str, Any]:
    """Send a message, or one again."""
    new = await ask.body(NewMessage)
    if new.encoding not in ("text", "base64"):
        raise Problem(400, f"encoding={new.encoding!r} is unknown", "give text or base64")
    try:
        content = new.body.encode() if new.encoding == "text" else _decoded(new.body)
    except ValueError as error:
        raise Problem(400, "the body is no base64", "correct it, or send it as text") from error
    wanted = Message(
        new.topic,
        content,
        tags=new.tags or None,
        keys=new.keys,
        properties=new.properties,
        delay_ms=new.delay_ms or None,
        deliver_at_ms=new.deliver_at_ms,
    )
    queue = None
    if new.broker is not None and new.queue is not None:
        queue = MessageQueue(topic=new.topic, broker_name=new.broker, queue_id=new.queue)
    producer = await ask.cluster.producer()
    what = f"send {len(content)} bytes to topic {new.topic}"
    result = await noted(ask, what, producer.send(wanted, queue=queue))
    return {
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "offset": result.queue_offset,
        "id": result.message_id,
        "offset_id": result.offset_id,
        "recall_handle": result.recall_handle,
        "durable": result.durable,
    }


async def _by_id(ask: Ask, given: str, topic: str | None) -> list[dict[str, Any]]:
    """What an id stands for: a place in a broker's log, or what a producer called a message."""
    found: list[ReceivedMessage] = []
    if topic is not None:
        found = await ask.admin.messages.by_unique_key(topic, given)
    if not found:
        try:
            OffsetId.parse(given)
        except InvalidName as error:
            if topic is not None:
                return []
            raise Problem(
                400, f"{given[:80]!r} is no offset id", "give the topic too: then any id will do"
            ) from error
        try:
            found = [await ask.admin.messages.by_id(given)]
        except NoMessage:
            found = []
    return [row(message, ask.sight) for message in found]


async def _spans(
    ask: Ask, topic: str, way: str
) -> dict[MessageQueue, tuple[QueueOffset, QueueOffset]]:
    """From where to where each queue is to be read."""
    after = ask.text("after")
    if after is not None:
        left = unpack(after, _Left)
        return {
            MessageQueue(topic=topic, broker_name=broker, queue_id=queue): (
                QueueOffset(first),
                QueueOffset(end),
            )
            for broker, queue, first, end in left
        }
    ends = await ask.admin.offsets.ends(topic)
    broker, queue_id = ask.text("broker"), ask.number("queue", -1, -1)
    spans = {
        queue: (one.least, one.end)
        for queue, one in ends.items()
        if broker in (None, queue.broker_name) and queue_id in (-1, queue.queue_id)
    }
    if way == "offset":
        offset = ask.number("offset", 0)
        # The page shows the newest first: so many from there on.
        return {
            queue: (QueueOffset(max(first, offset)), QueueOffset(min(end, offset + ask.limit())))
            for queue, (first, end) in spans.items()
        }
    begin_ms, end_ms = ask.number("begin", 0), ask.number("end", 0)
    if begin_ms:
        at = await ask.admin.offsets.at_time(topic, begin_ms)
        spans = {queue: (max(first, at[queue]), end) for queue, (first, end) in spans.items()}
    if end_ms:
        at = await ask.admin.offsets.at_time(topic, end_ms + 1)
        spans = {queue: (first, min(end, at[queue])) for queue, (first, end) in spans.items()}
    return spans


def _answer(
    ask: Ask,
    rows: list[dict[str, Any]],
    *,
    scanned: int | None = None,
    of: int | None = None,
    complete: bool = True,
    after: str | None = None,
) -> dict[str, Any]:
    return {
        "rows": rows,
        "scanned": len(rows) if scanned is None else scanned,
        "of": of,
        "complete": complete,
        "after": after,
        "as_of_ms": ask.as_of_ms(),
    }


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


ENDPOINTS = (
    get("/messages", messages),
    get("/messages/{id}", message),
    get("/messages/{id}/readers", readers),
    get("/messages/{id}/body", body),
    change("/messages", send),
)
