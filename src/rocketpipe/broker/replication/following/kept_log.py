"""What of its log a follower keeps: as much as its leader does.

A leader's roles hold what they need of the log: messages that wait for their time, staged batches,
snapshots. A follower has none of these roles, and needs the same once it is promoted. So it goes by
where the leader's log begins, which the leader tells in the table log, and a master of Apache's
when it is asked: what has expired here is removed once it is gone there.
"""

from __future__ import annotations

from typing import Final

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Pin, Pins

OWNER: Final = "the leader's log"


class KeptLog:
    """Holds the log for as long as this broker follows; while it leads, its role does."""

    def __init__(self, store: MessageStore, pins: Pins) -> None:
        """Hold all that there is."""
        self._store = store
        self._pins = pins
        self._pin: Pin | None = None
        self.hold()

    def hold(self) -> None:
        """Hold all that there is until a leader tells; what is held already stays as it is."""
        if self._pin is None:
            self._pin = self._pin_from(self._store.first_offset)

    def keep_from(self, first_offset: LogOffset) -> None:
        """Hold what the leader has, which is more again where a new one has removed less."""
        if self._pin is not None:
            before, self._pin = self._pin, self._pin_from(first_offset)
            before.release()

    def let_go(self) -> None:
        """Hold nothing any more: others do."""
        if self._pin is not None:
            self._pin.release()
            self._pin = None

    def _pin_from(self, offset: LogOffset) -> Pin:
        return self._pins.hold(offset, OWNER, yields=True, lasts=True)
