from __future__ import annotations

import pytest

from rocketpipe.model.route import (
    BrokerAddresses,
    BrokerQueues,
    ClusterBrokers,
    MessageQueue,
    TopicRoute,
)


def queue(topic: str, broker: str, number: int) -> MessageQueue:
    return MessageQueue(topic=topic, broker_name=broker, queue_id=number)


def held(broker: str, *, read: int = 2, write: int = 2, perm: int = 6) -> BrokerQueues:
    return BrokerQueues(broker_name=broker, read_queues=read, write_queues=write, perm=perm)


def at(broker: str, **addresses: str) -> BrokerAddresses:
    numbers = {int(name.removeprefix("id")): address for name, address in addresses.items()}
    return BrokerAddresses(cluster="c", broker_name=broker, addresses=numbers)


def test_queues_sort_by_topic_then_broker_then_number() -> None:
    shuffled = [queue("B", "a", 10), queue("A", "c", 1), queue("B", "a", 2), queue("A", "b", 9)]
    assert sorted(shuffled) == [shuffled[3], shuffled[1], shuffled[2], shuffled[0]]


def test_equal_queues_are_one_key() -> None:
    assert {queue("T", "b", 0): 1}[queue("T", "b", 0)] == 1


def test_the_leader_is_number_nought() -> None:
    assert at("b", id0="h:1", id1="h:2").leader == "h:1"
    assert at("b", id1="h:2").leader is None


def test_a_broker_without_leader_is_read_at_its_first_follower() -> None:
    assert at("b", id2="h:3", id1="h:2").readable == "h:2"
    assert at("b").readable is None


def test_writes_go_where_there_is_a_leader_and_permission() -> None:
    route = TopicRoute(
        queues=(held("z"), held("a", read=9, write=1), held("readonly", perm=4), held("headless")),
        brokers=(
            at("z", id0="h:1"),
            at("a", id0="h:2"),
            at("readonly", id0="h:3"),
            at("headless", id1="h:4"),
        ),
    )
    assert route.writable_queues("T") == [
        queue("T", "a", 0),
        queue("T", "z", 0),
        queue("T", "z", 1),
    ]


def test_reads_go_wherever_there_is_permission() -> None:
    route = TopicRoute(queues=(held("b", read=2, write=1), held("w", perm=2)))
    assert route.readable_queues("T") == [queue("T", "b", 0), queue("T", "b", 1)]


def test_a_route_finds_a_broker_by_name() -> None:
    broker = at("b", id0="h:1")
    route = TopicRoute(brokers=(broker,))
    assert route.broker("b") is broker
    assert route.broker("x") is None


def test_a_globally_ordered_topic_is_written_to_the_queues_its_settings_name() -> None:
    route = TopicRoute(queues=(held("x"),), order_conf="b:2;a:1")
    assert route.writable_queues("T") == [
        queue("T", "b", 0),
        queue("T", "b", 1),
        queue("T", "a", 0),
    ]


@pytest.mark.parametrize("conf", ["b", "b:", "b:x", "b:-1", "b:999999", "b:²", ";"])
def test_an_order_setting_that_cannot_be_read_names_no_queue(conf: str) -> None:
    assert TopicRoute(order_conf=conf).writable_queues("T") == []


def test_a_clusters_brokers_are_those_it_lists_and_that_are_known() -> None:
    broker = at("b", id0="h:1")
    known = ClusterBrokers(
        brokers={"b": broker, "other": at("other")}, clusters={"c": ("b", "gone")}
    )
    assert known.members("c") == {"b": broker}
    assert known.members("x") == {}
