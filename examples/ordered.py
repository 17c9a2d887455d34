"""Messages of one order are consumed in the order they were sent in, whatever else goes on.

A hundred messages of ten orders go to four queues. An order's messages share a queue, and an
ordered consumer reads a queue's messages one after the other.

rocketpipe serve --data data &
python examples/ordered.py
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import defaultdict
from collections.abc import Sequence

from rocketpipe import (
    Admin,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    ReceivedMessage,
)

NAME_SERVERS = os.environ.get("ROCKETPIPE_NAMESRV", "127.0.0.1:9876")
TOPIC = "TopicOrdered"
TAGS = ("TagA", "TagB", "TagC", "TagD", "TagE")
MESSAGES = 100
ORDERS = 10


def by_number(queues: Sequence[MessageQueue], message: Message, order: int) -> MessageQueue:
    """Order 7 goes to the fourth of four queues, and so does all that belongs to it."""
    return queues[order % len(queues)]


async def send(run: str) -> None:
    async with Producer(NAME_SERVERS) as producer:
        for number in range(MESSAGES):
            order = number % ORDERS
            await producer.send(
                TOPIC,
                f"Hello RocketMQ {number}".encode(),
                tags=TAGS[number % len(TAGS)],
                keys=[f"KEY{number}"],
                properties={"run": run, "order": str(order)},
                order_by=order,
                selector=by_number,
            )


async def consume(run: str) -> dict[str, list[int]]:
    """What was consumed of each order, in that order."""
    consumer = PushConsumer(
        NAME_SERVERS,
        group=f"ordered-{run}",
        ordered=True,
        start="first",
    )
    orders: dict[str, list[int]] = defaultdict(list)

    @consumer.on(TOPIC, tags=" || ".join(TAGS))
    async def take(message: ReceivedMessage) -> None:
        properties = message.user_properties
        if properties.get("run") != run:
            return  # of a run before this one
        orders[properties["order"]].append(int(message.keys[0].removeprefix("KEY")))
        if sum(map(len, orders.values())) == MESSAGES:
            consumer.stop()

    await consumer.run()
    return orders


async def main() -> None:
    async with Admin(NAME_SERVERS) as admin:
        if TOPIC not in await admin.topics.names():
            await admin.topics.create(TOPIC, queues=4)
    run = uuid.uuid4().hex[:8]
    await send(run)
    orders = await consume(run)
    for order in sorted(orders):
        print(f"order {order}: {orders[order]}")
        assert orders[order] == list(range(int(order), MESSAGES, ORDERS)), "out of order"
    print(f"{MESSAGES} messages of {len(orders)} orders, each in order")


if __name__ == "__main__":
    asyncio.run(main())
