"""How much is under way, and until when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.waiting import until

from rocketpipe.client.producer.sending.in_flight import InFlight
from rocketpipe.errors import CallTimeout, ProducerFull
from rocketpipe.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def flying(clock: ManualClock) -> AsyncIterator[InFlight]:
    held = InFlight(clock, max_sends=2, max_bytes=100)
    yield held
    await held.close()


def late() -> CallTimeout:
    return CallTimeout("a:1", "SendMessage", 5)


async def test_who_finds_no_room_waits_in_line(flying: InFlight) -> None:
    assert flying.try_enter(10)
    assert flying.try_enter(10)
    assert not flying.try_enter(10)
    first = asyncio.create_task(flying.enter(10, 1000))
    second = asyncio.create_task(flying.enter(10, 1000))
    await asyncio.sleep(0)
    flying.leave(10)
    assert not flying.try_enter(1)  # the first in line is before
    await first
    assert not second.done()
    flying.leave(10)
    await second
    assert (flying.sends, flying.held_bytes) == (2, 20)


async def test_bytes_count_too_but_the_longest_send_goes_alone(flying: InFlight) -> None:
    assert flying.try_enter(1000)
    assert not flying.try_enter(1)
    flying.leave(1000)
    assert flying.try_enter(60)
    assert not flying.try_enter(41)
    assert flying.try_enter(40)


async def test_no_room_in_time_says_what_fills_it(flying: InFlight, clock: ManualClock) -> None:
    assert flying.try_enter(60)
    waiting = asyncio.create_task(flying.enter(60, 500))
    await until(lambda: bool(flying._line))
    await clock.advance(499)
    assert not waiting.done()
    await clock.advance(1)
    with pytest.raises(ProducerFull, match=r"within 500 ms: 1 sends of 60 bytes.*max_in_flight"):
        await waiting
    flying.leave(60)
    assert flying.try_enter(60)  # nobody is in line any more


async def test_one_who_gives_up_holds_nobody_up(flying: InFlight) -> None:
    assert flying.try_enter(60)
    big, small = (asyncio.create_task(flying.enter(size, 1000)) for size in (90, 10))
    await until(lambda: len(flying._line) == 2)
    big.cancel()
    await small
    assert (flying.sends, flying.held_bytes) == (2, 70)
    with pytest.raises(asyncio.CancelledError):
        await big


async def test_room_given_to_one_who_gave_up_that_moment_is_given_back(flying: InFlight) -> None:
    assert flying.try_enter(100)
    waiting = asyncio.create_task(flying.enter(100, 1000))
    await until(lambda: bool(flying._line))
    flying.leave(100)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (flying.sends, flying.held_bytes) == (0, 0)


async def test_idle_is_when_the_last_has_left(flying: InFlight) -> None:
    await flying.idle()
    flying.try_enter(1)
    flying.try_enter(1)
    idle = asyncio.create_task(flying.idle())
    flying.leave(1)
    await asyncio.sleep(0)
    assert not idle.done()
    flying.leave(1)
    await idle


async def test_each_answer_has_its_own_deadline(flying: InFlight, clock: ManualClock) -> None:
    loop = asyncio.get_running_loop()
    answers = {ms: loop.create_future() for ms in (3000, 1000, 2000)}  # one sooner than the first
    for ms, answer in answers.items():
        flying.watch(answer, ms, late)
    for ms in (1000, 2000, 3000):
        await clock.advance(999)
        assert not answers[ms].done()
        await clock.advance(1)
        with pytest.raises(CallTimeout):
            await answers[ms]
        flying.unwatch(answers[ms])
    assert flying._looking is None  # nothing is left to watch
    later = loop.create_future()
    flying.watch(later, 3500, late)
    await clock.advance(500)
    with pytest.raises(CallTimeout):
        await later


async def test_an_answer_that_came_is_left_alone(flying: InFlight, clock: ManualClock) -> None:
    answers = [asyncio.get_running_loop().create_future() for _ in range(2)]
    for answer in answers:
        flying.watch(answer, 100, late)
    answers[0].set_result("it")
    flying.unwatch(answers[1])
    await clock.advance(100)
    assert answers[0].result() == "it"
    assert not answers[1].done()


async def test_many_leave_at_once_and_who_entered_late_knows_the_time_left(
    flying: InFlight, clock: ManualClock
) -> None:
    assert flying.try_enter(30)
    assert await flying.enter(20, 500) == 500
    waiting = asyncio.create_task(flying.enter(10, 500))
    await until(lambda: bool(clock._sleepers))
    await clock.advance(200)
    flying.leave(50, 2)
    assert await waiting == 300
    assert (flying.sends, flying.held_bytes) == (1, 10)


@pytest.mark.parametrize("limits", [{"max_sends": 0}, {"max_bytes": 0}])
def test_room_for_none_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        InFlight(ManualClock(), **limits)
