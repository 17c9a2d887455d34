"""What a batch holds, and what becomes of it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.sending.outgoing import ENTRY_BYTES, Outgoing, PlainTexts
from rocketpipe.client.producer.sending.pending_batches import (
    BatchKey,
    Part,
    PendingBatch,
    key_of,
    written,
)
from rocketpipe.errors import ConnectionLost
from rocketpipe.model.message import Message
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.batch import encode_batch

QUEUE = MessageQueue(topic="t", broker_name="a", queue_id=0)
BODIES = st.binary(min_size=1, max_size=4)
TAGS = st.sampled_from([None, "a", "bb"])


def key(number: int) -> str:
    return f"{number:032X}"


def result(number: int) -> SendResult:
    return SendResult(key(number), QUEUE, QueueOffset(number), True)


def batch(count: int) -> PendingBatch:
    made = PendingBatch(timeout_ms=1000, now_ms=5)
    for _ in range(count):
        made.parts.append((b"x", "text"))
        made.waiting.append(made.loop.create_future())
        made.size += 10 + ENTRY_BYTES
    return made


@given(messages=st.lists(st.tuples(BODIES, TAGS, st.booleans()), min_size=1, max_size=12))
def test_a_pile_is_written_as_the_same_messages_in_a_batch(
    messages: list[tuple[bytes, str | None, bool]],
) -> None:
    texts = PlainTexts(max_bytes=10)
    texts.learn("t")
    parts: list[Part] = []
    sent: list[Outgoing] = []
    for number, (body, tag, is_plain) in enumerate(messages):
        text = texts.find("t", body, {"tags": tag})
        assert text is not None
        properties = None if is_plain else {"city": "Oslo é"}
        message = Message(
            "t", body, tags=tag, properties=properties or {}, flag=0 if is_plain else 3
        )
        sent.append(Outgoing(message, key(number), 0, 100))
        parts.append((body, text) if is_plain else sent[-1])
    body, ids = written(parts, [key(number) for number in range(len(parts))])
    entries = [(out.flag, out.body, out.properties.encode()) for out in sent]
    assert body == encode_batch(entries)
    assert ids == [out.message_id for out in sent]


def test_messages_go_together_if_they_agree_in_topic_queue_and_waiting() -> None:
    plain = Outgoing(Message("t", b"x"), key(1), 0, 100)
    hasty = Outgoing(Message("t", b"x", wait_stored=False), key(2), 0, 100)
    assert key_of(plain, None) == "t"
    assert key_of(plain, QUEUE) == BatchKey("t", QUEUE, True)
    assert key_of(hasty, None) == BatchKey("t", None, False)


async def test_each_who_still_waits_is_told_and_nobody_else_is_disturbed() -> None:
    made = batch(3)
    made.waiting[1].cancel()
    made.settle([result(number) for number in range(3)])
    assert [each.result().queue_offset for each in made.waiting if not each.cancelled()] == [0, 2]
    failing = batch(3)
    failing.waiting[1].cancel()
    failing.fail(ConnectionLost("a:1", "gone"))
    for each in (failing.waiting[0], failing.waiting[2]):
        with pytest.raises(ConnectionLost):
            await each
    given_up = batch(2)
    given_up.cancel()
    assert all(each.cancelled() for each in given_up.waiting)


async def test_a_pile_knows_what_room_its_messages_took_and_until_when_it_has_time() -> None:
    made = batch(3)
    assert made.held_bytes == 30
    assert (made.deadline_ms, made.loop) == (1005, asyncio.get_running_loop())
