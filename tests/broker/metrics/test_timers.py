"""What is measured of messages that wait."""

from __future__ import annotations

import pytest
from tests.broker.metrics.conftest import Measured
from tests.waiting import until

from rocketpipe import Message, Producer

pytestmark = pytest.mark.scenario


async def test_what_waits_and_what_was_delivered_is_told_under_rocketmqs_names(
    measured: Measured,
) -> None:
    where = {"storage_type": "local", "storage_medium": "disk"}
    assert measured.value("rocketmq_timer_dequeue_lag", **where) == 0
    assert measured.value("rocketmq_timer_enqueue_lag", **where) == 0
    async with Producer(measured.names) as producer:
        await producer.send(Message("orders", b"soon", delay_ms=1))
        await producer.send(Message("orders", b"later", delay_ms=7_200_000))
        taken = await producer.send(Message("orders", b"never", delay_ms=7_200_000))
        assert taken.recall_handle is not None
        await producer.recall("orders", taken.recall_handle)
    about = {**where, "topic": "orders"}
    await until(lambda: measured.value("rocketmq_timer_dequeue_total", **about) == 1)
    await until(lambda: measured.value("rocketmq_timer_dequeue_lag", **where) == 1)
    assert measured.value("rocketmq_timer_enqueue_total", **about) == 3, "a recall is none"
    for name in ("enqueue", "dequeue"):
        late = measured.value(f"rocketmq_timer_{name}_latency_milliseconds", **where)
        assert late is not None
        assert late >= 0
    snapshot = "rocketmq_timer_message_snapshot"
    assert measured.value(snapshot, **where, timer_bound_s="14400") == 1
    assert measured.value(snapshot, **where, timer_bound_s="3600") == 0
    delays = "rocketmq_delay_message_latency_seconds"
    assert measured.value(f"{delays}_count", **about) == 3
    assert measured.value(f"{delays}_bucket", **about, le="60.0") == 1
    assert measured.value(f"{delays}_bucket", **about, le="43200.0") == 3
