"""Pulls that wait, on a clock that is turned by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from rocketpipe.background import running
from rocketpipe.broker.delivery.filtering import CHEAP_COST, Expression
from rocketpipe.broker.delivery.long_poll import (
    MAX_LATE,
    MAX_LATE_DEAR,
    RECHECK_MS,
    TICK_MS,
    WaitingPulls,
)
from rocketpipe.broker.delivery.sieve import Sieve
from rocketpipe.filter.sql_eval import compile_sql
from rocketpipe.testing.clock import ManualClock


def anything(_: object) -> bool:
    return True


class Ends:
    """Where queues end, as a store would tell."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, int], int] = {}

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self.offsets.get((topic, queue_id), 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
async def waiting(clock: ManualClock, ends: Ends) -> AsyncIterator[WaitingPulls]:
    pulls = WaitingPulls(clock, limit=3)
    async with (
        running(pulls.keep_time(ends.max_offset), "time"),
        running(pulls.keep_sifting(), "expressions"),
    ):
        yield pulls


class CountedSieve(Sieve):
    """A sieve whose timer goes on by a second whenever it is read."""

    def __init__(self, slice_s: float) -> None:
        super().__init__(slice_s=slice_s, timer=self._second)
        self.seconds = 0.0

    def _second(self) -> float:
        self.seconds += 1
        return self.seconds

    @property
    def asked(self) -> int:
        """How many expressions were asked: each reads the timer twice."""
        return int(self.seconds) // 2


def expression(text: str, sieve: Sieve | None = None) -> Expression:
    return Expression.of_sql(compile_sql(text), sieve or Sieve())


async def start(
    waiting: WaitingPulls,
    *,
    queue_id: int = 0,
    offset: int = 0,
    wait_ms: int = 15_000,
    matches: Callable[[int], bool] = anything,
    accepts: Expression | None = None,
) -> asyncio.Task[None]:
    task = asyncio.create_task(
        waiting.grown("t", queue_id, offset, wait_ms, matches, accepts), name=f"pull of {queue_id}"
    )
    for _ in range(3):
        await asyncio.sleep(0)  # the pull waits, and so does the loop that keeps its time
    return task


async def leave(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_an_arrival_wakes_all_who_wait_for_its_queue_and_nobody_else(
    waiting: WaitingPulls,
) -> None:
    first, second = await start(waiting), await start(waiting)
    other = await start(waiting, queue_id=1)
    waiting.notify("t", 0, 1, 0)
    await asyncio.gather(first, second)
    assert not other.done()
    assert len(waiting) == 1
    await leave(other)


async def test_a_message_before_the_place_where_one_waits_wakes_nobody(
    waiting: WaitingPulls,
) -> None:
    task = await start(waiting, offset=5)
    waiting.notify("t", 0, 5, 0)
    await asyncio.sleep(0)
    assert not task.done()
    waiting.notify("t", 0, 6, 0)
    await task


async def test_tag_and_properties_are_asked_before_anyone_is_woken(waiting: WaitingPulls) -> None:
    tagged = await start(waiting, matches=lambda code: code == 7)
    chosen = await start(waiting, accepts=expression("a = 1"))
    waiting.notify("t", 0, 1, 6, b"a\x012\x02")
    await asyncio.sleep(0)
    assert not tagged.done()
    assert not chosen.done()
    waiting.notify("t", 0, 2, 7, b"a\x012\x02")
    await tagged
    assert not chosen.done()
    waiting.notify("t", 0, 3, 6, b"a\x011\x02")
    await chosen


async def test_a_wait_ends_when_its_own_time_is_up(
    waiting: WaitingPulls, clock: ManualClock
) -> None:
    short, long = await start(waiting, wait_ms=2000), await start(waiting, wait_ms=4000)
    await clock.advance(1999)
    assert not short.done()
    await clock.advance(2 * TICK_MS + 1)
    assert short.done()
    assert not long.done()
    await clock.advance(2000)
    assert long.done()
    assert len(waiting) == 0


async def test_the_time_of_one_who_comes_later_is_counted_from_then(
    waiting: WaitingPulls, clock: ManualClock
) -> None:
    first = await start(waiting, wait_ms=1000)
    await clock.advance(60_000)
    assert first.done()
    second = await start(waiting, wait_ms=1000)
    await clock.advance(900)
    assert not second.done()
    await clock.advance(400)
    assert second.done()


async def test_who_was_not_woken_by_an_arrival_sees_that_the_queue_has_grown(
    waiting: WaitingPulls, clock: ManualClock, ends: Ends
) -> None:
    behind = await start(waiting, offset=3, wait_ms=20_000, matches=lambda _: False)
    at_end = await start(waiting, offset=9, wait_ms=20_000)
    ends.offsets["t", 0] = 9
    waiting.notify("t", 0, 9, 1)
    assert not behind.done()
    await clock.advance(RECHECK_MS + 2 * TICK_MS)
    assert behind.done()
    assert not at_end.done()
    await leave(at_end)


async def test_nobody_who_left_is_remembered(waiting: WaitingPulls, clock: ManualClock) -> None:
    await leave(await start(waiting), await start(waiting, queue_id=1))
    assert len(waiting) == 0
    assert not waiting._by_queue
    assert not waiting._by_tick
    await clock.advance(20_000)


async def test_so_many_may_wait_and_no_more(waiting: WaitingPulls) -> None:
    tasks = [await start(waiting, queue_id=queue_id) for queue_id in range(3)]
    assert waiting.is_full
    await leave(tasks.pop())
    assert not waiting.is_full
    await leave(*tasks)


async def test_a_callback_is_called_once_and_may_be_taken_back(waiting: WaitingPulls) -> None:
    woken: list[str] = []
    first = waiting.park("t", 0, 0, 1000, anything, None, lambda: woken.append("first"))
    gone = waiting.park("t", 0, 0, 1000, anything, None, lambda: woken.append("gone"))
    waiting.leave(gone)
    waiting.notify("t", 0, 1, 0)
    waiting.notify("t", 0, 2, 0)
    waiting.leave(first)  # it is no more there
    assert woken == ["first"]
    assert len(waiting) == 0


async def test_nothing_is_timed_while_nobody_waits(clock: ManualClock) -> None:
    async with running(WaitingPulls(clock).keep_time(Ends().max_offset), "time"):
        await clock.advance(3_600_000)
        assert not clock._sleepers


async def test_all_are_woken_when_the_broker_goes(waiting: WaitingPulls) -> None:
    tasks = [await start(waiting), await start(waiting, queue_id=1, matches=lambda _: False)]
    waiting.wake_all()
    await asyncio.gather(*tasks)
    assert len(waiting) == 0


async def test_an_expression_is_asked_once_about_a_message_whoever_waits_by_it(
    waiting: WaitingPulls,
) -> None:
    sieve = CountedSieve(slice_s=100)
    wanted = expression("a = 1", sieve)
    tasks = [await start(waiting, accepts=wanted) for _ in range(3)]
    waiting.notify("t", 0, 1, 0, b"a\x012\x02")
    assert sieve.asked == 1
    waiting.notify("t", 0, 2, 0, b"a\x011\x02")
    await asyncio.gather(*tasks)
    assert sieve.asked == 2


async def test_an_arrival_asks_no_more_than_there_is_time_for_and_the_rest_is_asked_aside(
    waiting: WaitingPulls,
) -> None:
    sieve = CountedSieve(slice_s=2)
    wanted = [expression(f"a = {number}", sieve) for number in range(3)]
    tasks = [await start(waiting, accepts=each) for each in wanted]
    waiting.notify("t", 0, 1, 0, b"a\x012\x02")
    assert sieve.asked == 2
    await tasks[2]
    assert not tasks[0].done()
    assert not tasks[1].done()
    await leave(*tasks[:2])


async def test_a_dear_expression_is_not_asked_by_who_sends(waiting: WaitingPulls) -> None:
    sieve = CountedSieve(slice_s=100)
    dear = expression(" OR ".join(f"a = {number}" for number in range(CHEAP_COST)), sieve)
    task = await start(waiting, accepts=dear)
    waiting.notify("t", 0, 1, 0, b"a\x01none\x02")
    assert sieve.asked == 0
    waiting.notify("t", 0, 2, 0, b"a\x0163\x02")
    await task


async def test_who_cannot_be_asked_for_in_time_looks_for_itself_at_the_next_tick(
    waiting: WaitingPulls, clock: ManualClock
) -> None:
    sieve = CountedSieve(slice_s=100)
    dear = expression(" OR ".join(f"a = {number}" for number in range(CHEAP_COST)), sieve)
    task = await start(waiting, accepts=dear)
    for number in range(MAX_LATE_DEAR + 1):
        waiting.notify("t", 0, number + 1, 0, b"a\x01-1\x02")
    await asyncio.sleep(0)
    assert not task.done()
    await clock.advance(TICK_MS)
    await task
    assert sieve.asked == MAX_LATE_DEAR


async def test_what_is_to_be_asked_later_has_a_limit_and_nobody_is_forgotten(
    waiting: WaitingPulls, clock: ManualClock
) -> None:
    sieve = CountedSieve(slice_s=1)
    cheap = expression("a = 1", sieve)
    task = await start(waiting, accepts=cheap)
    for number in range(MAX_LATE + 2):
        waiting.notify("t", 0, number + 1, 0, b"a\x012\x02")
    assert sieve.asked == 1
    await clock.advance(TICK_MS)
    await task


async def test_who_has_left_is_not_asked_for(waiting: WaitingPulls) -> None:
    sieve = CountedSieve(slice_s=1)
    spent, gone = expression("a = 1", sieve), expression("a = 2", sieve)
    first, second = await start(waiting, accepts=spent), await start(waiting, accepts=gone)
    waiting.notify("t", 0, 1, 0, b"a\x012\x02")
    await leave(first, second)
    asked = sieve.asked
    for _ in range(10):
        await asyncio.sleep(0)
    # Only the turn of the one that is gone was waited for.
    assert sieve.asked - asked <= 1
    assert len(waiting) == 0
