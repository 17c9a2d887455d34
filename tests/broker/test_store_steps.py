"""Steps of a store, carried out while others are served."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.broker.store_steps import run_steps
from rocketpipe.errors import StoreError
from rocketpipe.store.files.background_sync import Steps


async def test_the_loop_turns_while_a_step_waits() -> None:
    go = threading.Event()

    def steps() -> Steps[str]:
        yield lambda: go.wait(PATIENCE_S) and None
        return "done"

    carrying = asyncio.create_task(run_steps(steps()))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not carrying.done()
    go.set()
    assert await carrying == "done"


async def test_what_steps_raise_is_raised() -> None:
    def steps() -> Steps[None]:
        yield lambda: None
        raise StoreError("no")

    with pytest.raises(StoreError, match="no"):
        await run_steps(steps())


async def test_steps_are_closed_when_whoever_carries_them_out_is_cancelled() -> None:
    go, closed = threading.Event(), []

    def steps() -> Steps[None]:
        try:
            yield lambda: go.wait(PATIENCE_S) and None
        finally:
            closed.append(True)

    carrying = asyncio.create_task(run_steps(steps()))
    await asyncio.sleep(0)
    carrying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await carrying
    go.set()
    assert closed == [True]
