"""What is measured of pops."""

from __future__ import annotations

import pytest
from tests.broker.metrics.conftest import Measured
from tests.waiting import until

from rocketpipe import Admin, Producer, SimpleConsumer

pytestmark = pytest.mark.scenario


async def test_notes_of_pops_are_told_under_rocketmqs_names(measured: Measured) -> None:
    about = {"consumer_group": "billing", "topic": "orders"}
    notes = "rocketmq_pop_revive_in_message_total"
    async with Admin(measured.names) as admin, Producer(measured.names) as producer:
        await admin.topics.create("orders", queues=1)
        await admin.groups.create("billing")
        for body in (b"one", b"two"):
            await producer.send("orders", body)
    async with SimpleConsumer(measured.names, group="billing") as consumer:
        await consumer.subscribe("orders")
        (first,) = await consumer.receive(max_messages=1, invisible_ms=60_000)
        assert measured.value(notes, **about, revive_message_type="CK", put_status="PUT_OK") == 1
        assert measured.value("rocketmq_pop_checkpoint_buffer_size") == 1
        lags = [
            measured.value("rocketmq_pop_revive_lag_milliseconds", queue_id=str(number))
            for number in range(8)
        ]
        assert sorted(lags) == [0, 0, 0, 0, 0, 0, 0, 1]  # type: ignore[type-var]
        await consumer.ack(first)
        assert measured.value(notes, **about, revive_message_type="ACK") == 1
        done = "rocketmq_pop_revive_out_message_total"
        assert measured.value(done, **about, revive_message_type="CK") == 1
        assert measured.value("rocketmq_pop_checkpoint_buffer_size") == 0
        await consumer.receive(max_messages=1, invisible_ms=1000)
        again = "rocketmq_pop_revive_retry_messages_total"
        await until(lambda: measured.value(again, **about, put_status="PUT_OK") == 1)
    scans = measured.value("rocketmq_pop_buffer_scan_time_consume_milliseconds_count")
    assert scans is not None
    assert scans > 0
    for number in range(8):
        late = "rocketmq_pop_revive_latency_milliseconds"
        assert measured.value(late, queue_id=str(number)) == 0
