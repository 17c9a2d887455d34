"""Expressions get their share of the loop, one after the other."""

from __future__ import annotations

import asyncio

from rocketpipe.broker.delivery.sieve import Sieve


class Timer:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def test_a_slice_that_is_used_up_is_filled_by_the_next_turn() -> None:
    sieve = Sieve(slice_s=1, timer=Timer())
    sieve.spend(0.5)
    assert not sieve.is_spent
    await sieve.turn()
    sieve.spend(0.5)
    assert sieve.is_spent
    await sieve.turn()
    assert not sieve.is_spent


async def test_others_have_the_loop_between_two_slices() -> None:
    sieve = Sieve(slice_s=0.0001, timer=Timer())
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    seen = []
    for _ in range(5):
        sieve.spend(1)
        await sieve.turn()
        seen.append(turns)
    other.cancel()
    assert sorted(set(seen)) == seen


async def test_where_others_are_busy_they_have_it_longer_than_what_was_spent() -> None:
    timer = Timer()
    sieve = Sieve(slice_s=0.001, timer=timer)
    loop = asyncio.get_running_loop()
    happened: list[str] = []

    def work() -> None:
        timer.now_s += 0.001

    sieve.spend(0.02)
    loop.call_later(0.04, happened.append, "twice as long")
    loop.call_soon(work)
    await sieve.turn()
    assert happened


async def test_who_asked_first_has_the_first_turn() -> None:
    sieve = Sieve(slice_s=0.0001, timer=Timer())
    order: list[int] = []

    async def sift(number: int) -> None:
        for _ in range(3):
            await sieve.turn()
            order.append(number)
            sieve.spend(1)

    sieve.spend(1)
    await asyncio.gather(*(sift(number) for number in range(3)))
    assert order == [0, 1, 2] * 3
