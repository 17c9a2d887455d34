"""When messages are stored, by a wall clock that somebody may set.

Times in the log do not go back where the clock goes back a little, as clocks do that are kept
right. A clock that was further ahead was wrong: as soon as it is right again times go by it, in
this run or the next. Otherwise one message of next year would make all be of next year.
"""

from __future__ import annotations

import logging
from typing import Final

from rocketpipe.clock import Clock

log = logging.getLogger(__name__)

#: Times in the log are no further ahead of the clock than this.
MAX_LEAD_MS: Final = 1000
_TELL_EVERY_MS: Final = 60_000


class StoreTimes:
    """Gives each append its time."""

    __slots__ = ("_clock", "_last_ms", "_told_ms", "corrections")

    def __init__(self, clock: Clock, last_ms: int) -> None:
        """``last_ms`` is the time of the last message in the log, 0 if there is none."""
        self._clock = clock
        self._last_ms = last_ms
        self._told_ms: int | None = None
        #: How often times went back, as the clock had been ahead.
        self.corrections = 0
        lead_ms = last_ms - clock.now_ms()
        if lead_ms > MAX_LEAD_MS:
            self._tell(lead_ms)

    def next(self) -> int:
        """The time of what is stored now."""
        now_ms, last_ms = self._clock.now_ms(), self._last_ms
        if now_ms >= last_ms:
            return now_ms
        return last_ms if last_ms - now_ms <= MAX_LEAD_MS else now_ms

    def follow(self, at_ms: int) -> None:
        """Note that somebody else stored something, by another clock."""
        self._last_ms = at_ms

    def stored(self, at_ms: int) -> None:
        """Note that something was stored with the time that was given."""
        if at_ms < self._last_ms:
            self.corrections += 1
            self._tell(self._last_ms - at_ms)
        self._last_ms = at_ms

    def _tell(self, lead_ms: int) -> None:
        monotonic_ms = self._clock.monotonic_ms()
        if self._told_ms is None or monotonic_ms - self._told_ms >= _TELL_EVERY_MS:
            self._told_ms = monotonic_ms
            log.warning(
                "the last message was stored later than this machine's clock says it is now: the "
                "clock was ahead, or is behind; have it set by NTP lead_ms=%d",
                lead_ms,
            )
