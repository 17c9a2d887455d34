"""NameServers on real sockets: every request they answer, and brokers that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.errors import RequestRejected
from rocketpipe.model.route import BrokerQueues, TopicRoute
from rocketpipe.model.topic import DataVersion, TopicSettings
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.kv import (
    DeleteKeyValue,
    GetKeyValue,
    GetKeyValues,
    GetNamesrvConfig,
    PutKeyValue,
    UpdateNamesrvConfig,
)
from rocketpipe.protocol.requests.membership import (
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    NotifyMinBrokerIdChange,
    QueryDataVersion,
)
from rocketpipe.protocol.requests.registration import (
    Registration,
    TopicTableData,
    registration_crc,
    write_registration,
)
from rocketpipe.protocol.requests.routes import (
    AddWritePerm,
    DeleteTopicInNamesrv,
    GetAllTopics,
    GetBrokerClusterInfo,
    GetRouteInfoByTopic,
    GetSystemTopics,
    GetTopicsByCluster,
    GetUnitSubscribedPlainTopics,
    GetUnitSubscribedTopics,
    GetUnitTopics,
    RegisterBroker,
    RegisterTopicInNamesrv,
    UnregisterBroker,
    WipeWritePerm,
)
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server
from rocketpipe.testing import ManualClock

pytestmark = pytest.mark.scenario

VERSION = DataVersion(counter=3, timestamp=1_700_000_000_000)
ROUTE = GetRouteInfoByTopic(topic="t")
NO_ROUTE = (
    ResponseCode.TOPIC_NOT_EXIST,
    "No topic route info in name server for the topic: t",
)


def registration(number: int = 0, *, name: str = "broker-a", **fields: Any) -> RegisterBroker:
    table = {
        "t": TopicSettings(name="t", read_queues=4, write_queues=4),
        "unit": TopicSettings(name="unit", sys_flag=1),
        "sub": TopicSettings(name="sub", sys_flag=2),
    }
    body = write_registration(
        Registration(topic_table=TopicTableData(topics=table, version=VERSION))
    )
    told: dict[str, Any] = {
        "broker_name": name,
        "broker_addr": f"10.0.0.{number}:10911",
        "cluster_name": "c",
        "ha_server_addr": f"10.0.0.{number}:10912",
        "broker_id": number,
        "body_crc32": registration_crc(body),
        "body": body,
    }
    return RegisterBroker(**{**told, **fields})


def query(version: DataVersion) -> QueryDataVersion:
    return QueryDataVersion(
        broker_name="broker-a",
        broker_addr="10.0.0.0:10911",
        cluster_name="c",
        broker_id=0,
        version=version,
    )


def added(broker: str) -> RegisterTopicInNamesrv:
    queues = BrokerQueues(broker_name=broker, read_queues=1, write_queues=1, perm=6)
    return RegisterTopicInNamesrv(topic="new", route=TopicRoute(queues=(queues,)))


@asynccontextmanager
async def one_broker(**settings: Any) -> AsyncIterator[tuple[str, Caller]]:
    """A NameServer that ``broker-a`` is registered with, and a caller that is someone else."""
    async with (
        name_server(NamesrvConfig(port=0, **settings)) as address,
        Caller() as broker,
        Caller() as client,
    ):
        await broker.call(address, registration())
        yield address, client


Check = Callable[[Any], object]

ANSWERED: list[tuple[Request[Any], Check]] = [
    (PutKeyValue(namespace="n", key="k", value="v"), lambda reply: reply is None),
    (GetKeyValue(namespace="had", key="k"), lambda reply: reply.value == "v"),
    (DeleteKeyValue(namespace="had", key="k"), lambda reply: reply is None),
    (GetKeyValues(namespace="had"), lambda reply: reply.values.table == {"k": "v"}),
    (registration(1), lambda reply: reply.master_addr == "10.0.0.0:10911"),
    (
        UnregisterBroker(
            broker_name="broker-a", broker_addr="10.0.0.0:10911", cluster_name="c", broker_id=0
        ),
        lambda reply: reply is None,
    ),
    (ROUTE, lambda reply: len(reply.route.writable_queues("t")) == 4),
    (
        GetBrokerClusterInfo(),
        lambda reply: reply.cluster_brokers.clusters == {"c": ("broker-a",)},
    ),
    (WipeWritePerm(broker_name="broker-a"), lambda reply: reply.wipe_topic_count == 3),
    (AddWritePerm(broker_name="broker-a"), lambda reply: reply.add_topic_count == 3),
    (GetAllTopics(), lambda reply: reply.names.topics == {"t", "unit", "sub"}),
    (GetTopicsByCluster(cluster="c"), lambda reply: reply.names.topics == {"t", "unit", "sub"}),
    (GetSystemTopics(), lambda reply: reply.names.broker_addr == "10.0.0.0:10911"),
    (GetUnitTopics(), lambda reply: reply.names.topics == {"unit"}),
    (GetUnitSubscribedTopics(), lambda reply: reply.names.topics == {"sub"}),
    (GetUnitSubscribedPlainTopics(), lambda reply: reply.names.topics == {"sub"}),
    (DeleteTopicInNamesrv(topic="t", cluster_name="c"), lambda reply: reply is None),
    (added("broker-a"), lambda reply: reply is None),
    (UpdateNamesrvConfig(properties=b"orderMessageEnable=true"), lambda reply: reply is None),
    (GetNamesrvConfig(), lambda reply: b"listenPort=0\n" in reply.properties),
    (query(VERSION), lambda reply: (reply.changed, reply.version) == (False, VERSION)),
    (
        BrokerHeartbeat(cluster_name="c", broker_addr="10.0.0.0:10911", broker_name="broker-a"),
        lambda reply: reply is None,
    ),
    (
        GetBrokerMemberGroup(cluster_name="c", broker_name="broker-a"),
        lambda reply: reply.group.members.addresses == {0: "10.0.0.0:10911"},
    ),
]


@pytest.mark.parametrize(("request_", "holds"), ANSWERED, ids=lambda part: type(part).__name__)
async def test_each_request_is_answered(request_: Request[Any], holds: Check) -> None:
    async with one_broker() as (address, client):
        await client.call(address, PutKeyValue(namespace="had", key="k", value="v"))
        assert holds(await client.call(address, request_))


def test_each_request_that_a_name_server_answers_is_asked_here() -> None:
    assert len({request.code for request, _ in ANSWERED}) == 23


DAMAGED = registration(1, body_crc32=1)
SINGLE = write_registration(
    Registration(topic_table=TopicTableData(topics={"t": TopicSettings(name="t")}))
)

REFUSED: list[tuple[Request[Any], int, str]] = [
    (GetRouteInfoByTopic(topic="x"), 17, "No topic route info in name server for the topic: x"),
    (GetKeyValue(namespace="n", key="k"), 22, "No config item, Namespace: n Key: k"),
    (GetKeyValues(namespace="n"), 22, "No config item, Namespace: n"),
    (PutKeyValue(namespace="n", key="k", value="v"), 1, "maxKeyValues"),
    (DAMAGED, 1, "crc32 not match"),
    (registration(1, body=SINGLE, body_crc32=0), 1, "register broker failed"),
    (registration(1, body=b"junk", body_crc32=0), 1, "value was expected"),
    (registration(1, broker_addr="nowhere"), 29, "'nowhere' is not host:port"),
    (registration(1, broker_name="../x"), 29, "broker '../x'"),
    (registration(1, broker_name="b", broker_addr="h:1"), 1, "maxBrokers"),
    (added("stranger"), 1, "no broker named 'stranger' is registered"),
    (GetAllTopics(), 1, "disable"),
    (GetTopicsByCluster(cluster="c"), 1, "disable"),
    (GetUnitTopics(), 1, "disable"),
    (GetUnitSubscribedTopics(), 1, "disable"),
    (GetUnitSubscribedPlainTopics(), 1, "disable"),
    (UpdateNamesrvConfig(properties=b"kvConfigPath=x"), 16, "kvConfigPath: it cannot be changed"),
    (UpdateNamesrvConfig(properties=b"maxBrokers=x"), 29, "maxBrokers: it cannot be 'x'"),
    (NotifyMinBrokerIdChange(), 3, " request type 905 not supported"),
]


@pytest.mark.parametrize(
    ("request_", "code", "words"), REFUSED, ids=lambda part: type(part).__name__
)
async def test_each_refusal_has_its_code_and_says_why(
    request_: Request[Any], code: int, words: str
) -> None:
    limits = {"max_brokers": 1, "max_key_values": 0}
    lists = {"list_topics": False, "list_all_topics": False}
    async with one_broker(**limits, **lists) as (address, client):
        with pytest.raises(RequestRejected) as refused:
            await client.call(address, request_)
        assert refused.value.code == code
        assert words in refused.value.remark
        assert (await client.call(address, ROUTE)).route.queues


async def refusal(client: Caller, address: str) -> tuple[int, str] | None:
    """How the topic's route is refused now, if it is."""
    try:
        await client.call(address, ROUTE)
    except RequestRejected as error:
        return error.code, error.remark
    return None


