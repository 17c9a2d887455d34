"""Everything that a broker measures, asked of one that runs."""

from __future__ import annotations

import re

import pytest
from tests.broker.metrics.conftest import WHO, Measured
from tests.waiting import until

from rocketpipe import Admin, Message, Producer, SimpleConsumer

pytestmark = pytest.mark.scenario


async def test_what_is_told_is_what_prometheus_reads(measured: Measured) -> None:
    async with Admin(measured.names) as admin, Producer(measured.names) as producer:
        await admin.topics.create("orders", queues=1)
        await admin.groups.create("spark-job")
        for number in range(5):
            await producer.send("orders", b"order %d" % number)
        await admin.offsets.move_to_ends("spark-job", "orders", newest=False)
        (place,) = await admin.offsets.of_group("spark-job", "orders")
        await admin.offsets.commit("spark-job", {place.queue: 2})  # type: ignore[dict-item]
        text = measured.text()
        sample = re.compile(r'\w+(\{(\w+="[^"]*",?)+\})? [-+.e\d]+|# (HELP|TYPE) \w+ .+')
        assert all(sample.fullmatch(line) for line in text.splitlines())
        # Each name once: a scraper refuses a second.
        types = re.findall("^# TYPE (\\w+)", text, re.M)
        assert len(types) == len(set(types))
        assert measured.value("rocketmq_messages_in_total", topic="orders") == 5
        assert measured.value("rocketmq_consumer_lag_messages", consumer_group="spark-job") == 3
        (size,) = [line for line in text.splitlines() if "consumer_lag_bytes{" in line]
        assert 0 < int(size.rpartition(" ")[2]) <= measured.core.store.positions.written
        assert WHO in size
        await admin.groups.delete("spark-job", offsets=True)
        assert "spark-job" not in measured.text()


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
