"""What was appended becomes as durable as the broker promises, and then shows to consumers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from rocketpipe.broker.replication.standing import Standing
from rocketpipe.clock import Clock
from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)


class Visibility:
    """Waits for syncs on behalf of senders, and dispatches what was confirmed."""

    def __init__(self, store: MessageStore, clock: Clock, standing: Standing | None = None) -> None:
        self._store = store
        self._clock = clock
        self._standing = standing or Standing()
        self._sync = store.config.flush is FlushMode.SYNC
        self._timeout_ms = store.config.flush_timeout_ms
        self._stuck: str | None = None
        #: How many senders wait for a sync now.
        self.waiting = 0

    async def settled(self, end: LogOffset, *, wait: bool) -> bool:
        """Return once what was appended up to ``end`` is as durable as SEND_OK says.

        False when the sync took too long: whether the message stays is not known by then. Without
        ``wait`` the sender does not ask for more than the page cache.

        Raises:
            StoreError: The sync failed; the message may be lost.
        """
        if not self._sync:
            self.dispatch()
            return True
        synced = self._when_synced(end)
        if not wait:
            return True
        self.waiting += 1
        try:
            await self._first_of(synced)
        finally:
            self.waiting -= 1
        if not synced.done():
            return False
        error = synced.result()
        if error is not None:
            raise error
        return True

    def _when_synced(self, end: LogOffset) -> asyncio.Future[StoreError | None]:
        """Done once ``end`` is durable, or cannot become so; what is durable shows by then."""
        loop = asyncio.get_running_loop()
        synced: asyncio.Future[StoreError | None] = loop.create_future()

        def settle(error: StoreError | None) -> None:
            if error is None:
                self.dispatch()
            if not synced.done():
                synced.set_result(error)

        def done(error: StoreError | None) -> None:
            # From the flusher's thread, or at once from this one.
            try:
                loop.call_soon_threadsafe(settle, error)
            except RuntimeError:
                pass  # the loop is closed, and nobody waits any more

        self._store.when_durable(end, done)
        return synced

    async def _first_of(self, synced: asyncio.Future[StoreError | None]) -> None:
        """Wait for the sync, but not longer than the settings allow."""
        if self._timeout_ms <= 0:
            return
        timer = asyncio.ensure_future(self._clock.sleep(self._timeout_ms))
        either: list[asyncio.Future[Any]] = [synced, timer]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    def dispatch(self) -> None:
        """Make what is confirmed readable; what stops that is no matter of the sender's.

        Whoever stored something is never told that it failed because it cannot be shown yet: it
        would be done again, and be there twice.
        """
        try:
            self._store.dispatch()
        except StoreError as error:
            if self._is_news(error):
                log.error("messages are stored and cannot be shown reason=%s", error)
        except Exception as error:
            if self._is_news(error):
                log.exception("messages are stored and cannot be shown")
        else:
            self._stuck = None

    def _is_news(self, error: Exception) -> bool:
        # Each send comes here: the same reason is told once.
        reason = f"{type(error).__name__}: {error}"
        is_news, self._stuck = reason != self._stuck, reason
        return is_news

    async def keep_dispatched(self, every_ms: int = 1000) -> None:
        """Dispatch from time to time too: that also brings queues and index to the disk."""
        while True:
            await self._clock.sleep(every_ms)
            self.dispatch()
