from __future__ import annotations

from typing import Any

import pytest
from tests.client.consumer.support.counter import REFUSED, Counter, counter_and_session
from tests.client.consumer.support.sample_messages import QUEUE

from rocketpipe.client.consumer.pushing.held_queue import HeldQueue
from rocketpipe.client.consumer.pushing.locks import QueueLocks
from rocketpipe.errors import ConnectionLost, NoRoute, RequestRejected
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.clients import LockBatch
from rocketpipe.testing.clock import ManualClock

OTHER = MessageQueue(topic="orders", broker_name="broker-a", queue_id=1)
LIFE_MS = 60_000


async def test_a_lock_is_granted_to_one_and_refused_to_others_until_it_is_given_back() -> None:
    async with counter_and_session(orders={"broker-a": 2}) as (counter, session):
        locks = QueueLocks(session, "g", LIFE_MS)
        assert await locks.lock(QUEUE) is not None
        counter.owners[OTHER] = "somebody else"
        assert await locks.lock(OTHER) is None
        await locks.unlock(QUEUE)
        assert QUEUE not in counter.owners


async def test_a_renewal_asks_each_broker_once_and_tells_what_is_lost() -> None:
    clock = ManualClock()
    async with counter_and_session(clock, orders={"broker-a": 2}) as (counter, session):
        locks = QueueLocks(session, "g", LIFE_MS)
        held = [HeldQueue(queue, await locks.lock(queue)) for queue in (QUEUE, OTHER)]
        counter.owners[OTHER] = "somebody else"
        asked = counter.count(LockBatch)
        await clock.advance(20_000)
        assert await locks.renew(held) == [held[1]]
        assert counter.count(LockBatch) == asked + 1
        assert held[0].lease is not None
        assert held[0].lease.renewed_ms == clock.monotonic_ms()


async def test_a_lock_that_is_granted_anew_after_its_life_is_lost_all_the_same() -> None:
    clock = ManualClock()
    async with counter_and_session(clock, orders={"broker-a": 2}) as (_, session):
        locks = QueueLocks(session, "g", LIFE_MS)
        held = HeldQueue(QUEUE, await locks.lock(QUEUE))
        await clock.advance(LIFE_MS)
        # Somebody may have had the queue in between, and be through with it.
        assert await locks.renew([held]) == [held]


async def test_a_broker_that_does_not_answer_takes_no_lock_away() -> None:
    async with counter_and_session(orders={"broker-a": 1}) as (counter, session):
        locks = QueueLocks(session, "g", LIFE_MS)
        held = HeldQueue(QUEUE, await locks.lock(QUEUE))
        counter.refuse["LockBatch"] = counter.refuse["UnlockBatch"] = REFUSED
        assert await locks.renew([held]) == []
        await locks.unlock(QUEUE)
        with pytest.raises(RequestRejected):
            await locks.lock(QUEUE)


async def test_a_queue_of_an_unknown_topic_cannot_be_locked() -> None:
    async with counter_and_session() as (_, session):
        with pytest.raises(NoRoute):
            await QueueLocks(session, "g", LIFE_MS).lock(QUEUE)


async def test_a_renewal_counts_from_when_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()
    async with counter_and_session(clock, orders={"broker-a": 1}) as (_, session):
        locks = QueueLocks(session, "g", LIFE_MS)
        held = HeldQueue(QUEUE, await locks.lock(QUEUE))
        await clock.advance(20_000)
        call = session.caller.call

        async def slow(*given: Any) -> Any:
            reply = await call(*given)
            await clock.advance(2500)  # the answer takes its time; the broker's minute began before
            return reply

        monkeypatch.setattr(session.caller, "call", slow)
        assert await locks.renew([held]) == []
        assert held.lease is not None
        assert held.lease.renewed_ms == clock.monotonic_ms() - 2500


async def test_followers_are_not_asked_for_locks() -> None:
    async with counter_and_session(orders={"broker-a": 2}) as (counter, session):
        async with Counter.serving() as follower:
            counter.replicas["broker-a"] = {0: "127.0.0.1:1", 1: follower.address}
            locks = QueueLocks(session, "g", LIFE_MS)
            with pytest.raises((ConnectionLost, NoRoute)):
                await locks.lock(QUEUE)
            counter.replicas["broker-a"] = {1: follower.address}
            await session.routes.refresh("orders")
            with pytest.raises(NoRoute):
                await locks.lock(QUEUE)
            assert not follower.asked_for(LockBatch)
            counter.replicas["broker-a"] = {0: counter.address, 1: follower.address}
            await session.routes.refresh("orders")
            assert await locks.lock(QUEUE) is not None
