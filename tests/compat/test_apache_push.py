"""Our push consumer with Apache's servers: shared queues, retries, dead letters, order, SQL."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.compat.support.apache import BROKER, Apache
from tests.scenarios.support.consuming import until_topic
from tests.waiting import until

from rocketpipe import Admin, ConsumeFromWhere, MessageQueue, Producer, PushConsumer, Session
from rocketpipe.client.consumer.outcome import DEAD_LETTER, Retry
from rocketpipe.client.consumer.tuning import PushTuning

pytestmark = pytest.mark.compat

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def test_apache_serves_our_push_consumers(apache: Apache, tmp_path: Path) -> None:
    settings = {"messageDelayLevel": "1s 1s 1s 1s 1s 1s", "enablePropertyFilter": "true"}
    async with apache.cluster(tmp_path, **settings) as servers:
        address = servers.name_servers
        async with Session(address) as session, Admin(session) as admin:
            for topic in ("shared", "failing", "ordered", "priced", "news"):
                await admin.topics.create(topic, queues=1 if topic == "ordered" else 4)
        async with Producer(address) as producer:
            await _shared(address, producer)
            await _failing(address, producer)
            await _ordered(address, producer)
            await _chosen(address, producer)
            await _broadcast(address, producer, tmp_path / "offsets")


async def _shared(address: str, producer: Producer) -> None:
    got: list[bytes] = []

    def member() -> PushConsumer:
        consumer = PushConsumer(address, group="sharing", start=FIRST)
        consumer.subscribe("shared", lambda message: got.append(message.body), tags="a || b")
        return consumer

    async with member() as first:
        async with member() as second:
            await until(lambda: len(_of(first, "shared")) == len(_of(second, "shared")) == 2)
            assert not _of(first, "shared") & _of(second, "shared")
            for number in range(30):
                await producer.send("shared", b"%d" % number, tags="abc"[number % 3])
            await until(lambda: len(set(got)) == 20)
        await until(lambda: len(_of(first, "shared")) == 4)
        await producer.send("shared", b"last", tags="a")
        await until(lambda: b"last" in got)
    assert set(got) == {b"%d" % number for number in range(30) if number % 3 != 2} | {b"last"}


def _of(consumer: PushConsumer, topic: str) -> set[MessageQueue]:
    return {queue for queue in consumer.queues if queue.topic == topic}


async def _failing(address: str, producer: Producer) -> None:
    attempts: Counter[bytes] = Counter()
    times: list[int] = []
    dead: dict[bytes, Any] = {}
    for body in (b"good", b"bad", b"once", b"hopeless"):
        await producer.send("failing", body)
    consumer = PushConsumer(
        address, group="failing", start=FIRST, tuning=PushTuning(max_attempts=3)
    )

    @consumer.on("failing")
    async def handle(message: Any) -> Any:
        attempts[message.body] += 1
        assert message.topic == "failing"
        if message.body == b"bad":
            times.append(message.reconsume_times)
            raise ValueError("always")
        if message.body == b"once" and attempts[b"once"] == 1:
            return Retry(delay_level=1)
        return Retry(delay_level=DEAD_LETTER) if message.body == b"hopeless" else None

    undertaker = PushConsumer(address, group="undertaker", start=FIRST)

    @undertaker.on("%DLQ%failing")
    async def bury(message: Any) -> None:
        dead[message.body] = message

    async with consumer:
        await until(lambda: attempts == {b"good": 1, b"bad": 3, b"once": 2, b"hopeless": 1})
        await until_topic(address, "%DLQ%failing")
        async with undertaker:
            await until(lambda: set(dead) == {b"bad", b"hopeless"})
    assert times == [0, 1, 2]


async def _ordered(address: str, producer: Producer) -> None:
    got: list[tuple[bytes, int]] = []
    queue = MessageQueue(topic="ordered", broker_name=BROKER, queue_id=0)
    for body in (b"1", b"2", b"3"):
        await producer.send("ordered", body, queue=queue)
    tuning = PushTuning(max_attempts=2, suspend_queue_ms=10)
    consumer = PushConsumer(address, group="order", ordered=True, start=FIRST, tuning=tuning)

    @consumer.on("ordered")
    def handle(message: Any) -> bool:
        got.append((message.body, message.reconsume_times))
        return bool(message.body != b"2")

    async with consumer:
        await until(lambda: (b"3", 0) in got)
        await until_topic(address, "%DLQ%order")
        rival = PushConsumer(address, group="order", ordered=True, start=FIRST)
        rival.subscribe("ordered", lambda message: got.append((b"rival", 0)))
        async with rival:
            await producer.send("ordered", b"4", queue=queue)
            await until(lambda: len(got) == 5)
    assert got[:4] == [(b"1", 0), (b"2", 0), (b"2", 1), (b"3", 0)]


async def _chosen(address: str, producer: Producer) -> None:
    got: set[bytes] = set()
    for price in (5, 15, 25):
        await producer.send("priced", b"%d" % price, properties={"price": str(price)})
    consumer = PushConsumer(address, group="pricing", start=FIRST)
    consumer.subscribe("priced", lambda message: got.add(message.body), sql="price > 10")
    async with consumer:
        await until(lambda: len(got) == 2)
    assert got == {b"15", b"25"}


async def _broadcast(address: str, producer: Producer, root: Path) -> None:
    got: dict[str, list[bytes]] = {"one": [], "two": []}
    async with AsyncExitStack() as stack:
        for name, bodies in got.items():
            consumer = PushConsumer(
                Session(address, instance=name),
                group="readers",
                broadcast=True,
                start=FIRST,
                offsets_root=root,
            )
            consumer.subscribe("news", lambda message, bodies=bodies: bodies.append(message.body))
            await stack.enter_async_context(consumer)
        for number in range(8):
            await producer.send("news", b"%d" % number)
        await until(lambda: all(len(bodies) == 8 for bodies in got.values()))