async def no_route(client: Caller, address: str) -> None:
    """Wait until the topic has no route any more."""
    async with asyncio.timeout(PATIENCE_S):
        while (refused := await refusal(client, address)) is None:
            pass
    assert refused == NO_ROUTE


async def test_a_broker_is_gone_when_its_connection_is() -> None:
    async with name_server(NamesrvConfig(port=0)) as address, Caller() as client:
        async with Caller() as broker:
            await broker.call(address, registration())
            await client.call(address, ROUTE)
        await no_route(client, address)


async def test_a_broker_that_reconnected_outlives_its_old_connection() -> None:
    async with (
        name_server(NamesrvConfig(port=0)) as address,
        Caller() as second,
        Caller() as client,
    ):
        async with Caller() as first:
            await first.call(address, registration())
            await first.call(address, registration(1, name="broker-b", broker_id=0))
            await second.call(address, registration())
            assert len((await client.call(address, ROUTE)).route.brokers) == 2
        # The other broker of that connection is gone, so its end was seen.
        async with asyncio.timeout(PATIENCE_S):
            while len((await client.call(address, ROUTE)).route.brokers) > 1:
                pass
        route = (await client.call(address, ROUTE)).route
        assert [broker.broker_name for broker in route.brokers] == ["broker-a"]


