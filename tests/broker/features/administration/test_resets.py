"""Groups moved over a socket: every way, and every refusal."""

from __future__ import annotations

import pytest
from tests.broker.conftest import Ask
from tests.broker.support.asking import commit, group, message, topic

from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import InvokeBrokerToResetOffset, QueryConsumerOffset
from rocketpipe.protocol.requests.progress import CloneGroupOffset

pytestmark = pytest.mark.scenario


async def committed(ask: Ask, of_group: str, name: str, queue_id: int = 0) -> int:
    request = QueryConsumerOffset(
        consumer_group=of_group, topic=name, queue_id=queue_id, set_zero_if_not_found=False
    )
    offset: int = (await ask(request)).offset
    return offset


def reset(
    at_ms: int = -1, *, force: bool = True, queue_id: int = -1, offset: int | None = None
) -> InvokeBrokerToResetOffset:
    return InvokeBrokerToResetOffset(
        topic="t",
        group="g",
        timestamp=at_ms,
        is_force=force,
        queue_id=queue_id,
        offset=None if offset is None else QueueOffset(offset),
    )


async def test_all_queues_or_one_by_time_or_by_offset(ask: Ask) -> None:
    await ask(topic("t", 2))
    await ask(group("g"))
    for number in range(4):
        await ask(message("t", b"%d" % number, queue_id=number % 2))
    moved = (await ask(reset())).reset.offsets
    assert {(queue.queue_id, at) for queue, at in moved.items()} == {(0, 2), (1, 2)}
    assert [await committed(ask, "g", "t", each) for each in (0, 1)] == [2, 2]
    await ask(reset(0, queue_id=1))
    assert [await committed(ask, "g", "t", each) for each in (0, 1)] == [2, 0]
    await ask(reset(queue_id=0, offset=1))
    assert [await committed(ask, "g", "t", each) for each in (0, 1)] == [1, 0]
    await ask(reset(force=False))
    assert [await committed(ask, "g", "t", each) for each in (0, 1)] == [1, 0]


async def test_what_cannot_be_is_refused_and_nothing_moves(ask: Ask) -> None:
    with pytest.raises(RequestRejected) as no_topic:
        await ask(reset())
    assert no_topic.value.code == ResponseCode.TOPIC_NOT_EXIST
    await ask(topic("t", 2))
    with pytest.raises(RequestRejected) as no_group:
        await ask(reset())
    assert no_group.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    await ask(group("g"))
    await ask(message("t"))
    with pytest.raises(RequestRejected, match="has 2") as no_queue:
        await ask(reset(queue_id=2))
    assert no_queue.value.code == ResponseCode.INVALID_PARAMETER
    # Queue 0 has the offset, queue 1 does not: neither is moved.
    with pytest.raises(RequestRejected, match=r"range \[0-0\] of queue 1"):
        await ask(reset(offset=1))
    with pytest.raises(RequestRejected) as nowhere:
        await committed(ask, "g", "t")
    assert nowhere.value.code == ResponseCode.QUERY_NOT_FOUND


async def test_a_clone_has_the_places_of_one_topic_or_of_all(ask: Ask) -> None:
    for name in ("t", "u"):
        await ask(topic(name))
    await ask(group("g"))
    await ask(commit("g", "t", 4))
    await ask(commit("g", "u", 5))
    await ask(CloneGroupOffset(src_group="g", dest_group="h", topic="t"))
    assert await committed(ask, "h", "t") == 4
    with pytest.raises(RequestRejected):
        await committed(ask, "h", "u")
    await ask(CloneGroupOffset(src_group="g", dest_group="h"))
    assert await committed(ask, "h", "u") == 5
    with pytest.raises(RequestRejected) as unknown:
        await ask(CloneGroupOffset(src_group="g", dest_group="h", topic="none"))
    assert unknown.value.code == ResponseCode.TOPIC_NOT_EXIST
    with pytest.raises(RequestRejected) as unnamed:
        await ask(CloneGroupOffset(src_group="g", dest_group="no such*name"))
    assert unnamed.value.code == ResponseCode.INVALID_PARAMETER
