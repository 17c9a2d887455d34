"""How long a request was on its way, though its sender's clock is another one.

Clients say by their own clock when they sent a pop. How far that clock is off is taken from the
request of a connection that seemed to take least lately; what takes longer than that was on its
way. A clock that was set meanwhile looks like one request that was late, and is known from then on;
one that was set by less than a wait, or that goes slower, is known a minute later.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from rocketpipe.clock import Clock

#: A request that was so long on its way longer than it may wait: nobody waits for its answer.
TOO_LATE_MS: Final = 500
#: What was the least is looked for anew so often, and counts for twice as long.
WINDOW_MS: Final = 30_000


class _Behind:
    """What a peer's clock is behind this one, and the way of its fastest request."""

    __slots__ = ("before_ms", "least_ms", "since_ms")

    def __init__(self, behind_ms: int, since_ms: int) -> None:
        self.before_ms = self.least_ms = behind_ms
        self.since_ms = since_ms

    def take(self, behind_ms: int, monotonic_ms: int) -> int:
        """Count one more request; gives the least."""
        if monotonic_ms - self.since_ms >= WINDOW_MS:
            self.before_ms, self.least_ms = self.least_ms, behind_ms
            self.since_ms = monotonic_ms
        self.least_ms = min(self.least_ms, behind_ms)
        return min(self.before_ms, self.least_ms)


class RequestAges:
    """The ages of requests, by whom they are from."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._behind: WeakKeyDictionary[object, _Behind] = WeakKeyDictionary()

    def age_ms(self, peer: object, born_ms: int) -> int:
        """How long ago a peer sent what it says to be of this time; 0 if it does not say."""
        if not born_ms:
            return 0
        behind_ms = self._clock.now_ms() - born_ms
        monotonic_ms = self._clock.monotonic_ms()
        known = self._behind.get(peer)
        if known is None:
            known = self._behind[peer] = _Behind(behind_ms, monotonic_ms)
        return behind_ms - known.take(behind_ms, monotonic_ms)

    def is_late(self, peer: object, born_ms: int, wait_ms: int) -> bool:
        """Whether nobody waits for the answer any more; the same again is not late."""
        if self.age_ms(peer, born_ms) <= wait_ms + TOO_LATE_MS:
            return False
        behind_ms = self._clock.now_ms() - born_ms
        self._behind[peer] = _Behind(behind_ms, self._clock.monotonic_ms())
        return True
