"""How many may shake hands at once, and who goes when others wait.

A handshake that goes on is over after two or three reads, and costs a third of a millisecond. One
that does not go on costs memory for as long as it is waited for. So there are few at a time, and
others wait, by turns of their addresses: who opens a thousand connections waits behind himself.
While somebody waits, a handshake that takes longer than a second gives up its place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

MOST_AT_ONCE: Final = 64
_PATIENCE_S: Final = 1.0


class Shaking(Protocol):
    """A connection that wants a handshake, or has one under way."""

    @property
    def host(self) -> str: ...

    def shake(self) -> None:
        """Begin."""

    def abort(self) -> None:
        """End the connection; `Handshakes.end` follows."""


class Handshakes:
    """Those under way, and those who wait."""

    def __init__(self, most: int = MOST_AT_ONCE, patience_s: float = _PATIENCE_S) -> None:
        self._most = most
        self._patience_s = patience_s
        #: When each began; the oldest first.
        self._under_way: dict[Shaking, float] = {}
        self._waiting: dict[str, deque[Shaking]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def begin(self, one: Shaking) -> None:
        """Have it shake hands: now, or when there is room."""
        if len(self._under_way) < self._most:
            self._under_way[one] = asyncio.get_running_loop().time()
            one.shake()
            return
        self._waiting.setdefault(one.host, deque()).append(one)
        self._watch()

    def end(self, one: Shaking) -> None:
        """It is done, or gone."""
        if self._under_way.pop(one, None) is None:
            waiting = self._waiting.get(one.host)
            if waiting is not None and one in waiting:
                waiting.remove(one)
                if not waiting:
                    del self._waiting[one.host]
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._under_way) < self._most:
            one = self._next()
            self._under_way[one] = loop.time()
            loop.call_soon(one.shake)  # it may end at once, and the next one's turn comes

    def _next(self) -> Shaking:
        host, ones = next(iter(self._waiting.items()))
        del self._waiting[host]
        one = ones.popleft()
        if ones:
            self._waiting[host] = ones  # its next turn comes behind the others'
        return one

    def _watch(self) -> None:
        if self._timer is None and self._waiting:
            loop = asyncio.get_running_loop()
            oldest = next(iter(self._under_way.values()), loop.time())
            self._timer = loop.call_at(oldest + self._patience_s, self._relieve)

    def _relieve(self) -> None:
        self._timer = None
        late = asyncio.get_running_loop().time() - self._patience_s
        for one, began in list(self._under_way.items()):
            if began > late:
                break
            one.abort()
        self._watch()
