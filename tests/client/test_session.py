"""What producers and consumers share."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.client.session import Session
from rocketpipe.errors import NoRoute
from rocketpipe.model.route import BrokerAddresses, MessageQueue, TopicRoute
from rocketpipe.testing import cluster

QUEUE = MessageQueue(topic="t", broker_name="broker-a", queue_id=0)


def test_writes_go_to_the_leader_and_nowhere_without_one() -> None:
    session = Session("127.0.0.1:9876")
    led = BrokerAddresses(cluster="c", broker_name="broker-a", addresses={0: "a:1", 1: "b:1"})
    assert session.leader_of(QUEUE, TopicRoute(brokers=(led,))) == "a:1"
    alone = BrokerAddresses(cluster="c", broker_name="broker-a", addresses={1: "b:1"})
    for route in (TopicRoute(brokers=(alone,)), TopicRoute()):
        with pytest.raises(NoRoute, match="'broker-a' has no leader now"):
            session.leader_of(QUEUE, route)


async def test_a_new_queue_begins_and_ends_at_zero(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Session(servers.name_server) as session:
        assert await session.ends_of(QUEUE, servers.broker) == (0, 0)
