"""Pauses between attempts, and when they end."""

from __future__ import annotations

import asyncio

import pytest

from rocketpipe.client.producer.sending.backoff import ATTEMPT_MS, LONGEST_PAUSE_MS, Backoff
from rocketpipe.errors import ConnectionLost, NoRoute, RequestRejected
from rocketpipe.testing.clock import ManualClock


async def test_patience_pauses_longer_each_time_and_ends_with_its_time() -> None:
    clock = ManualClock()
    patience = Backoff(clock, 5000)
    lost = ConnectionLost("a:1", "gone")
    pauses = []
    try:
        while True:
            began_ms = clock.monotonic_ms()
            waiting = asyncio.create_task(patience.after(lost))
            await asyncio.sleep(0)
            while not waiting.done():
                await clock.advance(100)
            waiting.result()
            pauses.append(clock.monotonic_ms() - began_ms)
    except ConnectionLost:
        pass
    assert pauses == [100, 200, 400, 800, 1000, 1000, 1000]
    assert max(pauses) <= LONGEST_PAUSE_MS


async def test_what_does_not_pass_is_raised_at_once() -> None:
    clock = ManualClock()
    patience = Backoff(clock, 50_000)
    assert patience.attempt_ms == ATTEMPT_MS
    with pytest.raises(RequestRejected):
        await patience.after(RequestRejected(13, "too long"))
    waiting = asyncio.create_task(patience.after(NoRoute("orders", "here")))
    await asyncio.sleep(0)
    await clock.advance(100)
    assert waiting.done()


async def test_what_waits_for_replicas_passes() -> None:
    clock = ManualClock()
    waiting = asyncio.create_task(
        Backoff(clock, 50_000).after(RequestRejected(1, "in-sync replicas not enough"))
    )
    await asyncio.sleep(0)
    await clock.advance(100)
    await waiting
