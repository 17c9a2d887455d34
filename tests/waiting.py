"""Waiting for what others are about to do, with the same patience in all tests.

A limit is there to end a test that waits for nothing, not to measure: it is far above what the
busiest machine needs, and far below what pytest allows a test.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120

#: Turns of the loop before it rests in between: most of what is waited for takes a few.
_TURNS = 50


async def until(holds: Callable[[], object]) -> None:
    """Let other tasks, threads, sockets and processes go on until something holds."""
    turns = 0
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # a condition of others, who know no event
            turns += 1
            await asyncio.sleep(0 if turns < _TURNS else 0.001)


def until_there(holds: Callable[[], object]) -> Any:
    """As ``until``, where there is no loop: let others go on until something holds; gives it."""
    until_s = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < until_s, "it never came"
        time.sleep(0.02)
    return found
