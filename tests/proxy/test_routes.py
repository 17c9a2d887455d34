from __future__ import annotations

import pytest
from tests.proxy.support.calling import BROKER, GrpcClient, World, endpoints, named

from rocketpipe.model.route import BrokerQueues
from rocketpipe.model.topic import MessageType
from rocketpipe.proxy.routes import _permissions
from rocketpipe.proxy.v2 import messaging_pb2 as pb

pytestmark = [pytest.mark.scenario, pytest.mark.asyncio(loop_scope="module")]


def asking(topic: str) -> pb.QueryRouteRequest:
    return pb.QueryRouteRequest(topic=named(topic), endpoints=endpoints())


async def test_a_route_names_every_queue_and_the_address_the_client_came_by(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("routed", MessageType.FIFO, queues=3)
    answer = await client.call("QueryRoute", asking(topic))
    assert answer.status.code == pb.OK
    assert [queue.id for queue in answer.message_queues] == [0, 1, 2]
    for queue in answer.message_queues:
        assert queue.topic.name == topic
        assert queue.permission == pb.READ_WRITE
        assert (queue.broker.name, queue.broker.id) == (BROKER, 0)
        assert queue.broker.endpoints == endpoints()
        assert list(queue.accept_message_types) == [pb.FIFO]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("unknown", pb.TOPIC_NOT_FOUND),
        ("no good", pb.ILLEGAL_TOPIC),
        ("", pb.ILLEGAL_TOPIC),
        ("x" * 128, pb.ILLEGAL_TOPIC),
        ("SCHEDULE_TOPIC_XXXX", pb.ILLEGAL_TOPIC),
    ],
)
async def test_what_is_no_topic_has_its_code(client: GrpcClient, topic: str, code: int) -> None:
    assert (await client.call("QueryRoute", asking(topic))).status.code == code


async def test_who_does_not_say_how_it_came_is_told(world: World, client: GrpcClient) -> None:
    topic = await world.topic("lost")
    answer = await client.call("QueryRoute", pb.QueryRouteRequest(topic=named(topic)))
    assert answer.status.code == pb.ILLEGAL_ACCESS_POINT


async def test_a_topic_that_says_nothing_is_for_normal_messages(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("silent")
    answer = await client.call("QueryRoute", asking(topic))
    assert list(answer.message_queues[0].accept_message_types) == [pb.NORMAL]


async def test_permissions_come_as_upstream_counts_them() -> None:
    def of(reads: int, writes: int, perm: int) -> list[int]:
        held = BrokerQueues(broker_name="b", read_queues=reads, write_queues=writes, perm=perm)
        return _permissions(held)

    assert of(3, 1, 6) == [pb.READ, pb.READ, pb.READ_WRITE]
    assert of(1, 2, 6) == [pb.WRITE, pb.READ_WRITE]
    assert of(2, 2, 4) == [pb.READ, pb.READ]
    assert of(2, 2, 2) == [pb.WRITE, pb.WRITE]
    assert of(2, 2, 0) == [pb.NONE]


async def test_a_group_in_order_is_assigned_each_queue_others_any(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("assigned", queues=2)
    await world.group("assigned-o", ordered=True)
    request = pb.QueryAssignmentRequest(
        topic=named(topic), group=named("assigned-g"), endpoints=endpoints()
    )
    answer = await client.call("QueryAssignment", request)
    assert [each.message_queue.id for each in answer.assignments] == [-1]
    assert answer.assignments[0].message_queue.broker.name == BROKER
    request.group.name = "assigned-o"
    answer = await client.call("QueryAssignment", request)
    assert [each.message_queue.id for each in answer.assignments] == [0, 1]


async def test_what_cannot_be_read_is_not_assigned(world: World, client: GrpcClient) -> None:
    topic = await world.topic("write-only", perm=2)
    request = pb.QueryAssignmentRequest(topic=named(topic), group=named("g"), endpoints=endpoints())
    assert (await client.call("QueryAssignment", request)).status.code == pb.FORBIDDEN


async def test_names_have_their_namespace_at_the_broker(world: World, client: GrpcClient) -> None:
    await world.topic("house%inside")
    request = asking("inside")
    assert (await client.call("QueryRoute", request)).status.code == pb.TOPIC_NOT_FOUND
    request.topic.resource_namespace = "house"
    answer = await client.call("QueryRoute", request)
    assert answer.status.code == pb.OK
    assert answer.message_queues[0].topic == named("inside", "house")
    other = await world.another("in-house", **{"x-mq-namespace": "house"})
    assert (await other.call("QueryRoute", asking("inside"))).status.code == pb.OK
