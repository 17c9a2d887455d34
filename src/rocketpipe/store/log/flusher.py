"""Makes what was written durable, and tells those who wait for it.

One sync serves all who wait: whoever came while the last one ran is served by the next. Without
anybody waiting it runs every so often, or after so many bytes. A sync that failed is never tried
again, as the kernel may have dropped what it could not write and would report success.

All of it is in `Flusher.flush_once`; the thread around it only decides when.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from rocketpipe.clock import Clock
from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.errors import StoreClosed, StoreFailed
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.state.checkpoint import Checkpoint
from rocketpipe.store.state.health import Health
from rocketpipe.store.state.positions import Positions

log = logging.getLogger(__name__)

#: Called with what went wrong, or with ``None`` once the bytes are durable.
Done = Callable[[StoreError | None], None]

_JOIN_SECONDS: Final = 30


class Flusher:
    """Syncs the log. The writer says what it wrote; any thread may call `flush_once`."""

    def __init__(
        self,
        commit_log: CommitLog,
        positions: Positions,
        checkpoint: Checkpoint,
        health: Health,
        config: StoreConfig,
        clock: Clock,
        on_failure: Callable[[str], object],
    ) -> None:
        self._log = commit_log
        self._positions = positions
        self._checkpoint = checkpoint
        self._health = health
        self._config = config
        self._clock = clock
        self._on_failure = on_failure
        #: End of what was written, start of its last record, when that was stored: one tuple, so
        #: that another thread sees all three of the same moment.
        self._tail = (0, -1, 0)
        self._syncing = threading.Lock()
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, Done]] = []
        self._error: StoreError | None = None
        self._checkpoint_synced_ms = self._published_ms = clock.monotonic_ms()
        self._thread: threading.Thread | None = None
        self._idle = False
        self._stopping = False

    def begin(self, end: int, last_record: int, stored_ms: int) -> None:
        """Start from the end of a log whose every byte is durable."""
        self._tail = (end, last_record, stored_ms)

    @property
    def tail(self) -> tuple[int, int, int]:
        """Where the log ends, where its last record starts, and when that was stored."""
        return self._tail

    @property
    def failure(self) -> StoreFailed | None:
        """What has failed, here or elsewhere in the store: nothing is synced any more."""
        return self._error if isinstance(self._error, StoreFailed) else None

    def wrote(self, end: int, last_record: int, stored_ms: int) -> None:
        """Note an append that went through: ``positions.written`` is at ``end`` already.

        Raises:
            StoreFailed: So much was unsynced that it had to be synced here, and that failed.
        """
        self._tail = (end, last_record, stored_ms)
        unsynced = end - self._positions.durable
        if unsynced > self._config.unflushed_bytes:
            self.flush_once()
            self._health.check_append(raw=True)
        elif self._idle or (unsynced >= self._config.flush_bytes and self._thread is not None):
            with self._changed:
                self._changed.notify()

    def when_durable(self, offset: int, done: Done) -> None:
        """Call ``done`` once every byte before ``offset`` is durable, or cannot become so.

        It is called at once if that is so already, else from the thread that syncs, and must not
        wait there.
        """
        with self._changed:
            error = self._error
            if error is None and offset > self._positions.durable:
                self._waiting.append((offset, done))
                self._changed.notify()
                return
        # What was durable before a failure is so still.
        done(None if offset <= self._positions.durable else error)

    def flush_once(self) -> bool:
        """Sync what was written so far; False if there was nothing, or the store has failed."""
        with self._syncing:
            if self._error is not None:
                return False
            if self._health.failure is not None:
                self.fail(self._health.failure)
                return False
            end, last_record, stored_ms = self._tail
            if end <= self._positions.durable:
                return False
            try:
                self._log.sync(self._positions.durable, end)
                self._positions.durable = LogOffset(end)
                self._publish(end, last_record, stored_ms)
            except DiskError as error:
                self._on_failure(str(error))
                return False
        self._tell(end)
        return True

    def _publish(self, end: int, last_record: int, stored_ms: int) -> None:
        self._checkpoint.flushed(end, last_record, stored_ms, self._positions.published)
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._checkpoint_synced_ms >= self._config.checkpoint_interval_ms:
            self._checkpoint_synced_ms = now_ms
            self._checkpoint.sync()

    def publish(self) -> None:
        """Have readers of the files see what was acknowledged since; not at every call.

        Raises:
            DiskError: The checkpoint cannot be written.
        """
        published = self._positions.published
        if published == self._checkpoint.data.confirmed:
            return
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._published_ms >= self._config.flush_interval_ms:
            self._published_ms = now_ms
            self._checkpoint.publish(published)

    def _tell(self, end: int) -> None:
        with self._changed:
            ready = [done for offset, done in self._waiting if offset <= end]
            self._waiting = [waiter for waiter in self._waiting if waiter[0] > end]
        for done in ready:
            _call(done, None)

    def fail(self, error: StoreError) -> None:
        """Tell all who wait, now and later, that their bytes may never be durable."""
        with self._changed:
            if self._error is None:
                self._error = error
            waiting, self._waiting = self._waiting, []
            self._changed.notify()
        for _, done in waiting:
            _call(done, error)

    def start(self) -> None:
        """Run in a thread of its own from now on."""
        assert self._thread is None
        self._thread = threading.Thread(target=self._run, name="store-flusher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, flush once more, and tell whoever still waits that it is over."""
        self.halt()
        self.flush_once()
        self.fail(StoreClosed())

    def halt(self) -> None:
        """End the thread without another flush."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            self._thread = None

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due():
                    # Nothing written: the next append wakes this thread, for it looks whether it
                    # is idle after it has moved the tail, and here it is the other way round.
                    # Something written that nobody waits for: it is due after the interval.
                    self._idle = True
                    timeout = None
                    if self._tail[0] > self._positions.durable:
                        self._idle = False
                        timeout = self._config.flush_interval_ms / 1000
                    woken = self._changed.wait(timeout)
                    self._idle = False
                    if not woken:
                        break
                if self._stopping or self._error is not None:
                    return
            self.flush_once()

    def _due(self) -> bool:
        if self._stopping or self._error is not None:
            return True
        unsynced = self._tail[0] - self._positions.durable
        if unsynced <= 0:
            return False
        if self._waiting or self._config.flush is FlushMode.SYNC:
            return True
        return unsynced >= self._config.flush_bytes


def _call(done: Done, error: StoreError | None) -> None:
    try:
        done(error)
    except Exception:
        log.exception("somebody who waited for durability failed to be told")
