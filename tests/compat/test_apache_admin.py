"""Our session and our operators' calls, with Apache's servers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.client.admin.support.sent import send
from tests.client.support.session_parts import Part
from tests.compat.support.apache import BROKER, CLUSTER, Apache

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.groups import NoGroup
from rocketpipe.client.admin.messages import NoMessage
from rocketpipe.client.admin.topics import TopicExists
from rocketpipe.client.session import Session
from rocketpipe.errors import NoRoute
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import MessageType

pytestmark = pytest.mark.compat


async def test_operators_calls_mean_the_same_to_apache(apache: Apache, tmp_path: Path) -> None:
    async with (
        apache.cluster(tmp_path) as servers,
        Session(servers.name_servers) as session,
        Admin(session) as admin,
    ):
        assert await admin.brokers.clusters() == {CLUSTER: [BROKER]}
        assert [each.leader for each in await admin.brokers.all()] == [servers.broker]
        with pytest.raises(NoRoute, match=r"NameServer .* knows these topics: none of users"):
            await session.routes.get("orders")

        await admin.topics.create("orders", queues=2, message_type=MessageType.NORMAL)
        with pytest.raises(TopicExists):
            await admin.topics.create("orders")
        assert await admin.topics.names() == ["orders"]
        await admin.topics.update("orders", attributes={"message.type": "FIFO"})
        (settings,) = (await admin.topics.show("orders")).settings.values()
        assert (settings.read_queues, settings.message_type) == (2, MessageType.FIFO)

        with pytest.raises(NoGroup):
            await admin.groups.show("billing")
        await admin.groups.create("billing", max_attempts=4)
        await admin.groups.update("billing", retry_queues=2)
        (group,) = (await admin.groups.show("billing")).settings.values()
        assert (group.max_retries, group.retry_queues) == (3, 2)
        assert await admin.groups.names() == ["billing"]

        await _messages_and_offsets(admin, session)
        await _members(admin, session)

        before = await admin.name_servers.settings()
        assert before[servers.name_servers]["orderMessageEnable"] == "false"
        await admin.name_servers.put("n", "k", "v")
        assert await admin.name_servers.values("n") == {"k": "v"}
        assert await admin.name_servers.get("n", "x") is None
        assert (await admin.brokers.stop_writes(BROKER))[servers.name_servers] > 0
        assert (await admin.brokers.allow_writes(BROKER))[servers.name_servers] > 0

        await admin.groups.delete("billing", offsets=True)
        await admin.topics.delete("orders")
        assert "orders" not in await admin.topics.names()


async def _messages_and_offsets(admin: Admin, session: Session) -> None:
    key = session.keys.next(session.clock.now_ms())
    reply = await send(session, "orders", b"one", queue_id=1, keys="A1 A2", unique=key)
    await send(session, "orders", b"two", queue_id=1)
    assert (await admin.messages.by_id(reply.msg_id)).body == b"one"
    with pytest.raises(NoMessage):
        await admin.messages.by_id(reply.msg_id[:-16] + "00000000000FFFFF")
    async with asyncio.timeout(20):  # Apache's index follows its log in its own time
        while not (found := await admin.messages.by_key("orders", "A2")):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)
    assert [message.body for message in found] == [b"one"]
    (same,) = await admin.messages.by_unique_key("orders", key)
    assert same.queue == found[0].queue
    assert (await admin.messages.at(same.queue, QueueOffset(1))).body == b"two"
    assert (await admin.messages.at_time(same.queue, same.stored_ms)).body == b"one"
    assert (await admin.topics.stats("orders")).messages == 2
    places = await admin.offsets.of_group("billing", "orders")
    assert [(place.committed, place.end) for place in places] == [(None, 0), (None, 2)]
    await admin.offsets.move_to_ends("billing", "orders", newest=True)
    places = await admin.offsets.of_group("billing", "orders")
    assert [place.committed for place in places] == [0, 2]
    assert (await admin.offsets.at_time("orders", 0))[same.queue] == 0


async def _members(admin: Admin, session: Session) -> None:
    member = Part(produces=["p"], consumes=["billing"], topics=["orders"])
    session.join(member)
    await session.beat()
    (found,) = await admin.groups.members("billing")
    assert (found.client_id, found.brokers) == (session.client_id, (BROKER,))
    async with asyncio.timeout(20):
        while not member.changed_groups:  # noqa: ASYNC110 - Apache tells its members
            await asyncio.sleep(0.05)
    await session.leave(member)
    assert await admin.groups.members("billing") == []
