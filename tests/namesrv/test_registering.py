"""What a NameServer answers to brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rocketpipe.errors import RequestRejected
from rocketpipe.model.topic import DataVersion
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.kv import PutKeyValue
from rocketpipe.protocol.requests.membership import (
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    QueryDataVersion,
)
from rocketpipe.protocol.requests.routes import (
    GetRouteInfoByTopic,
    RegisterBroker,
    UnregisterBroker,
)

Desks = Callable[..., Any]
Announce = Callable[..., RegisterBroker]

ROUTE = GetRouteInfoByTopic(topic="t")
FIRST = DataVersion(counter=1)


async def refused(asking: Any) -> RequestRejected:
    with pytest.raises(RequestRejected) as caught:
        await asking
    return caught.value


@pytest.mark.parametrize("compressed", [False, True])
async def test_what_a_broker_registers_clients_find(desk: Desks, compressed: bool) -> None:
    made = desk()
    await made.register(compressed=compressed)
    reply = await made.ask(ROUTE)
    assert len(reply.route.writable_queues("t")) == 16


async def test_a_damaged_registration_is_refused(desk: Desks) -> None:
    made = desk()
    error = await refused(made.register(body_crc32=1))
    assert error.code == ResponseCode.SYSTEM_ERROR
    assert error.remark.startswith("crc32 not match")
    assert (await refused(made.ask(ROUTE))).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_checksum_of_zero_is_not_checked(desk: Desks) -> None:
    made = desk()
    await made.register(body_crc32=0)
    assert (await made.ask(ROUTE)).route.queues


async def test_a_registration_that_is_no_json_is_refused(desk: Desks) -> None:
    error = await refused(desk().register(body=b"{not json", body_crc32=0))
    assert error.code == ResponseCode.SYSTEM_ERROR


async def test_a_registration_without_a_body_names_no_topics(desk: Desks) -> None:
    made = desk()
    await made.register(body=b"", body_crc32=0)
    assert made.routes.members("broker-a") == {0: "10.0.0.0:10911"}


async def test_a_single_topic_of_a_stranger_is_refused_and_of_a_known_broker_taken(
    desk: Desks,
) -> None:
    made = desk()
    error = await refused(made.register("t"))
    assert error.code == ResponseCode.SYSTEM_ERROR
    assert error.remark.startswith("register broker failed")
    await made.register()
    await made.register("new", data_version=DataVersion(counter=2))
    assert made.routes.topics() == {"t", "u", "new"}


async def test_a_follower_learns_who_leads_and_a_leader_does_not(desk: Desks) -> None:
    made = desk()
    leader = await made.register(number=0)
    assert (leader.master_addr, leader.ha_server_addr) == (None, None)
    follower = await made.register(number=1)
    assert follower.master_addr == "10.0.0.0:10911"
    assert follower.ha_server_addr == "10.0.0.0:10912"


async def test_a_follower_without_a_leader_is_told_nothing(desk: Desks) -> None:
    reply = await desk().register(number=1)
    assert (reply.master_addr, reply.ha_server_addr) == (None, None)


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_broker_learns_which_topics_are_ordered(desk: Desks, enabled: bool) -> None:
    made = desk(order_to_brokers=enabled)
    assert (await made.register()).order_settings is None
    await made.ask(PutKeyValue(namespace="ORDER_TOPIC_CONFIG", key="t", value="broker-a:4"))
    order = (await made.register()).order_settings
    assert (order.table if order else None) == ({"t": "broker-a:4"} if enabled else None)


async def test_an_older_process_under_the_same_id_is_ignored_but_not_refused(desk: Desks) -> None:
    made = desk()
    await made.register(data_version=DataVersion(state_version=2))
    reply = await made.register(
        broker_addr="10.0.0.7:10911", data_version=DataVersion(state_version=1)
    )
    assert reply.master_addr is None
    assert made.routes.members("broker-a") == {0: "10.0.0.0:10911"}


async def test_a_zone_comes_beside_the_header(desk: Desks, announce: Announce) -> None:
    made = desk()
    await made.ask(announce(), __ZONE_NAME="zone-1")
    assert (await made.ask(ROUTE)).route.brokers[0].zone_name == "zone-1"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"broker_name": "../x"}, "broker '../x'"),
        ({"broker_name": ""}, "broker ''"),
        ({"cluster_name": "a/b"}, "cluster 'a/b'"),
        ({"broker_name": "x" * 200}, "more than 127 characters"),
        ({"broker_addr": "nowhere"}, "'nowhere' is not host:port"),
        ({"broker_addr": "h:99999"}, "is not host:port"),
        ({"broker_addr": "h\n:1"}, "is no address"),
        ({"ha_server_addr": "nowhere"}, "'nowhere' is not host:port"),
        ({"broker_id": -1}, "brokerId -1"),
    ],
)
async def test_a_broker_that_names_itself_wrongly_is_refused(
    desk: Desks, fields: dict[str, Any], words: str
) -> None:
    made = desk()
    error = await refused(made.register(**fields))
    assert error.code == ResponseCode.INVALID_PARAMETER
    assert words in error.remark
    assert made.routes.everyone().brokers == {}


async def test_more_brokers_than_are_kept_are_refused(desk: Desks) -> None:
    made = desk(max_brokers=1)
    await made.register(number=0)
    error = await refused(made.register(number=1))
    assert error.code == ResponseCode.SYSTEM_ERROR
    assert "maxBrokers" in error.remark


async def test_a_broker_is_gone_when_it_says_goodbye(desk: Desks) -> None:
    made = desk()
    goodbye = UnregisterBroker(
        broker_name="broker-a", broker_addr="10.0.0.0:10911", cluster_name="c", broker_id=0
    )
    await made.ask(goodbye)
    await made.register()
    await made.ask(goodbye)
    assert (await refused(made.ask(ROUTE))).code == ResponseCode.TOPIC_NOT_EXIST


def query(version: DataVersion, *, cluster: str = "c") -> QueryDataVersion:
    return QueryDataVersion(
        broker_name="broker-a",
        broker_addr="10.0.0.0:10911",
        cluster_name=cluster,
        broker_id=0,
        version=version,
    )


async def test_a_broker_learns_whether_its_version_is_known(desk: Desks) -> None:
    made = desk()
    reply = await made.ask(query(FIRST))
    assert (reply.changed, reply.version) == (True, None)
    await made.register(data_version=FIRST)
    reply = await made.ask(query(FIRST))
    assert (reply.changed, reply.version) == (False, FIRST)
    reply = await made.ask(query(DataVersion(counter=2)))
    assert (reply.changed, reply.version) == (True, FIRST)
    assert (await made.ask(query(FIRST, cluster="other"))).version is None


@pytest.mark.parametrize(
    "still_here",
    [
        query(FIRST),
        BrokerHeartbeat(cluster_name="c", broker_addr="10.0.0.0:10911", broker_name="broker-a"),
    ],
    ids=["version", "heartbeat"],
)
async def test_a_question_or_a_heartbeat_keeps_a_broker_alive(desk: Desks, still_here: Any) -> None:
    made = desk()
    await made.ask(still_here)
    await made.register(heartbeat_timeout_millis=10_000)
    await made.clock.advance(9_000)
    await made.ask(still_here)
    await made.clock.advance(9_000)
    made.membership.expire()
    assert (await made.ask(ROUTE)).route.queues
    await made.clock.advance(1_001)
    made.membership.expire()
    assert (await refused(made.ask(ROUTE))).code == ResponseCode.TOPIC_NOT_EXIST


async def test_members_of_a_name_are_told(desk: Desks) -> None:
    made = desk()
    await made.register(number=0)
    await made.register(number=1)
    reply = await made.ask(GetBrokerMemberGroup(cluster_name="c", broker_name="broker-a"))
    assert reply.group.members.addresses == {0: "10.0.0.0:10911", 1: "10.0.0.1:10911"}
    nobody = await made.ask(GetBrokerMemberGroup(cluster_name="c", broker_name="nobody"))
    assert nobody.group.members.addresses == {}
    assert nobody.group.members.broker_name == "nobody"
