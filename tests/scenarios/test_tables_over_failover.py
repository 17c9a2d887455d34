"""What a broker remembers of topics and groups, when another one leads by then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.asking import commit, joining, message
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.scenarios.support.members import Member
from tests.waiting import until

from rocketpipe import Admin, Producer, PushConsumer, Retry
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.errors import RequestRejected
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import dlq_topic, retry_topic
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.clients import LockBatch, QueueClaim, UnregisterClient
from rocketpipe.protocol.requests.groups import GetGroupConfig, UpdateAndCreateGroup
from rocketpipe.protocol.requests.offsets import GetMinOffset, QueryConsumerOffset
from rocketpipe.protocol.requests.topics import GetTopicConfig
from rocketpipe.remoting.caller import Caller

pytestmark = pytest.mark.scenario

QUEUE = MessageQueue(topic="t", broker_name="broker-a", queue_id=0)


def claim(client_id: str) -> QueueClaim:
    return QueueClaim(consumer_group="g", client_id=client_id, queues=(QUEUE,))


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ElectedGroup]:
    async with elected_group(tmp_path) as made:
        yield made


async def test_what_was_answered_of_topics_and_groups_holds_at_the_next_leader(
    group: ElectedGroup,
) -> None:
    leader = await group.three()
    async with Admin(group.name_server) as admin, Caller() as caller:
        for name in ("made", "changed", "deleted"):
            await admin.topics.create(name, queues=2)
            await admin.groups.create(f"{name}-group")
        await caller.call(group.replicas[leader].address, message("deleted"))
        await admin.topics.update("changed", write_queues=5)
        await admin.groups.update("changed-group", max_attempts=4)
        await admin.topics.delete("deleted")
        await admin.groups.delete("deleted-group")
        address = group.replicas[await group.lose(leader)].address
        for name, queues in (("made", 2), ("changed", 5)):
            found = await caller.call(address, GetTopicConfig(topic=name))
            assert found.details.write_queues == queues
        for name, most in (("made-group", 16), ("changed-group", 3)):
            known = await caller.call(address, GetGroupConfig(group=name))
            assert known.settings.max_retries == most
        with pytest.raises(RequestRejected, match="No topic"):
            await caller.call(address, GetTopicConfig(topic="deleted"))
        assert "deleted-group" not in await admin.groups.names()
        # A topic of the name of one that is gone has nothing of it.
        reply = await caller.call(address, message("deleted", b"new"))
        least = await caller.call(address, GetMinOffset(topic="deleted", queue_id=0))
        assert least.offset == reply.queue_offset


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_places_of_groups_are_known_to_the_next_leader(
    group: ElectedGroup, mode: str
) -> None:
    leader = await group.three(offset_commit=mode)
    async with Caller() as caller:
        address = group.replicas[leader].address
        for number in range(20):
            await caller.call(address, message("t", b"%d" % number))
        await caller.call(address, UpdateAndCreateGroup(settings=GroupSettings(name="g")))
        await caller.call(address, commit("g", "t", 7))
        if mode == "async":
            tables = [each.core.tables for each in group.replicas.values()]
            await until(lambda: all(each.offsets.committed("g", "t", 0) == 7 for each in tables))
        address = group.replicas[await group.lose(leader)].address
        asked = QueryConsumerOffset(consumer_group="g", topic="t", queue_id=0)
        assert (await caller.call(address, asked)).offset == 7


async def test_a_queue_has_one_owner_over_a_failover(group: ElectedGroup) -> None:
    leader = await group.three()
    async with Caller() as caller:

        async def locked(member: str) -> frozenset[MessageQueue]:
            await caller.call(address, joining("g", member))
            reply = await caller.call(address, LockBatch(claim=claim(member)))
            return frozenset(reply.locked.queues)

        address = group.replicas[leader].address
        await caller.call(address, message("t"))
        assert await locked("one") == {QUEUE}
        leader = await group.lose(leader)
        address = group.replicas[leader].address
        assert await locked("two") == frozenset()
        assert await locked("one") == {QUEUE}
        await group.in_sync(1, 2, 3)
        # Who leaves the group has nothing more, and gets nothing; also at those who follow.
        await caller.call(address, UnregisterClient(client_id="one", consumer_group="g"))
        reply = await caller.call(address, LockBatch(claim=claim("one")))
        assert reply.locked.queues == ()
        assert await locked("two") == {QUEUE}
        address = group.replicas[await group.lose(leader)].address
        assert await locked("one") == frozenset()


async def test_what_failed_comes_again_from_the_next_leader_and_is_a_dead_letter_in_the_end(
    group: ElectedGroup,
) -> None:
    leader = await group.three(delay_levels="1s 1s 1s 1s 1s 1s")
    seen: list[tuple[bytes, int]] = []
    consumer = PushConsumer(group.name_server, group="g", tuning=PushTuning(max_attempts=3))

    @consumer.on("t")
    async def handle(each: Any) -> None:
        seen.append((each.body, each.reconsume_times))
        raise Retry

    async with Producer(group.name_server, timeout_ms=10_000) as producer:
        await producer.send("t", b"first of all")
        async with consumer:
            await producer.send("t", b"poison")
            await until(lambda: (b"poison", 0) in seen)
            leader = await group.lose(leader)
            await until(lambda: (b"poison", 1) in seen)
            await group.in_sync(1, 2, 3)
            await group.lose(leader)
            await until(lambda: (b"poison", 2) in seen)
            dead = group.replicas[await group.leader()].core.store
            await until(lambda: dead.max_offset(dlq_topic("g"), 0) >= 1)


async def test_a_new_leader_has_the_retry_topics_of_who_is_connected(group: ElectedGroup) -> None:
    """A group that came while nobody led: its next heartbeat is half a minute away."""
    leader = await group.three()
    async with AsyncExitStack() as stack:
        for number, each in group.replicas.items():
            if number != leader:
                member = Member(each.address)
                await stack.enter_async_context(member.caller)
                await member.join("late")
        topics = group.replicas[await group.lose(leader)].core.tables.topics
        await until(lambda: topics.get(retry_topic("late")) is not None)
        await group.in_sync(1, 2, 3)
        for each in group.replicas.values():
            tables = each.core.tables
            await until(lambda known=tables.topics: known.get(retry_topic("late")) is not None)
