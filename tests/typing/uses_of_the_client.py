"""Not run: what a strict type checker takes and refuses of programs that use the clients.

A line that is to be refused says so; an ignore that is not needed is an error as well.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import timedelta
from typing import assert_type

from rocketpipe import (
    Batching,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SendResult,
    blocking,
)
from rocketpipe.model.message import Readable


async def sends(producer: Producer) -> None:
    result = await producer.send("orders", b"x", tags="a", keys=["b"], delay=timedelta(seconds=1))
    assert_type(result, SendResult)
    assert_type(await producer.send(Message("orders", b"x")), SendResult)
    assert_type(await producer.send_batch([Message("orders", b"x")]), tuple[SendResult, ...])
    await producer.send_async("orders", b"x", callback=lambda told: None)
    await producer.send("orders", "x")  # type: ignore[arg-type]
    await producer.send("orders", b"x", tag="a")  # type: ignore[call-arg]
    async with producer.transaction("orders", b"x") as transaction:
        transaction.rollback()


def blocking_sends() -> None:
    with blocking.Producer("127.0.0.1:9876", batching=Batching(max_count=5)) as producer:
        assert_type(producer.send("orders", b"x", tags="a"), SendResult)
        producer.send("orders", 5)  # type: ignore[arg-type]
        producer.send("orders", b"x", tag="a")  # type: ignore[call-arg]


async def reads(consumer: PullConsumer) -> None:
    assert_type(await consumer.poll(), list[ReceivedMessage])
    async for message in consumer:
        assert_type(message, ReceivedMessage)


def blocking_reads(consumer: blocking.PullConsumer) -> None:
    assert_type(consumer.poll(), list[ReceivedMessage])
    for message in consumer:
        assert_type(message, ReceivedMessage)


def two(message: ReceivedMessage, more: int) -> None: ...


def handlers(consumer: PushConsumer | blocking.PushConsumer) -> None:
    @consumer.on("orders")
    async def waits(message: ReceivedMessage) -> None: ...

    @consumer.on("orders")
    def blocks(message: Readable) -> bool:
        return True

    @consumer.on("orders", batch=3)
    async def many(messages: Sequence[ReceivedMessage]) -> None: ...

    @consumer.on("orders")
    class Bills:
        async def handle(self, message: ReceivedMessage) -> None: ...

    @consumer.on("orders")
    class Called:
        def __call__(self, message: ReceivedMessage) -> None: ...

    consumer.on("orders")(Bills())
    consumer.on("orders")(print)
    consumer.on("orders")(functools.partial(two, more=1))
    assert_type(blocks(ReceivedMessage.__new__(ReceivedMessage)), bool)

    @consumer.on("orders")  # type: ignore[type-var]
    async def none() -> None: ...

    @consumer.on("orders")  # type: ignore[type-var]
    async def lists(messages: list[ReceivedMessage]) -> None: ...

    @consumer.on("orders", batch=3)  # type: ignore[type-var]
    async def single(message: ReceivedMessage) -> None: ...

    @consumer.on("orders")  # type: ignore[type-var]
    async def text(message: str) -> None: ...

    consumer.on("orders")(two)  # type: ignore[type-var]
    consumer.on(5)(print)  # type: ignore[call-overload]
