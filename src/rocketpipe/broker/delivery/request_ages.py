"""How long a request was on its way, though its sender's clock is another one.

Clients say by their own clock when they sent a pop. How far that clock is off is taken from the
request of a connection that seemed to take least; what takes longer than that was on its way. A
clock that was set meanwhile looks like one request that was late, and is known from then on.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from rocketpipe.clock import Clock

#: A request that was so long on its way longer than it may wait: nobody waits for its answer.
TOO_LATE_MS: Final = 500


class RequestAges:
    """The ages of requests, by whom they are from."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: What a peer's clock is behind this one, and the way of its fastest request.
        self._behind: WeakKeyDictionary[object, int] = WeakKeyDictionary()

    def age_ms(self, peer: object, born_ms: int) -> int:
        """How long ago a peer sent what it says to be of this time; 0 if it does not say."""
        if not born_ms:
            return 0
        behind_ms = self._clock.now_ms() - born_ms
        least_ms = min(self._behind.get(peer, behind_ms), behind_ms)
        self._behind[peer] = least_ms
        return behind_ms - least_ms

    def is_late(self, peer: object, born_ms: int, wait_ms: int) -> bool:
        """Whether nobody waits for the answer any more; the same again is not late."""
        if self.age_ms(peer, born_ms) <= wait_ms + TOO_LATE_MS:
            return False
        self._behind[peer] = self._clock.now_ms() - born_ms
        return True
