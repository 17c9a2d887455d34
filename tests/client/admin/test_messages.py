"""Single messages are found by id, by key and by place."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.admin.support.sent import send

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.fleet import NoBroker
from rocketpipe.client.admin.messages import NoMessage
from rocketpipe.client.session import Session
from rocketpipe.errors import InvalidName, NoRoute
from rocketpipe.model.host import Host
from rocketpipe.model.ids import OffsetId
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.remoting.accepting import address_text


async def queue_of(admin: Admin, topic: str, queue_id: int = 0) -> MessageQueue:
    (broker,) = await admin.brokers.all()
    return MessageQueue(topic=topic, broker_name=broker.name, queue_id=queue_id)


async def test_a_message_is_found_by_its_place_in_the_log(admin: Admin, session: Session) -> None:
    await admin.topics.create("orders")
    reply = await send(session, "orders", b"one", queue_id=1)
    found = await admin.messages.by_id(reply.msg_id)
    assert found.body == b"one"
    assert found.queue == await queue_of(admin, "orders", 1)
    assert found.offset_id == reply.msg_id


async def test_an_id_of_nothing_is_told_so(admin: Admin, session: Session) -> None:
    await admin.topics.create("orders")
    reply = await send(session, "orders", b"one")
    nothing = reply.msg_id[:-16] + "00000000000FFFFF"
    with pytest.raises(NoMessage, match=f"no message {nothing}: can not find"):
        await admin.messages.by_id(nothing)
    with pytest.raises(InvalidName, match="offset id"):
        await admin.messages.by_id("x")


async def test_an_id_does_not_choose_whom_a_client_connects_to(admin: Admin) -> None:
    connected = asyncio.Event()

    async def elsewhere(reader: object, writer: asyncio.StreamWriter) -> None:
        connected.set()
        writer.close()

    async with await asyncio.start_server(elsewhere, "127.0.0.1", 0) as server:
        address = address_text(server.sockets[0].getsockname())
        made_up = str(OffsetId(Host.parse(address), LogOffset(0)))
        with pytest.raises(NoBroker, match=f"no broker of the cluster is at {address}"):
            await admin.messages.by_id(made_up)
    assert not connected.is_set()


async def test_a_message_is_found_by_the_id_its_producer_gave_it(
    admin: Admin, session: Session
) -> None:
    await admin.topics.create("orders")
    key = session.keys.next(session.clock.now_ms())
    await send(session, "orders", b"other")
    await send(session, "orders", b"one", unique=key)
    (found,) = await admin.messages.by_unique_key("orders", key)
    assert (found.body, found.message_id) == (b"one", key)
    assert await admin.messages.by_unique_key("orders", "0" * 32) == []


async def test_messages_of_a_key_come_newest_first(admin: Admin, session: Session) -> None:
    await admin.topics.create("orders")
    for number in range(3):
        await send(session, "orders", b"%d" % number, keys=f"A1 B{number}")
    await send(session, "orders", b"none")
    found = await admin.messages.by_key("orders", "A1")
    assert sorted(message.body for message in found) == [b"0", b"1", b"2"]
    assert [m.stored_ms for m in found] == sorted((m.stored_ms for m in found), reverse=True)
    assert [message.body for message in await admin.messages.by_key("orders", "B2")] == [b"2"]
    assert len(await admin.messages.by_key("orders", "A1", limit=2)) == 2
    assert await admin.messages.by_key("orders", "A1", end_ms=1) == []
    with pytest.raises(ValueError, match="from 1 to 64"):
        await admin.messages.by_key("orders", "A1", limit=0)
    with pytest.raises(NoRoute):
        await admin.messages.by_key("unknown", "A1")


async def test_a_message_is_read_at_its_offset(admin: Admin, session: Session) -> None:
    await admin.topics.create("orders")
    for body in (b"0", b"1"):
        await send(session, "orders", body)
    queue = await queue_of(admin, "orders")
    assert (await admin.messages.at(queue, QueueOffset(1))).body == b"1"
    with pytest.raises(NoMessage, match="it has offsets from 0 up to 2"):
        await admin.messages.at(queue, QueueOffset(2))


async def test_a_message_is_found_by_when_it_was_stored(admin: Admin, session: Session) -> None:
    await admin.topics.create("orders")
    await send(session, "orders", b"0")
    queue = await queue_of(admin, "orders")
    stored_ms = (await admin.messages.at(queue, QueueOffset(0))).stored_ms
    assert (await admin.messages.at_time(queue, stored_ms)).body == b"0"
    assert (await admin.messages.at_time(queue, 0)).body == b"0"
    with pytest.raises(NoMessage):
        await admin.messages.at_time(queue, stored_ms + 3_600_000)
