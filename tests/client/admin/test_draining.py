"""What a broker has that nobody has read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.waiting import until

from rocketpipe import (
    DEAD_LETTER,
    MessageQueue,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SimpleConsumer,
)
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.draining import GroupBacklog
from rocketpipe.client.admin.fleet import NoBroker
from rocketpipe.client.session import Session
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing import Cluster

BROKER = "broker-a"


async def test_an_empty_broker_has_nothing_left(admin: Admin) -> None:
    found = await admin.draining.look(BROKER)
    assert found.is_consumed
    assert (found.groups, found.waiting, found.unread, found.messages) == ((), {}, {}, 0)
    with pytest.raises(NoBroker, match="broker-z"):
        await admin.draining.look("broker-z")


async def test_what_a_group_has_not_read_is_left_and_what_none_reads_is_unread(
    session: Session, admin: Admin
) -> None:
    async with Producer(session) as producer:
        for topic in ("read", "unread"):
            await admin.topics.create(topic, queues=1)
            for _ in range(3):
                await producer.send(topic, b"x")
    await admin.groups.create("shop")
    found = await admin.draining.look(BROKER)
    assert found.unread == {"read": 3, "unread": 3}
    assert found.is_consumed, "nobody will read them"

    (queue,) = await admin.offsets.ends("read")
    await admin.offsets.commit("shop", {queue: QueueOffset(1)})
    found = await admin.draining.look(BROKER)
    assert found.groups == (GroupBacklog("shop", "read", 2, 0),)
    assert found.unread == {"unread": 3}
    assert not found.is_consumed
    assert found.ends == {"read": {0: 3}, "unread": {0: 3}}

    await admin.offsets.commit("shop", {queue: QueueOffset(3)})
    assert (await admin.draining.look(BROKER)).is_consumed


async def test_a_group_with_a_place_at_another_broker_alone_has_all_to_read(
    servers: Cluster, session: Session, admin: Admin, tmp_path: Path
) -> None:
    await admin.topics.create("orders", queues=1)
    await admin.groups.create("away")
    (queue,) = await admin.offsets.ends("orders")
    await admin.offsets.commit("away", {queue: QueueOffset(0)})
    data = tmp_path / "b"
    config = BrokerConfig(
        name="broker-b",
        data=data,
        name_servers=(servers.name_server,),
        port=0,
        store=StoreConfig.embedded(data),
    )
    async with broker(config):
        await admin.topics.create("orders", queues=1, broker="broker-b")
        there = MessageQueue(topic="orders", broker_name="broker-b", queue_id=0)
        async with Producer(session) as producer:
            await producer.send("orders", b"x", queue=there)
        found = await admin.draining.look("broker-b")
        assert found.groups == (GroupBacklog("away", "orders", 1, 0),)
        assert found.unread == {}


async def test_what_is_kept_back_for_now_is_left(session: Session, admin: Admin) -> None:
    await admin.groups.create("shop")
    async with Producer(session, group="shop") as producer:
        await producer.send("t", b"by level", delay_level=5)
        await producer.send("t", b"by time", delay=600)
        async with producer.transaction("t", b"undecided") as begun:
            begun.unknown()
        assert (await admin.draining.look(BROKER)).waiting == {
            "delayed": 2,
            "open transactions": 1,
        }
        await producer.send("popped", b"x")
    async with SimpleConsumer(session, group="shop") as consumer:
        await consumer.subscribe("popped")
        (message,) = await consumer.receive()
        found = await admin.draining.look(BROKER)
        assert found.waiting["popped"] == 1
        await consumer.ack(message)
        assert "popped" not in (await admin.draining.look(BROKER)).waiting


async def test_retries_are_their_groups_and_dead_letters_are_nobodys_until_they_are_purged(
    session: Session, admin: Admin
) -> None:
    seen: list[bytes] = []

    async def handle(message: ReceivedMessage) -> int:
        seen.append(message.body)
        return DEAD_LETTER

    async with Producer(session) as producer:
        await producer.send("t", b"x")
    # One whose name begins with the other's has nothing to do with it.
    await admin.groups.create("shop_eu")
    consumer = PushConsumer(session, group="shop", start="first")
    consumer.subscribe("t", handle)
    async with consumer:
        await until(lambda: seen)
    found = await admin.draining.look(BROKER)
    assert found.unread == {"%DLQ%shop": 1}
    assert found.groups == ()
    assert await admin.draining.replayed(BROKER, found.unread) == set()
    (letter,) = await admin.dead_letters.letters("shop")
    await admin.dead_letters.replay("shop", letter)
    assert await admin.draining.replayed(BROKER, found.unread) == {"%DLQ%shop"}
    assert (await admin.draining.look(BROKER)).groups == (
        GroupBacklog("shop", "%RETRY%shop", 1, 0),
    )
    await admin.dead_letters.purge(await admin.dead_letters.ends("shop"))
    assert (await admin.draining.look(BROKER)).unread == {}


async def test_a_topic_that_members_gave_up_and_one_told_to_all_wait_for_nobody(
    session: Session, admin: Admin
) -> None:
    async with Producer(session) as producer:
        for topic in ("before", "now", "all"):
            await producer.send(topic, b"x")
    await admin.groups.create("shop")
    (queue, *_) = await admin.offsets.ends("before")
    await admin.offsets.commit("shop", {queue: QueueOffset(0)})
    assert {one.topic for one in (await admin.draining.look(BROKER)).groups} == {"before"}

    async def handle(_: ReceivedMessage) -> None:
        return None

    one = PushConsumer(session, group="shop", start="first")
    one.subscribe("now", handle)
    everyone = PushConsumer(session, group="told", broadcast=True, start="first")
    everyone.subscribe("all", handle)
    async with one, everyone:
        found = await admin.draining.look(BROKER)
        assert found.unread == {"before": 1, "all": 1}
        assert {each.topic for each in found.groups} <= {"now"}
