"""What goes in and out, by kind."""

from __future__ import annotations

from random import randbytes

import pytest
from tests.broker.metrics.conftest import WHO, Measured
from tests.waiting import until

from rocketpipe import Admin, Decision, Message, Producer, PullConsumer
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.remoting.caller import Caller

pytestmark = pytest.mark.scenario


async def test_kinds_of_messages_are_told_apart_as_rocketmq_does(measured: Measured) -> None:
    async with Producer(measured.names) as producer:
        await producer.send("orders", b"plain")
        await producer.send_batch([Message("orders", b"a"), Message("orders", b"b")])
        await producer.send(Message("orders", b"later", delay_level=18))
    name = "rocketmq_messages_in_total"
    plain = {"topic": "orders", "message_type": "normal", "is_system": "false"}
    assert measured.value(name, **plain) == 3
    waiting = {"topic": "SCHEDULE_TOPIC_XXXX", "message_type": "delay", "is_system": "true"}
    assert measured.value(name, **waiting) == 1


async def test_sizes_are_counted_by_rocketmqs_bounds(measured: Measured) -> None:
    async with Producer(measured.names) as producer:
        for size in (1, 2000, 100_000, 100_001):
            await producer.send("orders", randbytes(size))
    counted = {
        bound: measured.value("rocketmq_message_size_bucket", topic="orders", le=bound)
        for bound in ("1024.0", "4096.0", "524288.0", "4194304.0", "+Inf")
    }
    assert list(counted.values()) == [1, 2, 4, 4, 4]
    assert measured.value("rocketmq_message_size_count", topic="orders") == 4


async def test_what_groups_get_is_told_and_what_they_give_up(measured: Measured) -> None:
    async with Admin(measured.names) as admin, Producer(measured.names) as producer:
        await admin.topics.create("orders", queues=1)
        await admin.groups.create("shop")
        sent = await producer.send("orders", b"one espresso")
        async with PullConsumer(measured.names, group="shop") as consumer:
            await consumer.assign([sent.queue])
            await consumer.seek(sent.queue, 0)
            while not await consumer.poll():
                pass
        given = {"topic": "orders", "consumer_group": "shop", "is_retry": "false"}
        assert measured.value("rocketmq_messages_out_total", **given), "once, or read ahead too"
        back = SendMessageBack(offset=0, group="shop", delay_level=-1, max_reconsume_times=16)  # type: ignore[arg-type]
        async with Caller() as caller:
            await caller.call(measured.core.address, back)
    letters = {"consumer_group": "shop", "topic": "orders", "is_system": "false"}
    assert measured.value("rocketmq_send_to_dlq_messages_total", **letters) == 1
    assert "%DLQ%shop" not in measured.text().partition("rocketpipe_consumer")[0]


async def test_answers_are_told_by_code_with_the_time_they_took(measured: Measured) -> None:
    async with Producer(measured.names) as producer:
        await producer.send("orders", b"one espresso")
    name = "rocketmq_rpc_latency_milliseconds_count"
    sent = {"request_code": "send_message_v2", "response_code": "success", "result": "success"}
    told = [line for line in measured.text().splitlines() if line.startswith(f"{name}{{{WHO}")]
    assert measured.value(name, **sent) == 1, told
    assert any('request_code="heart_beat"' in line for line in told)


async def test_ends_of_transactions_are_counted_by_topic(measured: Measured) -> None:
    async def check(_: object) -> Decision:
        return Decision.UNKNOWN

    async with Producer(measured.names, group="tx", check=check) as producer:
        async with producer.transaction("orders", b"committed"):
            pass
        async with producer.transaction("orders", b"rolled back") as tx:
            tx.rollback()
        async with producer.transaction("orders", b"open") as tx:
            tx.unknown()
    for name, count in (
        ("rocketmq_commit_messages_total", 1),
        ("rocketmq_rollback_messages_total", 1),
        ("rocketmq_half_messages", 1),
        ("rocketmq_finish_message_latency_milliseconds_count", 1),
    ):
        await until(lambda name=name, count=count: measured.value(name, topic="orders") == count)
