"""Pulls that wait at the end of a queue until it grows."""

from __future__ import annotations

import asyncio
from collections import defaultdict


class WaitingPulls:
    """Wakes those who wait for a queue as soon as a message arrives in it."""

    def __init__(self) -> None:
        self._waiting: defaultdict[tuple[str, int], set[asyncio.Future[None]]] = defaultdict(set)

    async def grown(self, topic: str, queue_id: int, timeout_ms: int) -> bool:
        """Wait for the queue to grow; False when the time is up first."""
        queue = (topic, queue_id)
        arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[queue].add(arrival)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await arrival
        except TimeoutError:
            return False
        finally:
            self._waiting[queue].discard(arrival)
            if not self._waiting[queue]:
                del self._waiting[queue]
        return True

    def notify(self, topic: str, queue_id: int) -> None:
        """Tell those who wait that a message has arrived."""
        for arrival in self._waiting.get((topic, queue_id), ()):
            if not arrival.done():
                arrival.set_result(None)
