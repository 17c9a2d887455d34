from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.client.consumer.support.counter import REFUSED, Counter, counter_and_session
from tests.client.consumer.support.sample_messages import QUEUE, NotedReturns, handlers, stored
from tests.waiting import until

from rocketpipe.background import running
from rocketpipe.client.consumer.group.offsets import BrokerOffsets
from rocketpipe.client.consumer.group.start import Beginnings, StartFrom
from rocketpipe.client.consumer.handling.handlers import subscription_to
from rocketpipe.client.consumer.pushing.claims import QueueClaims
from rocketpipe.client.consumer.pushing.fetch_loop import FetchLoop
from rocketpipe.client.consumer.pushing.held_queue import HeldQueue
from rocketpipe.client.consumer.pushing.locks import QueueLocks
from rocketpipe.client.consumer.pushing.ordered import OrderedWorkers
from rocketpipe.client.consumer.pushing.workers import ConcurrentWorkers, Workers
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere
from rocketpipe.protocol.requests.clients import UnlockBatch
from rocketpipe.testing.clock import ManualClock


class Bench:
    """Everything between the rebalancer and the handlers, against a broker on a port."""

    def __init__(
        self,
        counter: Counter,
        session: Session,
        clock: ManualClock,
        handle: Callable[..., Any],
        *,
        ordered: bool,
        tuning: PushTuning,
    ) -> None:
        self.counter, self.session, self.clock = counter, session, clock
        offsets = self.offsets = BrokerOffsets(session, "g")
        self.forgotten: list[MessageQueue] = []
        first = StartFrom(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        start_of = Beginnings(session, offsets, first).of
        locks = QueueLocks(session, "g", tuning.lock_life_ms) if ordered else None
        self.claims = QueueClaims(offsets, locks, start_of=start_of, clock=clock, tuning=tuning)
        chosen = handlers(handle)
        returns = NotedReturns()
        self.workers: Workers
        if ordered:
            self.workers = OrderedWorkers(
                chosen,
                offsets,
                returns,
                clock=clock,
                tuning=tuning,
                concurrency=4,
                lost=self.claims.lost,
            )
        else:
            self.workers = ConcurrentWorkers(
                chosen, offsets, returns, clock=clock, tuning=tuning, concurrency=4
            )
        fetch = FetchLoop(
            session,
            "g",
            offsets,
            self.workers,
            tuning=tuning,
            subscription=lambda topic: subscription_to(topic),
            room=self.claims.room,
        )
        self.claims.connect(fetch, self.workers, self.forgotten.append)

    @property
    def saved(self) -> int | None:
        return self.counter.offsets.get(("orders", 0))

    @property
    def held(self) -> HeldQueue:
        (one,) = self.claims.held
        return one


@asynccontextmanager
async def bench(
    handle: Callable[..., Any], *, ordered: bool = False, **tuning: int
) -> AsyncIterator[Bench]:
    clock = ManualClock()
    async with counter_and_session(clock, orders={"broker-a": 2}) as (counter, session):
        made = Bench(counter, session, clock, handle, ordered=ordered, tuning=PushTuning(**tuning))
        async with running(made.workers.run(), "workers"):
            yield made
            await made.claims.close()


class Gate:
    """A handler that waits until it is let through, and notes who is inside."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.entered: list[int] = []
        self.inside = 0
        self.most = 0

    async def __call__(self, one: Any) -> None:
        self.entered.append(one.queue_offset)
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.open.wait()
        self.inside -= 1


async def test_a_claimed_queue_is_consumed_and_its_offset_saved_on_release() -> None:
    gate = Gate()
    gate.open.set()
    async with bench(gate) as at:
        at.counter.store(QUEUE, stored(0), stored(1))
        assert await at.claims.claim(QUEUE)
        assert await at.claims.claim(QUEUE), "it is ours already"
        await until(lambda: at.offsets.noted(QUEUE) == 2)
        assert await at.claims.release(QUEUE)
        assert at.saved == 2
        assert at.offsets.noted(QUEUE) is None
        assert list(at.claims.held) == []
        assert await at.claims.release(QUEUE), "it is not ours any more"


@pytest.mark.parametrize("late", [1, 90])
async def test_a_queue_begins_with_what_is_saved_whatever_was_noted_before(late: int) -> None:
    gate = Gate()
    async with bench(gate) as at:
        at.offsets.update(QUEUE, QueueOffset(late))  # by a handler of an earlier time, say
        at.counter.offsets["orders", 0] = 50  # where others have come since, or an operator put it
        at.counter.store(QUEUE, stored(50))
        assert await at.claims.claim(QUEUE)
        await until(lambda: gate.entered == [50])
        await at.offsets.persist([QUEUE])
        assert at.saved == 50


async def test_what_cannot_begin_leaves_neither_a_queue_nor_a_lock() -> None:
    gate = Gate()
    async with bench(gate, ordered=True) as at:
        at.counter.refuse["QueryConsumerOffset"] = REFUSED
        with pytest.raises(RequestRejected):
            await at.claims.claim(QUEUE)
        assert list(at.claims.held) == []
        assert at.counter.owners == {}


async def test_a_queue_that_another_has_locked_is_not_ours_yet() -> None:
    async with bench(Gate(), ordered=True) as at:
        at.counter.owners[QUEUE] = "somebody else"
        assert not await at.claims.claim(QUEUE)
        del at.counter.owners[QUEUE]
        assert await at.claims.claim(QUEUE)


async def test_a_release_waits_for_handlers_and_saves_what_they_finish() -> None:
    gate = Gate()
    async with bench(gate) as at:
        at.counter.store(QUEUE, stored(0))
        assert await at.claims.claim(QUEUE)
        await until(lambda: gate.entered == [0])
        releasing = asyncio.create_task(at.claims.release(QUEUE))
        await until(lambda: not list(at.claims.held))
        gate.open.set()
        assert await releasing
        assert at.saved == 1


async def test_a_handler_that_takes_longer_is_not_waited_for_where_order_does_not_matter() -> None:
    gate = Gate()
    async with bench(gate) as at:
        at.counter.store(QUEUE, stored(0))
        assert await at.claims.claim(QUEUE)
        await until(lambda: gate.entered == [0])
        held = at.held
        releasing = asyncio.create_task(at.claims.release(QUEUE))
        await until(lambda: any(due == 500 for due, _, _ in at.clock._sleepers))
        await at.clock.advance(500)
        assert await releasing
        gate.open.set()
        await held.quiet()
        assert at.saved is None, "its result came too late"


async def test_where_order_matters_the_lock_is_kept_until_the_handler_is_done() -> None:
    gate = Gate()
    async with bench(gate, ordered=True) as at:
        at.counter.store(QUEUE, stored(0), stored(1))
        assert await at.claims.claim(QUEUE)
        await until(lambda: gate.entered == [0])
        releasing = asyncio.create_task(at.claims.release(QUEUE))
        await until(lambda: any(due == 500 for due, _, _ in at.clock._sleepers))
        await at.clock.advance(500)
        assert await releasing
        assert QUEUE in at.counter.owners
        assert not await at.claims.claim(QUEUE), "a handler of ours is still at it"
        assert at.counter.count(UnlockBatch) == 0
        gate.open.set()
        await until(lambda: at.forgotten == [QUEUE])
        assert at.counter.owners == {}
        assert at.saved == 1
        assert gate.entered == [0]
        assert await at.claims.claim(QUEUE)
        await until(lambda: gate.entered == [0, 1])
        assert gate.most == 1


async def test_a_lock_is_renewed_for_as_long_as_a_handler_lingers_that_began_under_it() -> None:
    gate = Gate()
    async with bench(gate, ordered=True) as at:
        at.counter.store(QUEUE, stored(0))
        assert await at.claims.claim(QUEUE)
        await until(lambda: gate.entered == [0])
        lease = at.held.lease
        assert lease is not None
        releasing = asyncio.create_task(at.claims.release(QUEUE))
        await until(lambda: any(due == 500 for due, _, _ in at.clock._sleepers))
        await at.clock.advance(500)
        assert await releasing
        async with running(at.claims.keep_locks(), "locks"):
            for now_ms in (20_500, 40_500, 60_500, 80_500):
                await until(
                    lambda now_ms=now_ms: any(due == now_ms for due, _, _ in at.clock._sleepers)
                )
                await at.clock.advance(20_000)
                await until(lambda now_ms=now_ms: lease.renewed_ms == now_ms)
            gate.open.set()
            await until(lambda: at.forgotten == [QUEUE])
            assert at.saved == 1, "its lock never ended, so its result counts"


async def test_a_lock_that_another_took_ends_the_queue_and_drops_the_result() -> None:
    gate = Gate()
    async with bench(gate, ordered=True) as at:
        at.counter.store(QUEUE, stored(0), stored(1))
        assert await at.claims.claim(QUEUE)
        async with running(at.claims.keep_locks(), "locks"):
            await until(lambda: gate.entered == [0])
            await until(lambda: any(due == 20_000 for due, _, _ in at.clock._sleepers))
            at.counter.owners[QUEUE] = "somebody else"
            await at.clock.advance(20_000)
            await until(lambda: not list(at.claims.held))
            assert not await at.claims.claim(QUEUE)
            gate.open.set()
            await until(lambda: at.forgotten == [QUEUE])
            assert at.saved is None
            assert at.offsets.noted(QUEUE) is None
            assert gate.entered == [0]


async def test_locks_are_renewed_while_they_are_ours() -> None:
    gate = Gate()
    async with bench(gate, ordered=True) as at:
        at.counter.store(QUEUE, stored(0))
        assert await at.claims.claim(QUEUE)
        async with running(at.claims.keep_locks(), "locks"):
            await until(lambda: gate.entered == [0])
            for _ in range(5):
                lease = at.held.lease
                assert lease is not None
                due = at.clock.monotonic_ms() + 20_000
                await until(lambda due=due: any(at_ms == due for at_ms, _, _ in at.clock._sleepers))
                await at.clock.advance(20_000)
                now_ms = at.clock.monotonic_ms()
                await until(lambda lease=lease, now_ms=now_ms: lease.renewed_ms == now_ms)
            gate.open.set()
            await until(lambda: at.offsets.noted(QUEUE) == 1)


async def test_an_offset_that_moved_is_saved_and_the_queue_begins_anew_there() -> None:
    gate = Gate()
    gate.open.set()
    async with bench(gate) as at:
        at.counter.least = 50
        at.counter.store(QUEUE, stored(50))
        assert await at.claims.claim(QUEUE)
        await until(lambda: at.forgotten == [QUEUE])
        assert at.saved == 50
        assert await at.claims.claim(QUEUE)
        await until(lambda: gate.entered == [50])


async def test_a_reset_moves_the_queues_that_are_held_and_late_results_do_not_move_them_back() -> (
    None
):
    gate = Gate()
    async with bench(gate) as at:
        at.counter.store(QUEUE, *(stored(offset) for offset in range(3)))
        at.counter.offsets["orders", 0] = 2
        assert await at.claims.claim(QUEUE)
        await until(lambda: gate.entered == [2])
        stranger = MessageQueue(topic="orders", broker_name="broker-a", queue_id=1)
        at.claims.moved({QUEUE: QueueOffset(0), stranger: QueueOffset(9)})
        await until(lambda: at.saved == 0)
        gate.open.set()
        await until(lambda: at.forgotten == [QUEUE])
        assert at.saved == 0
        assert await at.claims.claim(QUEUE)
        await until(lambda: sorted(gate.entered) == [0, 1, 2, 2])


async def test_draining_waits_for_handlers_but_not_for_ever() -> None:
    gate = Gate()
    async with bench(gate, drain_ms=7000) as at:
        at.counter.store(QUEUE, stored(0))
        assert await at.claims.claim(QUEUE)
        await until(lambda: gate.entered == [0])
        draining = asyncio.create_task(at.claims.drain())
        await until(lambda: any(due == 7000 for due, _, _ in at.clock._sleepers))
        assert not draining.done()
        await at.clock.advance(7000)
        await draining


async def test_room_is_shared_by_the_queues_that_are_held_of_a_topic() -> None:
    async with bench(Gate(), topic_messages=100) as at:
        assert at.claims.room("orders").messages == 100
        assert await at.claims.claim(QUEUE)
        other = MessageQueue(topic="orders", broker_name="broker-a", queue_id=1)
        assert await at.claims.claim(other)
        assert at.claims.room("orders").messages == 50
