"""A wall clock that somebody sets, told from time that passes.

Spark waits for its next trigger, and tables age, by the wall clock. Where it is set back by an
hour, the trigger would be an hour late; where it is set forward by a month, files would be a month
old that a reader has just begun to read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: What is less is the clock being kept right.
_LEAST_S: Final = 1.0


def _steady_s() -> float:
    """A clock that nobody sets, and that goes on while the machine sleeps where there is one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class SetClock:
    """By how much the wall clock was set since this was made."""

    def __init__(
        self,
        wall_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = _steady_s,
    ) -> None:
        self._wall_s = wall_s
        self._steady_s = steady_s
        self._apart_s = wall_s() - steady_s()
        self._least_s = self._most_s = 0.0

    def is_behind(self) -> bool:
        """Whether it shows less than it would by the farthest that it was ahead at a look."""
        return self._most_s - self._look() >= _LEAST_S

    def ahead_ms(self) -> int:
        """How much older things seem than they are, at the most, that were made between looks."""
        ahead_s = self._look() - self._least_s
        return int(ahead_s * 1000) if ahead_s >= _LEAST_S else 0

    def _look(self) -> float:
        now_s = self._wall_s() - self._steady_s() - self._apart_s
        self._least_s = min(self._least_s, now_s)
        self._most_s = max(self._most_s, now_s)
        return now_s
