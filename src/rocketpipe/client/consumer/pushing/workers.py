"""Concurrent consumption: so many handlers at a time, whatever queues their messages are from.

What handlers are done with leaves the ``ProcessQueue``, and the offset follows the smallest message
that is left. What failed goes back to the broker first, so that nothing is committed that would be
lost; where no broker takes it, it stays in hand and is tried again here.

Messages of one pull stay together: one worker has them handled one after the other, as long as no
call waits. While one does, the rest is for the other workers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from rocketpipe.client.consumer.group.offsets import OffsetStore
from rocketpipe.client.consumer.handling.handlers import Handler, Handlers, runs
from rocketpipe.client.consumer.handling.stepping import Begun, done_at_once
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


class Run:
    """Messages of one queue for one handler: all for one call, or one call after the other."""

    __slots__ = ("at", "chosen", "held", "messages", "steps")

    def __init__(
        self,
        held: HeldQueue,
        chosen: Handler | None,
        messages: Sequence[ReceivedMessage],
        *,
        steps: bool = False,
    ) -> None:
        """Take messages; with ``steps`` each is for a call of its own, which may be done at once.

        ``chosen`` is None where this consumer has no handler for them.
        """
        self.held = held
        self.chosen = chosen
        self.messages = messages
        self.steps = steps
        #: The first that no handler was called with.
        self.at = 0

    @property
    def calls(self) -> int:
        """How many calls are left in it."""
        return len(self.messages) - self.at if self.steps else 1


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
        self._waiting: WorkQueue[Run] = WorkQueue(concurrency)
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
        for run in self._runs(held, messages):
            await self._waiting.put(run, run.calls)

    def _runs(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> list[Run]:
        handlers, topic = self._handlers, held.queue.topic
        if is_retry_topic(topic):  # of each message another
            return [Run(held, handlers.of(run[0].topic), run) for run in runs(messages, handlers)]
        chosen = handlers.of(topic)
        if chosen is not None and chosen.waits and chosen.batch is None and not handlers.is_watched:
            return [Run(held, chosen, messages, steps=True)]
        most = chosen.count if chosen is not None else 1
        return [Run(held, chosen, messages[at : at + most]) for at in range(0, len(messages), most)]

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
        waiting = self._waiting
        while True:
            run = waiting.take_now()
            if run is None:
                run = await waiting.take()
            if run.held.is_ending:
                continue  # it stays in hand, uncommitted: whoever has the queue next gets it
            if not run.steps:
                await self._consume(run)
            elif (met := self._step(run)) is not None:
                message = run.messages[run.at]
                run.at += 1
                if run.calls:
                    waiting.put_first(run, run.calls)  # others need not wait for this one
                await self._consume(Run(run.held, run.chosen, [message]), met)

    def _step(self, run: Run) -> Outcome | Begun | None:
        """Have messages handled as long as each is done at once; gives what the next came to."""
        chosen, held, first = run.chosen, run.held, run.at
        assert chosen is not None, "nobody is called"
        began_ms = self._clock.monotonic_ms()
        run.at, met = done_at_once(chosen.handle, run.messages, first, held)
        done = run.messages[first : run.at]
        if done:
            self._handlers.count(chosen, len(done), len(done), began_ms)
            self._done(held, done)
        return met

    async def _consume(self, run: Run, met: Outcome | Begun | None = None) -> None:
        """Have messages handled, or go on with what a first step of that came to."""
        held, chosen, messages = run.held, run.chosen, run.messages
        held.handling.begin()
        try:
            outcome: Outcome
            if chosen is None:
                outcome = _UNHANDLED
            elif isinstance(met, Outcome):
                outcome = met
                self._handlers.count(chosen, 0, 1, self._clock.monotonic_ms())
            else:
                began_ms = self._clock.monotonic_ms()
                held.messages.start(messages, began_ms)
                outcome = await self._handlers.call(chosen, messages, began_ms, met)
            if outcome.done == len(messages) or held.is_dropped:
                self._done(held, messages)
            else:
                await self._give_back(run, outcome)
        except Exception:
            # Whatever it is, the messages are still in hand and not lost.
            log.exception("worker failed queue=%s", held.queue)
            self._try_later(run)
        finally:
            held.handling.end()

    async def _give_back(self, run: Run, outcome: Outcome) -> None:
        """Have the broker deliver again what is not done."""
        held, messages = run.held, run.messages
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
            self._try_later(Run(held, run.chosen, kept))

    def _done(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        if held.is_dropped:
            log.info("result dropped queue=%s messages=%d", held.queue, len(messages))
            return
        offset = held.messages.remove(messages)
        if offset is not None:
            self._offsets.update(held.queue, offset)
            held.committable = offset
        held.shrank()

    def _try_later(self, run: Run) -> None:
        # As many as there are messages in hand, at most, and flow control bounds those.
        task = asyncio.create_task(self._submit_later(run))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _submit_later(self, run: Run) -> None:
        await self._clock.sleep(self._tuning.local_retry_ms)
        if not run.held.is_ending:
            await self._waiting.put(run)

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
