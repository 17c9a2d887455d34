"""Which broker of its name a queue is read from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.client.consumer.support.fake_broker import PullDesk, desk_and_session, found

from rocketpipe.client.consumer.replica_choice import (
    FIRST_AVOIDED_MS,
    LONGEST_AVOIDED_MS,
    ReplicaChoice,
)
from rocketpipe.client.session import Session
from rocketpipe.errors import CallTimeout, ConnectionLost, NoRoute, RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.testing.clock import ManualClock

QUEUE = MessageQueue(topic="t", broker_name="a", queue_id=0)
GONE = ConnectionLost("x:1", "gone")


@asynccontextmanager
async def choosing(
    addresses: dict[int, str],
) -> AsyncIterator[tuple[ReplicaChoice, PullDesk, Session, ManualClock]]:
    clock = ManualClock()
    async with desk_and_session(clock, t={"a": 1}) as (desk, session):
        desk.replicas["a"] = addresses
        await session.routes.get("t")
        yield ReplicaChoice(session, QUEUE), desk, session, clock


def suggest(choice: ReplicaChoice, broker_id: int) -> None:
    choice.next()
    choice.answered(found(next_offset=1, broker_id=broker_id), QueueOffset(1))


async def test_the_suggested_one_is_asked_or_the_next_or_any() -> None:
    async with choosing({0: "l:1", 2: "f:2", 5: "f:5"}) as (choice, *_):
        assert choice.next() == ("l:1", True)
        for suggested, address in ((2, "f:2"), (1, "f:2"), (4, "f:5"), (9, "l:1"), (0, "l:1")):
            suggest(choice, suggested)
            assert choice.next().address == address


async def test_without_a_leader_a_follower_is_asked_and_with_nobody_it_is_said() -> None:
    async with choosing({3: "f:3", 2: "f:2"}) as (choice, desk, session, _):
        assert choice.next() == ("f:2", False)
        desk.replicas["a"] = {}
        await session.routes.refresh("t")
        with pytest.raises(NoRoute, match="'a' cannot be read now"):
            choice.next()
        assert not choice.failed(NoRoute("t", "n:1"))


async def test_one_that_fails_is_left_out_for_ever_longer_and_then_asked_again() -> None:
    async with choosing({0: "l:1", 1: "f:1"}) as (choice, _, _, clock):
        left_out_ms = FIRST_AVOIDED_MS
        for _ in range(6):
            assert choice.next().address == "l:1"
            assert choice.failed(GONE)
            assert choice.next() == ("f:1", False)
            choice.answered(found(next_offset=1), QueueOffset(1))
            await clock.advance(left_out_ms - 1)
            assert choice.next().address == "f:1"
            await clock.advance(1)
            left_out_ms = min(2 * left_out_ms, LONGEST_AVOIDED_MS)
        choice.next()
        choice.answered(found(next_offset=1), QueueOffset(1))
        assert choice.failed(GONE)
        await clock.advance(FIRST_AVOIDED_MS)
        assert choice.next().leads


async def test_if_all_fail_they_are_asked_all_the_same_after_a_rest() -> None:
    async with choosing({0: "l:1", 1: "f:1"}) as (choice, *_):
        choice.next()
        assert choice.failed(GONE)
        choice.next()
        assert not choice.failed(CallTimeout("f:1", "PullMessage", 5))
        assert not choice.has_another
        assert choice.next().leads


async def test_what_the_leader_refuses_is_not_asked_of_followers() -> None:
    async with choosing({0: "l:1", 1: "f:1"}) as (choice, *_):
        choice.next()
        assert not choice.failed(RequestRejected(16, "not readable"))
        assert choice.next().leads
        suggest(choice, 1)
        choice.next()
        assert choice.is_at_follower
        assert choice.failed(RequestRejected(2, "followers are not read here"))
        assert choice.next().leads


async def test_a_new_leader_is_asked_at_once() -> None:
    async with choosing({0: "l:1", 1: "f:1"}) as (choice, desk, session, _):
        choice.next()
        choice.failed(GONE)
        desk.replicas["a"] = {0: "n:1", 1: "f:1"}
        await session.routes.refresh("t")
        assert choice.next() == ("n:1", True)


async def test_only_the_leader_moves_a_reader_back() -> None:
    async with choosing({0: "l:1", 1: "f:1"}) as (choice, *_):
        choice.next()
        assert choice.answered(found(next_offset=3, broker_id=1), QueueOffset(9)) == 3
        assert not choice.next().leads
        assert choice.answered(found(next_offset=3, broker_id=1), QueueOffset(9)) == 9
        choice.next()
        assert choice.answered(found(next_offset=12, broker_id=1), QueueOffset(9)) == 12
