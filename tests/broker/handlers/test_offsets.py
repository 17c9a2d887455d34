"""Positions, asked for over a real socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rocketpipe import Producer
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.offsets import (
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from rocketpipe.testing import Cluster

Ask = Callable[[Request[Any]], Awaitable[Any]]


def query(*, zero: bool | None = None) -> QueryConsumerOffset:
    return QueryConsumerOffset(
        consumer_group="g", topic="t", queue_id=0, set_zero_if_not_found=zero
    )


async def test_a_new_group_begins_at_zero_while_the_queue_does(ask: Ask) -> None:
    assert (await ask(query())).offset == 0


async def test_a_client_that_wants_to_know_is_told_that_there_is_none(ask: Ask) -> None:
    with pytest.raises(RequestRejected) as refused:
        await ask(query(zero=False))
    assert refused.value.code == ResponseCode.QUERY_NOT_FOUND


async def test_a_committed_offset_is_found_again(ask: Ask) -> None:
    await ask(
        UpdateConsumerOffset(
            consumer_group="g", topic="t", queue_id=0, commit_offset=QueueOffset(12)
        )
    )
    assert (await ask(query(zero=False))).offset == 12


async def test_the_ends_of_a_queue_follow_what_is_sent(ask: Ask, servers: Cluster) -> None:
    assert (await ask(GetMaxOffset(topic="t", queue_id=0))).offset == 0
    async with Producer(servers.name_server) as producer:
        result = await producer.send("t", b"body")
    ends = {"topic": "t", "queue_id": result.queue.queue_id}
    assert (await ask(GetMinOffset(**ends))).offset == 0
    assert (await ask(GetMaxOffset(**ends))).offset == 1
