"""From a share of the queues to handlers, by pulls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.client.consumer.support.counter import Counter, counter_and_session
from tests.client.consumer.support.sample_messages import QUEUE, stored
from tests.waiting import until

from rocketpipe.client.consumer.group.start import Beginnings, StartFrom
from rocketpipe.client.consumer.group.subscriptions import Subscriptions
from rocketpipe.client.consumer.handling.handler_stats import HandlerStats
from rocketpipe.client.consumer.handling.handlers import Handlers, handler
from rocketpipe.client.consumer.pushing.flow import PullFlow
from rocketpipe.client.consumer.pushing.member import PushMember
from rocketpipe.client.consumer.pushing.plan import PushPlan
from rocketpipe.client.consumer.pushing.report import PushReport
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import ConsumeFromWhere
from rocketpipe.protocol.requests.clients import LockBatch, UnlockBatch
from rocketpipe.protocol.requests.pulling import PullMessage

TOPICS = {"orders": {"broker-a": 1}, "%RETRY%g": {"broker-a": 1}}
START = StartFrom(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


@asynccontextmanager
async def flow(
    seen: list[int], *, suspended: bool = False, **more: Any
) -> AsyncIterator[tuple[Counter, PullFlow]]:
    """Run one whose handler notes offsets."""

    async def note(message: Any) -> None:
        seen.append(message.queue_offset)

    async with counter_and_session(**TOPICS) as (counter, session), AsyncExitStack() as stack:
        counter.store(QUEUE, stored(0), stored(1))
        plan = PushPlan(group="g", start=START, **more)
        counts = HandlerStats(session.clock)
        handlers = Handlers(1, "test", counts)
        handlers.add(handler("orders", note, tags=None, sql=None, batch=None))
        subscriptions = Subscriptions(session, "g", handlers, retries=True)
        await subscriptions.find()
        offsets = plan.offsets(session)
        claims = plan.claims(session, offsets, Beginnings(session, offsets, plan.start))
        report = PushReport(
            session, handlers, counts, claims, offsets, subscriptions, ordered=False, concurrency=1
        )
        member = PushMember(plan, subscriptions, report)
        session.join(member)
        stack.push_async_callback(session.leave, member)
        await session.beat()
        made = PullFlow(session, plan, handlers, subscriptions, claims, offsets)
        await made.begin(stack, suspended=suspended)
        yield counter, made


async def test_its_queues_are_pulled_handled_and_saved() -> None:
    seen: list[int] = []
    async with flow(seen) as (counter, made):
        await until(lambda: seen == [0, 1])
        assert {queue.topic for queue in made.queues} == {"orders", "%RETRY%g"}
        assert not counter.asked_for(LockBatch)
    assert counter.offsets["orders", 0] == 2


async def test_what_is_suspended_pulls_nothing_until_it_goes_on() -> None:
    seen: list[int] = []
    async with flow(seen, suspended=True) as (counter, made):
        await asyncio.sleep(0)
        assert not counter.asked_for(PullMessage)
        made.resume()
        await until(lambda: seen == [0, 1])
        made.suspend()


async def test_an_operator_moves_it_back() -> None:
    seen: list[int] = []
    async with flow(seen) as (_, made):
        await until(lambda: seen == [0, 1])
        made.moved({QUEUE: QueueOffset(0)})
        made.notify()
        await until(lambda: seen == [0, 1, 0, 1])


async def test_in_order_queues_are_locked_and_given_up() -> None:
    seen: list[int] = []
    async with flow(seen, ordered=True) as (counter, _):
        await until(lambda: seen == [0, 1])
        assert counter.asked_for(LockBatch)
    assert counter.asked_for(UnlockBatch)
