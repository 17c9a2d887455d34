"""Since when a follower has had all that there was, though the log grows before it reports."""

from __future__ import annotations


class Pursuit:
    """A follower has caught up as of the moment at which the log ended where it now is."""

    def __init__(self, now_ms: int) -> None:
        #: When it had last all that there was, as far as is known.
        self.caught_up_ms = now_ms
        self._goal = 0
        self._goal_ms = now_ms

    def begin(self, log_end: int, now_ms: int) -> None:
        """Have it reach this end first."""
        self._goal, self._goal_ms = log_end, now_ms

    def reported(self, end: int, log_end: int, now_ms: int) -> bool:
        """Whether it has all, or all that there was a while ago; then it has the next goal."""
        if end < self._goal:
            return False
        self.caught_up_ms = now_ms if end >= log_end else self._goal_ms
        self.begin(log_end, now_ms)
        return True
