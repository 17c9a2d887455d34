"""Hands messages to an application's handlers as they come.

    consumer = PushConsumer("127.0.0.1:9876", group="billing")

    @consumer.on("orders", tags="paid || refunded")
    async def bill(message): ...

    asyncio.run(consumer.run())  # until Ctrl-C or SIGTERM

Members of a group share its queues; with ``broadcast`` each gets everything. A handler that raises,
or returns ``Retry``, gets its messages again: later, or with ``ordered`` before anything behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from pathlib import Path
from typing import Self

from rocketpipe.client.consumer.group.assignment import AVERAGE, Strategy
from rocketpipe.client.consumer.group.offsets import FileOffsets
from rocketpipe.client.consumer.group.start import Beginnings, Start, settle_pops, start_from
from rocketpipe.client.consumer.group.subscriptions import Subscriptions
from rocketpipe.client.consumer.handling.handler_decorators import HandlerDecorators
from rocketpipe.client.consumer.handling.handler_stats import HandlerStats
from rocketpipe.client.consumer.handling.handlers import Handlers, handler
from rocketpipe.client.consumer.handling.trace import handling_trace
from rocketpipe.client.consumer.popping.flow import PopFlow, says_pop
from rocketpipe.client.consumer.popping.popper import Popper
from rocketpipe.client.consumer.pushing.flow import PullFlow
from rocketpipe.client.consumer.pushing.member import PushMember
from rocketpipe.client.consumer.pushing.plan import CONCURRENCY, PushPlan
from rocketpipe.client.consumer.pushing.report import PushReport
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.consumer.replies import Replies
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.lifetime import Lifetime
from rocketpipe.client.observers import Processing, observed
from rocketpipe.client.session import Session
from rocketpipe.client.signals import first_signal
from rocketpipe.clock import Clock
from rocketpipe.errors import SessionClosed
from rocketpipe.model.names import TRACE_TOPIC
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere

log = logging.getLogger(__name__)


class PushConsumer(Replies, HandlerDecorators, Lifetime):
    """Consumes topics for a group, by handlers; see the top of this file."""

    def __init__(
        self,
        name_servers: str | Session,
        *,
        group: str,
        ordered: bool = False,
        broadcast: bool = False,
        pop: bool | None = False,
        start: Start = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        strategy: Strategy = AVERAGE,
        concurrency: int = CONCURRENCY,
        tuning: PushTuning | None = None,
        offsets_root: Path | None = None,
        trace: bool | str = False,
        clock: Clock | None = None,
    ) -> None:
        """Prepare a consumer; nothing is asked or started before its ``async with``.

        ``start`` says where the group begins with a queue that it has no offset for: "first",
        "last" (what comes from now on), a datetime with a zone, or a ``ConsumeFromWhere``. The
        default is RocketMQ's ``CONSUME_FROM_LAST_OFFSET``: a young queue, which still has its very
        first message, is read from there, and only others at their end.

        ``concurrency`` is how many handlers run at a time, and ``offsets_root`` where broadcast
        consumers keep their offsets. Each of these on one machine needs a place of its own: a
        root, or a ``Session`` with an instance.

        With ``pop`` no queue has an owner: more consumers than queues share the work. None leaves
        that to the brokers, where an operator sets it by group and topic. ``trace`` says whether
        what handlers do is told to a topic of traces, or to which.

        Raises:
            InvalidName: If no group of consumers may have this name.
            ValueError: If a number is out of its range, ``start`` says no place, ``name_servers``
                is no list of them, or what is broadcast is to be popped.
        """
        # Offsets of who broadcasts lie in a directory called like the client: always the same.
        instance = "DEFAULT" if broadcast else None
        self._session = session = Session.of(name_servers, clock=clock, instance=instance)
        self.group = group
        self._plan = PushPlan(
            group=group,
            start=start_from(start, session.clock.now_ms()),
            ordered=ordered,
            broadcast=broadcast,
            pop=pop,
            strategy=strategy,
            concurrency=concurrency,
            tuning=tuning or PushTuning(),
            offsets_root=offsets_root,
        )
        self._trace_topic = TRACE_TOPIC if trace is True else trace
        self._counts = HandlerStats(session.clock)
        self._handlers = Handlers(concurrency, f"rocketpipe-{group}", self._counts)
        if session.observers:
            self._handlers.observing = self._observing
        self._subscriptions = Subscriptions(session, group, self._handlers, retries=not broadcast)
        self._flow: PullFlow | PopFlow | None = None
        self._suspended = False
        self._running: AsyncExitStack | None = None
        self._gate = asyncio.Lock()
        self._closed = asyncio.Event()
        self._was_opened = False
        self._stopping: asyncio.Task[None] | None = None

    # What to consume

    def _observing(self, messages: Sequence[ReceivedMessage]) -> AbstractContextManager[Processing]:
        session = self._session
        return observed(session.observers, Processing(session.client_id, self.group, messages))

    def subscribe(
        self,
        topic: str,
        target: object,
        *,
        tags: str | None = None,
        sql: str | None = None,
        batch: int | None = None,
    ) -> None:
        """Have a topic handled, as ``on`` does without being a decorator.

        Raises:
            InvalidName, FilterError, ValueError, TypeError: As for ``on``.
        """
        if self._running is not None:
            raise ValueError("the consumer runs already: give it its handlers before that")
        self._handlers.add(handler(topic, target, tags=tags, sql=sql, batch=batch))

    # Its life

    @property
    def is_open(self) -> bool:
        """Whether it consumes now."""
        return self._running is not None

    async def __aenter__(self) -> Self:
        """Join the group and begin to consume.

        Raises:
            ValueError: If there is no handler, or the consumer runs already.
            GroupTaken: If the session has a consumer of this group.
            OffsetsTaken: If another broadcast consumer keeps its offsets where this one would.
            RequestRejected: If a broker refuses a subscription.
        """
        if not len(self._handlers):
            raise ValueError(f"group {self.group!r} has no handler: mark one with @consumer.on(…)")
        async with self._gate:
            if self._running is not None:
                raise ValueError("the consumer runs already")
            self._was_opened = True
            self._closed = asyncio.Event()  # a new one: this may be another loop than the last
            stack = AsyncExitStack()
            try:
                await self._begin(stack)
            except BaseException:
                await stack.aclose()
                raise
            self._running = stack
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop consuming: handlers finish what they have, offsets are saved, the group is left."""
        if self._session.is_of_parent:
            return
        async with self._gate:
            stack, self._running = self._running, None
            if stack is not None:
                try:
                    await stack.aclose()
                finally:
                    self._closed.set()

    async def run(self) -> None:
        """Consume until Ctrl-C, SIGTERM or ``stop``, and close in order: a program's whole life.

        A second signal does what it would do without this. Only on the main thread signals are
        heard; elsewhere, and beside a framework that has them, ``stop`` ends it.

        Raises:
            ValueError, GroupTaken, OffsetsTaken, RequestRejected: As for its ``async with``.
        """
        loop = asyncio.get_running_loop()
        with first_signal(lambda: loop.call_soon_threadsafe(self.stop)):
            async with self:
                await self.closed()

    def stop(self) -> None:
        """Have it closed, without waiting: for signal handlers, and for handlers of messages."""
        if self._stopping is None:
            # Handlers may run before the start is through; closing then waits for it.
            self._stopping = asyncio.get_running_loop().create_task(self.close())
            self._stopping.add_done_callback(self._stopped)

    async def closed(self) -> None:
        """Wait until somebody stopped the consumer and it is closed.

        Raises:
            SessionClosed: If it was never opened: that would be a long wait.
        """
        if not self._was_opened:
            raise SessionClosed("the consumer")
        await self._closed.wait()

    def suspend(self) -> None:
        """Fetch no more until ``resume``; what is in hand is consumed."""
        self._suspended = True
        if self._flow is not None:
            self._flow.suspend()

    def resume(self) -> None:
        """Fetch again."""
        self._suspended = False
        if self._flow is not None:
            self._flow.resume()

    @property
    def session(self) -> Session:
        """The client that it is part of."""
        return self._session

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues that are its share now."""
        return frozenset() if self._flow is None else self._flow.queues

    # What goes on

    async def _begin(self, stack: AsyncExitStack) -> None:
        plan = self._plan
        session = await stack.enter_async_context(self._session)
        stack.callback(self._handlers.close)
        if self._trace_topic:
            telling = handling_trace(session, self.group, self._trace_topic, plan.tuning)
            self._handlers.trace = await stack.enter_async_context(telling)
        offsets = plan.offsets(session)
        if isinstance(offsets, FileOffsets):
            await stack.enter_async_context(offsets)
        await self._subscriptions.find()
        beginnings = Beginnings(session, offsets, plan.start)
        await beginnings.look(each.topic for each in self._handlers)
        claims = plan.claims(session, offsets, beginnings)
        report = PushReport(
            session,
            self._handlers,
            self._counts,
            claims,
            offsets,
            self._subscriptions,
            ordered=plan.ordered,
            concurrency=plan.concurrency,
        )
        member = PushMember(plan, self._subscriptions, report)
        session.join(member)
        stack.push_async_callback(session.leave, member)
        await session.beat()
        if await self._pops(session):
            topics = [each.topic for each in self._handlers]
            await settle_pops(session, self.group, plan.start, topics)
            self._flow = PopFlow(
                Popper(session, self.group, plan.start, ordered=plan.ordered),
                self._handlers,
                plan.returns(session),
                tuning=plan.tuning,
                concurrency=plan.concurrency,
                subscription=self._subscriptions.told_of,
            )
        else:
            self._flow = PullFlow(
                session, plan, self._handlers, self._subscriptions, claims, offsets
            )
        member.flow = self._flow
        await self._flow.begin(stack, suspended=self._suspended)

    async def _pops(self, session: Session) -> bool:
        plan = self._plan
        if plan.pop is None and not plan.broadcast:
            return await says_pop(session, self.group, self._subscriptions.topics)
        return bool(plan.pop)

    def _stopped(self, task: asyncio.Task[None]) -> None:
        self._stopping = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("consumer not closed cleanly group=%s", self.group, exc_info=error)
