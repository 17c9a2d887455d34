"""Traces: what is told, together with what, and what is dropped."""

from __future__ import annotations

import asyncio

import pytest

from rocketpipe.background import running
from rocketpipe.client.tracing import LINGER_MS, Tracer
from rocketpipe.errors import ConnectionLost
from rocketpipe.model.message import Message
from rocketpipe.model.trace import Published, decode
from rocketpipe.testing import ManualClock


class Topic:
    """Takes trace messages, or refuses them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.lost = False

    async def send(self, message: Message) -> None:
        if self.lost:
            raise ConnectionLost("a:1", "gone")
        self.messages.append(message)

    @property
    def sizes(self) -> list[int]:
        return [len(decode(message.body.decode())) for message in self.messages]


def record(number: int, *, topic: str = "t", region: str = "r", keys: str = "k") -> Published:
    return Published(
        time_ms=1,
        region=region,
        group="g",
        topic=topic,
        message_id=f"id{number}",
        tags=None,
        keys=keys,
        store_host="a:1",
        body_bytes=1,
        cost_ms=1,
        offset_id="o",
    )


async def test_records_travel_ten_together_and_can_be_looked_up() -> None:
    topic = Topic()
    tracer = Tracer(topic.send, ManualClock())
    records = [record(number) for number in range(23)]
    assert all(tracer.add(each) for each in records)
    await tracer.flush()
    assert topic.sizes == [10, 10, 3]
    assert [each for it in topic.messages for each in decode(it.body.decode())] == records
    first = topic.messages[0]
    assert first.topic == "RMQ_SYS_TRACE_TOPIC"
    assert set(first.keys) == {"k", *(f"id{number}" for number in range(10))}
    await tracer.flush()
    assert len(topic.messages) == 3


async def test_topics_and_regions_are_told_apart_and_messages_stay_short() -> None:
    topic = Topic()
    tracer = Tracer(topic.send, ManualClock())
    for number, (name, region) in enumerate((("t", "r"), ("u", "r"), ("t", "s"), ("t", "r"))):
        tracer.add(record(number, topic=name, region=region))
    await tracer.flush()
    assert sorted(topic.sizes) == [1, 1, 2]
    topic.messages.clear()
    for number in range(3):
        tracer.add(record(number, keys="k" * 30_000 if number else "k" * 100_000))
    await tracer.flush()
    assert topic.sizes == [1, 2]


async def test_they_go_after_a_moment_and_with_ten_at_once() -> None:
    topic, clock = Topic(), ManualClock()
    tracer = Tracer(topic.send, clock)
    async with running(tracer.run(), "trace"):
        tracer.add(record(0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert topic.messages == []
        await clock.advance(LINGER_MS)
        assert topic.sizes == [1]
        for number in range(10):
            tracer.add(record(number))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert topic.sizes == [1, 10]


async def test_too_many_are_dropped_and_counted() -> None:
    tracer = Tracer(Topic().send, ManualClock(), max_waiting=2)
    assert [tracer.add(record(number)) for number in range(4)] == [True, True, False, False]
    assert tracer.dropped == 2


async def test_what_cannot_be_sent_is_dropped_and_the_rest_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = Topic()
    tracer = Tracer(topic.send, ManualClock())
    topic.lost = True
    tracer.add(record(0))
    await tracer.flush()
    assert tracer.dropped == 1
    assert "trace records dropped" in caplog.text
    topic.lost = False
    tracer.add(record(1))
    tracer.add(record(2, topic="two\x01fields"))
    await tracer.flush()
    assert topic.sizes == [1]
    assert tracer.dropped == 2


async def test_traces_are_not_traced() -> None:
    tracer = Tracer(Topic().send, ManualClock(), topic="traces")
    assert not tracer.add(record(0, topic="traces"))
    assert tracer.dropped == 0
