"""The way of messages, as their clients tell it and an operator reads it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.scenarios.support.members import both_servers
from tests.waiting import PATIENCE_S, until

from rocketpipe import Admin, ConsumeFromWhere, Producer, PushConsumer
from rocketpipe.client.consumer.outcome import Retry
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.model.trace import Consumed, Consuming, Outcome, Published

pytestmark = pytest.mark.scenario


async def test_a_message_is_followed_from_its_producer_through_every_attempt(
    tmp_path: Path,
) -> None:
    async with (
        both_servers(tmp_path, delay_levels="1s 1s 1s") as servers,
        asyncio.timeout(PATIENCE_S),
    ):
        names = servers.name_server
        async with Producer(names, group="sending", trace=True) as producer:
            result = await producer.send("orders", b"one", tags="paid", keys=["A1"])
        consumer = PushConsumer(
            names,
            group="billing",
            start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            trace=True,
        )
        tried: list[int] = []

        @consumer.on("orders")
        async def bill(message: ReceivedMessage) -> None:
            tried.append(message.reconsume_times)
            if len(tried) == 1:
                raise Retry(delay_level=1)

        async with consumer:
            await until(lambda: len(tried) == 2)
        async with Admin(names) as admin:
            for key in (result.message_id, "A1"):
                (trace,) = await admin.messages.trace(key)
                assert trace.message_id == result.message_id
                (sent,) = trace.published
                assert (sent.group, sent.topic, sent.tags) == ("sending", "orders", "paid")
                assert sent.offset_id == result.offset_id
                first, second = trace.handlings
                assert (first.group, first.success, second.success) == ("billing", False, True)
                assert first.before is not None
                assert second.before is not None
                assert (first.before.retries, second.before.retries) == (0, 1)
                assert first.after is not None
                assert first.after.outcome is Outcome.FAILED
                assert [type(record) for record in trace.timeline] == [
                    Published,
                    Consuming,
                    Consumed,
                    Consuming,
                    Consumed,
                ]
            assert await admin.messages.trace("nobody") == []
