"""Pulls over a real socket: every answer a queue can give."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from rocketpipe import Producer
from rocketpipe.client.consumer.pull import pull_request
from rocketpipe.errors import RequestRejected
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.offsets import QueryConsumerOffset
from rocketpipe.protocol.requests.pulling import PullMessage, PullMessageReply
from rocketpipe.record.codec import view_records
from rocketpipe.testing import Cluster

Ask = Callable[[Request[Any]], Awaitable[Any]]


def pull(
    offset: int, *, queue_id: int = 0, topic: str = "t", tags: str = "*", wait_ms: int = 0
) -> PullMessage:
    queue = MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id)
    return pull_request("g", queue, QueueOffset(offset), tags, suspend_ms=wait_ms)


@pytest.fixture
async def producer(servers: Cluster) -> Any:
    async with Producer(servers.name_server) as made:
        yield made


async def send(producer: Producer, *tags: str) -> int:
    """Send to whichever queue; returns the queue of the last."""
    for tag in tags:
        result = await producer.send("t", b"body", tags=tag)
    return result.queue.queue_id


async def test_an_empty_queue_is_not_found_at_zero_and_moved_elsewhere(
    ask: Ask, producer: Producer
) -> None:
    used = await send(producer, "A")
    empty = (used + 1) % 4
    assert (await ask(pull(0, queue_id=empty))).code == ResponseCode.PULL_NOT_FOUND
    assert (await ask(pull(7, queue_id=empty))).code == ResponseCode.PULL_OFFSET_MOVED


async def test_every_answer_tells_where_to_go_on(ask: Ask, producer: Producer) -> None:
    used = await send(producer, "A")
    found: PullMessageReply = await ask(pull(0, queue_id=used))
    assert (found.code, found.next_begin_offset, found.max_offset) == (0, 1, 1)
    assert [message.tags for message in view_records(found.messages)] == ["A"]
    end: PullMessageReply = await ask(pull(1, queue_id=used))
    assert (end.code, end.next_begin_offset) == (ResponseCode.PULL_NOT_FOUND, 1)
    beyond: PullMessageReply = await ask(pull(9, queue_id=used))
    assert (beyond.code, beyond.next_begin_offset) == (ResponseCode.PULL_OFFSET_MOVED, 1)
    assert (found.suggest_which_broker_id, end.suggest_which_broker_id) == (0, 0)


async def test_tags_are_filtered_and_what_does_not_match_is_passed(
    ask: Ask, producer: Producer
) -> None:
    used = await send(producer, "A")
    other: PullMessageReply = await ask(pull(0, queue_id=used, tags="B || C"))
    assert (other.code, other.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 1)
    same: PullMessageReply = await ask(pull(0, queue_id=used, tags="B || A"))
    assert same.code == ResponseCode.SUCCESS


async def test_a_waiting_pull_is_answered_as_soon_as_a_message_comes(
    ask: Ask, producer: Producer
) -> None:
    await send(producer, "A")
    waits = [asyncio.create_task(ask(pull(9, queue_id=4, wait_ms=1)))]
    await asyncio.wait(waits)  # queue 4 is not there: refused at once, others go on
    with pytest.raises(RequestRejected):
        waits[0].result()
    ends = [(await ask(pull(0, queue_id=queue))).next_begin_offset for queue in range(4)]
    waiting = [
        asyncio.create_task(ask(pull(ends[queue], queue_id=queue, wait_ms=20_000)))
        for queue in range(4)
    ]
    await asyncio.sleep(0)
    await send(producer, "A", "A", "A", "A")
    replies = await asyncio.gather(*waiting)
    assert [reply.code for reply in replies] == [ResponseCode.SUCCESS] * 4


async def test_a_wait_ends_with_its_time(ask: Ask, producer: Producer) -> None:
    used = await send(producer, "A")
    reply: PullMessageReply = await ask(pull(1, queue_id=used, wait_ms=5))
    assert reply.code == ResponseCode.PULL_NOT_FOUND


async def test_an_offset_that_comes_with_the_pull_is_committed(
    ask: Ask, producer: Producer
) -> None:
    used = await send(producer, "A")
    request = pull(0, queue_id=used)
    flag = request.sys_flag | PullFlag.COMMIT_OFFSET
    await ask(replace(request, sys_flag=int(flag), commit_offset=QueueOffset(1)))
    query = QueryConsumerOffset(consumer_group="g", topic="t", queue_id=used)
    assert (await ask(query)).offset == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "unknown"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 4}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": -1}, ResponseCode.INVALID_PARAMETER),
        ({"subscription": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"expression_type": "SQL92"}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_each_refusal_has_its_code(
    ask: Ask, producer: Producer, change: dict[str, Any], code: ResponseCode
) -> None:
    await send(producer, "A")
    with pytest.raises(RequestRejected) as refused:
        await ask(replace(pull(0), **change))
    assert refused.value.code == code
