"""Topics are created, changed, deleted, listed and shown."""

from __future__ import annotations

import pytest
from tests.client.admin.support.sent import send

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.fleet import NoBroker
from rocketpipe.client.admin.topics import TopicExists
from rocketpipe.client.session import Session
from rocketpipe.errors import InvalidName, NoRoute, RequestRejected
from rocketpipe.model.topic import MessageType, Perm


async def test_a_topic_that_is_created_can_be_seen_at_once(admin: Admin) -> None:
    await admin.topics.create("orders", queues=3, message_type=MessageType.FIFO, ordered=True)
    shown = await admin.topics.show("orders")
    (settings,) = shown.settings.values()
    assert (settings.read_queues, settings.write_queues, settings.ordered) == (3, 3, True)
    assert settings.message_type is MessageType.FIFO
    assert len(shown.route.writable_queues("orders")) == 3


async def test_a_topic_is_created_once(admin: Admin) -> None:
    await admin.topics.create("orders")
    with pytest.raises(TopicExists, match=r"'orders' exists at .*: update it instead"):
        await admin.topics.create("orders")


@pytest.mark.parametrize(
    ("topic", "error"), [("a b", InvalidName), ("TBW102", TopicExists), ("", InvalidName)]
)
async def test_a_bad_name_is_refused_by_name(
    admin: Admin, topic: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await admin.topics.create(topic)


async def test_an_unknown_broker_or_cluster_is_named(admin: Admin) -> None:
    with pytest.raises(NoBroker, match="no cluster 'x'"):
        await admin.topics.create("orders", cluster="x")
    with pytest.raises(NoBroker, match="no broker 'x'"):
        await admin.topics.create("orders", broker="x")


async def test_a_change_leaves_alone_what_it_does_not_name(admin: Admin) -> None:
    await admin.topics.create("orders", queues=4, attributes={"reserve.time": "5"})
    await admin.topics.update("orders", write_queues=2, perm=Perm.READ)
    (settings,) = (await admin.topics.show("orders")).settings.values()
    assert (settings.read_queues, settings.write_queues, settings.perm) == (4, 2, Perm.READ)
    assert settings.attributes == {"reserve.time": "5"}
    await admin.topics.update("orders", attributes={"reserve.time": None, "message.type": "DELAY"})
    (settings,) = (await admin.topics.show("orders")).settings.values()
    assert settings.attributes == {"message.type": "DELAY"}
    assert settings.write_queues == 2


async def test_what_the_broker_refuses_is_told_in_its_words(admin: Admin) -> None:
    with pytest.raises(RequestRejected, match="is not known"):
        await admin.topics.create("orders", attributes={"colour": "red"})
    with pytest.raises(NoRoute, match="create it first"):
        await admin.topics.update("orders", read_queues=1)


async def test_a_deleted_topic_is_gone_and_may_be_deleted_again(
    admin: Admin, session: Session
) -> None:
    await admin.topics.create("orders")
    await send(session, "orders", b"1")
    await admin.topics.delete("orders")
    assert "orders" not in await admin.topics.names(internal=True)
    await admin.topics.delete("orders")
    with pytest.raises(RequestRejected, match="system topic"):
        await admin.topics.delete("TBW102")


async def test_users_see_their_own_topics_unless_they_ask_for_all(admin: Admin) -> None:
    await admin.topics.create("orders")
    await admin.topics.create("%RETRY%g")
    assert await admin.topics.names() == ["orders"]
    everything = await admin.topics.names(internal=True)
    assert {"orders", "%RETRY%g", "TBW102"} <= set(everything)
    (cluster,) = await admin.brokers.clusters()
    assert await admin.topics.names(cluster=cluster) == ["orders"]
    assert await admin.topics.names(cluster="x") == []


async def test_stats_count_every_queue(admin: Admin, session: Session) -> None:
    await admin.topics.create("orders", queues=2)
    for queue_id in (0, 1, 1):
        await send(session, "orders", b"x", queue_id=queue_id)
    stats = await admin.topics.stats("orders")
    assert [(each.queue.queue_id, each.least, each.end) for each in stats.queues] == [
        (0, 0, 1),
        (1, 0, 2),
    ]
    assert stats.messages == 3
    assert all(each.last_stored_ms is not None for each in stats.queues)


async def test_an_unknown_topic_is_answered_with_those_that_are_near(admin: Admin) -> None:
    await admin.topics.create("orders")
    with pytest.raises(NoRoute, match="the nearest is 'orders'"):
        await admin.topics.show("order")
