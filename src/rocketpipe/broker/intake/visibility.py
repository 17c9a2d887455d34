"""What was appended becomes as safe as the broker promises, and then shows to consumers.

alone                       nothing to wait for, or the own sync        0, or 10 in the end
with replicas that count    those that are in sync have it too          0, or 11, or 12
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from rocketpipe.broker.replication.standing import Refusal, Standing
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.store.config import FlushMode
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

#: What who has stored something is told that nobody may acknowledge any more: without the leader's
#: address, which says that nothing was stored.
LEADS_NO_LONGER: Final = (
    ResponseCode.SERVICE_NOT_AVAILABLE,
    "this broker leads no longer: whether the message stays is not known",
)


class Visibility:
    """Waits for disk and replicas on behalf of senders, and dispatches what was confirmed."""

    def __init__(self, store: MessageStore, clock: Clock, standing: Standing | None = None) -> None:
        self._store = store
        self._clock = clock
        #: Whether this broker leads, and who has to have what is sent.
        self.standing = standing or Standing()
        self._sync = store.config.flush is FlushMode.SYNC
        self._timeout_ms = store.config.flush_timeout_ms
        self._stuck: str | None = None
        #: How many senders wait for a sync now.
        self.waiting = 0

    async def settled(self, end: LogOffset, *, wait: bool) -> int:
        """Return once what was appended up to ``end`` is as safe as SEND_OK says.

        Gives a code of a send that is stored. It is not SUCCESS when that took too long, or where
        nobody has a copy: whether the message stays is not known by then. Without ``wait`` the
        sender does not ask for more than the page cache.

        Raises:
            StoreError: The sync failed; the message may be lost.
            RequestRejected: This broker leads no longer; the same.
        """
        if self._sync:
            return await self._settled_and_synced(end, wait=wait)
        followers = self.standing.followers
        code = await followers.acknowledged(end) if followers is not None and wait else 0
        self.dispatch()
        return code

    async def _settled_and_synced(self, end: LogOffset, *, wait: bool) -> int:
        synced = self._when_synced(end)
        if not wait:
            return ResponseCode.SUCCESS
        followers = self.standing.followers
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms
        self.waiting += 1
        try:
            code = await followers.acknowledged(end) if followers is not None else 0
            await self._first_of(synced, deadline_ms)
        finally:
            self.waiting -= 1
        if synced.done() and (error := synced.result()) is not None:
            raise error
        if self.standing.refusal is not None:
            raise RequestRejected(*LEADS_NO_LONGER)
        # What replicas say weighs more, as with RocketMQ.
        return code or (0 if synced.done() else ResponseCode.FLUSH_DISK_TIMEOUT)

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

    async def _first_of(self, synced: asyncio.Future[StoreError | None], deadline_ms: int) -> None:
        """Wait for the sync, but not longer than the settings allow."""
        left_ms = deadline_ms - self._clock.monotonic_ms()
        if synced.done() or left_ms <= 0:
            return
        timer = asyncio.ensure_future(self._clock.sleep(left_ms))
        either: list[asyncio.Future[Any]] = [synced, timer]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    def check_leads(self) -> None:
        """Let nothing be appended at a follower: what was let in may have waited since.

        Raises:
            RequestRejected: This broker does not lead.
        """
        if self.standing.refusal is not None:
            raise RequestRejected(*self.standing.refusal)

    def refused(self, code: int) -> Refusal | None:
        """What a send is refused with that was stored with this code; None if it is answered so."""
        followers = self.standing.followers
        if code != ResponseCode.FLUSH_SLAVE_TIMEOUT or followers is None:
            return None
        return followers.late

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
