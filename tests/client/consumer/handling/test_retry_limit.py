from __future__ import annotations

from tests.client.consumer.support.counter import REFUSED, counter_and_session
from tests.client.consumer.support.sample_messages import QUEUE

from rocketpipe.client.consumer.handling.retry_limit import KNOWN_FOR_MS, NO_END, RetryLimit
from rocketpipe.protocol.requests.groups import GetGroupConfig
from rocketpipe.testing import ManualClock

TOPICS = {"orders": {"broker-a": 1}}


async def test_what_the_consumer_says_counts_and_nobody_is_asked() -> None:
    async with counter_and_session(**TOPICS) as (counter, session):
        assert await RetryLimit(session, "g", 0, ordered=True).at(QUEUE) == 0
        assert not counter.asked_for(GetGroupConfig)


async def test_else_the_group_decides_and_is_asked_again_after_a_while() -> None:
    clock = ManualClock()
    async with counter_and_session(clock, **TOPICS) as (counter, session):
        limit = RetryLimit(session, "g", None, ordered=False)
        counter.max_retries = 3
        assert [await limit.at(QUEUE) for _ in range(2)] == [3, 3]
        assert counter.count(GetGroupConfig) == 1
        counter.max_retries = 5
        await clock.advance(KNOWN_FOR_MS)
        assert await limit.at(QUEUE) == 5


async def test_in_order_the_number_that_nobody_has_chosen_is_no_end() -> None:
    async with counter_and_session(**TOPICS) as (counter, session):
        assert await RetryLimit(session, "g", None, ordered=True).at(QUEUE) == NO_END
        counter.max_retries = 2
        assert await RetryLimit(session, "g", None, ordered=True).at(QUEUE) == 2


async def test_a_broker_that_does_not_say_leaves_what_was_known() -> None:
    clock = ManualClock()
    async with counter_and_session(clock, **TOPICS) as (counter, session):
        limits = [RetryLimit(session, "g", None, ordered=ordered) for ordered in (False, True)]
        counter.refuse["GetGroupConfig"] = REFUSED
        assert [await limit.at(QUEUE) for limit in limits] == [16, NO_END]
        del counter.refuse["GetGroupConfig"]
        counter.max_retries = 1
        await clock.advance(KNOWN_FOR_MS)
        assert [await limit.at(QUEUE) for limit in limits] == [1, 1]
        counter.refuse["GetGroupConfig"] = REFUSED
        await clock.advance(KNOWN_FOR_MS)
        assert [await limit.at(QUEUE) for limit in limits] == [1, 1]
