"""What a NameServer answers, over real sockets."""

from __future__ import annotations

import asyncio

import pytest

from rocketpipe.errors import RequestRejected
from rocketpipe.model.topic import TopicSettings
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.registration import (
    Registration,
    TopicTableData,
    registration_crc,
    write_registration,
)
from rocketpipe.protocol.requests.routes import (
    GetBrokerClusterInfo,
    GetRouteInfoByTopic,
    RegisterBroker,
    UnregisterBroker,
)
from rocketpipe.remoting.caller import Caller

TOPICS = Registration(topic_table=TopicTableData(topics={"t": TopicSettings(name="t")}))


def registration(*, broker_id: int = 0, compressed: bool = False) -> RegisterBroker:
    body = write_registration(TOPICS, compressed=compressed)
    return RegisterBroker(
        broker_name="broker-a",
        broker_addr=f"10.0.0.{broker_id}:10911",
        cluster_name="c",
        ha_server_addr="",
        broker_id=broker_id,
        compressed=compressed,
        body_crc32=registration_crc(body),
        body=body,
    )


@pytest.mark.parametrize("compressed", [False, True])
async def test_what_a_broker_registers_clients_find(compressed: bool) -> None:
    async with name_server(port=0) as address, Caller() as caller:
        await caller.call(address, registration(compressed=compressed))
        reply = await caller.call(address, GetRouteInfoByTopic(topic="t"))
        assert len(reply.route.writable_queues("t")) == 16


async def test_an_unknown_topic_is_refused_in_the_words_clients_show() -> None:
    async with name_server(port=0) as address, Caller() as caller:
        with pytest.raises(RequestRejected) as refused:
            await caller.call(address, GetRouteInfoByTopic(topic="nowhere"))
        assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST
        assert refused.value.remark.startswith(
            "No topic route info in name server for the topic: nowhere"
        )


async def test_a_damaged_registration_is_refused() -> None:
    async with name_server(port=0) as address, Caller() as caller:
        damaged = RegisterBroker(
            broker_name="broker-a",
            broker_addr="10.0.0.0:10911",
            cluster_name="c",
            ha_server_addr="",
            broker_id=0,
            body_crc32=1,
            body=write_registration(TOPICS),
        )
        with pytest.raises(RequestRejected, match="crc32 not match"):
            await caller.call(address, damaged)


async def test_a_follower_learns_who_leads() -> None:
    async with name_server(port=0) as address, Caller() as caller, Caller() as other:
        await caller.call(address, registration(broker_id=0))
        reply = await other.call(address, registration(broker_id=1))
        assert reply.master_addr == "10.0.0.0:10911"


async def test_a_broker_is_gone_when_it_says_goodbye() -> None:
    async with name_server(port=0) as address, Caller() as caller:
        await caller.call(address, registration())
        goodbye = UnregisterBroker(
            broker_name="broker-a", broker_addr="10.0.0.0:10911", cluster_name="c", broker_id=0
        )
        await caller.call(address, goodbye)
        with pytest.raises(RequestRejected):
            await caller.call(address, GetRouteInfoByTopic(topic="t"))


async def test_a_broker_is_gone_when_its_connection_is() -> None:
    async with name_server(port=0) as address, Caller() as client:
        async with Caller() as broker:
            await broker.call(address, registration())
            await client.call(address, GetRouteInfoByTopic(topic="t"))
        async with asyncio.timeout(5):
            while True:
                try:
                    await client.call(address, GetRouteInfoByTopic(topic="t"))
                except RequestRejected:
                    break


async def test_a_broker_that_reconnected_outlives_its_old_connection() -> None:
    async with name_server(port=0) as address, Caller() as client, Caller() as second:
        async with Caller() as first:
            await first.call(address, registration())
            await second.call(address, registration())
        # The first connection's end was seen before this answer: the server closes it in turn.
        await client.call(address, GetRouteInfoByTopic(topic="t"))


async def test_every_broker_is_named_by_its_cluster() -> None:
    async with name_server(port=0) as address, Caller() as caller, Caller() as other:
        nobody = await caller.call(address, GetBrokerClusterInfo())
        assert nobody.cluster_brokers.clusters == {}
        await caller.call(address, registration(broker_id=0))
        await other.call(address, registration(broker_id=1))
        reply = await caller.call(address, GetBrokerClusterInfo())
    assert reply.cluster_brokers.clusters == {"c": ("broker-a",)}
    (members,) = reply.cluster_brokers.members("c").values()
    assert members.addresses == {0: "10.0.0.0:10911", 1: "10.0.0.1:10911"}
