"""What a simple consumer refuses before it asks anybody."""

from __future__ import annotations

import pytest

from rocketpipe import SimpleConsumer
from rocketpipe.errors import ConnectionLost, FilterError, InvalidName, SessionClosed
from rocketpipe.model.subscription import ConsumeType

NOWHERE = "127.0.0.1:1"


def test_a_group_has_to_have_a_name() -> None:
    with pytest.raises(InvalidName):
        SimpleConsumer(NOWHERE, group="a b")
    with pytest.raises(ValueError, match="NameServer"):
        SimpleConsumer("", group="g")


async def test_it_is_used_inside_its_block() -> None:
    consumer = SimpleConsumer(NOWHERE, group="g")
    with pytest.raises(SessionClosed, match="the consumer"):
        await consumer.receive()
    with pytest.raises(SessionClosed):
        await consumer.subscribe("orders")
    async with consumer:
        with pytest.raises(ValueError, match="runs already"):
            await consumer.__aenter__()
    with pytest.raises(SessionClosed):
        await consumer.ack([])


async def test_what_cannot_be_is_refused() -> None:
    async with SimpleConsumer(NOWHERE, group="g") as consumer:
        with pytest.raises(ValueError, match="subscribe to a topic"):
            await consumer.receive()
        for wrong in ({"max_messages": 33}, {"invisible_ms": 0}, {"wait_ms": -1}):
            with pytest.raises(ValueError, match="it goes from"):
                await consumer.receive(**wrong)
        with pytest.raises(InvalidName):
            await consumer.subscribe("a b")
        with pytest.raises(FilterError):
            await consumer.subscribe("orders", sql="a >")
        with pytest.raises(ConnectionLost):
            await consumer.subscribe("orders")
        await consumer.unsubscribe("orders")
        for nothing_received in (b"x", [b"x"]):
            with pytest.raises(TypeError, match="give what receive"):
                await consumer.ack(nothing_received)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="give what receive"):
            await consumer.change_invisible(b"x", 0)  # type: ignore[arg-type]


async def test_brokers_are_told_that_it_pops() -> None:
    async with SimpleConsumer(NOWHERE, group="g") as consumer:
        (told,) = consumer.consumers()
        assert told.consume_type is ConsumeType.CONSUME_POP
        assert consumer.producer_groups() == ()
        assert list(consumer.topics()) == []
        consumer.on_ids_changed("g")
        consumer.on_routes_changed("orders")
