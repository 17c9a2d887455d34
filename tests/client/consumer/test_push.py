from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.client.consumer.support.counter import REFUSED, Counter, counter_and_session
from tests.client.consumer.support.sample_messages import QUEUE, stored
from tests.waiting import PATIENCE_S, until

from rocketpipe.client.consumer.push import PushConsumer
from rocketpipe.client.consumer.pushing.flow import PullFlow
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.session import Session
from rocketpipe.errors import (
    FilterError,
    GroupTaken,
    InvalidName,
    RequestRejected,
    SessionClosed,
)
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import ConsumeFromWhere, MessageModel
from rocketpipe.protocol.requests.clients import Heartbeat, UnregisterClient
from rocketpipe.protocol.requests.offsets import SearchOffsetByTimestamp
from rocketpipe.testing.clock import ManualClock

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
TOPICS = {"orders": {"broker-a": 1}, "%RETRY%g": {"broker-a": 1}}


def consumer(session: Session | str, seen: list[int] | None = None, **more: Any) -> PushConsumer:
    made = PushConsumer(session, group="g", start=FIRST, **more)

    async def note(one: Any) -> None:
        if seen is not None:
            seen.append(one.queue_offset)

    made.subscribe("orders", note)
    return made


def saved(counter: Counter) -> int | None:
    return counter.offsets.get(("orders", 0))


async def test_from_join_to_leave_everything_is_told_consumed_and_saved() -> None:
    seen: list[int] = []
    async with counter_and_session(**TOPICS) as (counter, session):
        counter.store(QUEUE, stored(0), stored(1))
        async with consumer(session, seen) as at:
            await until(lambda: seen == [0, 1])
            assert {queue.topic for queue in at.queues} == {"orders", "%RETRY%g"}
            beat = counter.asked_for(Heartbeat)[0]
            assert isinstance(beat, Heartbeat)
            (told,) = beat.data.consumers
            assert (told.group_name, told.message_model) == ("g", MessageModel.CLUSTERING)
            assert told.consume_from_where is FIRST
            assert [one.topic for one in told.subscriptions] == ["orders", "%RETRY%g"]
        assert saved(counter) == 2
        (left,) = counter.asked_for(UnregisterClient)
        assert isinstance(left, UnregisterClient)
        assert left.consumer_group == "g"
        order = [type(one).__name__ for one in counter.asked]
        assert order.index("UpdateConsumerOffset") < order.index("UnregisterClient")


async def test_a_decorated_function_stays_what_it_was() -> None:
    at = PushConsumer("127.0.0.1:1", group="g")

    @at.on("orders", tags="a || b")
    async def bill(message: Any) -> str:
        return "billed"

    assert await bill(None) == "billed"
    assert next(iter(at._subscriptions)).tags == frozenset({"a", "b"})


async def test_closing_lets_handlers_finish() -> None:
    entered, gate = asyncio.Event(), asyncio.Event()
    async with counter_and_session(**TOPICS) as (counter, session):
        counter.store(QUEUE, stored(0))
        at = PushConsumer(session, group="g", start=FIRST)

        @at.on("orders")
        async def slow(message: Any) -> None:
            entered.set()
            await gate.wait()

        async with at:
            await entered.wait()
            closing = asyncio.create_task(at.close())
            await asyncio.sleep(0)
            assert not closing.done()
            gate.set()
            await closing
        assert saved(counter) == 1


async def test_a_handler_may_stop_its_consumer() -> None:
    async with counter_and_session(**TOPICS) as (counter, session):
        counter.store(QUEUE, stored(0))
        at = PushConsumer(session, group="g", start=FIRST)

        @at.on("orders")
        def last(message: Any) -> None:
            loop.call_soon_threadsafe(at.stop)

        loop = asyncio.get_running_loop()
        async with at, asyncio.timeout(PATIENCE_S):
            await at.closed()
        assert saved(counter) == 1


async def test_closing_leaves_neither_a_task_nor_a_thread_behind() -> None:
    async with Counter.serving(**TOPICS) as counter:
        tasks, threads = asyncio.all_tasks(), threading.active_count()
        counter.store(QUEUE, stored(0))
        for ordered in (False, True):
            seen: list[int] = []
            # The desk forgets neither offsets nor members by itself.
            counter.offsets.clear()
            counter.beating.clear()
            at = PushConsumer(counter.address, group="g", start=FIRST, ordered=ordered)
            at.subscribe("orders", lambda one, seen=seen: seen.append(one.queue_offset))
            async with at:
                await until(lambda seen=seen: seen == [0])
            await until(lambda: threading.active_count() <= threads)
            await until(lambda: asyncio.all_tasks() <= tasks)