async def test_a_silent_broker_is_lost_by_the_scan_and_a_heartbeat_keeps_one() -> None:
    clock = ManualClock()
    beat = BrokerHeartbeat(cluster_name="c", broker_addr="10.0.0.0:10911", broker_name="broker-a")
    async with (
        name_server(NamesrvConfig(port=0), clock=clock) as address,
        Caller() as broker,
        Caller() as client,
    ):
        await broker.call(address, registration(heartbeat_timeout_millis=10_000))
        for _ in range(4):
            await clock.advance(5_000)
            await broker.tell(address, beat)
            # On the same connection: when this is answered, the heartbeat was heard.
            await broker.call(address, ROUTE)
        await clock.advance(10_000)
        await client.call(address, ROUTE)
        await clock.advance(5_000)
        await no_route(client, address)


async def test_two_name_servers_side_by_side_know_what_each_was_told(tmp_path: Path) -> None:
    def config(name: str) -> NamesrvConfig:
        return NamesrvConfig(port=0, kv_path=tmp_path / name / "kvConfig.json")

    async with name_server(config("one")) as one, Caller() as client:
        async with name_server(config("two")) as two, Caller() as broker, Caller() as other:
            for address in (one, two):
                await broker.call(address, registration())
            await other.call(one, registration(1, name="broker-b", broker_id=0))
            await client.call(one, PutKeyValue(namespace="n", key="k", value="v"))
            first = (await client.call(one, ROUTE)).route
            second = (await client.call(two, ROUTE)).route
            assert [broker.broker_name for broker in first.brokers] == ["broker-a", "broker-b"]
            assert [broker.broker_name for broker in second.brokers] == ["broker-a"]
            with pytest.raises(RequestRejected):
                await client.call(two, GetKeyValue(namespace="n", key="k"))
        # One is gone with its brokers' connections; the other answers on.
        await no_route(client, one)
        assert (await client.call(one, GetKeyValue(namespace="n", key="k"))).value == "v"


class ToldBroker:
    """A broker's port, which notes who has the smallest id."""

    def __init__(self) -> None:
        self.notices: asyncio.Queue[NotifyMinBrokerIdChange] = asyncio.Queue()

    @handles(NotifyMinBrokerIdChange)
    async def note(self, request: NotifyMinBrokerIdChange, call: Call) -> None:
        self.notices.put_nowait(request)


async def test_followers_are_told_when_their_leader_comes_and_goes() -> None:
    told = ToldBroker()
    config = NamesrvConfig(port=0, notify_smallest_id=True, acting_leaders=True)
    async with (
        Server.bound("127.0.0.1", 0) as port,
        port.serving(Router(told).answer),
        name_server(config) as address,
        Caller() as follower,
        Caller() as client,
        asyncio.timeout(PATIENCE_S),
    ):
        await follower.call(
            address, registration(1, broker_addr=port.address, enable_acting_master=True)
        )
        shown = (await client.call(address, ROUTE)).route
        assert shown.brokers[0].addresses == {0: port.address}
        assert shown.writable_queues("t") == []
        async with Caller() as leader:
            await leader.call(address, registration(0, enable_acting_master=True))
            came = await told.notices.get()
            assert (came.min_broker_id, came.min_broker_addr) == (0, "10.0.0.0:10911")
            assert len((await client.call(address, ROUTE)).route.writable_queues("t")) == 4
        gone = await told.notices.get()
        assert (gone.min_broker_id, gone.offline_broker_addr) == (1, "10.0.0.0:10911")
        shown = (await client.call(address, ROUTE)).route
        assert shown.brokers[0].addresses == {0: port.address}
        assert shown.writable_queues("t") == []
