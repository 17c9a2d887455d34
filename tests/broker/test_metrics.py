"""What a broker measures, asked of one that runs."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.broker.support.group_status import following, leading

from rocketpipe import Admin, Producer
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.metrics import families, problem_of
from rocketpipe.metrics import render
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import StoreFull

pytestmark = pytest.mark.scenario


async def test_what_goes_in_and_out_and_how_far_groups_are(tmp_path: Path) -> None:
    seen: list[Core] = []
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(
            data=tmp_path, name_servers=(names,), port=0, store=StoreConfig.embedded(tmp_path)
        )
        async with broker(config, watch=seen.append), Admin(names) as admin:
            (core,) = seen
            await admin.topics.create("orders", queues=1)
            await admin.groups.create("spark-job")
            async with Producer(names) as producer:
                for number in range(5):
                    await producer.send("orders", b"order %d" % number)
                await admin.offsets.move_to_ends("spark-job", "orders", newest=False)
                (place,) = await admin.offsets.of_group("spark-job", "orders")
                await admin.offsets.commit("spark-job", {place.queue: 2})  # type: ignore[dict-item]
                text = render(families(core))
            who = 'cluster="DefaultCluster",node_type="broker",node_id="broker-a"'
            assert f'rocketmq_messages_in_total{{{who},topic="orders"}} 5\n' in text
            lag = f'{{{who},consumer_group="spark-job",topic="orders",queue="0"}}'
            assert f"rocketmq_consumer_lag_messages{lag} 3\n" in text
            (size,) = [line for line in text.splitlines() if f"consumer_lag_bytes{lag}" in line]
            assert 0 < int(size.rpartition(" ")[2]) <= core.store.positions.written
            assert f"rocketpipe_consumer_lag_seconds{lag}" in text
            assert f"rocketmq_producer_connections{{{who}}} 1\n" in text
            assert problem_of(core) is None

            await admin.groups.delete("spark-job", offsets=True)
            assert "spark-job" not in render(families(core))

            core.store.health.full(StoreFull(tmp_path, 1, "the disk is full"))
            problem = problem_of(core)
            assert problem is not None
            assert "the store is full" in problem


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
    assert [line.rpartition(" ")[2] for line in lag if "%RETRY%shop" in line] == ["1"], lag


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
        line for line in text.splitlines() if line.startswith("rocketmq_consumer_lag_messages{")
    ]
    assert len(told) == 10_000
    left_out = 'rocketpipe_series_left_out{name="rocketmq_consumer_lag_messages"}'
    assert f"{left_out} {2000 + before}\n" in text


async def test_replicas_are_measured_where_there_are_any(tmp_path: Path) -> None:
    seen: list[Core] = []
    config = BrokerConfig(data=tmp_path, port=0, store=StoreConfig.embedded(tmp_path))
    async with broker(config, watch=seen.append):
        (core,) = seen
        assert "rocketpipe_replication" not in render(families(core))
        group = replace(config, replication=ReplicationConfig(role=BrokerRole.SYNC_MASTER))
        core = replace(core, config=group)
        who = 'cluster="DefaultCluster",node_type="broker",node_id="broker-a"'
        core.group.status = leading
        text = render(families(core))
        for name, value in (
            (f'role{{{who},role="leading"}}', 1),
            (f"epoch{{{who}}}", 3),
            (f"confirm_offset{{{who}}}", 980),
            (f"in_sync{{{who}}}", 2),
            (f"min_in_sync{{{who}}}", 2),
            (f'follower_lag_bytes{{{who},follower="3",in_sync="false"}}', 100),
        ):
            assert f"rocketpipe_replication_{name} {value}\n" in text
        core.group.status = following
        text = render(families(core))
        assert f"rocketpipe_replication_behind_bytes{{{who}}} 100\n" in text
        assert f"rocketpipe_replication_connected{{{who}}} 1\n" in text
        assert "rocketpipe_replication_in_sync" not in text
