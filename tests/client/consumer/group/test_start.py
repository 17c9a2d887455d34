"""Where a group begins: what may be said, and what follows from it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.client.consumer.support.fake_broker import desk_and_session

from rocketpipe.client.consumer.group.offsets import BrokerOffsets
from rocketpipe.client.consumer.group.start import Beginnings, StartFrom, settle_pops, start_from
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere
from rocketpipe.protocol.requests.offsets import (
    GetMaxOffset,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from rocketpipe.testing.clock import ManualClock

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
AT = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP


def queue(number: int = 0, topic: str = "t") -> MessageQueue:
    return MessageQueue(topic=topic, broker_name="a", queue_id=number)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("first", StartFrom(FIRST)),
        ("last", StartFrom(LAST, exact=True)),
        (datetime(1970, 1, 1, 0, 1, tzinfo=UTC), StartFrom(AT, 60_000, exact=True)),
        (FIRST, StartFrom(FIRST)),
        (LAST, StartFrom(LAST)),
        (AT, StartFrom(AT, 200_000)),
        (StartFrom(AT, 7), StartFrom(AT, 7)),
    ],
)
def test_a_start_is_a_word_a_moment_or_rocketmqs(said: Any, meant: StartFrom) -> None:
    assert start_from(said, 2_000_000) == meant


@pytest.mark.parametrize(
    "said", ["latest", "earliest", 0, None, ConsumeFromWhere.CONSUME_FROM_MIN_OFFSET, datetime.min]
)
def test_anything_else_is_refused_with_what_may_be_said(said: Any) -> None:
    with pytest.raises(ValueError, match=r"say 'first', 'last', a datetime|has no zone"):
        start_from(said, 0)


@pytest.mark.parametrize("where", [FIRST, LAST, AT])
@pytest.mark.parametrize("topic", ["t", "%RETRY%g"])
async def test_a_group_goes_on_where_it_stopped(where: ConsumeFromWhere, topic: str) -> None:
    async with desk_and_session(**{topic: {"a": 1}}) as (desk, session):
        desk.offsets[topic, 0] = 42
        store = BrokerOffsets(session, "g")
        start = StartFrom(where, at_ms=1000)
        assert await Beginnings(session, store, start).of(queue(topic=topic)) == 42
        assert desk.count(GetMaxOffset) == desk.count(SearchOffsetByTimestamp) == 0


@pytest.mark.parametrize(
    ("where", "topic", "begin"),
    [
        (LAST, "t", 100),
        (LAST, "%RETRY%g", 0),
        (FIRST, "t", 0),
        (FIRST, "%RETRY%g", 0),
        (AT, "t", 77),
        (AT, "%RETRY%g", 100),
    ],
)
async def test_a_new_group_begins_as_it_was_told(
    where: ConsumeFromWhere, topic: str, begin: int
) -> None:
    async with desk_and_session(**{topic: {"a": 1}}) as (desk, session):
        store = BrokerOffsets(session, "g")
        start = StartFrom(where, at_ms=77_000)
        assert await Beginnings(session, store, start).of(queue(topic=topic)) == begin
        assert desk.count(QueryConsumerOffset) == 1


async def test_a_moment_that_was_left_out_is_half_an_hour_ago() -> None:
    clock = ManualClock(now_ms=10_000_000)
    async with desk_and_session(clock, t={"a": 1}) as (_, session):
        store = BrokerOffsets(session, "g")
        assert await Beginnings(session, store, StartFrom(AT)).of(queue()) == 8200


@pytest.mark.parametrize(
    ("said", "topic", "begin"),
    [
        ("last", "t", 100),
        ("last", "%RETRY%g", 0),
        (datetime.fromtimestamp(77, UTC), "t", 77),
        (datetime.fromtimestamp(77, UTC), "%RETRY%g", 0),
    ],
)
async def test_an_exact_start_goes_by_no_rule(said: Any, topic: str, begin: int) -> None:
    async with desk_and_session(**{topic: {"a": 1}}) as (desk, session):
        store = BrokerOffsets(session, "g", exact=True)
        beginnings = Beginnings(session, store, start_from(said, 0))
        await beginnings.look([topic])
        assert await beginnings.of(queue(topic=topic)) == begin
        (asked,) = [each for each in desk.asked if isinstance(each, QueryConsumerOffset)]
        assert asked.set_zero_if_not_found is False
        assert desk.offsets[topic, 0] == begin


async def test_a_queue_that_came_later_is_new_for_who_begins_at_the_end() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        store = BrokerOffsets(session, "g", exact=True)
        beginnings = Beginnings(session, store, start_from("last", 0), keeps=False)
        await beginnings.look(["t", "nowhere"])
        assert await beginnings.of(queue(0)) == 100
        desk.topics["nowhere"] = {"a": 1}
        assert await beginnings.of(queue(1)) == 0
        assert await beginnings.of(queue(0, "nowhere")) == 0
        assert desk.count(UpdateConsumerOffset) == 0


@pytest.mark.parametrize(
    ("start", "settled"),
    [
        (start_from("last", 0), {("t", 0): 100}),
        (StartFrom(AT, 77_000), {("t", 0): 77}),
        (StartFrom(LAST), {}),
        (StartFrom(FIRST), {}),
    ],
)
async def test_who_pops_has_its_start_saved_where_brokers_do_not_know_it(
    start: StartFrom, settled: dict[tuple[str, int], int]
) -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        await settle_pops(session, "g", start, ["t"])
        assert desk.offsets == settled
