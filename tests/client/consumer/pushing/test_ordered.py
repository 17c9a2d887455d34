from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.client.consumer.support.sample_messages import (
    QUEUE,
    NotedOffsets,
    NotedReturns,
    handlers,
    messages,
)
from tests.waiting import PATIENCE_S, until

from rocketpipe.background import running
from rocketpipe.client.consumer.outcome import DEAD_LETTER, Retry
from rocketpipe.client.consumer.pushing.held_queue import HeldQueue, Lease
from rocketpipe.client.consumer.pushing.ordered import OrderedWorkers
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.testing.clock import ManualClock


class Bench:
    """Ordered workers, one locked queue, and what they note."""

    def __init__(
        self, handle: Callable[..., Any], *, batch: int | None = None, max_retries: int = 2**31 - 1
    ) -> None:
        self.clock = ManualClock()
        self.offsets = NotedOffsets()
        self.returns = NotedReturns(max_retries=max_retries)
        self.held = HeldQueue(QUEUE, Lease(self.clock.monotonic_ms()))
        self.lost: list[HeldQueue] = []
        self.workers = OrderedWorkers(
            handlers(handle, batch=batch),
            self.offsets,
            self.returns,
            clock=self.clock,
            tuning=PushTuning(),
            concurrency=4,
            lost=self._drop,
        )

    def _drop(self, held: HeldQueue) -> None:
        self.lost.append(held)
        held.drop()

    @property
    def offset(self) -> int | None:
        return self.offsets.noted(QUEUE)

    async def submit(self, *offsets: int) -> None:
        await self.workers.submit(self.held, messages(*offsets))

    def renew(self) -> None:
        assert self.held.lease is not None
        self.held.lease.renewed_ms = self.clock.monotonic_ms()


@asynccontextmanager
async def bench(handle: Callable[..., Any], **more: Any) -> AsyncIterator[Bench]:
    made = Bench(handle, **more)
    async with running(made.workers.attend(made.held), "attend"):
        yield made


async def test_messages_are_consumed_one_after_another_in_order() -> None:
    seen = []
    inside = 0

    async def handle(one: Any) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        seen.append(one.queue_offset)
        await asyncio.sleep(0)
        inside -= 1

    async with bench(handle) as at:
        await at.submit(5, 6)
        await at.submit(7)
        await until(lambda: at.offset == 8)
        await at.submit(8)
        await until(lambda: at.offset == 9)
        assert seen == [5, 6, 7, 8]
        assert len(at.held.messages) == 0


async def test_after_a_failure_the_queue_rests_and_the_same_comes_first() -> None:
    seen = []

    async def handle(one: Any) -> bool:
        seen.append((one.queue_offset, one.reconsume_times))
        return one.queue_offset != 5 or one.reconsume_times == 2

    async with bench(handle) as at:
        await at.submit(5, 6)
        await until(lambda: at.clock._sleepers)
        await at.clock.advance(999)
        assert seen == [(5, 0)]
        await at.clock.advance(1)
        await until(lambda: len(seen) == 2 and at.clock._sleepers)
        assert at.offset is None
        await at.clock.advance(1000)
        await until(lambda: at.offset == 7)
        assert seen == [(5, 0), (5, 1), (5, 2), (6, 0)]
        assert at.returns.resent == at.returns.sent_back == []


async def test_a_handler_says_how_long_the_queue_rests_within_limits() -> None:
    pauses = [0, 50_000]
    seen = []

    async def handle(one: Any) -> Any:
        seen.append(one.queue_offset)
        return Retry(pause_ms=pauses.pop(0)) if pauses else None

    async with bench(handle) as at:
        await at.submit(5)
        await until(lambda: at.clock._sleepers)
        await at.clock.advance(10)
        await until(lambda: len(seen) == 2 and at.clock._sleepers)
        await at.clock.advance(29_000)
        assert len(seen) == 2
        at.renew()
        await at.clock.advance(1000)
        await until(lambda: at.offset == 6)


async def test_of_a_batch_the_first_may_be_done() -> None:
    given = []

    async def handle(batch: list[Any]) -> Any:
        given.append([one.queue_offset for one in batch])
        return Retry(done=2) if len(given) == 1 else None

    async with bench(handle, batch=3) as at:
        await at.submit(5, 6, 7, 8)
        await until(lambda: at.offset == 7 and at.clock._sleepers)
        await at.clock.advance(1000)
        await until(lambda: at.offset == 9)
        assert given == [[5, 6, 7], [7, 8]]


