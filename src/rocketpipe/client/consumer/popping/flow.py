"""Push consumption by pops: no queue has an owner, and each message is acknowledged by itself.

    found            to the handlers, ``concurrency`` at a time
    done             acknowledged
    failed           comes again after 10 s, 30 s, 1 m, 2 m …, or as ``Retry`` says
    given up         to the dead letters
    held too long    forgotten here: it comes again, here or elsewhere

In order, what one pop took from a queue is handled one by one; after a failure the rest of it comes
again with the message that failed, and nothing behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from itertools import groupby
from typing import Final

from rocketpipe.background import running
from rocketpipe.client.consumer.handling.handlers import Handlers, runs
from rocketpipe.client.consumer.handling.send_back import SendBack
from rocketpipe.client.consumer.outcome import DEAD_LETTER, Outcome
from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.client.consumer.popping.popper import Popper, Source
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.session import Session
from rocketpipe.clock import within
from rocketpipe.errors import ReceiptExpired, RocketPipeError
from rocketpipe.model.group import DELAYS_MS
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import MessageModel, MessageRequestMode, Subscription
from rocketpipe.protocol.requests.clients import AssignmentQuestion, QueryAssignment
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

EVERY_MS: Final = 20_000
#: As RocketMQ's consumers: ten seconds first, two hours at last.
BACK_OFF_MS: Final = DELAYS_MS[2:]
ACK_TRIES: Final = 3
_STRATEGY: Final = "AVG"


class PopFlow:
    """Pops for one consumer, and has what it got handled."""

    def __init__(
        self,
        popper: Popper,
        handlers: Handlers,
        returns: SendBack,
        *,
        tuning: PushTuning,
        concurrency: int,
        subscription: Callable[[str], Subscription],
    ) -> None:
        """Prepare; ``subscription`` is asked for by topic, before each pop."""
        self._session = popper.session
        self._popper = popper
        self._handlers = handlers
        self._returns = returns
        self._tuning = tuning
        self._concurrency = concurrency
        self._ordered = popper.ordered
        self._subscription = subscription
        self._waiting: asyncio.Queue[list[PoppedMessage]] = asyncio.Queue(concurrency)
        self._wanted: set[Source] = set()
        self._popping: dict[Source, asyncio.Task[None]] = {}
        self._in_hand: dict[Source, int] = {}
        self._room = asyncio.Condition()
        self._notice = asyncio.Event()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._ending = False
        self._lines = LogBudget()

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """What it pops from; number -1 is any queue of a broker."""
        return frozenset(source.queue for source in self._popping)

    def suspend(self) -> None:
        """Pop no more; what is in hand is consumed."""
        self._resumed.clear()

    def resume(self) -> None:
        """Pop again."""
        self._resumed.set()

    def notify(self) -> None:
        """Something changed: see at once where there is something to pop."""
        self._notice.set()

    async def begin(self, stack: AsyncExitStack, *, suspended: bool = False) -> None:
        """Pop from now on; leaving ``stack`` stops it and waits for handlers to finish."""
        if suspended:
            self.suspend()
        await stack.enter_async_context(running(self.run(), f"pops of {self._popper.group}"))
        stack.push_async_callback(self.drain)

    async def run(self) -> None:
        """Pop and have handled, until cancelled; what nobody began to handle is given back."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._concurrency):
                    tasks.create_task(self._work())
                while True:
                    await self._look_around(tasks)
                    self._notice.clear()
                    await within(self._session.clock, EVERY_MS, self._notice.wait())
        finally:
            self._popping.clear()

    async def drain(self) -> None:
        """Pop nothing more, have finished what handlers have, and give the rest back."""
        self._ending = True
        for task in tuple(self._popping.values()):
            task.cancel()
        left: list[PoppedMessage] = []
        while not self._waiting.empty():
            left += self._waiting.get_nowait()
        if left:
            await asyncio.gather(*(self._hide(message, 0) for message in left))
        await self._take_off(self._source_of(message) for message in left)
        async with self._room:
            await within(
                self._session.clock,
                self._tuning.drain_ms,
                self._room.wait_for(lambda: not any(self._in_hand.values())),
            )

    # Where to pop

    async def _look_around(self, tasks: asyncio.TaskGroup) -> None:
        """Pop from everything that is there, and no longer from what is not."""
        wanted: set[Source] = set()
        for each in self._handlers:
            try:
                wanted.update(await self._sources(each.topic))
            except RocketPipeError as error:
                self._complain("topic not popped", each.topic, error)
                wanted.update(known for known in self._popping if known.topic == each.topic)
        if self._ending:
            return
        # What is not ours any more is left after its present pop: the broker would give messages to
        # one that was given up, and nobody would see them until their time is over.
        self._wanted = wanted
        for source in wanted - set(self._popping):
            self._popping[source] = tasks.create_task(self._pop_on(source))

    async def _sources(self, topic: str) -> list[Source]:
        """What a broker assigns to this member, or else any queue of every broker."""
        everywhere = await self._popper.sources(topic)
        assigned = await self._assigned(topic)
        return everywhere if assigned is None else assigned

    async def _assigned(self, topic: str) -> list[Source] | None:
        found = await assignments(self._session, self._popper.group, topic)
        return found or None

    async def _pop_on(self, source: Source) -> None:
        try:
            await self._pop_while_wanted(source)
        finally:
            self._popping.pop(source, None)

    async def _pop_while_wanted(self, source: Source) -> None:
        tuning = self._tuning
        while source in self._wanted:
            await self._resumed.wait()
            async with self._room:
                await self._room.wait_for(lambda: self._held(source) <= tuning.pop_in_hand)
            try:
                messages = await self._popper.pop(
                    source,
                    self._subscription(source.topic),
                    count=tuning.pop_count,
                    invisible_ms=tuning.pop_invisible_ms,
                    wait_ms=tuning.pull_suspend_ms,
                )
            except RocketPipeError as error:
                self._complain("pop failed", f"{source.topic}@{source.broker_name}", error)
                await self._session.clock.sleep(tuning.failed_pull_ms)
                continue
            self._in_hand[source] = self._held(source) + len(messages)
            for together in self._units(messages):
                await self._waiting.put(together)

    def _held(self, source: Source) -> int:
        return self._in_hand.get(source, 0)

    def _units(self, messages: Sequence[PoppedMessage]) -> Iterable[list[PoppedMessage]]:
        """What is handled at a time: as much as a handler takes, or a queue's in order."""
        if self._ordered:
            for _, together in groupby(messages, lambda message: message.handle.queue_id):
                yield list(together)
            return
        for run in runs(messages, self._handlers):
            yield [message for message in run if isinstance(message, PoppedMessage)]

    # What is done with it

    async def _work(self) -> None:
        while True:
            messages = await self._waiting.get()
            try:
                await self._consume(messages)
            except Exception:
                # Whatever it is, the messages come again when their time is over.
                log.exception("worker failed topic=%s", messages[0].topic)
            finally:
                await self._take_off(self._source_of(message) for message in messages)

    async def _take_off(self, sources: Iterable[Source]) -> None:
        for source in sources:
            self._in_hand[source] = max(0, self._held(source) - 1)
        async with self._room:
            self._room.notify_all()

    def _source_of(self, message: PoppedMessage) -> Source:
        queue = message.queue
        own = Source(queue.topic, queue.broker_name, message.handle.queue_id)
        return own if own in self._in_hand else Source(queue.topic, queue.broker_name)

    async def _consume(self, messages: list[PoppedMessage]) -> None:
        for run in runs(messages, self._handlers):
            given = [message for message in run if isinstance(message, PoppedMessage)]
            if not await self._consume_run(given) and self._ordered:
                rest = messages[messages.index(given[-1]) + 1 :]
                for message in rest:
                    await self._hide(message, self._tuning.suspend_queue_ms)
                return

    async def _consume_run(self, messages: list[PoppedMessage]) -> bool:
        """Have messages handled; False if not all of them could be."""
        given, messages = messages, self._still_own(messages)
        if not messages:
            return False
        chosen = self._handlers.of(messages[0].topic)
        if chosen is None:
            outcome = Outcome(0, reason="this consumer has no handler for its topic")
        else:
            outcome = await self._handlers.call(chosen, messages)
        if outcome.done:
            await self._ack(messages[: outcome.done])
        failed = messages[outcome.done :]
        if failed:
            await self._complain_of(failed[0], outcome)
        for message in failed:
            await self._fail(message, outcome)
        return not failed and len(messages) == len(given)

    def _still_own(self, messages: list[PoppedMessage]) -> list[PoppedMessage]:
        """Without those that somebody else may have by now; in order, none behind the first."""
        now_ms = self._session.clock.monotonic_ms()
        late = [
            message
            for message in messages
            if message.hidden_until_ms is not None and message.hidden_until_ms <= now_ms
        ]
        if not late:
            return messages
        if self._lines.allows():
            log.warning(
                "messages waited here for longer than they are hidden, and come again: have "
                "fewer at once, or hide them for longer dropped=%d first=%r invisible_ms=%d%s",
                len(late),
                late[0],
                late[0].handle.invisible_ms,
                self._lines.suppressed(),
            )
        if self._ordered:
            return messages[: messages.index(late[0])]
        return [message for message in messages if message not in late]

    async def _fail(self, message: PoppedMessage, outcome: Outcome) -> None:
        if await self._is_hopeless(message, outcome):
            if await self._returns.send_back(message, DEAD_LETTER):
                await self._ack([message])
            return
        await self._hide(message, self._pause_ms(message, outcome))

    async def _is_hopeless(self, message: PoppedMessage, outcome: Outcome) -> bool:
        return outcome.delay_level == DEAD_LETTER or await self._returns.is_spent(message)

    def _pause_ms(self, message: PoppedMessage, outcome: Outcome) -> int:
        if self._ordered:
            pause_ms = outcome.pause_ms
            return self._tuning.suspend_queue_ms if pause_ms is None else pause_ms
        if outcome.delay_level > 0:
            return DELAYS_MS[outcome.delay_level - 1]
        return BACK_OFF_MS[min(message.reconsume_times, len(BACK_OFF_MS) - 1)]

    async def _ack(self, messages: list[PoppedMessage]) -> None:
        for attempt in range(ACK_TRIES):
            try:
                await self._popper.ack(messages)
            except ReceiptExpired as error:
                self._complain("acknowledged too late", messages[0].topic, error)
                return
            except RocketPipeError as error:
                self._complain("not acknowledged", messages[0].topic, error)
                if attempt + 1 < ACK_TRIES:
                    await self._session.clock.sleep(self._tuning.failed_pull_ms)
            else:
                return

    async def _hide(self, message: PoppedMessage, invisible_ms: int) -> None:
        try:
            await self._popper.hide(message, invisible_ms)
        except RocketPipeError as error:
            self._complain("comes again in its own time", message.topic, error)

    def _complain(self, what: str, where: str, error: RocketPipeError) -> None:
        if self._lines.allows(f"{what}: {error}"):
            log.warning("%s at=%s reason=%s%s", what, where, error, self._lines.suppressed())

    async def _complain_of(self, message: PoppedMessage, outcome: Outcome) -> None:
        if self._lines.allows():
            hopeless = await self._is_hopeless(message, outcome)
            log.warning(
                "message failed message=%r attempt=%d next=%s reason=%s%s",
                message,
                message.reconsume_times + 1,
                "to the dead letters" if hopeless else "again later",
                outcome.reason,
                self._lines.suppressed(),
                exc_info=outcome.error,
            )


