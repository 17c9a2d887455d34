"""What waits to be handled, so much of it at most.

A worker is woken for the first thing in line, and wakes the next one if it finds more. So messages
whose handler never waits are done by one worker, without a wake-up for each of them; and one whose
handler waits is joined by others, one after the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class WorkQueue(Generic[T]):
    """A line that workers take from, in order."""

    def __init__(self, most: int) -> None:
        """Take how many may stand in line; who brings one more waits."""
        assert most > 0
        self._most = most
        self._items: deque[T] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._bringers: deque[asyncio.Future[None]] = deque()
        #: Whether a taker was woken that has not looked yet.
        self._is_woken = False

    def __len__(self) -> int:
        return len(self._items)

    async def put(self, brought: Sequence[T]) -> None:
        """Bring some, in their order, and wait for room if need be."""
        items, done = self._items, 0
        while done < len(brought):
            room = self._most - len(items)
            if room > 0:
                items.extend(brought[done : done + room])
                done += room
                self._wake()
                continue
            try:
                await _turn(self._bringers)
            except asyncio.CancelledError:
                self._make_room_known()  # it may have been told, and there is room for another
                raise

    def take_now(self) -> T | None:
        """Take the first, if there is one."""
        items = self._items
        if not items:
            return None
        item = items.popleft()
        if items and not self._is_woken:
            self._wake()
        if self._bringers:
            self._make_room_known()
        return item

    async def take(self) -> T:
        """Take the first, and wait for one if there is none."""
        items = self._items
        while not items:
            try:
                await _turn(self._takers)
            except asyncio.CancelledError:
                self._is_woken = False
                if items:
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
        if len(self._items) < self._most:
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
