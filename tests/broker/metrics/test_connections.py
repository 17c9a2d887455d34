"""Who is connected."""

from __future__ import annotations

import pytest
from tests.broker.metrics.conftest import Measured
from tests.waiting import until

from rocketpipe import Producer, PushConsumer

pytestmark = pytest.mark.scenario


async def test_clients_are_told_apart_by_language_version_and_mode(measured: Measured) -> None:
    async def nothing(_: object) -> None: ...

    async with Producer(measured.names) as producer:
        await producer.send("orders", b"one espresso")
        kind = {"version": "v5_3_1", "protocol_type": "remoting"}
        await until(lambda: measured.value("rocketmq_producer_connections", **kind) is not None)
        consumer = PushConsumer(measured.names, group="shop")
        consumer.subscribe("orders", nothing)
        async with consumer:
            name = "rocketmq_consumer_connections"
            about = {"consumer_group": "shop", "consume_mode": "push", "is_system": "false"}
            await until(lambda: measured.value(name, **about, **kind) == 1)
    assert measured.value("rocketmq_topic_number") is not None
    assert measured.value("rocketmq_broker_permission") == 6
