"""Reads topics at the application's own pace.

    async with PullConsumer("127.0.0.1:9876", group="billing") as consumer:
        await consumer.subscribe("orders", tags="paid || refunded")
        async for message in consumer:
            ...

A consumer either subscribes, and shares the queues of its topics with the other members of its
group, or it is assigned queues by name and shares nothing. Messages are fetched ahead, and handed
out by ``poll`` or one by one. Asking for more says that what came before is done: that much is
committed every five seconds, and when the consumer is closed without an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rocketpipe.background import running
from rocketpipe.client.consumer.group.assignment import AVERAGE, Strategy
from rocketpipe.client.consumer.group.offsets import (
    BrokerOffsets,
    FileOffsets,
    OffsetStore,
    offset_at,
    offsets_path,
)
from rocketpipe.client.consumer.group.rebalance import Rebalancer
from rocketpipe.client.consumer.group.start import Beginnings, Start, start_from
from rocketpipe.client.consumer.handling.handlers import subscription_to
from rocketpipe.client.consumer.pulling.loop import BATCH, PULL_TIMEOUT_MS, PullLoop, pull_request
from rocketpipe.client.consumer.pulling.member import PullMember
from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer, ReadAhead, ReadLimits
from rocketpipe.client.consumer.pulling.readers import Readers
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.consumer.replies import Replies
from rocketpipe.client.identity import SHARED_INSTANCE, own_address
from rocketpipe.client.lifetime import Lifetime
from rocketpipe.client.observers import receive_observed
from rocketpipe.client.session import Session
from rocketpipe.clock import Clock, within
from rocketpipe.errors import OffsetOutOfRange, SessionClosed, WrongWayToRead
from rocketpipe.model.names import check_consumer_group, check_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import (
    EVERYTHING,
    ConsumeFromWhere,
    MessageModel,
    Subscription,
)

__all__ = ["PULL_TIMEOUT_MS", "PullConsumer", "pull_request"]

POLL_TIMEOUT_MS: Final = 5000
AUTO_COMMIT_MS: Final = 5000
LEAST_AUTO_COMMIT_MS: Final = 1000

#: After so many messages that were in hand already, the fetching is let in between.
_TURN: Final = 32


class PullConsumer(Replies, Lifetime):
    """Hands out messages when it is asked for some. Use it inside ``async with``, from one task."""

    def __init__(
        self,
        name_servers: str | Session,
        *,
        group: str,
        broadcast: bool = False,
        strategy: Strategy = AVERAGE,
        start: Start = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        auto_commit: bool = True,
        auto_commit_ms: int = AUTO_COMMIT_MS,
        limits: ReadLimits | None = None,
        batch: int = BATCH,
        offsets: OffsetStore | None = None,
        offsets_root: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Prepare a member of ``group``; nothing is asked yet.

        ``broadcast`` has every member read everything. ``start`` says where a queue is begun that
        the group has no offset for, as for ``PushConsumer``. Offsets are kept at the broker, those
        of a broadcast group in a file under ``offsets_root``, unless ``offsets`` is a store.

        Raises:
            InvalidName: If no group of consumers may have this name.
            ValueError: If ``name_servers``, ``start`` or a number makes no sense.
        """
        check_consumer_group(group)
        if auto_commit_ms < LEAST_AUTO_COMMIT_MS:
            raise ValueError(f"auto_commit_ms={auto_commit_ms}: {LEAST_AUTO_COMMIT_MS} or more")
        if not 1 <= batch <= 1024:
            raise ValueError(f"batch={batch}: 1 to 1024 messages a pull")
        self.group = group
        self._session = Session.of(name_servers, clock=clock)
        model = MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING
        begin = start_from(start, self._session.clock.now_ms())
        self._auto_commit_ms = auto_commit_ms if auto_commit else None
        self._buffer = FetchBuffer(limits or ReadLimits())
        self._member = PullMember(self._session, group, model, begin.where, self._buffer)
        self._offsets = offsets or self._usual_offsets(model, offsets_root, exact=begin.exact)
        self._beginnings = Beginnings(self._session, self._offsets, begin, keeps=auto_commit)
        self._readers = Readers(
            self._session,
            self._offsets,
            self._beginnings,
            self._buffer,
            PullLoop(self._session, group, self._buffer, self._member.wanted, batch=batch),
            auto_commit=auto_commit,
        )
        self._member.go_on_from = self._readers.go_on_from
        self._new_rebalancer = partial(
            Rebalancer, self._session, group, model, strategy, self._readers
        )
        self._rebalancer = self._new_rebalancer()
        #: The queue of which something was handed out last, and that is not known to be done.
        self._given: ReadAhead | None = None
        self._since_turn = 0
        self._open = False
        self._balancing = False
        self._running = AsyncExitStack()
        self._around = AsyncExitStack()

    def _usual_offsets(self, model: MessageModel, root: Path | None, *, exact: bool) -> OffsetStore:
        session = self._session
        if model is MessageModel.CLUSTERING:
            return BrokerOffsets(session, self.group, exact=exact)
        # Named as RocketMQ's clients name it, so that the next process finds it again.
        named = session.client_id if session.instance else f"{own_address()}@{SHARED_INSTANCE}"
        return FileOffsets(offsets_path(named, self.group, root))

    @property
    def is_open(self) -> bool:
        """Whether it can read now."""
        return self._open

    async def __aenter__(self) -> Self:
        """Open it; what it reads is said by ``subscribe`` or ``assign``.

        Raises:
            OffsetsTaken: If another broadcast consumer keeps its offsets where this one would.
        """
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._session)
            if isinstance(self._offsets, FileOffsets):
                await opening.enter_async_context(self._offsets)
            self._around = opening.pop_all()
        self._rebalancer = self._new_rebalancer()
        self._member.notify = self._rebalancer.notify
        self._balancing = False
        self._open = True
        if self._auto_commit_ms is not None:
            work = self._commit_often(self._auto_commit_ms)
            await self._running.enter_async_context(running(work, f"commits of {self.group}"))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session.is_of_parent:
            return
        self._open = False
        try:
            await self._running.aclose()
            if kind is None:
                for place in self._buffer:
                    place.settle()
            if self._auto_commit_ms is not None:
                await self._readers.save_done()
            await self._rebalancer.close()
            await self._readers.release_all()
            await self._member.leave()
        finally:
            await self._around.aclose()

    # What to read

    async def subscribe(
        self, topic: str, *, tags: str = EVERYTHING, sql: str | None = None
    ) -> None:
        """Read this member's share of a topic from now on; other members of the group read theirs.

        ``tags`` is an expression like ``A || B``; ``sql`` one over properties, like ``price > 5``.
        A subscribed topic gets the new expression; one not there yet is looked for every 20 s.

        Raises:
            InvalidName: If no topic may have this name.
            FilterError: If an expression does not compile.
            ConnectionLost: If no NameServer can be reached.
            RequestRejected: If the broker cannot evaluate the expression.
            WrongWayToRead: If queues were assigned.
        """
        check_topic(topic)
        wanted = self._asked_for(topic, tags, sql)
        self._check_open()
        member = self._member
        if member.assigned is not None:
            raise WrongWayToRead("subscribe", "assign")
        await member.check_evaluates(wanted)
        await self._beginnings.look([topic])
        replaced = topic in member.subscriptions
        member.subscriptions[topic] = wanted
        member.join()
        if replaced:
            for place in self._buffer:
                if place.queue.topic == topic:
                    self._readers.fetch_again(place.queue)
        self._rebalancer.watch(topic)
        if not self._balancing:
            self._balancing = True
            work = self._rebalancer.run()
            await self._running.enter_async_context(running(work, f"rebalance of {self.group}"))
        await self._session.beat()
        await self._rebalancer.balance()

    async def unsubscribe(self, topic: str) -> None:
        """Read a topic no longer; its queues are left to the other members."""
        self._check_open()
        subscriptions = self._member.subscriptions
        if topic not in subscriptions:
            return
        self._rebalancer.unwatch(topic)
        await self._rebalancer.balance()
        if len(subscriptions) == 1:
            await self._member.leave()
        else:
            del subscriptions[topic]
            await self._session.beat()

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """Every queue of a topic that can be read: those to choose from for ``assign``.

        Raises:
            NoRoute: If no NameServer knows the topic.
        """
        check_topic(topic)
        return (await self._session.routes.get(topic)).readable_queues(topic)

    async def assign(
        self, queues: Iterable[MessageQueue], *, tags: str = EVERYTHING, sql: str | None = None
    ) -> None:
        """Read these queues and no others, whatever other members of the group read.

        Raises:
            FilterError: If an expression does not compile.
            NoRoute: If no NameServer knows a topic of theirs.
            ConnectionLost: If a broker of theirs is out of reach.
            WrongWayToRead: If topics were subscribed.
        """
        chosen = frozenset(queues)
        for topic in sorted({queue.topic for queue in chosen}):
            check_topic(topic)
        wanted = self._asked_for("", tags, sql)
        self._check_open()
        member = self._member
        if member.subscriptions:
            raise WrongWayToRead("assign", "subscribe")
        member.assigned = wanted
        member.join()
        for queue in set(self._buffer.places) - chosen:
            await self._readers.release(queue)
        for place in self._buffer:
            self._readers.fetch_again(place.queue)
        for queue in sorted(chosen - set(self._buffer.places)):
            await self._readers.claim(queue)

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return frozenset(self._buffer.places)

    # Messages

    async def poll(
        self, timeout_ms: int = POLL_TIMEOUT_MS, *, most: int = BATCH
    ) -> list[ReceivedMessage]:
        """The next messages of some queue; empty when the time is up first.

        What the last call gave counts as done now.

        Raises:
            RequestRejected: If a broker refuses to hand out messages.
            RecordError: If a broker sends what is no message.
            SessionClosed: If the consumer is not open.
            ValueError: If ``most`` is less than one.
        """
        self._check_open()
        if most < 1:
            raise ValueError(f"most={most}: ask for 1 message or more")
        return await receive_observed(self._session, self.group, self._poll(timeout_ms, most))

    async def _poll(self, timeout_ms: int, most: int) -> list[ReceivedMessage]:
        if self._given is not None:
            self._given.settle()
            self._given = None
        if self._since_turn >= _TURN:
            self._since_turn = 0
            await asyncio.sleep(0)
        taken = self._buffer.take(most)
        if taken is None:
            await within(self._session.clock, timeout_ms, self._buffer.arrival())
            taken = self._buffer.take(most)
        # Nothing is awaited from here on: who is cancelled has taken nothing.
        if taken is None:
            failure = self._buffer.failure()
            if failure is not None:
                raise failure
            return []
        self._given, messages = taken
        self._since_turn += len(messages)
        return messages

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Every message as it comes, until the loop is left; then the last one counts as done."""
        while True:
            for message in await self.poll(most=1):
                yield message

    def pause(self, *queues: MessageQueue) -> None:
        """Hand out, and fetch, nothing of these queues until ``resume``.

        Raises:
            QueueNotOurs: If one of them is not read here.
        """
        self._set_paused(queues, paused=True)

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with queues that were paused.

        Raises:
            QueueNotOurs: If one of them is not read here.
        """
        self._set_paused(queues, paused=False)

    # Places

    def position(self, queue: MessageQueue) -> QueueOffset:
        """The offset of what is handed out next of a queue.

        Raises:
            QueueNotOurs: If it is not read here.
        """
        return self._readers.place(queue).position

    def positions(self) -> dict[MessageQueue, QueueOffset]:
        """The offset of what is handed out next, of every queue that is read here."""
        return {place.queue: place.position for place in self._buffer}

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from this offset; what was fetched already of the queue is dropped.

        Raises:
            QueueNotOurs: If the queue is not read here.
            OffsetOutOfRange: If the queue has nothing there.
            ConnectionLost: If its broker is out of reach.
        """
        self._readers.place(queue)
        least, greatest = await self._session.ends_of(queue)
        if not least <= offset <= greatest:
            raise OffsetOutOfRange(queue.topic, queue.queue_id, offset, least, greatest)
        self._readers.go_on_from(queue, QueueOffset(offset))

    async def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go on from the oldest message of these queues, or of all.

        Raises:
            QueueNotOurs: If one of them is not read here.
            ConnectionLost: If a broker is out of reach.
        """
        for queue in self._named(queues):
            least, _ = await self._session.ends_of(queue)
            self._readers.go_on_from(queue, least)

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on with what comes from now on in these queues, or in all.

        Raises:
            QueueNotOurs: If one of them is not read here.
            ConnectionLost: If a broker is out of reach.
        """
        for queue in self._named(queues):
            _, greatest = await self._session.ends_of(queue)
            self._readers.go_on_from(queue, greatest)

    async def seek_to_time(self, at_ms: int, *queues: MessageQueue) -> None:
        """Go on from what was stored at a moment, or after it, in these queues, or in all.

        Raises:
            QueueNotOurs: If one of them is not read here.
            ConnectionLost: If a broker is out of reach.
        """
        for queue in self._named(queues):
            self._readers.go_on_from(queue, await offset_at(self._session, queue, at_ms))

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Save how far the group has come: these offsets, or all that ``poll`` returned.

        Raises:
            QueueNotOurs: If a queue is not read here.
            ConnectionLost: If a broker is out of reach; the others have been told.
            RequestRejected: If a broker refuses.
        """
        self._check_open()
        await self._readers.commit(offsets)

    async def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """How far the group has come in a queue, as saved; None if it has never been there.

        Raises:
            ConnectionLost: If the broker is out of reach.
            RequestRejected: If it refuses to say.
        """
        self._check_open()
        return await self._readers.committed(queue)

    # Parts

    def _check_open(self) -> None:
        if not self._open:
            raise SessionClosed("the consumer")
        self._session.check_open()

    def _asked_for(self, topic: str, tags: str, sql: str | None) -> Subscription:
        chosen = None if sql is not None and tags == EVERYTHING else tags
        return subscription_to(topic, tags=chosen, sql=sql, version=self._session.clock.now_ms())

    def _named(self, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        for queue in queues:
            self._readers.place(queue)
        return list(queues or self._buffer.places)

    def _set_paused(self, queues: Sequence[MessageQueue], *, paused: bool) -> None:
        for queue in self._named(queues):
            self._buffer.pause(queue, paused)

    async def _commit_often(self, every_ms: int) -> None:
        while True:
            await self._session.clock.sleep(every_ms)
            await self._readers.save_done()
