"""Puts bytes at the end of the log, and says what it means when that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketpipe.errors import StoreError
from rocketpipe.store.errors import StoreFailed, StoreFull
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.log.preparer import Preparer
from rocketpipe.store.log.puts import Chunk
from rocketpipe.store.state.health import Health
from rocketpipe.store.state.positions import Positions


class LogWriter:
    """Makes room, and writes; positions are left to those who know what was written."""

    def __init__(
        self,
        commit_log: CommitLog,
        positions: Positions,
        health: Health,
        preparer: Preparer,
        on_failure: Callable[[str], StoreFailed],
    ) -> None:
        self._log = commit_log
        self._positions = positions
        self._health = health
        self._preparer = preparer
        #: Stops the store; gives the error to raise.
        self.failed = on_failure

    def write(self, chunks: Sequence[Chunk], end: int) -> None:
        """Write what goes from the end of the log up to ``end``.

        Raises:
            StoreFull: There is no room for the first byte; a later write may succeed.
            StoreFailed: Some of it may be there.
        """
        try:
            if end > self._log.run.end:
                self._log.make_room(self._positions.written, end)
                self._preparer.wake()
            self._log.append(chunks)
        except DiskError as error:
            raise self._refusal(error, chunks) from error

    def _refusal(self, error: DiskError, chunks: Sequence[Chunk]) -> StoreError:
        if not error.passing or error.written:
            return self.failed(str(error))
        full = StoreFull(error.path, sum(len(data) for _, data in chunks), str(error))
        self._health.full(full)
        return full
