"""How many half messages may wait for a decision at a time."""

from __future__ import annotations

from collections.abc import Callable

from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode


class OpenTransactionLimit:
    """Refuses half messages while as many wait as the broker's memory is meant to hold."""

    def __init__(self, limit: int, has_room: Callable[[int], bool]) -> None:
        """``has_room`` is asked whether fewer half messages wait now than a number."""
        self._limit = limit
        self._has_room = has_room

    def check(self) -> None:
        """Let one more in.

        Raises:
            RequestRejected: There is no room for it.
        """
        if not self._has_room(self._limit):
            raise RequestRejected(
                ResponseCode.SYSTEM_BUSY,
                f"{self._limit} transactions are open on this broker, and no more may be: commit "
                "or roll back what was begun, have its producers answer checks, or raise "
                "maxOpenTransactions",
            )
