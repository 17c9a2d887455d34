"""So many lines a minute for what peers can make us say, and a count of the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LINES_A_MINUTE: Final = 20
_MINUTE_S: Final = 60.0


class LogBudget:
    """Says whether there is room for one more line of a kind.

    Real time, whatever the servers' clock says: it is the log's reader who is spared.
    """

    def __init__(
        self, lines: int = LINES_A_MINUTE, time_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._lines = lines
        self._time_s = time_s
        self._began_s = time_s()
        self._used = 0
        self._left_out = 0
        #: What was said in this minute; no more than there are lines.
        self._said: set[str] = set()

    def allows(self, about: object = None) -> bool:
        """Whether the line may be written; if not, it is counted.

        Lines that are ``about`` the same, as one outage, need one a minute between them.
        """
        now_s = self._time_s()
        if now_s - self._began_s >= _MINUTE_S:
            self._began_s = now_s
            self._used = 0
            self._said.clear()
        same = "" if about is None else str(about)
        if self._used >= self._lines or (same and same in self._said):
            self._left_out += 1
            return False
        self._used += 1
        if same:
            self._said.add(same)
        return True

    def suppressed(self) -> str:
        """How many lines were left out since the last time, as the end of the next one."""
        count, self._left_out = self._left_out, 0
        return f" left_out={count}" if count else ""
