"""How far groups have come, and where they are moved to."""

from __future__ import annotations

import pytest
from tests.client.admin.support.sent import send

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.session import Session
from rocketpipe.errors import InvalidName, NoRoute, RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

pytestmark = pytest.mark.scenario

QUEUE = MessageQueue(topic="t", broker_name="broker-a", queue_id=0)


async def test_a_lag_is_what_is_left_to_read(admin: Admin, session: Session) -> None:
    await admin.topics.create("t", queues=1)
    await admin.groups.create("g")
    for number in range(3):
        await send(session, "t", b"%d" % number)
    await admin.offsets.commit("g", {QUEUE: QueueOffset(1)})
    lag = await admin.progress.of_group("g")
    assert (lag.group, lag.lag, lag.rate) == ("g", 2, 0.0)
    assert lag.queues[0].last_stored_ms is not None
    assert await admin.progress.subscription("g", "t") is None


async def test_a_look_ahead_changes_nothing_and_agrees_with_the_move(
    admin: Admin, session: Session
) -> None:
    await admin.topics.create("t", queues=1)
    await admin.groups.create("g")
    for number in range(3):
        await send(session, "t", b"%d" % number)
    await admin.offsets.commit("g", {QUEUE: QueueOffset(1)})
    for place in (
        {"to_ms": 0},
        {"to_end": True, "may_skip": False},
        {"to_offset": 2, "queue": QUEUE},
        {"to_end": True},
    ):
        planned = await admin.progress.reset("g", "t", preview=True, **place)
        assert (await admin.offsets.of_group("g", "t"))[0].committed == planned[0].before
        assert await admin.progress.reset("g", "t", **place) == planned


async def test_a_place_is_given_once_and_makes_sense(admin: Admin) -> None:
    for wrong in ({}, {"to_ms": 0, "to_end": True}):
        with pytest.raises(ValueError, match="give one of"):
            await admin.progress.reset("g", "t", **wrong)
    with pytest.raises(ValueError, match="give the queue too"):
        await admin.progress.reset("g", "t", to_offset=1)
    with pytest.raises(InvalidName):
        await admin.progress.reset("no name", "t", to_ms=0)
    with pytest.raises(InvalidName):
        await admin.progress.clone("g", "no name")
    with pytest.raises(NoRoute):
        await admin.progress.reset("g", "t", to_ms=0)
    await admin.topics.create("t", queues=1)
    with pytest.raises(RequestRejected, match="from 0 to 0"):
        await admin.progress.reset("g", "t", to_offset=3, queue=QUEUE, preview=True)
