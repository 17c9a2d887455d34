"""Whether a store takes messages, and if not, why.

RUNNING ⇄ FULL         no room; each append tries again by itself
RUNNING, FULL → FAILED  a write, a sync or a preallocation failed; only opening anew helps
any → CLOSED

A store that follows takes what its leader wrote, and no messages of its own.
"""

from __future__ import annotations

import threading
from enum import Enum, auto

from rocketpipe.errors import StoreError
from rocketpipe.store.errors import StoreClosed, StoreFailed, StoreFollows, StoreFull


class StoreState(Enum):
    """What a store can do: all, only read for now, only read until reopened, nothing."""

    RUNNING = auto()
    FULL = auto()
    FAILED = auto()
    CLOSED = auto()


class Health:
    """The state of one store; any thread may ask, and any may say that something failed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failure: StoreFailed | None = None
        self._full: StoreFull | None = None
        self._watermark: StoreFull | None = None
        self._closed = False
        #: Whether the log is another's, so that offsets are not given here.
        self.follows = False

    @property
    def state(self) -> StoreState:
        """What the store can do now."""
        if self._closed:
            return StoreState.CLOSED
        if self._failure is not None:
            return StoreState.FAILED
        if self._full is not None or self._watermark is not None:
            return StoreState.FULL
        return StoreState.RUNNING

    @property
    def reason(self) -> StoreError | None:
        """Why appends are refused; ``None`` while they are not."""
        if self._closed:
            return StoreClosed()
        return self._failure or self._watermark or self._full

    @property
    def failure(self) -> StoreFailed | None:
        """Why the store has failed, if it has."""
        return self._failure

    def fail(self, reason: str) -> bool:
        """Stop taking anything; True if this is the first failure, whose reason stays."""
        with self._lock:
            if self._failure is not None:
                return False
            self._failure = StoreFailed(reason)
            return True

    def full(self, error: StoreFull) -> None:
        """Note that an append found no room; the next one tries again."""
        self._full = error

    def has_room(self) -> None:
        """Note that an append went through."""
        self._full = None

    def watermark(self, error: StoreFull | None) -> None:
        """Refuse appends while the disk is fuller than the settings allow; ``None`` ends that."""
        self._watermark = error

    def close(self) -> None:
        """Take nothing any more."""
        self._closed = True

    def check_append(self, *, raw: bool = False) -> None:
        """Let an append be tried, or say why not; a ``raw`` one is of a leader's log.

        Raises:
            StoreFailed: The store has failed.
            StoreFull: The disk is above its watermark.
            StoreClosed: The store was closed.
            StoreFollows: It takes a leader's log, and nothing else.
        """
        if self._closed:
            raise StoreClosed
        if self._failure is not None:
            raise StoreFailed(self._failure.reason)
        mark = self._watermark
        if mark is not None:
            raise StoreFull(mark.path, mark.needed, mark.reason, mark.free)
        if self.follows and not raw:
            raise StoreFollows
