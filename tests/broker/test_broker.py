"""A broker as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.broker.support import asking

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.roles.duties import _forget_topic as forget_topic
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.deletions import queues_in_use
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.client.consumer.pull import pull_request
from rocketpipe.client.producer.producer import Producer
from rocketpipe.clock import SystemClock
from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import QueryConsumerOffset
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.protocol.requests.topics import GetTopicConfig
from rocketpipe.record.codec import view_records
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.errors import StoreFailed, StoreFull
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore


def config(data: Path, *name_servers: str, port: int = 0) -> BrokerConfig:
    return BrokerConfig(
        data=data, name_servers=name_servers, port=port, store=StoreConfig.embedded(data)
    )


class _NotAcknowledging:
    """Replicas that have gone over to another leader."""

    async def settled(self) -> None:
        raise RequestRejected(ResponseCode.SERVICE_NOT_AVAILABLE, "no longer the master")

    offsets_settled = settled


async def test_a_directory_it_cannot_use_is_told_as_such_and_the_port_is_free_again(
    tmp_path: Path, lasting_port: int
) -> None:
    async with broker(config(tmp_path / "taken")):
        for _ in range(2):
            with pytest.raises(StoreError, match="is locked"):
                async with broker(config(tmp_path / "taken", port=lasting_port)):
                    pass


async def test_messages_topics_and_offsets_outlive_the_broker(tmp_path: Path) -> None:
    async with name_server(NamesrvConfig(port=0)) as names:
        sent = []
        for round_number in range(3):
            async with broker(config(tmp_path, names)) as address, Producer(names) as producer:
                body = b"round %d" % round_number
                result = await producer.send("orders", body, tags="A")
                sent.append((result.queue, body))
                async with Caller() as caller:
                    found = []
                    for queue in {queue for queue, _ in sent}:
                        request = pull_request("g", queue, QueueOffset(0), "*", suspend_ms=0)
                        reply = await caller.call(address, request)
                        found += [message.body for message in view_records(reply.messages)]
                assert sorted(found) == [body for _, body in sent]


@pytest.mark.parametrize(
    ("timeout_ms", "durable"),
    [(5000, True), (0, None)],  # without time to wait, whether it is durable is not known
)
async def test_with_sync_flush_an_answer_waits_for_the_disk(
    tmp_path: Path, timeout_ms: int, durable: bool | None
) -> None:
    store = StoreConfig.embedded(tmp_path, flush=FlushMode.SYNC, flush_timeout_ms=timeout_ms)
    async with name_server(NamesrvConfig(port=0)) as names:
        settings = BrokerConfig(data=tmp_path, name_servers=(names,), port=0, store=store)
        async with broker(settings), Producer(names) as producer:
            assert (await producer.send("orders", b"x")).durable is durable


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreFull(Path("log"), 10, "disk full"), "no room at log for 10 bytes: disk full"),
        (StoreFailed("sync: EIO"), "sync: EIO"),
    ],
)
async def test_a_store_that_takes_nothing_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: StoreError, reason: str
) -> None:
    def refuse(store: MessageStore, what: object) -> None:
        raise error

    async with name_server(NamesrvConfig(port=0)) as names, broker(config(tmp_path, names)):
        for way in ("append", "append_from"):
            monkeypatch.setattr(MessageStore, way, refuse)
        async with Producer(names) as producer:
            with pytest.raises(RequestRejected, match=reason) as refused:
                await producer.send("orders", b"x")
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_clients_are_told_the_advertised_address_everywhere(tmp_path: Path) -> None:
    async with name_server(NamesrvConfig(port=0)) as names, Caller() as caller:
        settings = replace(config(tmp_path, names), advertise="localhost")
        async with broker(settings) as address, Producer(names) as producer:
            result = await producer.send("orders", b"x")
            route = (await caller.call(names, GetRouteInfoByTopic(topic="orders"))).route
            _, port = split_address(address)
            assert route.brokers[0].leader == f"localhost:{port}"
            request = pull_request("g", result.queue, QueueOffset(0), "*", suspend_ms=0)
            (message,) = view_records((await caller.call(address, request)).messages)
    # Java clients send messages back, and look them up, at the host that is in the id.
    assert message.offset_id.startswith(f"7F000001{port:08X}")


async def test_a_topic_that_was_deleted_does_not_come_back_with_a_kill(tmp_path: Path) -> None:
    host = bytes((127, 0, 0, 1, 0, 0, 42, 159))
    settings = StoreConfig.embedded(tmp_path)

    def opened() -> MessageStore:
        return MessageStore.open(
            settings, disk=Disk(), clock=SystemClock(), store_host=host, threads=False
        )

    def put(topic: str) -> Put:
        return Put(
            topic=topic,
            queue_id=0,
            body=b"x",
            properties=b"",
            flag=0,
            sys_flag=0,
            born_ms=1,
            born_host=host,
        )

    store = opened()
    store.append([[put("deleted")], [put("kept")]])
    store.dispatch()
    tables = Tables(Disk(), tmp_path / "config", SystemClock(), default_topic_queues=1)
    tables.replicas = _NotAcknowledging()
    with pytest.raises(RequestRejected):
        await forget_topic(store, tables, Stats(SystemClock()), "deleted")
    assert store.max_offset("deleted", 0) == 1, "who leads now may never hear of it"
    tables.replicas = None
    await forget_topic(store, tables, Stats(SystemClock()), "deleted")
    store.append([[put("kept")]])
    store.dispatch()
    store.flush()
    store.abandon()
    store = opened()
    store.dispatch()
    assert store.max_offset("kept", 0) == 2
    assert list(queues_in_use(store)) == [("kept", 0)]
    store.close()


async def test_a_broker_whose_tables_are_lost_starts_with_what_its_store_can_tell(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("ERROR")
    asked = QueryConsumerOffset(consumer_group="g", topic="t", queue_id=2)
    async with broker(config(tmp_path)) as address, Caller() as caller:
        await caller.call(address, asking.topic("t", 4))
        await caller.call(address, asking.group("g"))
        for number in range(8):
            await caller.call(address, asking.message("t", b"%d" % number, number % 4))
        await caller.call(address, asking.commit("g", "t", 1, queue_id=2))
    lost = [path for path in (tmp_path / "config").iterdir() if "json" in path.name]
    assert len({path.name.split(".")[0] for path in lost}) >= 3
    for path in lost:
        path.write_bytes(b"")
    async with broker(config(tmp_path)) as address, Caller() as caller:
        topic = (await caller.call(address, GetTopicConfig(topic="t"))).details
        assert (topic.read_queues, topic.write_queues) == (4, 4)
        queue = MessageQueue(topic="t", broker_name="broker-a", queue_id=2)
        pull = pull_request("g", queue, QueueOffset(0), "*", suspend_ms=0)
        found = await caller.call(address, pull)
        assert [view.body for view in view_records(found.messages)] == [b"2", b"6"]
        # Where the group was is lost: it is given everything once more, not only what is new.
        assert (await caller.call(address, asked)).offset == 0
    assert "table is lost" in caplog.text
    assert (tmp_path / "config" / "topics.json.damaged").exists()
