from __future__ import annotations

import asyncio

from tests.client.consumer.support.sample_messages import QUEUE, messages
from tests.waiting import until

from rocketpipe.client.consumer.pushing.held_queue import HeldQueue, Lease


def test_a_lease_lasts_until_its_life_is_over() -> None:
    lease = Lease(renewed_ms=100)
    assert lease.lasts(159, 60)
    assert not lease.lasts(160, 60)


async def test_it_is_quiet_when_the_last_handler_left() -> None:
    held = HeldQueue(QUEUE)
    await held.quiet()
    held.handling.begin()
    assert not held.is_quiet
    waiting = asyncio.create_task(held.quiet())
    held.handling.begin()
    held.handling.end()
    await asyncio.sleep(0)
    assert not held.is_quiet
    assert not waiting.done()
    held.handling.end()
    assert held.is_quiet
    await waiting


async def test_draining_keeps_what_is_in_hand_and_dropping_does_not() -> None:
    held = HeldQueue(QUEUE)
    held.messages.put(messages(1, 2))
    held.drain()
    assert held.is_ending
    assert not held.is_dropped
    assert len(held.messages) == 2
    held.drop()
    assert held.is_dropped
    assert len(held.messages) == 0


async def test_whoever_waits_is_woken_by_the_end() -> None:
    held = HeldQueue(QUEUE)
    waits = [
        asyncio.create_task(held.shrinking()),
        asyncio.create_task(held.ending()),
    ]
    await until(lambda: held._shrunk._waiters and held._ending._waiters)
    held.drain()
    await asyncio.gather(*waits)
    await held.shrinking()  # and nobody begins to wait after it
