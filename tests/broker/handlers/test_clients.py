"""Clients that come and go, on real sockets."""

from __future__ import annotations

import asyncio

import pytest

from rocketpipe.errors import RequestRejected
from rocketpipe.model.subscription import Subscription
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.callbacks import NotifyConsumerIdsChanged
from rocketpipe.protocol.requests.clients import (
    ConsumerData,
    GetConsumerListByGroup,
    Heartbeat,
    HeartbeatData,
    UnregisterClient,
)
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.testing import Cluster


class Member:
    """A client that notes when it is told of a change."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.told = asyncio.Event()
        self.caller = Caller(Router(self).answer)

    @handles(NotifyConsumerIdsChanged)
    async def changed(self, request: NotifyConsumerIdsChanged, call: Call) -> None:
        self.told.set()

    def heartbeat(self, group: str = "g") -> Heartbeat:
        consumer = ConsumerData(
            group_name=group, subscriptions=(Subscription(topic="t", expression="*"),)
        )
        return Heartbeat(data=HeartbeatData(client_id=self.client_id, consumers=(consumer,)))


async def members(servers: Cluster, caller: Caller) -> tuple[str, ...]:
    reply = await caller.call(servers.broker, GetConsumerListByGroup(consumer_group="g"))
    return reply.members.consumer_ids


async def test_a_group_knows_its_members_and_tells_them_who_comes_and_goes(
    servers: Cluster,
) -> None:
    first, second = Member("a"), Member("b")
    async with first.caller, asyncio.timeout(10):
        async with second.caller:
            await first.caller.call(servers.broker, first.heartbeat())
            await first.told.wait()
            first.told.clear()
            await second.caller.call(servers.broker, second.heartbeat())
            await first.told.wait()
            await second.told.wait()
            assert await members(servers, first.caller) == ("a", "b")
            first.told.clear()
        await first.told.wait()  # the second's connection ended
        assert await members(servers, first.caller) == ("a",)
        goodbye = UnregisterClient(client_id="a", consumer_group="g")
        await first.caller.call(servers.broker, goodbye)
        with pytest.raises(RequestRejected, match="no consumer for this group"):
            await members(servers, first.caller)


async def test_the_retry_topic_has_its_route_before_the_heartbeat_is_answered(
    servers: Cluster,
) -> None:
    member = Member("a")
    async with member.caller:
        await member.caller.call(servers.broker, member.heartbeat())
        request = GetRouteInfoByTopic(topic="%RETRY%g")
        reply = await member.caller.call(servers.name_server, request)
        assert reply.route.queues[0].read_queues == 1


async def test_a_group_with_an_illegal_name_is_refused(servers: Cluster) -> None:
    member = Member("a")
    async with member.caller:
        with pytest.raises(RequestRejected) as refused:
            await member.caller.call(servers.broker, member.heartbeat("../g"))
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
