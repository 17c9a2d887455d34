"""Ordered consumption: of each queue one batch at a time, by whoever holds its lock.

A batch that failed goes back to the head of its queue, the queue rests, and it is tried again;
nothing behind it is consumed meanwhile. What has had all its attempts is sent to the retry topic,
from where the broker puts it with the dead letters, and the queue goes on.

Nobody can take a lock back while it is renewed. After a pause that was longer than its life another
member may have had the queue: a result that comes then is dropped, and the queue begins anew from
its saved offset.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from rocketpipe.client.consumer.group.offsets import OffsetStore
from rocketpipe.client.consumer.handling.handlers import Handlers
from rocketpipe.client.consumer.outcome import DEAD_LETTER, Outcome
from rocketpipe.client.consumer.pushing.held_queue import HeldQueue
from rocketpipe.client.consumer.pushing.workers import SendsBack
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.clock import Clock, within
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

LEAST_PAUSE_MS: Final = 10
MOST_PAUSE_MS: Final = 30_000
#: How often a queue is looked at again whose lock was not renewed in time.
UNLOCKED_MS: Final = 1000


class OrderedWorkers:
    """Hands each queue's batches to handlers in turn, ``concurrency`` queues at a time."""

    def __init__(
        self,
        handlers: Handlers,
        offsets: OffsetStore,
        returns: SendsBack,
        *,
        clock: Clock,
        tuning: PushTuning,
        concurrency: int,
        lost: Callable[[HeldQueue], None],
    ) -> None:
        """Prepare; ``lost`` is told of a queue whose lock did not last."""
        self._handlers = handlers
        self._offsets = offsets
        self._returns = returns
        self._clock = clock
        self._tuning = tuning
        self._slots = asyncio.Semaphore(concurrency)
        self._lost = lost
        self._lines = LogBudget()

    async def run(self) -> None:
        """Nothing runs for all queues together: each is attended to by itself."""

    async def submit(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Take messages in hand; who attends to the queue is told."""
        if held.messages.put(messages):
            held.arrived.set()

    async def clean(self, held: HeldQueue) -> None:
        """Nothing is sent back behind the back of an ordered handler, however long it takes."""

    async def attend(self, held: HeldQueue) -> None:
        """Consume a queue in order until it ends; a handler that is at work then finishes first."""
        while not held.is_ending:
            await held.arrived.wait()
            held.arrived.clear()
            while not held.is_ending:
                if not self._may_start(held):
                    await within(self._clock, UNLOCKED_MS, held.ending())
                    continue
                async with self._slots:
                    # The wait for a slot may have been long.
                    if held.is_ending or not self._may_start(held):
                        continue
                    messages = self._take(held)
                    if not messages:
                        break
                    held.handling.begin()
                    try:
                        pause_ms = await self._consume(held, messages)
                    finally:
                        held.handling.end()
                if pause_ms:
                    await within(self._clock, pause_ms, held.ending())

    def _take(self, held: HeldQueue) -> list[ReceivedMessage]:
        # A retry topic, which has no handler, has messages of several topics: one by one.
        chosen = self._handlers.of(held.queue.topic)
        return held.messages.take(1 if chosen is None else chosen.count)

    async def _consume(self, held: HeldQueue, messages: list[ReceivedMessage]) -> int:
        """Have a batch handled; gives how long the queue has to rest then."""
        chosen = self._handlers.of(messages[0].topic)
        if chosen is None:
            outcome = Outcome(0, reason="this consumer has no handler for its topic")
        else:
            outcome = await self._handlers.call(chosen, messages)
        if not self._counts(held):
            return 0
        done = outcome.done
        while done < len(messages) and await self._is_hopeless(messages[done], outcome):
            if not await self._returns.resend(messages[done], outcome.delay_level):
                break
            log.warning(
                "message failed message=%r attempt=%d next=to the dead letters reason=%s",
                messages[done],
                messages[done].reconsume_times + 1,
                outcome.reason,
                exc_info=outcome.error,
            )
            done += 1
        if not self._counts(held):
            return 0
        held.messages.again(messages[done:])
        offset = held.messages.commit()
        if offset is not None:
            # Whoever holds the lock decides, also when an operator moved the group back.
            self._offsets.update(held.queue, offset, increase_only=False)
            held.committable = offset
        held.shrank()
        if done == len(messages):
            return 0
        self._complain(messages[done], outcome)
        for message in messages[done:]:
            message.tried()
        asked = self._tuning.suspend_queue_ms if outcome.pause_ms is None else outcome.pause_ms
        return min(max(asked, LEAST_PAUSE_MS), MOST_PAUSE_MS)

    async def _is_hopeless(self, message: ReceivedMessage, outcome: Outcome) -> bool:
        return outcome.delay_level == DEAD_LETTER or await self._returns.is_spent(message)

    def _may_start(self, held: HeldQueue) -> bool:
        """Whether the lock is young enough to begin with another batch."""
        if held.lease is None:
            return True
        now_ms = self._clock.monotonic_ms()
        if held.lease.lasts(now_ms, self._tuning.lock_start_ms):
            return True
        self._counts(held)
        return False

    def _counts(self, held: HeldQueue) -> bool:
        """Whether a result that comes now counts: the lock has been ours all the time."""
        if held.is_dropped:
            log.info("result dropped queue=%s reason=the queue was given up", held.queue)
            return False
        now_ms = self._clock.monotonic_ms()
        if held.lease is None or held.lease.lasts(now_ms, self._tuning.lock_life_ms):
            return True
        log.warning(
            "lock lost queue=%s renewed_ms_ago=%d next=begins anew from the saved offset",
            held.queue,
            now_ms - held.lease.renewed_ms,
        )
        self._lost(held)
        return False

    def _complain(self, message: ReceivedMessage, outcome: Outcome) -> None:
        if self._lines.allows():
            log.warning(
                "message failed message=%r attempt=%d next=the queue rests reason=%s%s",
                message,
                message.reconsume_times + 1,
                outcome.reason,
                self._lines.suppressed(),
                exc_info=outcome.error,
            )
