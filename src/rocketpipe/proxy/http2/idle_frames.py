"""Frames that bring nothing, of one peer: so many in a while are its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketpipe.proxy.http2.frames import ErrorCode, Http2Fault

MOST: Final = 2000
WITHIN_S: Final = 10.0


class IdleFrames:
    """Counts them; the clock is asked once in so many."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._since_s = now_s()
        self._count = 0
        self._sent_data = False

    def sent_data(self) -> None:
        """Note that the peer has something to measure."""
        self._sent_data = True

    def count_measuring(self, what: str) -> None:
        """Count what clients do to measure data that came; without any it is idle.

        Raises:
            Http2Fault: There are too many.
        """
        if self._sent_data:
            self._sent_data = False
        else:
            self.count(what)

    def count(self, what: str) -> None:
        """Count one.

        Raises:
            Http2Fault: There are too many.
        """
        self._count += 1
        if self._count > MOST:
            now_s = self._now_s()
            if now_s - self._since_s < WITHIN_S:
                raise Http2Fault(ErrorCode.ENHANCE_YOUR_CALM, f"too many {what}")
            self._count, self._since_s = 0, now_s
