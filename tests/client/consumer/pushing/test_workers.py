from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.client.consumer.support.sample_messages import (
    QUEUE,
    RETRIES,
    NotedOffsets,
    NotedReturns,
    again,
    handlers,
    messages,
)
from tests.waiting import until

from rocketpipe.background import running
from rocketpipe.client.consumer.outcome import DEAD_LETTER, Retry
from rocketpipe.client.consumer.pushing.held_queue import HeldQueue
from rocketpipe.client.consumer.pushing.workers import ConcurrentWorkers
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.testing.clock import ManualClock


class Bench:
    """Workers, one queue, and what they note."""

    def __init__(
        self,
        handle: Callable[..., Any],
        *,
        batch: int | None = None,
        broadcast: bool = False,
        concurrency: int = 4,
        **tuning: int,
    ) -> None:
        self.clock = ManualClock()
        self.offsets = NotedOffsets()
        self.returns = NotedReturns()
        self.held = HeldQueue(QUEUE)
        self.handlers = handlers(handle, batch=batch)
        self.workers = ConcurrentWorkers(
            self.handlers,
            self.offsets,
            None if broadcast else self.returns,
            clock=self.clock,
            tuning=PushTuning(**tuning),
            concurrency=concurrency,
        )

    @property
    def offset(self) -> int | None:
        return self.offsets.noted(QUEUE)

    async def submit(self, *offsets: int) -> None:
        await self.workers.submit(self.held, messages(*offsets))


@asynccontextmanager
async def bench(handle: Callable[..., Any], **more: Any) -> AsyncIterator[Bench]:
    made = Bench(handle, **more)
    async with running(made.workers.run(), "workers"):
        yield made
    made.handlers.close()


async def test_what_is_done_leaves_and_the_offset_follows() -> None:
    seen = []

    async def handle(one: Any) -> None:
        seen.append(one.queue_offset)

    async with bench(handle) as at:
        await at.submit(5, 6, 7)
        await until(lambda: at.offset == 8)
        assert sorted(seen) == [5, 6, 7]
        assert len(at.held.messages) == 0
        assert at.held.committable == 8


async def test_the_offset_waits_for_the_slowest() -> None:
    gates = {offset: asyncio.Event() for offset in (5, 6, 7)}

    async def handle(one: Any) -> None:
        await gates[one.queue_offset].wait()

    async with bench(handle) as at:
        await at.submit(5, 6, 7)
        gates[6].set()
        gates[7].set()
        await until(lambda: len(at.held.messages) == 1)
        assert at.offset == 5
        gates[5].set()
        await until(lambda: at.offset == 8)


async def test_no_more_handlers_run_than_were_asked_for() -> None:
    running_now = most = 0
    gate = asyncio.Event()

    async def handle(one: Any) -> None:
        nonlocal running_now, most
        running_now += 1
        most = max(most, running_now)
        await gate.wait()
        running_now -= 1

    async with bench(handle, concurrency=3) as at:
        submitting = asyncio.create_task(at.submit(*range(12)))
        await until(lambda: running_now == 3)
        gate.set()
        await submitting
        await until(lambda: at.offset == 12)
        assert most == 3


async def test_who_waits_holds_up_none_behind_it_and_its_first_step_is_taken_once() -> None:
    gate = asyncio.Event()
    seen: list[int] = []

    async def handle(one: Any) -> None:
        seen.append(one.queue_offset)
        if one.queue_offset == 6:
            await gate.wait()

    async with bench(handle, concurrency=2) as at:
        await at.submit(5, 6, 7, 8)
        await until(lambda: seen == [5, 6, 7, 8])
        await until(lambda: len(at.held.messages) == 1)
        assert at.offset == 6
        assert not at.held.is_quiet
        gate.set()
        await until(lambda: at.offset == 9)
        assert at.held.is_quiet
        assert seen == [5, 6, 7, 8]


async def test_one_that_fails_at_once_holds_up_none_behind_it() -> None:
    seen: list[int] = []

    async def handle(one: Any) -> bool:
        seen.append(one.queue_offset)
        return one.queue_offset != 6

    async with bench(handle, concurrency=1) as at:
        await at.submit(5, 6, 7)
        await until(lambda: at.offset == 8)
        assert seen == [5, 6, 7]
        assert at.returns.sent_back == [(6, 0)]


