"""What brokers keep from consumers for now can be listed."""

from __future__ import annotations

import pytest

from rocketpipe import Producer
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.fleet import NoBroker
from rocketpipe.client.session import Session
from rocketpipe.model.ids import RecallHandle


async def test_open_transactions_are_listed_with_their_group(
    session: Session, admin: Admin
) -> None:
    assert await admin.waiting.transactions() == []
    async with Producer(session, group="shop") as producer:
        async with producer.transaction("t", b"decided"):
            pass
        ids = []
        for number in range(40):
            async with producer.transaction("t", b"%d" % number) as begun:
                begun.unknown()
            ids.append(begun.message_id)
        async with producer.transaction("t", b"open now"):
            listed = await admin.waiting.transactions()
            assert len(listed) == 41
        listed = await admin.waiting.transactions(broker="broker-a")
        assert [each.message_id for each in listed] == ids
        assert {(each.broker, each.topic, each.group, each.checks) for each in listed} == {
            ("broker-a", "t", "shop", 0)
        }
        assert all(0 <= each.age_ms < 600_000 for each in listed)
        assert len(await admin.waiting.transactions(limit=7)) == 7


async def test_timed_messages_are_listed_until_they_are_taken_back(
    session: Session, admin: Admin
) -> None:
    assert await admin.waiting.timed() == []
    async with Producer(session) as producer:
        due_ms = session.clock.now_ms() + 600_000
        exact = await producer.send("t", b"exact", deliver_at=due_ms)
        await producer.send("u", b"by delay", delay=60)
        (second, first) = reversed(await admin.waiting.timed())
        assert (first.topic, second.topic) == ("u", "t")
        assert (second.due_ms, second.recall_handle) == (due_ms, exact.recall_handle)
        assert RecallHandle.parse(first.recall_handle).topic == "u"
        await producer.recall("u", first.recall_handle)
        assert [each.topic for each in await admin.waiting.timed()] == ["t"]
        assert await admin.waiting.timed(topic="u") == []


async def test_a_broker_that_is_not_there_has_nothing_to_list(admin: Admin) -> None:
    with pytest.raises(NoBroker, match="broker-z"):
        await admin.waiting.transactions(broker="broker-z")
    with pytest.raises(NoBroker, match="broker-z"):
        await admin.waiting.timed(broker="broker-z")
