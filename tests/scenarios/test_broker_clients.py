"""Clients over real sockets: who is there, who is told, and who owns which queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.support.members import both_servers
from tests.scenarios.support.raw_broker import driven_broker

from rocketpipe.broker.handlers.clients import SCAN_EVERY_MS
from rocketpipe.broker.tables.clients import SILENT_MS
from rocketpipe.broker.tables.queue_locks import LOCK_MS
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import MessageModel, Subscription
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.clients import (
    CheckClientConfig,
    ConsumerData,
    GetConsumerListByGroup,
    Heartbeat,
    HeartbeatData,
    LockBatch,
    QueueClaim,
    SubscriptionCheck,
    UnlockBatch,
    UnregisterClient,
)
from rocketpipe.testing.clock import ManualClock

pytestmark = pytest.mark.scenario

MEMBERS = GetConsumerListByGroup(consumer_group="g")


async def test_members_are_told_at_once_who_comes_goes_and_is_cut_off(tmp_path: Path) -> None:
    async with both_servers(tmp_path) as servers, servers.member("a") as first:
        await first.join()
        assert await first.told() == "g"
        async with servers.member("b") as second:
            await second.join(message_model=MessageModel.CLUSTERING)
            assert await second.told() == "g"
            assert await first.told() == "g"
            assert (await first.ask(MEMBERS)).members.consumer_ids == ("a", "b")
            async with servers.member("c") as third:
                await third.join()
                assert [await first.told(), await second.told()] == ["g", "g"]
                await third.ask(UnregisterClient(client_id="c", consumer_group="g"))
                assert [await first.told(), await second.told()] == ["g", "g"]
        assert await first.told() == "g"  # the connection of the second ended
        assert (await first.ask(MEMBERS)).members.consumer_ids == ("a",)
        await first.ask(UnregisterClient(client_id="a", consumer_group="g"))
        assert await first.refusal(MEMBERS) == (1, "no consumer for this group, g")
        assert not first.told_more


async def test_the_retry_topic_has_its_route_before_the_heartbeat_is_answered(
    tmp_path: Path,
) -> None:
    async with both_servers(tmp_path) as servers, servers.member() as member:
        assert await servers.route("%RETRY%g") is None
        await member.join()
        route = await servers.route("%RETRY%g")
        assert route is not None
        assert [(each.read_queues, each.write_queues, each.perm) for each in route.queues] == [
            (1, 1, 6)
        ]


async def test_who_is_silent_for_two_minutes_is_let_go(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        both_servers(tmp_path, clock=clock) as servers,
        servers.member("a") as first,
        servers.member("b") as second,
    ):
        await first.join()
        await second.join()
        assert [await first.told(), await first.told(), await second.told()] == ["g"] * 3
        passed = 0
        while passed < SILENT_MS:
            await clock.advance(SCAN_EVERY_MS)
            passed += SCAN_EVERY_MS
            await second.join()
        await clock.advance(SCAN_EVERY_MS)
        assert await second.told() == "g"
        assert (await second.ask(MEMBERS)).members.consumer_ids == ("b",)


async def test_a_client_with_fingerprints_need_not_repeat_itself(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:

        async def beat(fingerprint: int, *wanted: Subscription, short: bool = False) -> str:
            consumer = ConsumerData(group_name="g", subscriptions=wanted)
            data = HeartbeatData(
                client_id="c",
                consumers=(consumer,),
                heartbeat_fingerprint=fingerprint,
                without_sub=short,
            )
            answer = await driver.ask(Heartbeat(data=data))
            assert answer.code == 0
            assert answer.fields["IS_SUPPORT_HEART_BEAT_V2"] == "true"
            return answer.fields["IS_SUB_CHANGE"]

        wanted = Subscription(topic="t", expression="*")
        assert await beat(0, wanted) == "true"
        assert await beat(7, wanted) == "true"
        assert await beat(7, short=True) == "false"
        assert await beat(8, short=True) == "true"


def check(expression: str, kind: str) -> CheckClientConfig:
    wanted = Subscription(topic="t", expression=expression, expression_type=kind)
    return CheckClientConfig(check=SubscriptionCheck(client_id="c", group="g", subscription=wanted))


def claim(client_id: str, *queue_ids: int, group: str = "g", topic: str = "t") -> QueueClaim:
    queues = (
        MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id)
        for queue_id in queue_ids
    )
    return QueueClaim(consumer_group=group, client_id=client_id, queues=tuple(queues))


def beat(group: str, topic: str = "t", client_id: str = "c") -> Heartbeat:
    wanted = (Subscription(topic=topic, expression="*"),)
    consumer = ConsumerData(group_name=group, subscriptions=wanted)
    return Heartbeat(data=HeartbeatData(client_id=client_id, consumers=(consumer,)))


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (beat("../g"), 29, "group '../g'"),
        (beat("g", topic="a/b"), 29, "topic 'a/b'"),
        (beat("g", client_id=""), 29, "a client id has 1 to 1024 characters, not 0"),
        (MEMBERS, 1, "no consumer for this group, g"),
        (check("a >", "SQL92"), 23, "column"),
        (check("a", "ODD"), 23, "'ODD' is no kind of expression: use TAG or SQL92"),
        (LockBatch(claim=claim("c", 0, group="../g")), 29, "group '../g'"),
        (LockBatch(claim=claim("c", 0, topic="../t")), 29, "topic '../t'"),
    ],
)
async def test_each_refusal_has_its_code_and_remark(
    tmp_path: Path, request_: Request[Any], code: int, remark: str
) -> None:
    async with driven_broker(tmp_path) as driver:
        answer = await driver.ask(request_)
        assert answer.code == code
        assert remark in str(answer.remark)


async def test_expressions_are_checked_for_clients(tmp_path: Path) -> None:
    async with driven_broker(tmp_path / "on") as driver:
        assert (await driver.ask(check("a > 5 AND b IS NOT NULL", "SQL92"))).code == 0
        assert (await driver.ask(check("A || B", "TAG"))).code == 0
    async with driven_broker(tmp_path / "off", property_filter=False) as driver:
        answer = await driver.ask(check("a > 5", "SQL92"))
        assert answer.code == 1
        assert "does not support consumer to filter message by SQL92" in str(answer.remark)


async def test_a_group_that_was_not_made_by_an_operator_is_left_out(tmp_path: Path) -> None:
    def known(tables: Tables) -> None:
        tables.groups.update(GroupSettings(name="known"), 1)

    async with driven_broker(tmp_path, prepare=known, auto_create_groups=False) as driver:
        for group, code in (("known", 0), ("unknown", 1)):
            assert (await driver.ask(beat(group))).code == 0
            members = await driver.ask(GetConsumerListByGroup(consumer_group=group))
            assert members.code == code


async def test_a_queue_has_one_owner_for_a_minute(tmp_path: Path) -> None:
    clock = ManualClock()
    async with both_servers(tmp_path, clock=clock) as servers, servers.member() as member:

        async def locked(wanted: QueueClaim) -> list[int]:
            await member.ask(beat(wanted.consumer_group, client_id=wanted.client_id))
            reply = await member.ask(LockBatch(claim=wanted))
            return [queue.queue_id for queue in reply.locked.queues]

        assert await locked(claim("a", 0, 1)) == [0, 1]
        assert await locked(claim("b", 0, 1, 2)) == [2]
        await member.ask(UnlockBatch(claim=claim("a", 1)))
        assert await locked(claim("b", 0, 1)) == [1]
        await clock.advance(LOCK_MS)
        assert await locked(claim("b", 0)) == []
        await clock.advance(1)
        assert await locked(claim("b", 0)) == [0]
