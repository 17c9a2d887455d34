"""Begins with the queues that the rebalancer says are ours, and gives them up again.

    claim        lock it if order matters; look where to begin; pull
    release      stop pulling; let handlers finish; save the offset; unlock
    lost         its lock is gone, or its offsets are: begin anew, by the rebalancer's next round

A queue that was given up while a handler is at work on it lingers: it is not claimed again, and
where order matters not unlocked, before that handler is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from rocketpipe.client.consumer.group.offsets import OffsetStore
from rocketpipe.client.consumer.pushing.fetch_loop import FetchLoop
from rocketpipe.client.consumer.pushing.held_queue import HeldQueue
from rocketpipe.client.consumer.pushing.locks import QueueLocks
from rocketpipe.client.consumer.pushing.workers import Workers
from rocketpipe.client.consumer.tuning import PushTuning, Room
from rocketpipe.clock import Clock, within
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)
_warnings: Final = LogBudget()

StartOf = Callable[[MessageQueue], Awaitable[QueueOffset]]


class QueueClaims:
    """The queues that one consumer holds; the rebalancer's ``Claims``."""

    def __init__(
        self,
        offsets: OffsetStore,
        locks: QueueLocks | None,
        *,
        start_of: StartOf,
        clock: Clock,
        tuning: PushTuning,
    ) -> None:
        """Prepare; ``locks`` is None where order does not matter, or nobody else has the queues.

        ``start_of`` says where to begin with a queue: at its saved offset, or where its group
        wants to.
        """
        self._offsets = offsets
        self._locks = locks
        self._start_of = start_of
        self._clock = clock
        self._tuning = tuning
        self._held: dict[MessageQueue, HeldQueue] = {}
        self._lingering: dict[MessageQueue, HeldQueue] = {}
        self._tasks: dict[HeldQueue, list[asyncio.Task[None]]] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._fetch: FetchLoop | None = None
        self._workers: Workers | None = None
        self._forget: Callable[[MessageQueue], None] = lambda queue: None

    def connect(
        self, fetch: FetchLoop, workers: Workers, forget: Callable[[MessageQueue], None]
    ) -> None:
        """Say who pulls and who consumes, and whom to tell of a queue that was lost."""
        self._fetch, self._workers, self._forget = fetch, workers, forget

    @property
    def held(self) -> Iterable[HeldQueue]:
        """The queues that are consumed now."""
        return tuple(self._held.values())

    def room(self, topic: str) -> Room:
        """What one queue of a topic may have in hand, by how many of them are held."""
        return self._tuning.room(sum(queue.topic == topic for queue in self._held))

    async def keep_saved(self) -> None:
        """Save the offsets of held queues from time to time, until cancelled."""
        while True:
            await self._clock.sleep(self._tuning.persist_every_ms)
            try:
                await self._offsets.persist([held.queue for held in self.held])
            except RocketPipeError as error:
                if _warnings.allows(error):
                    log.warning("offsets not saved reason=%s%s", error, _warnings.suppressed())
            except Exception:
                log.exception("offsets not saved")

    async def keep_clean(self) -> None:
        """Have messages sent back that handlers have had for too long, until cancelled."""
        while True:
            await self._clock.sleep(self._tuning.consume_timeout_ms)
            for held in self.held:
                try:
                    if self._workers is not None:
                        await self._workers.clean(held)
                except Exception:
                    log.exception("stuck messages not sent back queue=%s", held.queue)

    # For the rebalancer

    async def claim(self, queue: MessageQueue) -> bool:
        """Begin with a queue; False when another still has it, or a handler of ours does.

        Raises:
            RocketPipeError: If a broker cannot be asked; nothing has begun.
        """
        if queue in self._held:
            return True
        if queue in self._lingering:
            return False
        lease = None
        if self._locks is not None:
            lease = await self._locks.lock(queue)
            if lease is None:
                log.info("queue not locked yet queue=%s", queue)
                return False
        self._offsets.forget(queue)
        try:
            start = await self._start_of(queue)
        except BaseException:
            if self._locks is not None:
                await self._locks.unlock(queue)
            raise
        held = HeldQueue(queue, lease)
        self._held[queue] = held
        self._tasks[held] = [
            asyncio.create_task(self._fetching(held, start), name=f"fetch {queue}"),
            asyncio.create_task(self._attending(held), name=f"attend {queue}"),
        ]
        log.debug("queue claimed queue=%s offset=%d", queue, start)
        return True

    async def release(self, queue: MessageQueue) -> bool:
        """Give a queue up when its handlers are done, or have had their time."""
        held = self._held.pop(queue, None)
        if held is None:
            return True
        self._lingering[queue] = held
        self._drain(held)
        if not await within(self._clock, self._tuning.release_wait_ms, held.quiet()):
            if held.lease is not None:
                # Its lock is kept, so that no other handler can begin before this one ended.
                self._end(self._finish_when_quiet(held))
                return True
            log.info("queue given up with handlers at work queue=%s", queue)
        await self._finish(held)
        return True

    # From within

    def lost(self, held: HeldQueue) -> None:
        """Drop what is in hand of a queue, and have it begin anew from its saved offset."""
        if self._held.get(held.queue) is not held:
            held.drop()
            return
        del self._held[held.queue]
        self._lingering[held.queue] = held
        held.drop()
        self._stop_fetching(held)
        self._end(self._begin_anew(held, None))

    def moved(self, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """Go on elsewhere in queues that are held, because a broker or an operator says so."""
        for queue, offset in offsets.items():
            held = self._held.pop(queue, None)
            if held is None:
                continue
            self._lingering[queue] = held
            held.drop()
            self._stop_fetching(held)
            self._offsets.freeze(queue, offset)
            log.info("queue moved queue=%s offset=%d", queue, offset)
            self._end(self._begin_anew(held, offset))

    async def keep_locks(self) -> None:
        """Renew the locks from time to time, until cancelled."""
        assert self._locks is not None
        while True:
            await self._clock.sleep(self._tuning.lock_every_ms)
            try:
                both = [*self._held.values(), *self._lingering.values()]
                for held in await self._locks.renew([each for each in both if each.lease]):
                    log.warning("lock lost queue=%s next=claimed again", held.queue)
                    self.lost(held)
            except Exception:
                log.exception("locks not renewed")

    async def drain(self) -> None:
        """Pull no more, and wait until every handler is done, or has had its time."""
        for held in self._held.values():
            self._drain(held)
        busy = [*self._held.values(), *self._lingering.values()]
        if not await within(self._clock, self._tuning.drain_ms, _all_quiet(busy)):
            log.warning(
                "closed with handlers at work queues=%d", sum(not held.is_quiet for held in busy)
            )

    async def close(self) -> None:
        """End whatever is left; everything was released by now, or lingers."""
        for held in list(self._lingering.values()):
            held.drop()
        tasks = [*self._endings, *(task for some in self._tasks.values() for task in some)]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.clear()
        self._lingering.clear()

    # Tasks

    async def _fetching(self, held: HeldQueue, start: QueueOffset) -> None:
        assert self._fetch is not None
        try:
            elsewhere = await self._fetch.run(held, start)
            if elsewhere is not None and self._held.get(held.queue) is held:
                self.moved({held.queue: elsewhere})
        except Exception:
            log.exception("fetching failed queue=%s", held.queue)
            self.lost(held)

    async def _attending(self, held: HeldQueue) -> None:
        assert self._workers is not None
        try:
            await self._workers.attend(held)
        except Exception:
            log.exception("consuming failed queue=%s", held.queue)
            self.lost(held)

    def _drain(self, held: HeldQueue) -> None:
        held.drain()
        self._stop_fetching(held)

    def _stop_fetching(self, held: HeldQueue) -> None:
        fetching, _ = self._tasks[held]
        if fetching is not asyncio.current_task():
            fetching.cancel()

    def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(ending)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _finish_when_quiet(self, held: HeldQueue) -> None:
        await held.quiet()
        await self._finish(held)
        self._forget(held.queue)

    async def _finish(self, held: HeldQueue) -> None:
        queue = held.queue
        try:
            if not held.is_dropped:
                await self._save(queue)
                held.drop()
            if self._locks is not None:
                await self._locks.unlock(queue)
        finally:
            held.drop()
            self._offsets.forget(queue)
            self._lingering.pop(queue, None)
            self._tasks.pop(held, None)
        log.debug("queue released queue=%s", queue)

    async def _begin_anew(self, held: HeldQueue, offset: QueueOffset | None) -> None:
        if offset is not None:
            await self._save(held.queue)
        await held.quiet()
        self._offsets.forget(held.queue)
        self._lingering.pop(held.queue, None)
        self._tasks.pop(held, None)
        self._forget(held.queue)

    async def _save(self, queue: MessageQueue) -> None:
        try:
            await self._offsets.persist([queue])
        except RocketPipeError as error:
            log.warning("offset not saved queue=%s reason=%s", queue, error)


async def _all_quiet(queues: Iterable[HeldQueue]) -> None:
    for held in queues:
        await held.quiet()
