"""A clock whose wall time somebody sets."""

from __future__ import annotations

from rocketpipe.testing.clock import ManualClock

HOUR_MS = 3_600_000


class SteppedClock(ManualClock):
    """Time that a test lets pass; `step` lets none pass."""

    def step(self, by_ms: int) -> None:
        """Set the wall clock, as an operator or NTP does."""
        self._start_ms += by_ms
