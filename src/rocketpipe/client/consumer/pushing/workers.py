"""Concurrent consumption: so many handlers at a time, whatever queues their messages are from.

What handlers were done with in a turn of the loop leaves the ``ProcessQueue`` at its end, and the
offset follows the smallest message that is left. What failed goes back to the broker first, so that
nothing is committed that would be lost; where no broker takes it, it stays in hand and is tried
again here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from rocketpipe.client.consumer.group.offsets import OffsetStore
from rocketpipe.client.consumer.handling.handlers import Handler, Handlers, runs
from rocketpipe.client.consumer.handling.work_queue import WorkQueue
from rocketpipe.client.consumer.outcome import DEAD_LETTER, Outcome
from rocketpipe.client.consumer.pushing.held_queue import HeldQueue
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.clock import Clock
from rocketpipe.model.names import is_retry_topic
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

#: The level at which stuck messages come again: ten seconds.
STUCK_LEVEL: Final = 3

_UNHANDLED: Final = Outcome(0, reason="this consumer has no handler for its topic")


class SendsBack(Protocol):
    """Where messages go that failed; see ``send_back.SendBack``."""

    async def is_spent(self, message: ReceivedMessage) -> bool: ...

    async def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> bool: ...

    async def resend(self, message: ReceivedMessage, delay_level: int = 0) -> bool: ...


# A struct where the house has dataclasses: one is made for each message, in a fifth of the time.
class Batch(msgspec.Struct, frozen=True):
    """What one call of a handler gets, and the queue that it is from."""

    held: HeldQueue
    #: None where this consumer has no handler for it.
    chosen: Handler | None
    messages: list[ReceivedMessage]


class Workers(Protocol):
    """Who hands messages to handlers: these, or the ordered ones."""

    async def run(self) -> None:
        """Work until cancelled."""
        ...

    async def submit(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Take messages of a queue in hand and have them consumed."""
        ...

    async def attend(self, held: HeldQueue) -> None:
        """See to a queue until it ends."""
        ...

    async def clean(self, held: HeldQueue) -> None:
        """Look for messages that handlers have had for too long."""
        ...


