"""How much of the loop's time expressions over properties may take, all of them together.

There is a slice of time, and who has used it up pauses: for a turn of the loop if nobody else had
anything to do there, and else for three times as long as was used. So sends and plain pulls keep
three quarters of the loop, however many consumers filter, by whatever they filter, and a loop that
has nothing else to do filters all the time.

    is_spent    whether the slice is used up: who can wait asks for a `turn`, one after the other
    spend       takes what an evaluation took; the slice may be overdrawn, and is paid back
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

SLICE_S: Final = 0.0005
#: How much longer the others have the loop than what was spent, and the longest that they wait.
_OTHERS: Final = 3
_LONGEST_PAUSE_S: Final = 0.1
#: A turn of the loop in which nobody else did anything takes less.
_IDLE_S: Final = 0.0001


class Sieve:
    """The time that all expressions of a broker share."""

    def __init__(
        self, *, slice_s: float = SLICE_S, timer: Callable[[], float] = time.perf_counter
    ) -> None:
        self.timer = timer
        self._slice_s = slice_s
        self._spent_s = 0.0
        #: Those who wait for a turn, first come, first served.
        self._turns = asyncio.Lock()

    @property
    def is_spent(self) -> bool:
        """Whether whoever wants to evaluate has to wait for a turn."""
        return self._spent_s >= self._slice_s

    def spend(self, seconds: float) -> None:
        """Note what an evaluation took."""
        self._spent_s += seconds

    async def turn(self) -> None:
        """Return when there is something to spend; the next `await` may give it to another."""
        async with self._turns:
            if self.is_spent:
                await self._pause()
                self._spent_s = 0.0

    async def _pause(self) -> None:
        began_s = self.timer()
        await asyncio.sleep(0)
        others_s = self.timer() - began_s
        if others_s > _IDLE_S:
            left_s = _OTHERS * self._spent_s - others_s
            await asyncio.sleep(min(max(left_s, 0), _LONGEST_PAUSE_S))
