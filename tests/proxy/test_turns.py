from __future__ import annotations

import asyncio
from itertools import pairwise

from rocketpipe.proxy.turns import Turns


async def test_so_many_begin_at_a_turn_and_all_do_in_their_order() -> None:
    turns, begun = Turns(3), list[int]()

    async def work(number: int) -> None:
        await turns.begin()
        begun.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(10)]
    tasks[5].cancel()
    counts = [0]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        counts.append(len(begun))
    assert max(after - before for before, after in pairwise(counts)) <= 3
    assert begun == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    await turns.begin()
    assert not turns._waiting


async def test_who_comes_alone_does_not_wait() -> None:
    turns = Turns(1)
    for _ in range(3):
        beginning = turns.begin()
        try:
            beginning.send(None)
        except StopIteration:
            await asyncio.sleep(0)
        else:
            raise AssertionError("it waited")
