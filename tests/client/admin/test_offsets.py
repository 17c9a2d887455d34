"""Positions are read, committed and moved."""

from __future__ import annotations

import pytest
from tests.client.admin.support.sent import send

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.offsets import Ends, GroupPlace
from rocketpipe.client.session import Session
from rocketpipe.errors import InvalidName, RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.offsets import BoundaryType

QUEUE = MessageQueue(topic="orders", broker_name="a", queue_id=0)


@pytest.mark.parametrize(
    ("committed", "least", "end", "lag"),
    [(None, 5, 9, 4), (7, 5, 9, 2), (2, 5, 9, 4), (9, 5, 9, 0), (12, 5, 9, 0)],
)
def test_the_lag_is_what_can_still_be_read(
    committed: int | None, least: int, end: int, lag: int
) -> None:
    place = None if committed is None else QueueOffset(committed)
    assert GroupPlace(QUEUE, place, QueueOffset(least), QueueOffset(end)).lag == lag


async def prepared(admin: Admin, session: Session) -> tuple[MessageQueue, MessageQueue]:
    """A topic of two queues, with two messages and one."""
    await admin.topics.create("orders", queues=2)
    await admin.groups.create("billing")
    for queue_id in (0, 0, 1):
        await send(session, "orders", b"x", queue_id=queue_id)
    first, second = (each.queue for each in (await admin.topics.stats("orders")).queues)
    return first, second


async def test_a_group_begins_without_offsets_and_keeps_those_it_is_given(
    admin: Admin, session: Session
) -> None:
    first, second = await prepared(admin, session)
    places = await admin.offsets.of_group("billing", "orders")
    assert [(place.committed, place.lag) for place in places] == [(None, 2), (None, 1)]
    await admin.offsets.commit("billing", {first: QueueOffset(1)})
    places = await admin.offsets.of_group("billing", "orders")
    assert [(place.queue, place.committed, place.lag) for place in places] == [
        (first, 1, 1),
        (second, None, 1),
    ]


async def test_ends_and_times_are_told_for_each_queue(admin: Admin, session: Session) -> None:
    first, second = await prepared(admin, session)
    assert await admin.offsets.ends("orders") == {
        first: Ends(QueueOffset(0), QueueOffset(2)),
        second: Ends(QueueOffset(0), QueueOffset(1)),
    }
    oldest = await admin.offsets.oldest_ms("orders")
    assert all(stored_ms is not None for stored_ms in oldest.values())
    assert await admin.offsets.at_time("orders", 0) == {first: 0, second: 0}
    later_ms = session.clock.now_ms() + 3_600_000
    assert await admin.offsets.at_time("orders", later_ms) == {first: 2, second: 1}
    upper = await admin.offsets.at_time("orders", later_ms, boundary=BoundaryType.UPPER)
    assert upper.keys() == {first, second}
    await admin.topics.create("empty", queues=1)
    assert list((await admin.offsets.oldest_ms("empty")).values()) == [None]


async def test_a_group_is_moved_through_a_topic(admin: Admin, session: Session) -> None:
    first, second = await prepared(admin, session)

    async def committed() -> list[QueueOffset | None]:
        return [place.committed for place in await admin.offsets.of_group("billing", "orders")]

    moved = await admin.offsets.move_to_ends("billing", "orders", newest=True)
    assert moved == {first: 2, second: 1}
    assert await committed() == [2, 1]
    await admin.offsets.move_to_ends("billing", "orders", newest=False)
    assert await committed() == [0, 0]
    await admin.offsets.move_to_time("billing", "orders", session.clock.now_ms() + 3_600_000)
    assert await committed() == [2, 1]


async def test_what_is_no_place_is_refused(admin: Admin, session: Session) -> None:
    first, _ = await prepared(admin, session)
    with pytest.raises(ValueError, match="count from 0"):
        await admin.offsets.commit("billing", {first: QueueOffset(-1)})
    with pytest.raises(InvalidName):
        await admin.offsets.commit("a b", {first: QueueOffset(0)})
    with pytest.raises(RequestRejected, match="unknown-group") as caught:
        await admin.offsets.commit("unknown-group", {first: QueueOffset(0)})
    assert "create the group" in caught.value.hint
