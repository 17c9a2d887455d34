"""A cluster is looked over: as it is, without some servers, and with what goes wrong in it."""

from __future__ import annotations

from tests.client.admin.support.sent import send

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.diagnosis import Diagnosis
from rocketpipe.client.admin.findings import Finding, Level
from rocketpipe.client.consumer.push import PushConsumer
from rocketpipe.client.session import Session
from rocketpipe.model.names import dlq_topic
from rocketpipe.model.route import BrokerAddresses, ClusterBrokers
from rocketpipe.model.topic import Perm
from rocketpipe.protocol.requests.routes import (
    ClusterInfoReply,
    GetAllTopics,
    GetBrokerClusterInfo,
    TopicNames,
    TopicNamesReply,
)
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server
from rocketpipe.testing import Cluster

NOBODY = "127.0.0.1:1"


async def looked_over(session: Session, most_lag: int = 10) -> dict[str, Finding]:
    return {each.what: each async for each in Diagnosis(session, most_lag=most_lag).findings()}


def worst(found: dict[str, Finding]) -> dict[str, Finding]:
    return {what: each for what, each in found.items() if each.level is not Level.OK}


async def test_a_healthy_cluster_is_well_in_every_respect(
    session: Session, servers: Cluster
) -> None:
    found = await looked_over(session)
    assert worst(found) == {}
    assert "knows 1 broker" in found[f"NameServer {servers.name_server}"].detail
    (broker,) = [what for what in found if servers.broker in what]
    name = broker.split()[1]
    for what in ("disk", "clock", "queues", "permission"):
        assert f"{what} of {name}" in found
    assert found["versions"].detail.startswith("1 broker, all V")


async def test_what_is_closed_behind_and_given_up_is_found(
    session: Session, admin: Admin, servers: Cluster
) -> None:
    await admin.topics.create("orders", queues=1)
    await admin.groups.create("shop")
    assert (await looked_over(session))["group shop"].level is Level.UNKNOWN
    for _ in range(11):
        await send(session, "orders", b"x")
    await admin.offsets.move_to_ends("shop", "orders", newest=False)
    await admin.topics.create(dlq_topic("shop"), queues=1)
    await send(session, dlq_topic("shop"), b"x")
    await admin.topics.update("orders", perm=Perm.READ)
    found = worst(await looked_over(session))
    assert all(each.level is Level.WARNING for each in found.values())
    assert found["group shop"].detail == "11 messages behind, 0 members"
    assert found["dead letters of shop"].detail == "1 message"
    assert found["topic orders"].detail == "may not be written anywhere"
    assert all(each.remedy for each in found.values())


async def test_a_broker_that_may_not_be_written_is_found_and_its_topics_are_not_blamed(
    session: Session, admin: Admin, servers: Cluster
) -> None:
    await admin.topics.create("orders", queues=1)
    (broker,) = await admin.brokers.all()
    await admin.brokers.stop_writes(broker.name)
    found = worst(await looked_over(session))
    assert found.keys() == {f"permission of {broker.name} at NameServers"}
    (wiped,) = found.values()
    assert wiped.remedy is not None
    assert f"mqadmin addWritePerm -b {broker.name}" in wiped.remedy
    await admin.brokers.allow_writes(broker.name)
    assert worst(await looked_over(session)) == {}
    await admin.brokers.change(broker.name, {"brokerPermission": "4"})
    found = worst(await looked_over(session))
    assert found.keys() == {f"permission of {broker.name}"}


async def test_members_that_subscribe_to_different_things_are_found(
    session: Session, admin: Admin, servers: Cluster
) -> None:
    await admin.topics.create("orders", queues=1)
    every = PushConsumer(servers.name_server, group="shop")
    paid = PushConsumer(Session(servers.name_server), group="shop")

    @every.on("orders")
    @paid.on("orders", tags="paid")
    async def handle(message: object) -> None:
        """Takes what comes."""

    async with every:
        assert "subscriptions of shop" not in await looked_over(session)
        async with paid:
            found = (await looked_over(session))["subscriptions of shop"]
    assert found.level is Level.PROBLEM
    assert "orders where *" in found.detail
    assert "orders where paid" in found.detail


async def test_a_name_server_that_is_gone_is_a_problem_and_the_rest_is_looked_at(
    servers: Cluster,
) -> None:
    async with Session(f"{servers.name_server};{NOBODY}") as session:
        found = await looked_over(session)
    assert found[f"NameServer {NOBODY}"].level is Level.PROBLEM
    assert found["brokers, to NameServers"].level is Level.UNKNOWN
    assert found["groups"].level is Level.OK
    async with Session(NOBODY) as session:
        assert list(await looked_over(session)) == [f"NameServer {NOBODY}"]


class OtherWorld:
    """A NameServer that knows one broker, which is not there, and no topic."""

    @handles(GetBrokerClusterInfo)
    async def clusters(self, request: GetBrokerClusterInfo, call: Call) -> ClusterInfoReply:
        gone = BrokerAddresses(cluster="c", broker_name="gone", addresses={0: NOBODY})
        led = BrokerAddresses(cluster="c", broker_name="led", addresses={1: NOBODY})
        known = ClusterBrokers(brokers={"gone": gone, "led": led}, clusters={"c": ("gone", "led")})
        return ClusterInfoReply(cluster_brokers=known)

    @handles(GetAllTopics)
    async def topics(self, request: GetAllTopics, call: Call) -> TopicNamesReply:
        return TopicNamesReply(names=TopicNames(topics=frozenset()))


async def test_brokers_that_are_gone_and_name_servers_apart_are_problems(servers: Cluster) -> None:
    async with (
        Server.bound("127.0.0.1", 0) as other,
        other.serving(Router(OtherWorld()).answer),
        Session(f"{servers.name_server};{other.address}") as session,
    ):
        found = await looked_over(session)
    assert found["brokers, to NameServers"].level is Level.PROBLEM
    assert found["names of topics, to NameServers"].level is Level.PROBLEM
    assert found[f"broker gone at {NOBODY}"].level is Level.PROBLEM
    assert "brokerIP1" in (found[f"broker gone at {NOBODY}"].remedy or "")
    assert found["broker led"].detail == "has no leader"
    assert found["groups"].level is Level.UNKNOWN
    assert "gone" in found["groups"].detail