async def test_a_group_that_begins_by_time_begins_half_an_hour_ago_unless_it_says_when() -> None:
    clock = ManualClock()
    async with counter_and_session(clock, **TOPICS) as (counter, session):
        at = PushConsumer(session, group="g", start=ConsumeFromWhere.CONSUME_FROM_TIMESTAMP)
        at.subscribe("orders", print)
        async with at:
            await until(lambda: counter.count(SearchOffsetByTimestamp) == 1)
        (asked,) = counter.asked_for(SearchOffsetByTimestamp)
        assert isinstance(asked, SearchOffsetByTimestamp)
        assert asked.timestamp == clock.now_ms() - 30 * 60_000


async def test_offsets_are_saved_from_time_to_time() -> None:
    clock = ManualClock()
    seen: list[int] = []
    async with counter_and_session(clock, **TOPICS) as (counter, session):
        counter.store(QUEUE, stored(0))
        async with consumer(session, seen):
            await until(lambda: seen == [0])
            assert saved(counter) is None
            await clock.advance(5000)
            await until(lambda: saved(counter) == 1)


async def test_suspended_before_or_after_it_began_nothing_is_fetched() -> None:
    seen: list[int] = []
    async with counter_and_session(**TOPICS) as (counter, session):
        at = consumer(session, seen)
        at.suspend()
        async with at:
            counter.store(QUEUE, stored(0))
            await until(lambda: len(at.queues) == 2)
            assert seen == []
            at.resume()
            await until(lambda: seen == [0])
            at.suspend()
            assert isinstance(at._flow, PullFlow)
            assert not at._flow._fetch._resumed.is_set()


async def test_an_operator_may_move_the_group() -> None:
    seen: list[int] = []
    async with counter_and_session(**TOPICS) as (counter, session):
        counter.store(QUEUE, stored(0), stored(1))
        async with consumer(session, seen) as at:
            await until(lambda: seen == [0, 1])
            assert isinstance(at._flow, PullFlow)
            at._flow.moved({QUEUE: QueueOffset(1)})
            await until(lambda: seen == [0, 1, 1])


async def test_one_session_has_one_consumer_of_a_group() -> None:
    async with counter_and_session(**TOPICS) as (_, session):
        async with consumer(session):
            with pytest.raises(GroupTaken):
                await consumer(session).__aenter__()
        async with consumer(session):
            pass


async def test_a_broker_that_refuses_the_expression_ends_the_start() -> None:
    async with counter_and_session(**TOPICS) as (counter, session):
        counter.refuse["CheckClientConfig"] = REFUSED
        at = PushConsumer(session, group="g")
        at.subscribe("orders", print, sql="price > 10")
        with pytest.raises(RequestRejected):
            await at.__aenter__()
        assert counter.beating == {}


async def test_what_cannot_be_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidName):
        PushConsumer("127.0.0.1:1", group="no good")
    with pytest.raises(ValueError, match="concurrency"):
        PushConsumer("127.0.0.1:1", group="g", concurrency=0)
    with pytest.raises(ValueError, match="span"):
        PushConsumer("127.0.0.1:1", group="g", tuning=PushTuning(span=0))
    at = PushConsumer("127.0.0.1:1", group="g")
    with pytest.raises(ValueError, match="no handler"):
        await at.__aenter__()
    with pytest.raises(InvalidName):
        at.on("no good")(print)
    with pytest.raises(FilterError):
        at.on("orders", sql="a >")(print)


async def test_a_running_consumer_takes_no_more_handlers_and_starts_once() -> None:
    async with counter_and_session(**TOPICS) as (_, session):
        async with consumer(session) as at:
            with pytest.raises(ValueError, match="runs already"):
                at.subscribe("bills", print)
            with pytest.raises(ValueError, match="runs already"):
                await at.__aenter__()


async def test_a_closed_consumer_can_be_started_again() -> None:
    seen: list[int] = []
    async with counter_and_session(**TOPICS) as (counter, session):
        at = consumer(session, seen)
        counter.store(QUEUE, stored(0))
        async with at:
            await until(lambda: seen == [0])
        await at.closed()
        counter.store(QUEUE, stored(1))
        async with at:
            await until(lambda: seen == [0, 1])


async def test_a_broadcast_consumer_reads_no_retries_and_keeps_its_id() -> None:
    at = consumer("127.0.0.1:1", broadcast=True)
    assert at._subscriptions.topics == ["orders"]
    assert at.session.client_id.endswith("@DEFAULT")
    assert at._plan.model is MessageModel.BROADCASTING


async def test_a_mark_without_its_topic_is_refused() -> None:
    at = PushConsumer("127.0.0.1:1", group="g")
    misused: Any = at.on
    with pytest.raises(TypeError, match=r"mark handlers with @consumer\.on"):

        @misused
        async def bill(message: Any) -> None: ...


async def test_nobody_waits_for_the_end_of_what_never_began() -> None:
    with pytest.raises(SessionClosed, match="the consumer"):
        await consumer("127.0.0.1:1").closed()