async def test_after_its_last_attempt_a_message_leaves_and_the_queue_goes_on() -> None:
    seen = []

    async def handle(one: Any) -> bool:
        seen.append(one.queue_offset)
        return one.queue_offset != 5

    async with bench(handle, max_retries=1) as at:
        await at.submit(5, 6)
        await until(lambda: at.clock._sleepers)
        await at.clock.advance(1000)
        await until(lambda: at.offset == 7)
        assert seen == [5, 5, 6]
        assert at.returns.resent == [5]


async def test_what_nobody_takes_is_tried_again_rather_than_lost() -> None:
    async def handle(one: Any) -> Retry:
        return Retry(delay_level=DEAD_LETTER)

    async with bench(handle) as at:
        at.returns.takes = False
        await at.submit(5)
        await until(lambda: at.clock._sleepers)
        assert at.offset is None
        at.returns.takes = True
        await at.clock.advance(1000)
        await until(lambda: at.offset == 6)
        assert at.returns.resent == [5, 5]


async def test_a_result_that_comes_after_the_locks_life_is_dropped() -> None:
    gate = asyncio.Event()
    seen = []

    async def handle(one: Any) -> None:
        seen.append(one.queue_offset)
        await gate.wait()

    async with bench(handle) as at:
        await at.submit(5, 6)
        await until(lambda: seen == [5])
        # The process stands still: nothing renews the lock meanwhile.
        await at.clock.advance(70_000)
        gate.set()
        await until(lambda: at.lost)
        await at.held.quiet()
        assert at.offset is None
        assert at.held.is_dropped
        assert seen == [5]


async def test_a_result_counts_while_the_lock_is_renewed_however_long_it_takes() -> None:
    gate = asyncio.Event()

    async def handle(one: Any) -> None:
        await gate.wait()

    async with bench(handle) as at:
        await at.submit(5)
        await until(lambda: not at.held.is_quiet)
        for _ in range(20):
            await at.clock.advance(20_000)
            at.renew()
        gate.set()
        await until(lambda: at.offset == 6)
        assert not at.lost


async def test_nothing_begins_under_an_old_lock_until_it_is_renewed() -> None:
    seen = []

    async def handle(one: Any) -> None:
        seen.append(one.queue_offset)

    async with bench(handle) as at:
        await at.clock.advance(30_000)
        await at.submit(5)
        await until(lambda: at.clock._sleepers)
        await at.clock.advance(1000)
        assert seen == []
        at.renew()
        await at.clock.advance(1000)
        await until(lambda: at.offset == 6)
        assert not at.lost


async def test_a_lock_that_nobody_renewed_is_given_up() -> None:
    async def handle(one: Any) -> None: ...

    async with bench(handle) as at:
        await at.clock.advance(60_000)
        await at.submit(5)
        await until(lambda: at.lost == [at.held])


async def test_without_a_lock_order_is_kept_all_the_same() -> None:
    seen = []

    async def handle(one: Any) -> None:
        seen.append(one.queue_offset)

    made = Bench(handle)
    made.held.lease = None
    async with running(made.workers.attend(made.held), "attend"):
        await made.clock.advance(600_000)
        await made.submit(5, 6)
        await until(lambda: made.offset == 7)
        assert seen == [5, 6]


async def test_a_queue_that_ends_while_it_rests_is_left_at_once() -> None:
    async def handle(one: Any) -> bool:
        return False

    made = Bench(handle)
    attending = asyncio.create_task(made.workers.attend(made.held))
    await made.submit(5)
    await until(lambda: made.clock._sleepers)
    made.held.drain()
    async with asyncio.timeout(PATIENCE_S):
        await attending
    assert made.offset is None


async def test_what_is_given_up_after_the_locks_life_is_not_sent_to_the_dead_letters() -> None:
    gate = asyncio.Event()
    seen = []

    async def handle(one: Any) -> Retry:
        seen.append(one.queue_offset)
        await gate.wait()
        return Retry(delay_level=DEAD_LETTER)

    async with bench(handle) as at:
        await at.submit(5)
        await until(lambda: seen == [5])
        await at.clock.advance(70_000)
        gate.set()
        await until(lambda: at.lost)
        await at.held.quiet()
        assert at.returns.resent == []  # another member has the queue, and may well succeed


async def test_a_lock_that_ends_while_a_message_is_resent_moves_no_offset() -> None:
    async def handle(one: Any) -> Retry:
        return Retry(delay_level=DEAD_LETTER)

    async with bench(handle) as at:
        resend = at.returns.resend

        async def slow(*given: Any) -> bool:
            await at.clock.advance(70_000)
            return await resend(*given)

        at.returns.resend = slow  # type: ignore[method-assign]
        await at.submit(5)
        await until(lambda: at.lost)
        await at.held.quiet()
        assert at.offset is None