class ConcurrentWorkers:
    """Hands batches to handlers, ``concurrency`` at a time."""

    def __init__(
        self,
        handlers: Handlers,
        offsets: OffsetStore,
        returns: SendsBack | None,
        *,
        clock: Clock,
        tuning: PushTuning,
        concurrency: int,
    ) -> None:
        """Prepare; ``returns`` is None where what fails is not delivered again (broadcasting)."""
        self._handlers = handlers
        self._offsets = offsets
        self._returns = returns
        self._clock = clock
        self._tuning = tuning
        self._concurrency = concurrency
        self._waiting: WorkQueue[Batch] = WorkQueue(concurrency)
        #: Done in this turn of the loop, and not noted yet.
        self._finished: list[Batch] = []
        self._later: set[asyncio.Task[None]] = set()
        self._lines = LogBudget()

    async def run(self) -> None:
        """Work until cancelled; whatever a handler does, this goes on."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._concurrency):
                    tasks.create_task(self._work())
        finally:
            for task in self._later:
                task.cancel()

    async def submit(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Have messages consumed that are in hand by now; waits while every worker is busy."""
        held.messages.put(messages)
        await self._waiting.put(self._batches(held, messages))

    def _batches(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> list[Batch]:
        handlers, topic = self._handlers, held.queue.topic
        if is_retry_topic(topic):  # of each message another
            return [Batch(held, handlers.of(run[0].topic), run) for run in runs(messages, handlers)]
        chosen = handlers.of(topic)
        most = chosen.count if chosen is not None else 1
        if most == 1:
            return [Batch(held, chosen, [message]) for message in messages]
        return [
            Batch(held, chosen, list(messages[at : at + most]))
            for at in range(0, len(messages), most)
        ]

    async def attend(self, held: HeldQueue) -> None:
        """See to a queue while it is held: nothing to do, as the workers are there for all."""

    async def clean(self, held: HeldQueue) -> None:
        """Send back what handlers have had for too long, so that the offset can move on."""
        timeout_ms = self._tuning.consume_timeout_ms
        for message in held.messages.stuck(self._clock.monotonic_ms(), timeout_ms):
            if self._returns is not None and not await self._returns.send_back(
                message, STUCK_LEVEL
            ):
                return
            log.warning(
                "handler stuck message=%r after_ms=%d next=%s",
                message,
                timeout_ms,
                "dropped" if self._returns is None else "sent back",
            )
            self._done(held, [message])

    async def _work(self) -> None:
        waiting, handlers, now_ms = self._waiting, self._handlers, self._clock.monotonic_ms
        loop = asyncio.get_running_loop()
        while True:
            batch = waiting.take_now()
            if batch is None:
                batch = await waiting.take()
            held, chosen, messages = batch.held, batch.chosen, batch.messages
            if held.is_ending:
                continue  # it stays in hand, uncommitted: whoever has the queue next gets it
            held.handling.begin()
            try:
                if chosen is None:
                    outcome = _UNHANDLED
                else:
                    began_ms = now_ms()
                    held.messages.start(messages, began_ms)
                    outcome = await handlers.call(chosen, messages, began_ms)
                if outcome.done == len(messages):
                    finished = self._finished
                    finished.append(batch)
                    if len(finished) == 1:
                        loop.call_soon(self._note_finished)
                    continue
                await self._give_back(batch, outcome)
            except Exception:
                # Whatever it is, the messages are still in hand and not lost.
                log.exception("worker failed queue=%s", held.queue)
                self._try_later(batch)
            except BaseException:
                held.handling.end()
                raise
            held.handling.end()

    def _note_finished(self) -> None:
        finished, self._finished = self._finished, []
        by_queue: dict[HeldQueue, list[Batch]] = {}
        for batch in finished:
            by_queue.setdefault(batch.held, []).append(batch)
        for held, batches in by_queue.items():
            messages = [message for batch in batches for message in batch.messages]
            if held.is_dropped:
                log.info("result dropped queue=%s messages=%d", held.queue, len(messages))
            else:
                self._done(held, messages)
            held.handling.end(len(batches))

    async def _give_back(self, batch: Batch, outcome: Outcome) -> None:
        """Have the broker deliver again what is not done."""
        held, messages = batch.held, batch.messages
        if held.is_dropped:
            log.info("result dropped queue=%s messages=%d", held.queue, len(messages))
            return
        # What the clean-up sent back meanwhile is no longer ours, however it ended.
        failed = [message for message in messages[outcome.done :] if message in held.messages]
        kept: list[ReceivedMessage] = []
        if failed:
            await self._complain(failed[0], outcome)
            if self._returns is not None:
                for message in failed:
                    if not await self._returns.send_back(message, outcome.delay_level):
                        message.tried()
                        kept.append(message)
        self._done(held, [message for message in messages if message not in kept])
        if kept:
            self._try_later(Batch(held, batch.chosen, kept))

    def _done(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        offset = held.messages.remove(messages)
        if offset is not None:
            assert not held.is_dropped
            self._offsets.update(held.queue, offset)
            held.committable = offset
        held.shrank()

    def _try_later(self, batch: Batch) -> None:
        # As many as there are messages in hand, at most, and flow control bounds those.
        task = asyncio.create_task(self._submit_later(batch))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _submit_later(self, batch: Batch) -> None:
        await self._clock.sleep(self._tuning.local_retry_ms)
        if not batch.held.is_ending:
            await self._waiting.put([batch])

    async def _complain(self, message: ReceivedMessage, outcome: Outcome) -> None:
        if self._lines.allows():
            # Asked before the message goes back, so that what is said is what happens to it.
            follows = await self._next(message, outcome)
            log.warning(
                "message failed message=%r attempt=%d next=%s reason=%s%s",
                message,
                message.reconsume_times + 1,
                follows,
                outcome.reason,
                self._lines.suppressed(),
                exc_info=outcome.error,
            )

    async def _next(self, message: ReceivedMessage, outcome: Outcome) -> str:
        if self._returns is None:
            return "dropped"
        if outcome.delay_level == DEAD_LETTER or await self._returns.is_spent(message):
            return "to the dead letters"
        return "again later"
