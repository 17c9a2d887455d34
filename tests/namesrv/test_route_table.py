"""Which broker serves which topic."""

from __future__ import annotations

from rocketpipe.model.topic import TopicSettings
from rocketpipe.namesrv.route_table import EXPIRY_MS, BrokerKey, RouteTable

A = BrokerKey("c", "broker-a", 0)
A_FOLLOWER = BrokerKey("c", "broker-a", 1)
B = BrokerKey("c", "broker-b", 0)


def topics(*names: str, queues: int = 4) -> dict[str, TopicSettings]:
    return {
        name: TopicSettings(name=name, read_queues=queues, write_queues=queues) for name in names
    }


def test_four_queues_on_each_of_two_brokers_are_eight() -> None:
    table = RouteTable()
    table.register(B, "10.0.0.2:10911", topics("t"), now_ms=0)
    table.register(A, "10.0.0.1:10911", topics("t"), now_ms=0)
    route = table.route("t")
    assert route is not None
    queues = route.writable_queues("t")
    assert [(queue.broker_name, queue.queue_id) for queue in queues] == [
        *(("broker-a", queue_id) for queue_id in range(4)),
        *(("broker-b", queue_id) for queue_id in range(4)),
    ]


def test_a_topic_that_no_broker_serves_has_no_route() -> None:
    table = RouteTable()
    table.register(A, "10.0.0.1:10911", topics("t"), now_ms=0)
    assert table.route("other") is None


def test_what_a_broker_said_last_of_a_topic_counts() -> None:
    table = RouteTable()
    table.register(A, "10.0.0.1:10911", topics("t", queues=4), now_ms=0)
    table.register(A, "10.0.0.1:10911", topics("t", queues=8), now_ms=1)
    route = table.route("t")
    assert route is not None
    assert route.queues[0].write_queues == 8


def test_a_broker_that_names_a_new_topic_alone_keeps_the_others() -> None:
    table = RouteTable()
    table.register(A, "10.0.0.1:10911", topics("old"), now_ms=0)
    table.register(A, "10.0.0.1:10911", topics("new"), now_ms=1)
    assert table.topics() == ["new", "old"]


def test_a_broker_that_comes_back_at_another_address_starts_anew() -> None:
    table = RouteTable()
    table.register(A, "10.0.0.1:10911", topics("old"), now_ms=0)
    table.register(A, "10.0.0.2:10911", topics("new"), now_ms=1)
    assert table.topics() == ["new"]


def test_leader_and_follower_share_a_name_and_the_leaders_word_counts() -> None:
    table = RouteTable()
    table.register(A, "10.0.0.1:10911", topics("t", queues=4), now_ms=0)
    table.register(A_FOLLOWER, "10.0.0.2:10911", topics("t", queues=2), now_ms=0)
    route = table.route("t")
    assert route is not None
    assert route.queues[0].write_queues == 4
    assert route.brokers[0].addresses == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    assert table.leader_address("broker-a") == "10.0.0.1:10911"


def test_the_same_address_under_a_new_id_replaces_the_old_one() -> None:
    table = RouteTable()
    table.register(A_FOLLOWER, "10.0.0.1:10911", topics("t"), now_ms=0)
    table.register(A, "10.0.0.1:10911", topics("t"), now_ms=0)
    route = table.route("t")
    assert route is not None
    assert route.brokers[0].addresses == {0: "10.0.0.1:10911"}


def test_a_silent_broker_expires_and_a_heard_one_does_not() -> None:
    table = RouteTable()
    table.register(A, "10.0.0.1:10911", topics("t"), now_ms=0)
    table.register(B, "10.0.0.2:10911", topics("t"), now_ms=1)
    assert table.expire(EXPIRY_MS) == []
    assert table.expire(EXPIRY_MS + 1) == [A]
    route = table.route("t")
    assert route is not None
    assert [broker.broker_name for broker in route.brokers] == ["broker-b"]


def test_a_broker_that_says_goodbye_is_gone() -> None:
    table = RouteTable()
    table.register(A, "10.0.0.1:10911", topics("t"), now_ms=0)
    table.unregister(A)
    table.unregister(A)
    assert table.route("t") is None
    assert table.leader_address("broker-a") is None
