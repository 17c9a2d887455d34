"""What a store does in steps, carried out without anybody waiting for its disk."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TypeVar

from rocketpipe.store.files.background_sync import Steps

T = TypeVar("T")


async def run_steps(steps: Steps[T]) -> T:
    """Carry out the steps of a store; others are served whenever it waits.

    Whoever is cancelled meanwhile leaves a store that is whole: what was begun is finished by its
    own thread, and what was not is not missed.

    Raises:
        StoreError: What the steps raise.
    """
    with closing(steps):
        while True:
            try:
                wait = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await asyncio.to_thread(wait)
