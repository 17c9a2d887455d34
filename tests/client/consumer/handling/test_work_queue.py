"""A line of work: nothing is lost in it, and nobody waits who need not."""

from __future__ import annotations

import asyncio
import random

import pytest

from rocketpipe.client.consumer.handling.work_queue import WorkQueue


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_first_come_first_taken_and_who_brings_too_much_waits() -> None:
    line: WorkQueue[int] = WorkQueue(2)
    for number in (1, 2):
        await line.put(number)
    bringing = asyncio.create_task(line.put(3))
    await turns()
    assert not bringing.done()
    assert [await line.take(), await line.take()] == [1, 2]
    await bringing
    assert await line.take() == 3
    assert len(line) == 0


async def test_what_counts_for_more_leaves_less_room_and_what_is_given_back_is_next() -> None:
    line: WorkQueue[str] = WorkQueue(4)
    assert line.take_now() is None
    await line.put("five", 5)  # in line alone it may be any size
    bringing = asyncio.create_task(line.put("one"))
    await turns()
    assert not bringing.done()
    assert line.take_now() == "five"
    line.put_first("three of five", 3)
    await bringing
    late = asyncio.create_task(line.put("late"))
    await turns()
    assert not late.done()
    assert line.take_now() == "three of five"
    await late
    assert [line.take_now(), line.take_now(), line.take_now()] == ["one", "late", None]


async def test_one_who_waits_is_woken_by_what_is_given_back() -> None:
    line: WorkQueue[int] = WorkQueue(1)
    taking = asyncio.create_task(line.take())
    await turns()
    line.put_first(7)
    assert await taking == 7


async def test_a_worker_that_never_waits_takes_all_and_one_that_does_is_helped() -> None:
    line: WorkQueue[int] = WorkQueue(10)
    taken: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    gate = asyncio.Event()
    gate.set()

    async def work(name: str) -> None:
        while True:
            taken[name].append(await line.take())
            if not gate.is_set():
                await gate.wait()

    workers = [asyncio.create_task(work(name)) for name in taken]
    await turns()
    for number in range(6):
        await line.put(number)
    await turns()
    assert sorted(taken.values()) == [[], [], list(range(6))]
    gate.clear()
    for number in range(3):
        await line.put(number)
    await turns(10)
    assert len(line) == 0  # each of the three has one, and waits
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers)


async def test_one_who_leaves_when_woken_passes_it_on() -> None:
    line: WorkQueue[int] = WorkQueue(1)
    leaving, staying = (asyncio.create_task(line.take()) for _ in range(2))
    await turns()
    await line.put(7)
    leaving.cancel()
    assert await staying == 7
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await line.put(1)
    giving_up, bringing = (asyncio.create_task(line.put(number)) for number in (2, 3))
    await turns()
    assert await line.take() == 1
    giving_up.cancel()
    await turns()
    assert await line.take() == 3
    await bringing


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_happens_everything_is_taken_once(seed: int) -> None:
    chance = random.Random(seed)
    line: WorkQueue[int] = WorkQueue(chance.randint(1, 4))
    taken: list[int] = []

    async def work() -> None:
        while True:
            taken.append(await line.take())
            for _ in range(chance.randint(0, 3)):
                await asyncio.sleep(0)

    async def bring(first: int) -> None:
        for number in range(first, first + 20):
            await line.put(number)
            await turns(chance.randint(0, 2))

    workers = [asyncio.create_task(work()) for _ in range(4)]
    bringing = [asyncio.create_task(bring(first)) for first in (0, 20, 40)]
    while not all(task.done() for task in bringing):
        await turns(chance.randint(1, 4))
        if len(workers) > 2 and not len(line) and chance.random() < 0.2:
            workers.pop().cancel()  # it has nothing in hand that would be lost with it
    await turns(50)
    assert sorted(taken) == list(range(60))
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers)
