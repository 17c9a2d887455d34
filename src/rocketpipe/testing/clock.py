"""A clock that stands still until a test turns it."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count


class ManualClock:
    """Time that passes by ``advance`` alone; sleepers wake in the order of their deadlines."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._passed_ms = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    def now_ms(self) -> int:
        return self._start_ms + self._passed_ms

    def monotonic_ms(self) -> int:
        return self._passed_ms

    async def sleep(self, duration_ms: int) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (self._passed_ms + duration_ms, next(self._arrivals), wake)
        heapq.heappush(self._sleepers, entry)
        await wake

    async def advance(self, duration_ms: int) -> None:
        """Let time pass; whoever sleeps less than that wakes, and runs, at its own moment."""
        end_ms = self._passed_ms + duration_ms
        while self._sleepers and self._sleepers[0][0] <= end_ms:
            due_ms, _, wake = heapq.heappop(self._sleepers)
            self._passed_ms = max(self._passed_ms, due_ms)
            if not wake.done():
                wake.set_result(None)
            await _settle()
        self._passed_ms = end_ms
        await _settle()


async def _settle() -> None:
    # A woken task may wake others in turn; a few rounds of the loop let them all run.
    for _ in range(10):
        await asyncio.sleep(0)
