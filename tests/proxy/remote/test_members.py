"""What brokers are told of all gRPC clients together, and which of them is asked."""

from __future__ import annotations

from typing import Any

from rocketpipe.model.subscription import Subscription
from rocketpipe.protocol.codes import Language
from rocketpipe.protocol.requests.clients import ConsumerData, HeartbeatData, ProducerData
from rocketpipe.proxy.remote.members import GrpcMembers


class Someone:
    """A client that is never asked anything."""

    language = Language.PYTHON
    address = "127.0.0.1:1"

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id

    def tell(self, request: Any) -> None:
        raise NotImplementedError

    async def answer(self, request: Any, timeout_ms: int) -> Any:
        raise NotImplementedError


def producing(*topics: str) -> HeartbeatData:
    return HeartbeatData(
        client_id="any", producers=tuple(ProducerData(group_name=topic) for topic in topics)
    )


def consuming(group: str, *topics: str) -> HeartbeatData:
    wanted = tuple(Subscription(topic=topic, expression="*") for topic in topics)
    return HeartbeatData(
        client_id="any", consumers=(ConsumerData(group_name=group, subscriptions=wanted),)
    )


def test_brokers_are_told_what_all_do_together_and_only_of_news() -> None:
    members, one, two = GrpcMembers(), Someone("one"), Someone("two")
    assert members.beat(one, producing("a", "b"))
    assert not members.beat(one, producing("a", "b"))
    assert not members.beat(two, producing("b"))
    assert members.beat(two, producing("b", "c"))
    assert sorted(members.producer_groups()) == ["a", "b", "c"]
    assert members.leave(one) == ({"a"}, set())
    assert members.leave(two) == ({"b", "c"}, set())
    assert members.leave(two) == (set(), set())
    assert len(members) == 0


def test_the_members_of_a_group_are_one_with_all_their_topics() -> None:
    members, one, two = GrpcMembers(), Someone("one"), Someone("two")
    assert members.beat(one, consuming("g", "a"))
    assert members.beat(two, consuming("g", "b"))
    (told,) = members.consumers()
    assert [each.topic for each in told.subscriptions] == ["a", "b"]
    assert set(members.topics()) == {"a", "b"}
    assert members.leave(one) == (set(), set())
    (told,) = members.consumers()
    assert [each.topic for each in told.subscriptions] == ["b"]
    assert members.leave(two) == (set(), {"g"})


def test_those_who_can_be_asked_take_turns() -> None:
    members, one, two = GrpcMembers(), Someone("one"), Someone("two")
    members.beat(one, producing("a"))
    members.beat(two, producing("a"))
    assert [members.producer_of("a") for _ in range(4)] == [one, two, one, two]
    assert members.producer_of("b") is None
    assert members.consumer_of("g") is None
