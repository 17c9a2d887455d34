"""How a group consumes, and what that makes of its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.client.consumer.support.sample_messages import message

from rocketpipe.client.consumer.group.offsets import BrokerOffsets, FileOffsets
from rocketpipe.client.consumer.group.start import Beginnings, StartFrom
from rocketpipe.client.consumer.pushing.plan import PushPlan
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.session import Session
from rocketpipe.errors import InvalidName
from rocketpipe.model.subscription import ConsumeFromWhere, MessageModel

START = StartFrom(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


def plan(**more: Any) -> PushPlan:
    return PushPlan(group="g", start=START, **more)


def test_members_share_unless_each_gets_all() -> None:
    assert plan().model is MessageModel.CLUSTERING
    assert plan(broadcast=True).model is MessageModel.BROADCASTING


@pytest.mark.parametrize(
    ("settings", "locks"),
    [({}, False), ({"ordered": True}, True), ({"ordered": True, "broadcast": True}, False)],
)
def test_queues_are_locked_where_order_matters_between_members(
    settings: dict[str, bool], locks: bool
) -> None:
    assert plan(**settings).locks_queues is locks


def test_places_are_at_the_brokers_or_in_a_file_of_who_broadcasts(tmp_path: Path) -> None:
    session = Session("127.0.0.1:1")
    assert isinstance(plan().offsets(session), BrokerOffsets)
    assert isinstance(plan(broadcast=True, offsets_root=tmp_path).offsets(session), FileOffsets)


@pytest.mark.parametrize("ordered", [True, False])
async def test_what_fails_is_tried_as_often_as_the_tuning_says(ordered: bool) -> None:
    session = Session("127.0.0.1:1")
    returns = plan(ordered=ordered, tuning=PushTuning(max_attempts=4)).returns(session)
    assert await returns.is_spent(message(1, reconsume_times=3))
    assert not await returns.is_spent(message(1, reconsume_times=2))
    offsets = plan().offsets(session)
    claims = plan().claims(session, offsets, Beginnings(session, offsets, START))
    assert list(claims.held) == []


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"concurrency": 0}, "from 1 to 1000"),
        ({"concurrency": 1001}, "from 1 to 1000"),
        ({"pop": True, "broadcast": True}, "not both"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        plan(**settings)
    with pytest.raises(InvalidName):
        PushPlan(group="no good", start=START)
