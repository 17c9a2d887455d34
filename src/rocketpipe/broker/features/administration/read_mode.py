"""Whether the system reads ahead in the files of the log.

It does by itself, and whoever reads one message of an old file then has a hundred kilobytes read.
Where many readers are behind at different places, that is most of what the disk does: then an
operator has it left out. What was said counts until the broker stops.
"""

from __future__ import annotations

import logging
import os
from typing import Final
from weakref import WeakSet

from rocketpipe.clock import Clock
from rocketpipe.store.files.disk import DiskFile
from rocketpipe.store.log.commit_log import CommitLog

log = logging.getLogger(__name__)

EVERY_MS: Final = 10_000


class CannotAdvise(Exception):
    """The system does not take advice about files."""


class ReadMode:
    """Tells the system how the files of a log are read, those too that are opened later."""

    def __init__(self, commit_log: CommitLog, clock: Clock) -> None:
        self._log = commit_log
        self._clock = clock
        self._random = False
        #: Files that were told; a file that is opened again is another one.
        self._told: WeakSet[DiskFile] = WeakSet()

    def set(self, *, random: bool) -> int:
        """Read what is asked for and no more, or ahead again; gives how many files there are.

        Raises:
            CannotAdvise: There is no such thing on this system.
            DiskError: A file cannot be opened.
        """
        if not hasattr(os, "posix_fadvise"):
            raise CannotAdvise("this system has no posix_fadvise")
        self._random = random
        self._told.clear()
        return self._tell()

    def _tell(self) -> int:
        advice = os.POSIX_FADV_RANDOM if self._random else os.POSIX_FADV_NORMAL
        segments = self._log.run.segments
        for segment in segments:
            file = segment.opened()
            if file not in self._told:
                os.posix_fadvise(file.fileno(), 0, 0, advice)
                self._told.add(file)
        return len(segments)

    async def keep_told(self) -> None:
        """Tell of files that are new, until cancelled; they are in memory still, so it can wait."""
        while True:
            await self._clock.sleep(EVERY_MS)
            if self._random:
                try:
                    self._tell()
                except OSError as error:
                    log.warning("files of the log are read ahead reason=%s", error)
