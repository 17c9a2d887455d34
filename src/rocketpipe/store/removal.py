"""Takes the oldest part of the log away, and what speaks of it.

    first       queues, index and timer are durable as far as the log is to go
    segments    leave the log and then the disk, each before the next one does
    last        queues begin behind what is gone, and files go that speak only of that

A crash between any two leaves a store that is whole: the log has no gap, and queues go on from
where the messages ended that are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.derived.derived_files import DerivedFiles
from rocketpipe.store.derived.derived_sync import DerivedSync
from rocketpipe.store.errors import StoreFailed
from rocketpipe.store.files.background_sync import Steps
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.state.health import Health
from rocketpipe.store.state.positions import Positions


class Removal:
    """Removes segments and derived files, in steps between which the store may be used."""

    def __init__(
        self,
        commit_log: CommitLog,
        derived: DerivedFiles,
        positions: Positions,
        rounds: DerivedSync,
        health: Health,
    ) -> None:
        self._log = commit_log
        self._derived = derived
        self._positions = positions
        self._rounds = rounds
        self._health = health

    def before(
        self,
        offset: LogOffset,
        permit: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(True),
    ) -> Steps[int]:
        """Remove the segments before an offset, and what speaks of them; gives how many.

        What is not durable or not dispatched stays, and so does the last segment. ``permit`` is
        asked before each segment leaves the log, and is held until it has.

        Raises:
            StoreFailed: The store has failed, now or before.
            DiskError: A file cannot be removed; trying again is safe.
        """
        upto = yield from self._saving_before(offset)
        removed = 0
        while True:
            with permit() as may_go:
                gone = self._log.run.begin_delete(upto) if may_go else None
            if gone is None:
                break
            yield from self._rounds.done(gone)
            removed += 1
        yield from self.cleaning()
        return removed

    def _saving_before(self, offset: LogOffset) -> Steps[LogOffset]:
        if self._health.failure is not None:
            raise StoreFailed(self._health.failure.reason)
        upto = min(offset, self._positions.durable, self._positions.dispatched)
        if upto > self._derived.synced_to:
            # What a queue knows of messages that are gone must not be lost with them.
            yield from self._rounds.syncing()
        return LogOffset(upto)

    def cleaning(self) -> Steps[None]:
        """Remove what speaks only of records that are gone from the log.

        Raises:
            StoreFailed: The store has failed.
            DiskError: A file cannot be removed; trying again is safe.
        """
        gone = yield from self._derived.expiring(self._log.first_offset)
        yield from self._rounds.done(gone)
