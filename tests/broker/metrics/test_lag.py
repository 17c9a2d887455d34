"""How far groups are behind, asked of a broker that runs."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.broker.metrics.conftest import Measured
from tests.waiting import until

from rocketpipe import Admin, Producer, SimpleConsumer
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.metrics.families import families
from rocketpipe.metrics import render
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig

pytestmark = pytest.mark.scenario


async def test_queues_are_told_one_by_one_and_a_topic_as_their_sum(measured: Measured) -> None:
    async with Admin(measured.names) as admin, Producer(measured.names) as producer:
        await admin.topics.create("orders", queues=2)
        await admin.groups.create("shop")
        queues = [
            MessageQueue(topic="orders", broker_name="broker-a", queue_id=number)
            for number in range(2)
        ]
        for number in range(5):
            await producer.send("orders", b"%d" % number, queue=queues[number % 2])
        await admin.offsets.commit("shop", {queues[0]: QueueOffset(1)})
        for queue, behind in (("0", 2), ("1", 2)):
            told = measured.value(
                "rocketpipe_consumer_lag_messages",
                consumer_group="shop",
                topic="orders",
                queue=queue,
            )
            assert told == behind
        of_topic = {"consumer_group": "shop", "topic": "orders", "is_retry": "false"}
        assert measured.value("rocketmq_consumer_lag_messages", **of_topic) == 4
        latency_ms = measured.value("rocketmq_consumer_lag_latency_milliseconds", **of_topic)
        assert latency_ms is not None
        assert latency_ms >= 0
        # What a group that does not pop was given is not known.
        assert measured.value("rocketmq_consumer_inflight_messages", **of_topic) is None


async def test_what_was_popped_is_in_flight_and_lag_until_it_is_acknowledged(
    measured: Measured,
) -> None:
    async with Admin(measured.names) as admin, Producer(measured.names) as producer:
        await admin.topics.create("orders", queues=1)
        for number in range(3):
            await producer.send("orders", b"%d" % number)
        async with SimpleConsumer(measured.names, group="pops") as consumer:
            await consumer.subscribe("orders")
            popped = await consumer.receive(max_messages=2)
            assert popped
            of_topic = {"consumer_group": "pops", "topic": "orders", "is_retry": "false"}
            held, ready = len(popped), 3 - len(popped)
            # A place is committed once the note of the pop is durable.
            await until(
                lambda: measured.value("rocketmq_consumer_ready_messages", **of_topic) == ready
            )
            assert measured.value("rocketmq_consumer_inflight_messages", **of_topic) == held
            assert measured.value("rocketmq_consumer_lag_messages", **of_topic) == 3
            await consumer.ack(popped[0])
            assert measured.value("rocketmq_consumer_inflight_messages", **of_topic) == held - 1
            assert measured.value("rocketmq_consumer_lag_messages", **of_topic) == 2


async def test_the_lag_of_a_queue_without_an_offset_is_told_too(tmp_path: Path) -> None:
    seen: list[Core] = []
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(
            data=tmp_path, name_servers=(names,), port=0, store=StoreConfig.embedded(tmp_path)
        )
        async with broker(config, watch=seen.append), Admin(names) as admin:
            await admin.topics.create("orders", queues=2)
            await admin.groups.create("shop")
            first, second = (
                MessageQueue(topic="orders", broker_name="broker-a", queue_id=number)
                for number in range(2)
            )
            async with Producer(names) as producer:
                await producer.send("orders", b"consumed", queue=first)
                await producer.send("orders", b"nobody has seen it", queue=second)
            await admin.offsets.commit("shop", {first: QueueOffset(1)})
            text = render(families(seen[0]))
    lag = [line for line in text.splitlines() if line.startswith("rocketmq_consumer_lag_messages{")]
    assert sum(int(line.rpartition(" ")[2]) for line in lag) == 1, lag


async def test_retries_of_a_group_whose_members_have_gone_are_lag(tmp_path: Path) -> None:
    seen: list[Core] = []
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(
            data=tmp_path, name_servers=(names,), port=0, store=StoreConfig.embedded(tmp_path)
        )
        async with broker(config, watch=seen.append), Admin(names) as admin, Caller() as caller:
            await admin.topics.create("orders", queues=1)
            await admin.groups.create("shop")
            async with Producer(names) as producer:
                sent = await producer.send("orders", b"the first attempt failed")
            await admin.offsets.commit("shop", {sent.queue: QueueOffset(1)})
            failed = SendMessageBack(
                offset=LogOffset(0), group="shop", delay_level=1, max_reconsume_times=16
            )
            await caller.call(next(iter((await admin.brokers.all())[0].addresses.values())), failed)
            while not seen[0].store.max_offset("%RETRY%shop", 0):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
            behind = await admin.progress.of_group("shop")
            text = render(families(seen[0]))
    assert behind.lag == 1, "it waits in the topic of its retries"
    lag = [line for line in text.splitlines() if line.startswith("rocketmq_consumer_lag_messages{")]
    (retries,) = [line for line in lag if "%RETRY%shop" in line]
    assert retries.endswith(" 1")
    assert 'is_retry="true"' in retries


async def test_of_many_places_no_more_are_looked_at_than_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Core] = []
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(
            data=tmp_path, name_servers=(names,), port=0, store=StoreConfig.embedded(tmp_path)
        )
        async with broker(config, watch=seen.append), Admin(names) as admin:
            await admin.topics.create("orders", queues=1)
            offsets = seen[0].tables.offsets
            before = len(offsets)
            for number in range(12_000):
                offsets.commit(f"g{number // 100}", "orders", number % 100, QueueOffset(0))
            looked, places = [], offsets.places

            def counted(group: str, topic: str) -> dict[int, QueueOffset]:
                if threading.current_thread() is threading.main_thread():  # and not to save them
                    looked.append(group)
                return places(group, topic)

            monkeypatch.setattr(offsets, "places", counted)
            monkeypatch.setattr(offsets, "all", None)
            text = render(families(seen[0]))
            assert len(looked) <= 101
            monkeypatch.undo()
    told = [
        line for line in text.splitlines() if line.startswith("rocketpipe_consumer_lag_messages{")
    ]
    assert len(told) == 10_000
    left_out = 'rocketpipe_series_left_out{name="rocketpipe_consumer_lag_messages"}'
    assert f"{left_out} {2000 + before}\n" in text
