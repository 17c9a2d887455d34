from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.proxy.support.calling import BROKER, GrpcClient, World, message, named

from rocketpipe.proxy.v2 import messaging_pb2 as pb

pytestmark = [pytest.mark.scenario, pytest.mark.asyncio(loop_scope="module")]


def queue_of(topic: str, number: int = 0, broker: str = BROKER) -> pb.MessageQueue:
    return pb.MessageQueue(topic=named(topic), id=number, broker=pb.Broker(name=broker))


async def pulled(client: GrpcClient, topic: str, offset: int, **said: Any) -> list[Any]:
    wait_ms = said.pop("wait_ms", 0)
    request = pb.PullMessageRequest(
        group=named("puller"),
        message_queue=said.pop("queue", queue_of(topic)),
        offset=offset,
        batch_size=said.pop("batch", 10),
    )
    request.long_polling_timeout.FromMilliseconds(wait_ms)
    if said:
        request.filter_expression.type = pb.TAG
        request.filter_expression.expression = said["tags"]
    return [each async for each in client.stream("PullMessage", request)]


async def test_a_queue_is_read_by_its_offsets(world: World, client: GrpcClient) -> None:
    topic = await world.topic("read")
    await client.send(*(message(topic, b"%d" % n, tag="ab"[n % 2]) for n in range(5)))
    status, *told, last = await pulled(client, topic, 1, batch=3)
    assert status.status.code == pb.OK
    assert [each.message.body for each in told] == [b"1", b"2", b"3"]
    assert last.next_offset == 4
    _, *told, _ = await pulled(client, topic, 0, tags="b")
    assert [each.message.body for each in told] == [b"1", b"3"]


async def test_at_the_end_a_pull_waits_for_the_next(world: World, client: GrpcClient) -> None:
    topic = await world.topic("awaited")
    status, last = await pulled(client, topic, 0)
    assert (status.status.code, last.next_offset) == (pb.MESSAGE_NOT_FOUND, 0)
    waiting = asyncio.create_task(pulled(client, topic, 0, wait_ms=20_000))
    await client.send(message(topic, b"next"))
    _, told, last = await waiting
    assert (told.message.body, last.next_offset) == (b"next", 1)


async def test_an_offset_that_is_not_there_says_where_to_go_on(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("beyond")
    await client.send(message(topic))
    status, last = await pulled(client, topic, 99)
    assert status.status.code in (pb.ILLEGAL_OFFSET, pb.MESSAGE_NOT_FOUND)
    assert last.next_offset == 1


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"offset": -1}, pb.ILLEGAL_OFFSET),
        ({"batch": 0}, pb.BAD_REQUEST),
        ({"queue": queue_of("pull-wrong", -1)}, pb.BAD_REQUEST),
        ({"queue": queue_of("pull-wrong", broker="")}, pb.BAD_REQUEST),
        ({"queue": queue_of("pull-missing")}, pb.TOPIC_NOT_FOUND),
    ],
)
async def test_what_is_wrong_with_a_pull_has_its_own_code(
    world: World, client: GrpcClient, said: dict[str, Any], code: int
) -> None:
    topic = await world.topic("pull-wrong")
    wrong = dict(said)
    (refused,) = await pulled(client, topic, wrong.pop("offset", 0), **wrong)
    assert refused.status.code == code, refused.status.message


async def test_offsets_are_kept_and_told(world: World, client: GrpcClient) -> None:
    topic = await world.topic("kept")
    await client.send(*(message(topic) for _ in range(4)))
    queue, group = queue_of(topic), named("kept-g")
    asked = pb.GetOffsetRequest(group=group, message_queue=queue)
    await world.group("kept-g")
    told = await client.call(
        "UpdateOffset", pb.UpdateOffsetRequest(group=group, message_queue=queue, offset=3)
    )
    assert told.status.code == pb.OK
    answer = await client.call("GetOffset", asked)
    assert (answer.status.code, answer.offset) == (pb.OK, 3)
    told = await client.call(
        "UpdateOffset", pb.UpdateOffsetRequest(group=group, message_queue=queue, offset=-1)
    )
    assert told.status.code == pb.ILLEGAL_OFFSET


async def test_a_queue_says_where_it_begins_ends_and_was(world: World, client: GrpcClient) -> None:
    topic = await world.topic("reach")
    await client.send(*(message(topic) for _ in range(4)))

    async def offset(policy: int, at_ms: int | None = None) -> tuple[int, int]:
        request = pb.QueryOffsetRequest(message_queue=queue_of(topic), query_offset_policy=policy)
        if at_ms is not None:
            request.timestamp.FromMilliseconds(at_ms)
        answer = await client.call("QueryOffset", request)
        return answer.status.code, answer.offset

    assert await offset(pb.BEGINNING) == (pb.OK, 0)
    assert await offset(pb.END) == (pb.OK, 4)
    assert await offset(pb.TIMESTAMP, 1000) == (pb.OK, 0)
    assert (await offset(pb.TIMESTAMP, int(time.time() * 1000) + 99_000))[0] == pb.OK
    assert await offset(pb.TIMESTAMP) == (pb.BAD_REQUEST, 0)
    assert await offset(17) == (pb.BAD_REQUEST, 0)
