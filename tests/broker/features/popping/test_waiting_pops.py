"""Pops that wait are woken one at a time, by what they wait for, or when their time is up."""

from __future__ import annotations

import asyncio

from rocketpipe.broker.delivery.filtering import Filters
from rocketpipe.broker.delivery.sieve import Sieve
from rocketpipe.broker.features.popping.waiting_pops import RECHECK_MS, TICK_MS, WaitingPops
from rocketpipe.record.hot import java_hash
from rocketpipe.testing.clock import ManualClock


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def begin(
    waiting: WaitingPops, clock: ManualClock, group: str = "g", queue_id: int = -1, tags: str = "*"
) -> asyncio.Task[bool]:
    choice = Filters().choice("TAG", tags)
    until_ms = clock.monotonic_ms() + 20_000
    return asyncio.create_task(waiting.wait("t", group, queue_id, until_ms, choice))


async def test_a_message_wakes_one_pop_of_each_group() -> None:
    clock = ManualClock()
    waiting = WaitingPops(clock)
    first, second = begin(waiting, clock), begin(waiting, clock)
    other, of_queue = begin(waiting, clock, "h"), begin(waiting, clock, queue_id=1)
    await settle()
    assert len(waiting) == 4
    assert waiting.waiting("t", "g", -1) == 2
    waiting.notify("t", 0, 0, b"")
    await settle()
    assert [each.done() for each in (first, second, other, of_queue)] == [True, False, True, False]
    waiting.notify("t", 1, 0, b"")
    await settle()
    assert second.done()
    assert of_queue.done()
    assert len(waiting) == 0


async def test_a_retry_topic_wakes_its_own_group_whatever_the_tag() -> None:
    clock = ManualClock()
    waiting = WaitingPops(clock)
    for name in ("%RETRY%g_t", "%RETRY%g+t"):
        ours, theirs = begin(waiting, clock, tags="A"), begin(waiting, clock, "h")
        await settle()
        waiting.notify(name, 0, 12345, b"")
        await settle()
        assert ours.done()
        assert not theirs.done()
        waiting.wake("t", "h", -1)
        assert await theirs


async def test_a_tag_that_is_not_wanted_wakes_nobody() -> None:
    clock = ManualClock()
    waiting = WaitingPops(clock)
    wants_a, wants_b = begin(waiting, clock, tags="A"), begin(waiting, clock, tags="B")
    await settle()
    waiting.notify("t", 0, java_hash("B"), b"")
    await settle()
    assert not wants_a.done()
    assert await wants_b
    wants_a.cancel()
    await asyncio.gather(wants_a, return_exceptions=True)
    assert len(waiting) == 0


async def test_time_is_kept_and_one_looks_again_every_few_seconds() -> None:
    clock = ManualClock()
    waiting = WaitingPops(clock)
    ticks: list[int] = []
    keeping = asyncio.create_task(waiting.keep_time(lambda: ticks.append(1)))
    one, other = begin(waiting, clock), begin(waiting, clock)
    await settle()
    await clock.advance(RECHECK_MS + TICK_MS)
    assert await one is True
    assert not other.done()
    await clock.advance(20_000)
    assert other.done()
    assert ticks
    late = begin(waiting, clock, queue_id=3)
    await settle()
    waiting.wake_all()
    assert await late is False
    assert await waiting.wait("t", "g", -1, clock.monotonic_ms() + 1000) is False
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_one_whose_time_is_up_is_told_so() -> None:
    clock = ManualClock()
    waiting = WaitingPops(clock)
    keeping = asyncio.create_task(waiting.keep_time(lambda: None))
    short = asyncio.create_task(waiting.wait("t", "g", 0, clock.monotonic_ms() + 1000))
    await settle()
    await clock.advance(999)
    assert not short.done()
    await clock.advance(1 + TICK_MS)
    assert await short is False
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_one_that_was_woken_and_is_gone_wakes_the_next() -> None:
    clock = ManualClock()
    waiting = WaitingPops(clock)
    gone, next_one = begin(waiting, clock), begin(waiting, clock)
    await settle()
    waiting.notify("t", 0, 0, b"")
    gone.cancel()
    await settle()
    assert gone.cancelled()
    assert await next_one


async def test_no_more_wait_than_there_is_room_for() -> None:
    clock = ManualClock()
    waiting = WaitingPops(clock, limit=2, max_alike=1)
    one = begin(waiting, clock)
    await settle()
    assert waiting.is_full("t", "g", -1)
    assert not waiting.is_full("t", "g", 0)
    other = begin(waiting, clock, "h")
    await settle()
    assert waiting.is_full("t", "i", 0)
    waiting.wake_all()
    assert [await one, await other] == [False, False]


async def test_an_expression_that_cannot_be_asked_now_has_one_look_at_the_next_tick() -> None:
    clock = ManualClock()
    waiting = WaitingPops(clock)
    keeping = asyncio.create_task(waiting.keep_time(lambda: None))
    sieve = Sieve(slice_s=1, timer=lambda: 0.0)
    choice = Filters(sieve=sieve).choice("SQL92", "a = 1")
    until_ms = clock.monotonic_ms() + 20_000
    pops = [asyncio.create_task(waiting.wait("t", "g", -1, until_ms, choice)) for _ in range(2)]
    plain = begin(waiting, clock, "h")
    await settle()
    waiting.notify("t", 0, 0, b"a\x012\x02")
    await settle()
    assert [each.done() for each in (*pops, plain)] == [False, False, True]
    sieve.spend(1)
    waiting.notify("t", 0, 0, b"a\x012\x02")
    await settle()
    assert not pops[0].done()
    await clock.advance(TICK_MS)
    assert await pops[0]
    assert not pops[1].done()
    waiting.wake_all()
    await asyncio.gather(*pops)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
