"""Makes the next segment of the log before it is needed, so that no append waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.log.segment_run import SegmentRun

log = logging.getLogger(__name__)

_JOIN_SECONDS: Final = 30


class Preparer:
    """A thread around `SegmentRun.prepare_next`; it works each time it is woken."""

    def __init__(self, run: SegmentRun, on_failure: Callable[[str], object]) -> None:
        self._run = run
        self._on_failure = on_failure
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run in a thread of its own from now on."""
        assert self._thread is None
        self._thread = threading.Thread(target=self._work, name="store-preparer", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """A segment was taken into use: make the next one."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread, once it has finished what it is making."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            self._thread = None

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopping:
                return
            self.prepare()

    def prepare(self) -> None:
        """Make the next segment now, unless that was done."""
        try:
            self._run.prepare_next()
        except DiskError as error:
            if error.passing:
                # The append that needs it tries again, and says so to its caller.
                log.warning("no room to prepare a segment: %s", error)
            else:
                self._on_failure(str(error))
