"""Hands messages to an application's handlers as they come.

    consumer = PushConsumer("127.0.0.1:9876", group="billing")

    @consumer.on("orders", tags="paid || refunded")
    async def bill(message): ...

    async with consumer:
        await consumer.closed()

Members of a group share its queues; with ``broadcast`` each gets everything. A handler that raises,
or returns ``Retry``, gets its messages again: later, or with ``ordered`` before anything behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from rocketpipe.background import running
from rocketpipe.client.consumer.assignment import AVERAGE, Strategy
from rocketpipe.client.consumer.claims import QueueClaims
from rocketpipe.client.consumer.fetch_loop import FetchLoop
from rocketpipe.client.consumer.handled_counts import HandledCounts
from rocketpipe.client.consumer.handlers import Handlers, handler
from rocketpipe.client.consumer.handling_trace import handling_trace
from rocketpipe.client.consumer.interests import Interests
from rocketpipe.client.consumer.locks import QueueLocks
from rocketpipe.client.consumer.offsets import (
    BrokerOffsets,
    FileOffsets,
    OffsetStore,
    StartFrom,
    offsets_path,
    starting_offset,
)
from rocketpipe.client.consumer.ordered import OrderedWorkers
from rocketpipe.client.consumer.pop_flow import PopFlow, says_pop
from rocketpipe.client.consumer.popper import Popper
from rocketpipe.client.consumer.rebalance import Rebalancer
from rocketpipe.client.consumer.retrying import Returns
from rocketpipe.client.consumer.running import PushReport
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.consumer.workers import ConcurrentWorkers, Workers
from rocketpipe.client.replies import Replies
from rocketpipe.client.session import Session
from rocketpipe.clock import Clock
from rocketpipe.model.names import TRACE_TOPIC, check_consumer_group
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from rocketpipe.protocol.requests.clients import ConsumerData
from rocketpipe.protocol.requests.running import DirectResult, RunningInfo

log = logging.getLogger(__name__)

TargetT = TypeVar("TargetT")

#: As RocketMQ's consumers have threads.
CONCURRENCY: Final = 20
MAX_CONCURRENCY: Final = 1000
#: Where a group begins that begins by time and does not say when, as RocketMQ's do.
RECENT_MS: Final = 30 * 60_000


class PushConsumer(Replies):
    """Consumes topics for a group, by handlers; see the top of this file."""

    def __init__(
        self,
        name_servers: str | Session,
        *,
        group: str,
        ordered: bool = False,
        broadcast: bool = False,
        pop: bool | None = False,
        start: ConsumeFromWhere | StartFrom = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        strategy: Strategy = AVERAGE,
        concurrency: int = CONCURRENCY,
        tuning: PushTuning | None = None,
        offsets_root: Path | None = None,
        trace: bool | str = False,
        clock: Clock | None = None,
    ) -> None:
        """Prepare a consumer; nothing is asked or started before its ``async with``.

        ``concurrency`` is how many handlers run at a time, ``start`` where the group begins that
        has no offsets yet, and ``offsets_root`` where broadcast consumers keep theirs.

        With ``pop`` no queue has an owner: more consumers than queues share the work. None leaves
        that to the brokers, where an operator sets it by group and topic. ``trace`` says whether
        what handlers do is told to a topic of traces, or to which.

        Raises:
            InvalidName: If no group of consumers may have this name.
            ValueError: If a number is out of its range, ``name_servers`` is no list of them, or
                what is broadcast is to be popped.
        """
        check_consumer_group(group)
        if pop and broadcast:
            raise ValueError("what is popped is shared out: broadcast, or pop, but not both")
        if not 1 <= concurrency <= MAX_CONCURRENCY:
            raise ValueError(f"concurrency {concurrency}: it goes from 1 to {MAX_CONCURRENCY}")
        self.group = group
        self._ordered = ordered
        self._pop = False if broadcast else pop
        self._flow: PopFlow | None = None
        self._model = MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING
        self._strategy = strategy
        self._concurrency = concurrency
        self._tuning = tuning or PushTuning()
        self._offsets_root = offsets_root
        self._trace_topic = TRACE_TOPIC if trace is True else trace
        # Offsets of who broadcasts lie in a directory called like the client: always the same.
        instance = "DEFAULT" if broadcast else None
        self._session = Session.of(name_servers, clock=clock, instance=instance)
        if not isinstance(start, StartFrom):
            start = StartFrom(start, at_ms=self._session.clock.now_ms() - RECENT_MS)
        self._start = start
        self._counts = HandledCounts(self._session.clock)
        self._handlers = Handlers(concurrency, f"rocketpipe-{group}", self._counts)
        self._interests = Interests(self._session, group, self._handlers, retries=not broadcast)
        self._claims: QueueClaims | None = None
        self._report: PushReport | None = None
        self._fetch: FetchLoop | None = None
        self._rebalancer: Rebalancer | None = None
        self._suspended = False
        self._running: AsyncExitStack | None = None
        self._gate = asyncio.Lock()
        self._closed = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None

    # What to consume

    def on(
        self,
        topic: str,
        *,
        tags: str | None = None,
        sql: str | None = None,
        batch: int | None = None,
    ) -> Callable[[TargetT], TargetT]:
        """Mark what handles a topic: a function, an object, or a class of such objects.

        All messages are wanted unless ``tags`` (``A || B``) or ``sql`` chooses. With ``batch`` the
        handler gets lists of up to so many messages, else one message at a time.

        Raises:
            InvalidName: If no topic may have this name.
            FilterError: If the expression does not compile.
            ValueError: If the topic has a handler, or the consumer runs already.
            TypeError: If what is marked cannot be called with a message.
        """

        def mark(target: TargetT) -> TargetT:
            self.subscribe(topic, target, tags=tags, sql=sql, batch=batch)
            return target

        return mark

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

    async def __aenter__(self) -> Self:
        """Join the group and begin to consume.

        Raises:
            ValueError: If there is no handler, or the consumer runs already.
            GroupTaken: If the session has a consumer of this group.
            RequestRejected: If a broker refuses a subscription.
        """
        if not len(self._handlers):
            raise ValueError(f"group {self.group!r} has no handler: mark one with @consumer.on(…)")
        async with self._gate:
            if self._running is not None:
                raise ValueError("the consumer runs already")
            self._closed = asyncio.Event()  # a new one: this may be another loop than the last
            stack = AsyncExitStack()
            try:
                await self._begin(stack)
            except BaseException:
                await stack.aclose()
                raise
            self._running = stack
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop consuming: handlers finish what they have, offsets are saved, the group is left."""
        async with self._gate:
            stack, self._running = self._running, None
            if stack is not None:
                try:
                    await stack.aclose()
                finally:
                    self._closed.set()

    def stop(self) -> None:
        """Have it closed, without waiting: for signal handlers, and for handlers of messages."""
        if self._stopping is None:
            # Handlers may run before the start is through; closing then waits for it.
            self._stopping = asyncio.get_running_loop().create_task(self.close())
            self._stopping.add_done_callback(self._stopped)

    async def closed(self) -> None:
        """Wait until somebody stopped the consumer and it is closed."""
        await self._closed.wait()

    def suspend(self) -> None:
        """Fetch no more until ``resume``; what is in hand is consumed."""
        self._suspended = True
        for reader in (self._fetch, self._flow):
            if reader is not None:
                reader.suspend()

    def resume(self) -> None:
        """Fetch again."""
        self._suspended = False
        for reader in (self._fetch, self._flow):
            if reader is not None:
                reader.resume()

    @property
    def session(self) -> Session:
        """The client that it is part of."""
        return self._session

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues that are its share now."""
        if self._flow is not None:
            return self._flow.queues
        return frozenset() if self._rebalancer is None else self._rebalancer.owned

    # What the session asks, and tells

    def producer_groups(self) -> Sequence[str]:
        """It produces for nobody."""
        return ()

    def consumers(self) -> Sequence[ConsumerData]:
        """Its group, and all it subscribes to."""
        return (
            ConsumerData(
                group_name=self.group,
                consume_type=ConsumeType.CONSUME_PASSIVELY,
                message_model=self._model,
                consume_from_where=self._start.where,
                subscriptions=tuple(self._interests),
            ),
        )

    def topics(self) -> Collection[str]:
        """What it reads: the topics of its handlers, and what comes again."""
        return self._interests.topics

    def on_ids_changed(self, group: str) -> None:
        """Share the queues out anew."""
        for reader in (self._rebalancer, self._flow):
            if reader is not None and group == self.group:
                reader.notify()

    def on_routes_changed(self, topic: str) -> None:
        """Share the queues out anew."""
        for reader in (self._rebalancer, self._flow):
            if reader is not None and topic in self.topics():
                reader.notify()

    def on_offsets_reset(self, group: str, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """Go on where an operator says."""
        if self._claims is not None and group == self.group:
            self._claims.moved(offsets)

    def running_info(self, group: str, *, stacks: bool) -> RunningInfo:
        """How it fares, for an operator who asks."""
        assert self._report is not None, "it has joined, so it has begun"
        return self._report.running_info(stacks=stacks)

    def places(self, group: str, topic: str) -> Mapping[MessageQueue, QueueOffset]:
        """How far it has come in what it holds of a topic."""
        assert self._report is not None, "it has joined, so it has begun"
        return self._report.places(topic)

    async def consume_directly(self, record: bytes, broker_name: str) -> DirectResult:
        """Have a message handled that an operator chose.

        Raises:
            RecordError: If it is no record.
        """
        assert self._report is not None, "it has joined, so it has begun"
        return await self._report.consume(record, broker_name)

    @property
    def _is_broadcast(self) -> bool:
        return self._model is MessageModel.BROADCASTING

    async def _begin(self, stack: AsyncExitStack) -> None:
        session = await stack.enter_async_context(self._session)
        stack.callback(self._handlers.close)
        if self._trace_topic:
            telling = handling_trace(session, self.group, self._trace_topic, self._tuning)
            self._handlers.trace = await stack.enter_async_context(telling)
        await self._interests.find()
        session.join(self)
        stack.push_async_callback(session.leave, self)
        await session.beat()
        if self._pop or (self._pop is None and await says_pop(session, self.group, self.topics())):
            await self._begin_popping(stack, session)
        else:
            await self._begin_pulling(stack, session)

    async def _begin_pulling(self, stack: AsyncExitStack, session: Session) -> None:
        offsets = self._offset_store()
        claims = self._claims = self._queue_claims(offsets)
        self._report = PushReport(
            session,
            self._handlers,
            self._counts,
            claims,
            offsets,
            self._interests,
            ordered=self._ordered,
            concurrency=self._concurrency,
        )
        workers = self._make_workers(offsets, claims)
        fetch = self._fetch = FetchLoop(
            session,
            self.group,
            offsets,
            workers,
            tuning=self._tuning,
            subscription=self._interests.told_of,
            room=claims.room,
            commits=not self._is_broadcast,
        )
        if self._suspended:
            fetch.suspend()
        rebalancer = self._rebalancer = Rebalancer(
            session, self.group, self._model, self._strategy, claims, changed=self._on_share_changed
        )
        for topic in self.topics():
            rebalancer.watch(topic)
        claims.connect(fetch, workers, rebalancer.forget)
        # The retry topic came to be with that heartbeat, at the latest.
        await self._interests.find_retries()
        stack.push_async_callback(claims.close)
        await stack.enter_async_context(running(workers.run(), f"workers of {self.group}"))
        # From here on the order is that of closing, read from the bottom: nothing new is claimed,
        # handlers finish, offsets are saved and queues given up, and the group is left.
        if self._ordered and not self._is_broadcast:
            await stack.enter_async_context(running(claims.keep_locks(), f"locks of {self.group}"))
        stack.push_async_callback(rebalancer.close)
        stack.push_async_callback(claims.drain)
        for timer in (claims.keep_saved(), claims.keep_clean()):
            await stack.enter_async_context(running(timer, f"timer of {self.group}"))
        await rebalancer.balance()
        await stack.enter_async_context(running(rebalancer.run(), f"rebalance of {self.group}"))

    async def _begin_popping(self, stack: AsyncExitStack, session: Session) -> None:
        flow = self._flow = PopFlow(
            Popper(session, self.group, self._start.where, ordered=self._ordered),
            self._handlers,
            Returns(session, self.group, self._tuning.attempts(ordered=self._ordered)),
            tuning=self._tuning,
            concurrency=self._concurrency,
            subscription=self._interests.told_of,
        )
        await flow.begin(stack, suspended=self._suspended)

    def _offset_store(self) -> OffsetStore:
        if not self._is_broadcast:
            return BrokerOffsets(self._session, self.group)
        return FileOffsets(offsets_path(self._session.client_id, self.group, self._offsets_root))

    def _queue_claims(self, offsets: OffsetStore) -> QueueClaims:
        async def start_of(queue: MessageQueue) -> QueueOffset:
            return await starting_offset(self._session, offsets, queue, self._start)

        locks = None
        if self._ordered and not self._is_broadcast:
            locks = QueueLocks(self._session, self.group, self._tuning.lock_life_ms)
        return QueueClaims(
            offsets, locks, start_of=start_of, clock=self._session.clock, tuning=self._tuning
        )

    def _make_workers(self, offsets: OffsetStore, claims: QueueClaims) -> Workers:
        attempts = self._tuning.attempts(ordered=self._ordered)
        returns = Returns(self._session, self.group, attempts)
        if self._ordered:
            return OrderedWorkers(
                self._handlers,
                offsets,
                returns,
                clock=self._session.clock,
                tuning=self._tuning,
                concurrency=self._concurrency,
                lost=claims.lost,
            )
        return ConcurrentWorkers(
            self._handlers,
            offsets,
            None if self._is_broadcast else returns,
            clock=self._session.clock,
            tuning=self._tuning,
            concurrency=self._concurrency,
        )

    # What goes on

    async def _on_share_changed(self, topic: str) -> None:
        self._interests.renew(topic)
        await self._session.beat()
        self._interests.told(topic)

    def _stopped(self, task: asyncio.Task[None]) -> None:
        self._stopping = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("consumer not closed cleanly group=%s", self.group, exc_info=error)
