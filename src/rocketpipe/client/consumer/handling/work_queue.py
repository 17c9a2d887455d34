"""What waits to be handled, so much of it at most.

A worker is woken for the first thing in line, and wakes the next one if it finds more. So messages
whose handler never waits are done by one worker, without a wake-up for each of them; and one whose
handler waits is joined by others, one after the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class WorkQueue(Generic[T]):
    """A line that workers take from, in order."""

    def __init__(self, most: int) -> None:
        """Take how much may stand in line; who brings more waits until there is less."""
        assert most > 0
        self._most = most
        #: Each with how much it counts.
        self._items: deque[tuple[T, int]] = deque()
        self._weight = 0
        self._takers: deque[asyncio.Future[None]] = deque()
        self._bringers: deque[asyncio.Future[None]] = deque()
        #: Whether a taker was woken that has not looked yet.
        self._is_woken = False

    def __len__(self) -> int:
        return len(self._items)

    async def put(self, item: T, weight: int = 1) -> None:
        """Bring one that counts for so much, and wait for room if need be."""
        while self._weight >= self._most:
            try:
                await _turn(self._bringers)
            except asyncio.CancelledError:
                self._make_room_known()  # it may have been told, and there is room for another
                raise
        self._items.append((item, weight))
        self._weight += weight
        self._wake()

    def put_first(self, item: T, weight: int = 1) -> None:
        """Give one back that was taken, or what is left of it: it is the next to be taken."""
        self._items.appendleft((item, weight))
        self._weight += weight
        self._wake()

    def take_now(self) -> T | None:
        """Take the first, if there is one."""
        if not self._items:
            return None
        item, weight = self._items.popleft()
        self._weight -= weight
        if self._items:
            self._wake()
        if self._bringers:
            self._make_room_known()
        return item

    async def take(self) -> T:
        """Take the first, and wait for one if there is none."""
        while not self._items:
            try:
                await _turn(self._takers)
            except asyncio.CancelledError:
                self._is_woken = False
                if self._items:
                    self._wake()  # another takes the place of who leaves
                raise
            self._is_woken = False
        item = self.take_now()
        assert item is not None, "there is one"
        return item

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = _wake_first(self._takers)

    def _make_room_known(self) -> None:
        if self._weight < self._most:
            _wake_first(self._bringers)


async def _turn(waiting: deque[asyncio.Future[None]]) -> None:
    """Wait in line until woken."""
    turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.append(turn)
    try:
        await turn
    except asyncio.CancelledError:
        if turn in waiting:
            waiting.remove(turn)
        raise


def _wake_first(waiting: deque[asyncio.Future[None]]) -> bool:
    while waiting:
        turn = waiting.popleft()
        if not turn.done():
            turn.set_result(None)
            return True
    return False
