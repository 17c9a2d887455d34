"""An operator looks at a broker at work, moves its groups, and asks its consumers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.client.admin.support.sent import send
from tests.waiting import PATIENCE_S, until

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.clients import NotOnline
from rocketpipe.client.consumer.outcome import Retry
from rocketpipe.client.consumer.push import PushConsumer
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.running import DirectOutcome
from rocketpipe.testing import cluster

pytestmark = pytest.mark.scenario

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def test_a_running_group_goes_on_where_an_operator_says(tmp_path: Path) -> None:
    got: list[bytes] = []
    async with (
        cluster(tmp_path) as servers,
        Session(servers.name_server) as session,
        Admin(session) as admin,
    ):
        await admin.topics.create("orders", queues=2)
        for number in range(4):
            await send(session, "orders", b"%d" % number, queue_id=number % 2)
        consumer = PushConsumer(servers.name_server, group="billing", start=FIRST)

        @consumer.on("orders")
        async def take(message: ReceivedMessage) -> None:
            got.append(message.body)

        async with consumer:
            await until(lambda: len(got) == 4)
            places = await admin.clients.places("billing", "orders")
            assert {sum(where.values()) for where in places.values()} == {4}

            moves = await admin.progress.reset("billing", "orders", to_ms=0, preview=True)
            assert [move.after for move in moves] == [0, 0]
            assert len(got) == 4

            moves = await admin.progress.reset("billing", "orders", to_ms=0)
            assert [move.after for move in moves] == [0, 0]
            await until(lambda: len(got) == 8)
            assert sorted(got) == sorted([b"0", b"1", b"2", b"3"] * 2)

            one = MessageQueue(topic="orders", broker_name="broker-a", queue_id=1)
            await admin.progress.reset("billing", "orders", to_offset=1, queue=one)
            await until(lambda: len(got) == 9)
            assert got[-1] == b"3"

        lag = await admin.progress.of_group("billing", "orders")
        assert [(each.committed, each.end) for each in lag.queues] == [(2, 2), (2, 2)]
        assert lag.rate > 0


async def test_a_group_without_members_is_moved_and_cloned(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as servers,
        Session(servers.name_server) as session,
        Admin(session) as admin,
    ):
        await admin.topics.create("orders", queues=1)
        await admin.groups.create("billing")
        for number in range(3):
            await send(session, "orders", b"%d" % number)
        await admin.progress.reset("billing", "orders", to_end=True)
        (place,) = await admin.offsets.of_group("billing", "orders")
        assert place.committed == 3

        # Without leave to skip, a group that is behind stays where it is.
        await admin.progress.reset("billing", "orders", to_ms=0)
        (move,) = await admin.progress.reset("billing", "orders", to_end=True, may_skip=False)
        assert (move.before, move.after) == (0, 0)

        queue = place.queue
        await admin.progress.reset("billing", "orders", to_offset=2, queue=queue)
        (planned,) = await admin.progress.clone("billing", "audit", preview=True)
        assert (planned.before, planned.after) == (None, 2)
        assert (await admin.offsets.of_group("audit", "orders"))[0].committed is None
        await admin.progress.clone("billing", "audit")
        assert (await admin.offsets.of_group("audit", "orders"))[0].committed == 2
        assert await admin.progress.topics_of("audit") == ["orders"]
        assert await admin.progress.groups_of("orders") == ["audit", "billing"]

        (span,) = await admin.progress.spans("billing", "orders")
        assert 0 < span.min_time_stamp <= span.consume_time_stamp <= span.max_time_stamp
        with pytest.raises(RequestRejected, match=r"not in consume queue range \[0-3\]"):
            await admin.progress.reset("billing", "orders", to_offset=9, queue=queue)
        with pytest.raises(RequestRejected) as unknown:
            await admin.progress.reset("nobody", "orders", to_ms=0)
        assert unknown.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_a_consumer_tells_how_it_fares_and_handles_a_message_on_demand(
    tmp_path: Path,
) -> None:
    asked: list[bytes] = []
    async with (
        cluster(tmp_path) as servers,
        Session(servers.name_server) as session,
        Admin(session) as admin,
    ):
        await admin.topics.create("orders", queues=1)
        stored = await send(session, "orders", b"one")
        with pytest.raises(NotOnline):
            await admin.clients.consumers("billing")
        consumer = PushConsumer(servers.name_server, group="billing", start=FIRST)

        @consumer.on("orders", tags="*")
        async def take(message: ReceivedMessage) -> None:
            asked.append(message.body)
            if len(asked) == 2:
                raise Retry("not now")
            if len(asked) == 3:
                raise LookupError("no such account")

        async with consumer:
            await until(lambda: len(asked) == 1)
            client_id = consumer.session.client_id
            group = await admin.clients.consumers("billing")
            assert [each.client_id for each in group.members] == [client_id]
            assert group.subscriptions["orders"].expression == "*"

            info = await admin.clients.running_info("billing", client_id, stacks=True)
            assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            assert {queue.topic for queue in info.queues} >= {"orders"}
            assert info.rates["orders"].consume_ok_tps > 0
            assert "task " in (info.stacks or "")
            with pytest.raises(NotOnline):
                await admin.clients.running_info("billing", "somebody else")

            outcomes = []
            for _ in range(3):
                result = await admin.clients.consume_directly("billing", client_id, stored.msg_id)
                outcomes.append((result.outcome, result.remark))
            assert outcomes == [
                (DirectOutcome.CR_LATER, "not now"),
                (DirectOutcome.CR_THROW_EXCEPTION, "LookupError: no such account"),
                (DirectOutcome.CR_SUCCESS, None),
            ]
            assert asked == [b"one"] * 4
            with pytest.raises(RequestRejected, match="not online"):
                await admin.clients.consume_directly("billing", "nobody", stored.msg_id)


async def test_settings_change_while_the_broker_runs_or_say_why_not(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as servers,
        Session(servers.name_server) as session,
        Admin(session) as admin,
    ):
        await admin.topics.create("orders", queues=1)
        assert (await admin.brokers.settings("broker-a"))["maxMessageSize"] == str(4 << 20)
        await admin.brokers.change("broker-a", {"maxMessageSize": "100"})
        with pytest.raises(RequestRejected) as too_long:
            await send(session, "orders", b"x" * 101)
        assert too_long.value.code == ResponseCode.MESSAGE_ILLEGAL
        await send(session, "orders", b"x" * 100)

        await admin.brokers.change("broker-a", {"brokerPermission": "4"})
        route = await session.routes.get("orders")
        session.routes.forget("orders")
        async with asyncio.timeout(PATIENCE_S):
            while route.writable_queues("orders"):
                await session.routes.refresh("orders")
                route = await session.routes.get("orders")

        for key, value, code, said in (
            ("storePathRootDir", "elsewhere", 16, "where the broker starts"),
            ("brokerName", "other", 16, "where the broker starts"),
            ("defaultTopicQueueNums", "4", 29, "restart"),
            ("maxMessageSize", "many", 29, "a whole number"),
            ("noSuchThing", "1", 29, "maxMessageSize"),
        ):
            with pytest.raises(RequestRejected, match=said) as refused:
                await admin.brokers.change("broker-a", {key: value, "traceOn": "false"})
            assert refused.value.code == code
        assert (await admin.brokers.settings("broker-a"))["traceOn"] == "true"


async def test_a_broker_tells_how_it_fares_and_cleans_up(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as servers,
        Session(servers.name_server) as session,
        Admin(session) as admin,
    ):
        await admin.topics.create("orders", queues=1)
        for _ in range(5):
            await send(session, "orders", b"body")
        values = await admin.brokers.runtime("broker-a")
        assert values["putMessageTimesTotal"] == values["msgPutTotalTodayNow"] == "5"
        assert len(values["putTps"].split()) == 3
        assert float(values["putTps"].split()[0]) > 0
        assert values["commitLogMaxOffset"] != "0"
        assert values["scheduleMessageOffset_18"] == "0,0"

        counted = await admin.brokers.stats("broker-a", "TOPIC_PUT_NUMS", "orders")
        assert counted.day is not None
        assert counted.day.total == 5
        with pytest.raises(RequestRejected, match="not exist"):
            await admin.brokers.stats("broker-a", "TOPIC_PUT_NUMS", "nothing")

        await admin.brokers.clean_queues()
        await admin.brokers.clean_topics()
        await admin.brokers.delete_expired(broker="broker-a")
        assert (await admin.topics.stats("orders")).messages == 5
