"""Work that many may ask for at once, a little of it at each turn of the loop."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """Lets so many begin at one turn; others wait for the next, in their order."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_set = False

    async def begin(self) -> None:
        """Return when it is one's turn."""
        loop = asyncio.get_running_loop()
        if not self._is_set:
            self._is_set = True
            loop.call_soon(self._next)
        if self._left and not self._waiting:
            self._left -= 1
            return
        mine = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _next(self) -> None:
        self._left, self._is_set = self._most, False
        while self._waiting and self._left:
            first = self._waiting.popleft()
            if not first.done():  # it may have been given up
                first.set_result(None)
                self._left -= 1
        if self._waiting:
            self._is_set = True
            asyncio.get_running_loop().call_soon(self._next)
