"""What a replica has found damaged in its own log, until its leader has mended it.

    follower    does not stand, and fetches what is damaged from its leader
    leader      has a replica lead that lost nothing, if there is one, and then follows and mends

Who reads there is refused meanwhile, if somebody can bring the record back; else what the settings
say of damaged records counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from rocketpipe.clock import Clock
from rocketpipe.store.state.damage import DamagedRecords

log = logging.getLogger(__name__)

#: How long to let a leader be that could not mend it: its own log may be mended meanwhile.
AGAIN_MS: Final = 60_000


class OwnDamage:
    """The damaged places of a log, over all runs of its store."""

    def __init__(
        self, clock: Clock, mendable: Callable[[], bool], changed: Callable[[], None]
    ) -> None:
        """``mendable``: whether another has the log; ``changed`` is told of more, and of less."""
        self._clock = clock
        self._mendable = mendable
        self._changed = changed
        self._places: set[int] = set()
        self._again_ms = 0
        self._told = asyncio.Event()
        self._records: DamagedRecords | None = None

    def watch(self, records: DamagedRecords) -> None:
        """Hear of what is found in this run."""
        self._records = records
        records.found = self.found

    def found(self, at: int) -> bool:
        """Note one more place; gives whether it may be mended."""
        self._places.add(at)
        self._again_ms = 0
        self._told.set()
        self._changed()
        return self._mendable()

    def __bool__(self) -> bool:
        return bool(self._places)

    @property
    def first(self) -> int:
        """The first place that is known."""
        return min(self._places)

    @property
    def is_due(self) -> bool:
        """Whether it is time to have it mended."""
        return bool(self._places) and self._clock.monotonic_ms() >= self._again_ms

    async def seen(self) -> None:
        """Wait until there is damage."""
        while not self._places:
            self._told.clear()
            await self._told.wait()

    def mended(self, start: int, end: int) -> None:
        """What lies there is as it was."""
        self._places = {at for at in self._places if not start <= at < end}
        self._changed()

    def not_mended(self, reason: object) -> None:
        """Nobody could mend it now: readers go on as the settings say, and it is tried again."""
        if self._again_ms == 0:
            log.error(
                "damage cannot be mended, and is tried again each minute at=%d reason=%s",
                self.first,
                reason,
            )
        self._again_ms = self._clock.monotonic_ms() + AGAIN_MS
        if self._records is not None:
            self._records.await_none()
