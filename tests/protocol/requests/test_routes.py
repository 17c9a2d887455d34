from __future__ import annotations

import pytest

from rocketpipe.errors import BodyError
from rocketpipe.model.route import BrokerAddresses, TopicRoute
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_command, to_reply
from rocketpipe.protocol.requests.routes import (
    BareKeyRouteReply,
    GetAllTopics,
    GetRouteInfoByTopic,
    RegisterBroker,
    RouteReply,
)

ASK = GetRouteInfoByTopic(topic="T")


def route_body(addresses: bytes) -> bytes:
    return (
        b'{"brokerDatas":[{"brokerAddrs":%b,"brokerName":"b","cluster":"c"}],"filterServerTable":'
        b'{},"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSynFlag":0,'
        b'"writeQueueNums":4}]}' % addresses
    )


@pytest.mark.parametrize("addresses", [b'{0:"h:1"}', b'{"0":"h:1"}'], ids=["dialect", "strict"])
def test_a_route_of_rocketmq_4_9_is_read_in_both_dialects(addresses: bytes) -> None:
    command = Command(code=0, opaque=1, flag=RESPONSE, body=route_body(addresses))
    route = read_reply(ASK, command).route
    broker = route.broker("b")
    assert broker is not None
    assert broker.addresses == {0: "h:1"}
    assert broker.enable_acting_master is False
    assert len(route.writable_queues("T")) == 4


def test_a_topic_is_asked_for_by_name_alone() -> None:
    assert to_command(ASK, 1).fields == {"topic": "T"}


@pytest.mark.parametrize("count", [b"-1", b"65537", b"99999999999"])
def test_a_route_with_an_impossible_number_of_queues_is_refused(count: bytes) -> None:
    body = route_body(b"{}").replace(b'"readQueueNums":4', b'"readQueueNums":' + count)
    with pytest.raises(BodyError):
        read_reply(ASK, Command(code=0, opaque=1, flag=RESPONSE, body=body))


def test_a_route_that_does_not_come_is_the_servers_mistake() -> None:
    with pytest.raises(BodyError):
        read_reply(ASK, Command(code=0, opaque=1, flag=RESPONSE))


def test_a_broker_of_4_9_registers_without_the_newer_fields() -> None:
    fields = {
        "brokerName": "b",
        "brokerAddr": "h:1",
        "clusterName": "c",
        "haServerAddr": "h:2",
        "brokerId": "0",
    }
    asked = from_command(RegisterBroker, Command(code=103, opaque=1, fields=fields, body=b"{}"))
    assert asked.compressed is False
    assert asked.body_crc32 == 0
    assert asked.heartbeat_timeout_millis is None


def test_a_registration_may_be_answered_without_a_body() -> None:
    asked = RegisterBroker(
        broker_name="b", broker_addr="h:1", cluster_name="c", ha_server_addr="h:2", broker_id=0
    )
    answer = read_reply(asked, Command(code=0, opaque=1, flag=RESPONSE))
    assert answer.order_settings is None
    body = b'{"table":{"T":"b:4"}}'
    answer = read_reply(asked, Command(code=0, opaque=1, flag=RESPONSE, body=body))
    assert answer.order_settings is not None
    assert answer.order_settings.table == {"T": "b:4"}


def test_a_route_is_written_in_the_dialect_of_its_reply() -> None:
    broker = BrokerAddresses(cluster="c", broker_name="b", addresses={0: "h:1", 2: "h:2"})
    route = TopicRoute(brokers=(broker,))
    asked = Command(code=105, opaque=1)
    strict = to_reply(asked, RouteReply(route=route))
    bare = to_reply(asked, BareKeyRouteReply(route=route))
    assert b'{"0":"h:1","2":"h:2"}' in strict.body
    assert b'{0:"h:1",2:"h:2"}' in bare.body
    assert read_reply(ASK, strict).route == read_reply(ASK, bare).route == route


def test_a_list_of_topics_may_lack_everything() -> None:
    answer = Command(code=0, opaque=1, flag=RESPONSE, body=b"{}")
    assert read_reply(GetAllTopics(), answer).names.topics == frozenset()
