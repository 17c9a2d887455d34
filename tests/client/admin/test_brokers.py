"""Brokers and clusters, as NameServers know them."""

from __future__ import annotations

import pytest

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.brokers import BrokerLoad
from rocketpipe.client.admin.fleet import NoBroker
from rocketpipe.errors import RequestRejected
from rocketpipe.testing import Cluster


async def test_brokers_are_listed_with_their_addresses(admin: Admin, servers: Cluster) -> None:
    (broker,) = await admin.brokers.all()
    assert broker.leader == servers.broker
    assert broker.addresses == {0: servers.broker}
    assert await admin.brokers.clusters() == {broker.cluster: [broker.name]}
    assert await admin.brokers.all(cluster=broker.cluster) == [broker]
    with pytest.raises(NoBroker):
        await admin.brokers.all(cluster="x")


async def test_a_brokers_topics_have_settings(admin: Admin) -> None:
    (broker,) = await admin.brokers.all()
    await admin.topics.create("orders", queues=3)
    assert (await admin.brokers.topics(broker.name))["orders"].read_queues == 3
    with pytest.raises(NoBroker, match="no broker 'x'"):
        await admin.brokers.topics("x")


async def test_producers_are_kept_away_and_let_in_again(admin: Admin, servers: Cluster) -> None:
    (broker,) = await admin.brokers.all()
    await admin.topics.create("orders", queues=3)
    stopped = await admin.brokers.stop_writes(broker.name)
    assert stopped[servers.name_server] > 0
    routes = admin.topics._fleet.session.routes
    stale = await routes.refresh("orders")
    assert stale is not None
    assert stale.writable_queues("orders") == []
    await admin.brokers.allow_writes(broker.name)
    fresh = await routes.refresh("orders")
    assert fresh is not None
    assert len(fresh.writable_queues("orders")) == 3
    with pytest.raises(NoBroker):
        await admin.brokers.stop_writes("x")
    with pytest.raises(NoBroker):
        await admin.brokers.allow_writes("x")


@pytest.mark.scenario
async def test_a_broker_tells_of_itself_and_takes_changes(admin: Admin) -> None:
    assert (await admin.brokers.runtime("broker-a"))["brokerActive"] == "true"
    await admin.brokers.change("broker-a", {"brokerPermission": "4"})
    assert (await admin.brokers.settings("broker-a"))["brokerPermission"] == "4"
    with pytest.raises(RequestRejected, match="maxMessageSize: it cannot be"):
        await admin.brokers.change("broker-a", {"maxMessageSize": "a\\b"})
    for wrong in ({"a": "b\nstorePathRootDir=x"}, {" ": "x"}):
        with pytest.raises(ValueError, match="fit on a line"):
            await admin.brokers.change("broker-a", wrong)
    with pytest.raises(NoBroker):
        await admin.brokers.runtime("broker-z")
    await admin.brokers.clean_queues(broker="broker-a")
    await admin.brokers.clean_topics()
    await admin.brokers.delete_expired()


def test_rates_and_ratios_are_read_as_brokers_tell_them() -> None:
    facts = {
        "putTps": "12.5 3.0 1.0",
        "getTransferedTps": "4.5 1.0 1.0",
        "commitLogDiskRatio": "0.25",
        "remainHowManyDataToFlush": "7 B",
    }
    assert BrokerLoad.of(facts) == BrokerLoad(12.5, 4.5, 25.0, "7 B")
    assert BrokerLoad.of({"putTps": "x", "commitLogDiskRatio": ""}) == BrokerLoad(0.0, 0.0, 0.0, "")