async def assignments(session: Session, group: str, topic: str) -> list[Source] | None:
    """What a broker has this member of a group pop; None if it is to pull, or nobody says.

    Raises:
        NoRoute: If no NameServer knows the topic.
    """
    route = await session.routes.get(topic)
    addresses = [broker.readable for broker in route.brokers if broker.readable is not None]
    if not addresses:
        return None
    question = AssignmentQuestion(
        topic=topic,
        consumer_group=group,
        client_id=session.client_id,
        strategy_name=_STRATEGY,
        message_model=MessageModel.CLUSTERING,
    )
    try:
        reply = await session.caller.call(
            session.chance.choice(addresses), QueryAssignment(question=question), session.timeout_ms
        )
    except RocketPipeError as error:
        log.debug("no queues assigned topic=%s reason=%s", topic, error)
        return None
    given = reply.assigned.assignments
    if given is None or any(each.mode is not MessageRequestMode.POP for each in given):
        return None
    queues = (each.message_queue for each in given)
    return [Source(topic, queue.broker_name, queue.queue_id) for queue in queues]


async def says_pop(session: Session, group: str, topics: Iterable[str]) -> bool:
    """Whether the brokers have this group pop one of these topics.

    A group that no broker knows yet is told to pull.
    """
    for topic in topics:
        try:
            if await assignments(session, group, topic):
                return True
        except RocketPipeError as error:
            log.debug("nobody says how to fetch topic=%s reason=%s", topic, error)
    return False