async def test_what_fails_is_sent_back_before_its_offset_is_passed() -> None:
    async def handle(one: Any) -> Any:
        if one.queue_offset == 6:
            raise KeyError("id")
        return Retry(delay_level=DEAD_LETTER) if one.queue_offset == 7 else None

    async with bench(handle) as at:
        await at.submit(5, 6, 7)
        await until(lambda: at.offset == 8)
        assert sorted(at.returns.sent_back) == [(6, 0), (7, -1)]


async def test_of_a_batch_only_what_is_not_done_is_sent_back() -> None:
    async def handle(batch: list[Any]) -> Retry:
        return Retry(done=2, delay_level=3)

    async with bench(handle, batch=4) as at:
        await at.submit(5, 6, 7, 8)
        await until(lambda: at.offset == 9)
        assert at.returns.sent_back == [(7, 3), (8, 3)]


async def test_what_nobody_takes_back_stays_in_hand_and_is_tried_again_here() -> None:
    attempts = []

    async def handle(one: Any) -> Any:
        attempts.append(one.reconsume_times)
        return len(attempts) == 2

    async with bench(handle, local_retry_ms=5000) as at:
        at.returns.takes = False
        await at.submit(5)
        await until(lambda: at.clock._sleepers)
        assert at.offset == 5
        assert len(at.held.messages) == 1
        await at.clock.advance(4999)
        assert attempts == [0]
        await at.clock.advance(1)
        await until(lambda: at.offset == 6)
        assert attempts == [0, 1]


async def test_a_broadcast_message_that_failed_is_dropped() -> None:
    async def handle(one: Any) -> bool:
        return False

    async with bench(handle, broadcast=True) as at:
        await at.submit(5)
        await until(lambda: at.offset == 6)
        assert at.returns.sent_back == []


async def test_the_result_of_a_dropped_queue_counts_for_nothing() -> None:
    gate, ended = asyncio.Event(), asyncio.Event()

    async def handle(one: Any) -> None:
        await gate.wait()
        ended.set()
        raise KeyError("id")

    async with bench(handle) as at:
        await at.submit(5)
        await until(lambda: not at.held.is_quiet)
        at.held.drop()
        gate.set()
        await at.held.quiet()
        assert ended.is_set()
        assert at.returns.sent_back == []
        assert at.offset is None


async def test_a_drained_queue_finishes_what_has_begun_and_begins_nothing_more() -> None:
    gate = asyncio.Event()
    seen = []

    async def handle(one: Any) -> None:
        seen.append(one.queue_offset)
        await gate.wait()

    async with bench(handle, concurrency=1) as at:
        await at.submit(5)
        await until(lambda: seen == [5])
        await at.submit(6)
        at.held.drain()
        gate.set()
        await at.held.quiet()
        await until(lambda: not len(at.workers._waiting))
        assert seen == [5]
        assert at.offset == 6


async def test_stuck_messages_are_sent_back_and_their_late_results_ignored() -> None:
    gate = asyncio.Event()

    async def handle(one: Any) -> bool:
        if one.queue_offset == 5:
            await gate.wait()
            return False
        return True

    async with bench(handle, consume_timeout_ms=1000) as at:
        await at.submit(5, 6)
        await until(lambda: len(at.held.messages) == 1)
        await at.clock.advance(1000)
        await at.workers.clean(at.held)
        assert at.offset == 5
        await at.clock.advance(1)
        await at.workers.clean(at.held)
        assert at.returns.sent_back == [(5, 3)]
        assert at.offset == 7
        gate.set()
        await at.held.quiet()
        assert at.returns.sent_back == [(5, 3)]


async def test_a_message_of_a_topic_without_handler_is_sent_back() -> None:
    async def handle(one: Any) -> None: ...

    async with bench(handle) as at:
        held = HeldQueue(RETRIES)
        await at.workers.submit(held, [again(1, "bills")])
        await until(lambda: at.offsets.noted(RETRIES) == 2)
        assert at.returns.sent_back == [(1, 0)]


async def test_a_worker_survives_whatever_goes_wrong_around_a_handler() -> None:
    async def handle(one: Any) -> bool:
        return one.queue_offset != 5

    async with bench(handle, local_retry_ms=5000) as at:

        async def broken(message: Any, delay_level: int = 0) -> bool:
            raise RuntimeError("not foreseen")

        mended = at.returns.send_back
        at.returns.send_back = broken  # type: ignore[method-assign]
        await at.submit(5, 6)
        await until(lambda: len(at.held.messages) == 1 and at.clock._sleepers)
        assert at.offset == 5
        at.returns.send_back = mended  # type: ignore[method-assign]
        await at.clock.advance(5000)
        await until(lambda: at.offset == 7)
