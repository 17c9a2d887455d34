"""How long something is tried that may pass, and the pauses between."""

from __future__ import annotations

from typing import Final

from rocketpipe.client.leaders import awaits_leader
from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError

FIRST_PAUSE_MS: Final = 100
#: A new leader is there within a second of its election.
LONGEST_PAUSE_MS: Final = 1000
#: The most that one attempt takes: a broker that is gone without a word shows by then.
ATTEMPT_MS: Final = 10_000


class Backoff:
    """Says how long the next attempt may take, and waits between attempts."""

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        """Take the time for all attempts, pauses included."""
        self._clock = clock
        self._until_ms = clock.monotonic_ms() + timeout_ms
        self._pause_ms = FIRST_PAUSE_MS

    @property
    def attempt_ms(self) -> int:
        """The time of the next attempt."""
        return max(1, min(ATTEMPT_MS, self._until_ms - self._clock.monotonic_ms()))

    async def after(self, error: RocketPipeError) -> None:
        """Wait for the next attempt after one that failed so.

        Raises:
            RocketPipeError: The error itself, if it will not pass or the time is up.
        """
        left_ms = self._until_ms - self._clock.monotonic_ms()
        passes = error.retryable or awaits_leader(error)
        if not passes or left_ms <= self._pause_ms:
            raise error
        await self._clock.sleep(self._pause_ms)
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
