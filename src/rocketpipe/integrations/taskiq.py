"""Taskiq's tasks on RocketPipe's topics.

    broker = RocketPipeBroker("127.0.0.1:9876")

    @broker.task
    async def bill(order: str) -> None: ...

    await bill.kicker().with_labels(delay=60).kiq("A1")

A queue of tasks is a topic, its workers are a group that shares it. A task is hidden from other
workers while it runs, however long that is, and acknowledged when taskiq says so: by default once
its result is saved. One whose worker died comes again. Labels say when and in which order a task
runs: see `taskiq_labels`. What failed is tried again by taskiq's own middlewares.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, TypeAlias

from taskiq import AckableMessage, AsyncBroker, BrokerMessage

from rocketpipe import (
    Admin,
    Message,
    PoppedMessage,
    Producer,
    Retries,
    RocketPipeError,
    Session,
    SimpleConsumer,
)
from rocketpipe.errors import NoRoute, SessionClosed
from rocketpipe.integrations.everywhere import create_everywhere
from rocketpipe.integrations.held import HeldMessages, Ticket, is_passing
from rocketpipe.integrations.taskiq_labels import TaskOptions

log = logging.getLogger(__name__)

#: Which queues a worker takes tasks from, if the broker does not say: names, with commas between.
QUEUES_VARIABLE: Final = "ROCKETPIPE_TASKIQ_QUEUES"
DEFAULT_QUEUE: Final = "taskiq"
MAX_PRIORITIES: Final = 16
DAY_MS: Final = 24 * 3600 * 1000
#: Brokers keep messages for three days at most: who is to wait for longer is sent on in between.
HOP_MS: Final = 2 * DAY_MS
WAIT_MS: Final = 20_000
#: Between two attempts to reach brokers that are away.
AGAIN_MS: Final = 1000

TASK_NAME: Final = "taskName"
ORDER_KEY: Final = "orderKey"
#: When a task is due that was sent to wait for a part of its time only.
DUE_MS: Final = "dueMs"

_Received: TypeAlias = tuple[PoppedMessage, Ticket]


class RocketPipeBroker(AsyncBroker):
    """A broker for taskiq; see the top of this file."""

    def __init__(
        self,
        name_servers: str | Session,
        *,
        queues: Sequence[str] = (DEFAULT_QUEUE,),
        listen_to: Sequence[str] | None = None,
        group: str = "workers",
        priorities: int = 1,
        topic_queues: int = 8,
        invisible_ms: int = 30_000,
        longest_task_ms: int = DAY_MS,
        prefetch: int = 8,
        send_timeout_ms: int = 10_000,
        max_message_bytes: int = 4 << 20,
    ) -> None:
        """Prepare a broker; nothing is asked before ``startup``.

        Args:
            name_servers: Such as ``a:9876;b:9876``; or a session, which may have TLS and a user.
            queues: Where tasks may be sent, by the label ``queue``; the first is the usual one.
            listen_to: Which of them a worker takes tasks from: all, or those that the variable
                ``ROCKETPIPE_TASKIQ_QUEUES`` names.
            group: What workers are called together; each queue has a group of its own.
            priorities: How many there are. Each is a topic of its own.
            topic_queues: How many queues a topic gets that is created; so many order keys can
                be worked on at a time.
            invisible_ms: How soon a task comes again whose worker died.
            longest_task_ms: A task that runs for longer comes again meanwhile.
            prefetch: How many tasks are received at a time, to wait here for a free slot.
            send_timeout_ms: For each kick with all its attempts.
            max_message_bytes: The longest task; raise the brokers' ``maxMessageSize`` with it.

        Raises:
            ValueError: If a number is out of its range, or there is no such queue.
            InvalidName: If a queue or the group has a name that none may have.
        """
        super().__init__()
        for name, value, least, most in (
            ("priorities", priorities, 1, MAX_PRIORITIES),
            ("topic_queues", topic_queues, 1, 1024),
            ("invisible_ms", invisible_ms, 1000, 300_000),
            ("longest_task_ms", longest_task_ms, invisible_ms, 365 * DAY_MS),
            ("prefetch", prefetch, 1, 32),
            ("send_timeout_ms", send_timeout_ms, 1, 600_000),
        ):
            if not least <= value <= most:
                raise ValueError(f"{name} {value}: it goes from {least} to {most}")
        if isinstance(queues, str) or not queues:
            raise ValueError(f"queues {queues!r}: give a list of names, such as ['taskiq', 'mail']")
        self.queues = tuple(dict.fromkeys(queues))
        self._check_topics(priorities)
        self._listen_to = self._known(listen_to, "listen_to") if listen_to is not None else None
        self._session = Session.of(name_servers)
        self._group, self._priorities, self._topic_queues = group, priorities, topic_queues
        self._invisible_ms, self._longest_ms = invisible_ms, longest_task_ms
        self._prefetch = prefetch
        self._producer = Producer(
            self._session,
            timeout_ms=send_timeout_ms,
            # One that does not answer leaves time to send to another.
            retries=Retries(attempt_timeout_ms=max(1, send_timeout_ms // 3)),
            avoid_slow=True,
            max_message_bytes=max_message_bytes,
        )
        self._admin = Admin(self._session)
        self._consumers = {  # made now, so that a bad name is told now
            (queue, ordered): SimpleConsumer(
                self._session, group=f"{group}-{queue}{'-ordered' * ordered}", ordered=ordered
            )
            for queue in self.queues
            for ordered in (False, True)
        }
        self._there: set[str] = set()
        self._making, self._opening = asyncio.Lock(), asyncio.Lock()
        self._running: AsyncExitStack | None = None
        self._feeds: list[_Feed] = []

    # Its life

    async def startup(self) -> None:
        """Open what sends; brokers may be away meanwhile."""
        if self._running is None:
            async with AsyncExitStack() as opening:
                await opening.enter_async_context(self._session)
                await opening.enter_async_context(self._admin)
                await opening.enter_async_context(self._producer)
                self._running = opening.pop_all()
        await super().startup()

    async def shutdown(self) -> None:
        """Give back what is not acknowledged, and close everything."""
        await super().shutdown()
        opened, self._running = self._running, None
        if opened is not None:
            self._feeds = []
            await opened.aclose()

    # Sending

    async def kick(self, message: BrokerMessage) -> None:
        """Send a task.

        Raises:
            ValueError: If a label says what cannot be.
            SessionClosed: Before ``startup``, or after ``shutdown``.
            RocketPipeError: As by ``Producer.send``.
        """
        if self._running is None:
            raise SessionClosed("the broker", "await broker.startup()")
        options = TaskOptions.of(message.labels)
        queue = self.queues[0] if options.queue is None else options.queue
        self._known([queue], "label 'queue'")
        if options.priority >= self._priorities:
            raise ValueError(
                f"label 'priority': {options.priority} is more than {self._priorities - 1}, the "
                "greatest of this broker; give it RocketPipeBroker(…, priorities=…)"
            )
        topic = self._topic(queue, options.priority, ordered=options.order_key is not None)
        await self._provide(topic)
        keys = [message.task_id] if message.task_id and " " not in message.task_id else []
        properties = {TASK_NAME: message.task_name}
        if options.order_key is not None:
            properties[ORDER_KEY] = options.order_key
        due_ms = options.due_ms(self._session.clock.now_ms())
        by_broker = options.delay_ms if options.deliver_at_ms is None else None
        await self._send(topic, message.message, keys, properties, due_ms, by_broker)

    async def _send(
        self,
        topic: str,
        body: bytes,
        keys: Sequence[str],
        properties: dict[str, str],
        due_ms: int | None,
        delay_ms: int | None = None,
    ) -> None:
        """Send it to be there at ``due_ms``, or, by the broker's clock, in ``delay_ms``."""
        last_ms = self._session.clock.now_ms() + HOP_MS
        if due_ms is not None and due_ms > last_ms:
            properties[DUE_MS], due_ms, delay_ms = str(due_ms), last_ms, None
        await self._producer.send(
            topic,
            body,
            keys=keys,
            properties=properties,
            deliver_at_ms=due_ms if delay_ms is None else None,
            delay_ms=delay_ms or None,
            order_by=properties.get(ORDER_KEY),
        )

    async def pass_on(self, message: PoppedMessage) -> bool:
        """Send a task on that waited for a part of its time; False if it is to run now."""
        due = message.properties.get(DUE_MS, "")
        if not due.isdecimal() or int(due) <= self._session.clock.now_ms():
            return False
        properties = {
            name: message.properties[name]
            for name in (TASK_NAME, ORDER_KEY)
            if name in message.properties
        }
        await self._send(message.topic, bytes(message.body), message.keys, properties, int(due))
        return True

    # Receiving

    async def listen(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        """Give tasks as they come, each to be acknowledged."""
        feeds = await self._opened_feeds()
        asking: dict[asyncio.Task[list[_Received]], _Feed] = {}
        ready: list[_Received] = []
        try:
            while True:
                for feed in feeds:
                    if feed not in asking.values():
                        asking[asyncio.create_task(feed.receive())] = feed
                done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    del asking[task]
                    received = task.result()
                    ready += received
                    received.clear()  # a ticket is whoever's it is given to, and nobody else's
                while ready:
                    yield _ackable(*ready.pop(0))
        finally:
            for task in asking:
                task.cancel()
            for found in await asyncio.gather(*asking, return_exceptions=True):
                ready += found if isinstance(found, list) else ()
            await asyncio.gather(*(ticket.give_back() for _, ticket in ready))

    async def _opened_feeds(self) -> list[_Feed]:
        if self._running is None:
            raise SessionClosed("the broker", "await broker.startup()")
        async with self._opening:
            if not self._feeds:
                named = os.environ.get(QUEUES_VARIABLE, "")
                queues = self._listen_to
                if queues is None and named.strip():
                    names = [each.strip() for each in named.split(",")]
                    queues = self._known(names, QUEUES_VARIABLE)
                self._feeds = [
                    await self._open(queue, ordered=ordered)
                    for queue in (self.queues if queues is None else queues)
                    for ordered in (False, True)
                ]
            return self._feeds

    async def _open(self, queue: str, *, ordered: bool) -> _Feed:
        """Begin to receive from a queue, once brokers are there."""
        assert self._running is not None
        topics = [self._topic(queue, 0, ordered=True)]
        if not ordered:
            topics = [self._topic(queue, each) for each in reversed(range(self._priorities))]
        consumer = await self._running.enter_async_context(self._consumers[queue, ordered])
        while True:
            try:
                for topic in topics:
                    await self._provide(topic)
                    await consumer.subscribe(topic)
                break
            except RocketPipeError as error:
                if not is_passing(error):
                    raise
                log.warning("no broker yet queue=%s reason=%s", queue, error)
                await self._session.clock.sleep(AGAIN_MS)
        held = HeldMessages(
            consumer,
            self._session.clock,
            invisible_ms=self._invisible_ms,
            longest_ms=self._longest_ms,
        )
        await self._running.enter_async_context(held.kept(f"tasks of {consumer.group}"))
        # Of an ordered queue, each message is received when the one before it is done.
        count = 1 if ordered else self._prefetch
        return _Feed(self, consumer, held, tuple(topics), count, self._invisible_ms)

    async def _provide(self, topic: str) -> None:
        """See that a topic is there; once it was, it is taken to stay."""
        if topic in self._there:
            return
        async with self._making:
            try:
                await self._session.routes.get(topic)
            except NoRoute:
                create = partial(
                    self._admin.topics.create, topic, queues=self._topic_queues, if_missing=True
                )
                await create_everywhere(self._admin, topic, create)
            self._there.add(topic)

    def _check_topics(self, priorities: int) -> None:
        seen: dict[str, str] = {}
        for queue in self.queues:
            for topic in (
                self._topic(queue, 0, ordered=True),
                *(self._topic(queue, each) for each in range(priorities)),
            ):
                Message(topic, b"")  # it may have this name, or says so
                if topic in seen:
                    raise ValueError(
                        f"queues: {queue!r} and {seen[topic]!r} would both use the topic "
                        f"{topic!r}; rename one"
                    )
                seen[topic] = queue

    def _known(self, names: Sequence[str], where: str) -> tuple[str, ...]:
        for name in names:
            if name not in self.queues:
                raise ValueError(
                    f"{where}: this broker has no queue {name!r}, only {', '.join(self.queues)}; "
                    "give it RocketPipeBroker(…, queues=[…])"
                )
        return tuple(names)

    @staticmethod
    def _topic(queue: str, priority: int, *, ordered: bool = False) -> str:
        if ordered:
            return f"{queue}-ordered"
        return f"{queue}-priority-{priority}" if priority else queue


class _Feed:
    """What comes from one queue, or from its ordered half."""

    def __init__(
        self,
        broker: RocketPipeBroker,
        consumer: SimpleConsumer,
        held: HeldMessages,
        topics: tuple[str, ...],
        count: int,
        invisible_ms: int,
    ) -> None:
        self._broker, self._consumer, self._held = broker, consumer, held
        self.topics, self._count, self._invisible_ms = topics, count, invisible_ms

    async def receive(self) -> list[_Received]:
        """Wait for tasks; none if brokers are away, or what came is to wait for longer."""
        clock = self._consumer.session.clock
        try:
            messages = await self._consumer.receive(
                max_messages=self._count,
                invisible_ms=self._invisible_ms,
                wait_ms=WAIT_MS,
                topics=self.topics,
            )
        except RocketPipeError as error:
            if not is_passing(error):
                raise
            log.warning("nothing received group=%s reason=%s", self._consumer.group, error)
            await clock.sleep(AGAIN_MS)
            return []
        found: list[_Received] = []
        for message in messages:
            ticket = self._held.ticket(message)
            try:
                if await self._broker.pass_on(message):
                    await ticket()
                    continue
            except RocketPipeError as error:
                log.warning("not sent on, tried again later reason=%s", error)
                continue
            found.append((message, ticket))
        return found


def _ackable(message: PoppedMessage, ticket: Ticket) -> AckableMessage:
    return AckableMessage(data=bytes(message.body), ack=ticket)
