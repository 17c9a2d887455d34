"""Whether a leader's clock is this machine's, by the times of what it stores.

What lies behind the end that a leader named in its hello was stored since: its time is neither long
before that hello nor long after now, unless the two clocks are apart. Nothing that is acknowledged
rests on clocks; when timers and delays fall due, and what retention removes, does.
"""

from __future__ import annotations

import logging
from typing import Final

from rocketpipe.clock import Clock

log = logging.getLogger(__name__)

#: What goes on its way, and waits for a disk, may be older than this only if clocks are apart.
MAX_APART_MS: Final = 10_000


class LeaderClock:
    """One for each leader that is followed, over all connections to it."""

    def __init__(self, address: str, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self._fresh_from: int | None = None
        self._since_ms = 0
        self._told = False

    def greeted(self, log_end: int) -> None:
        """Note where the leader's log ends now."""
        self._fresh_from = log_end
        self._since_ms = self._clock.now_ms()

    def stored(self, end: int, at_ms: int) -> None:
        """See when the leader stored what ends there; tells once that clocks are apart."""
        if self._told or self._fresh_from is None or end <= self._fresh_from:
            return
        ahead_ms, behind_ms = at_ms - self._clock.now_ms(), self._since_ms - at_ms
        if max(ahead_ms, behind_ms) > MAX_APART_MS:
            self._told = True
            log.warning(
                "the leader's clock is %s this machine's by %d s or more: should this one lead, "
                "delays fall due %s; have both set by NTP leader=%s",
                "ahead of" if ahead_ms > 0 else "behind",
                max(ahead_ms, behind_ms) // 1000,
                "late" if ahead_ms > 0 else "early",
                self._address,
            )
