"""What all connections of a process to one cluster share: one client, on the clients' loop.

    with Link.shared(address) as link: …      the first one opens it, the last one closes it

A child that was forked opens a link of its own: what it has inherited is its parent's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from rocketpipe import (
    Admin,
    Producer,
    Retries,
    RocketPipeError,
    Session,
    SimpleConsumer,
    TlsSettings,
)
from rocketpipe.blocking import Background
from rocketpipe.errors import NoRoute, ProcessForked, SessionClosed
from rocketpipe.integrations.everywhere import create_everywhere
from rocketpipe.integrations.held import SETTLE_S, Held, HeldMessages
from rocketpipe.integrations.kombu.bindings import Bindings
from rocketpipe.integrations.kombu.envelope import Payload, due_ms, packed, task_id
from rocketpipe.integrations.kombu.leases import Leases
from rocketpipe.integrations.kombu.names import Names
from rocketpipe.integrations.kombu.options import Options
from rocketpipe.integrations.kombu.topics import Topics
from rocketpipe.integrations.kombu.transient import TransientQueues, tag_of_queue

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long a publish may take, and one attempt of it.
SEND_MS: Final = 10_000
ATTEMPT_MS: Final = 3000
#: How many messages a pop may bring.
POPPED: Final = 32
#: How long acknowledgements gather that follow upon each other.
GATHER_S: Final = 0.01
#: How long after a mishap something is begun again.
AGAIN_S: Final = 1.0
#: A message that is due by then is left to the worker to wait for.
SOON_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Address:
    """A cluster, who asks, and how: processes have a link for each that differs."""

    name_servers: str
    virtual_host: str
    options: Options
    access_key: str | None
    secret_key: str | None
    tls: bool | TlsSettings | None


class Link:
    """A client of one cluster, and what it holds; made by ``shared``."""

    _gate: ClassVar[threading.Lock] = threading.Lock()
    _open: ClassVar[dict[Address, Link]] = {}

    def __init__(self, address: Address) -> None:
        self.options = address.options
        self.names = Names(address.options.prefix, address.virtual_host)
        self.background = Background()
        self._address = address
        self._process_id = os.getpid()
        self._users = 0
        self._stack = AsyncExitStack()
        #: As they are to be asked.
        self.name_servers = address.name_servers
        self._spawned: set[asyncio.Task[None]] = set()
        self._subscribed: set[str] = set()
        self._subscribing = asyncio.Lock()
        #: What is done, and is not said yet; and whether somebody is about to look at it.
        self._done: deque[Held] = deque()
        self._is_gathering = False

    # Its life, from any thread

    @classmethod
    def shared(cls, address: Address) -> Link:
        """The link of this process to a cluster, opened if it is the first use; ``close`` it.

        Raises:
            ConnectionLost, CallTimeout, NoBroker: If the cluster is not there.
            AccessDenied: If it does not let in who asks.
            ConfigError, ValueError: If the address or the credentials make no sense.
        """
        with cls._gate:
            link = cls._open.get(address)
            if link is None:
                link = cls(address)
                link.background.open()
                try:
                    link.run(link._enter())
                except BaseException:
                    link.background.close()
                    raise
                cls._open[address] = link
            link._users += 1
            return link

    def close(self) -> None:
        """Use it no longer; the last one who does so closes it."""
        if not self.is_ours:
            return
        with self._gate:
            self._users -= 1
            if self._users:
                return
            self._open.pop(self._address, None)
            try:
                self.run(self._exit())
            except RocketPipeError as error:
                log.debug("not closed in order: %s", error)
            finally:
                self.background.close()

    @classmethod
    def after_fork(cls) -> None:
        """Forget the parent's links, in a child."""
        cls._gate = threading.Lock()
        cls._open = {}

    @property
    def is_ours(self) -> bool:
        """Whether it was opened in this process."""
        return self._process_id == os.getpid()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the loop, and wait for it."""
        return self.background.run(work)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Do something on the loop, and go on."""
        return self.background.start(work)

    def tell(self, act: Callable[..., object], *args: object) -> None:
        """Have something done on the loop that waits for nothing; never mind if it is gone."""
        try:
            self.background.tell(act, *args)
        except (SessionClosed, ProcessForked) as error:
            log.debug("not told: %s", error)

    def ack(self, held: Held) -> None:
        """Be done with a message; never mind if the loop is gone.

        The loop is not woken for each: a switch between threads costs more than all else here.
        """
        self._done.append(held)
        if not self._is_gathering:
            self._is_gathering = True
            self.tell(self._gather)

    def _gather(self) -> None:
        """Pass on what is done, and look again in a moment, while there is some; on the loop."""
        if not self._done:
            self._is_gathering = False
            if not self._done:  # or it came just before
                return
            self._is_gathering = True
        self._pass_on_done()
        asyncio.get_running_loop().call_later(GATHER_S, self._gather)

    def _pass_on_done(self) -> None:
        while self._done:
            self.holding.ack(self._done.popleft())

    async def _enter(self) -> None:
        address, options = self._address, self.options
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(
                Session(
                    address.name_servers,
                    tls=address.tls,
                    access_key=address.access_key,
                    secret_key=address.secret_key,
                    secret_key_file=options.secret_key_file,
                )
            )
            self.admin = await stack.enter_async_context(Admin(session))
            await self._introduce()
            self._producer = await stack.enter_async_context(
                Producer(
                    session,
                    timeout_ms=SEND_MS,
                    # One that does not answer leaves time to send to another.
                    retries=Retries(attempt_timeout_ms=ATTEMPT_MS),
                    avoid_slow=True,
                    max_message_bytes=options.max_message_bytes,
                )
            )
            self._consumer = await stack.enter_async_context(
                SimpleConsumer(session, group=self.names.group)
            )
            self.holding = HeldMessages(
                self._consumer,
                session.clock,
                invisible_ms=int(options.visibility_timeout * 1000),
            )
            self.transient = TransientQueues(session, self.names)
            self.topics = Topics(self.admin, self.names, self.name_servers)
            self.bindings = Bindings(self.admin, self.names.namespace)
            self.leases = Leases(self.admin, self.names, session.client_id, self.delete)
            # What was fetched, and has come to no channel, goes on to others.
            stack.push_async_callback(self.holding.give_back)
            stack.push_async_callback(self._end_spawned)
            for part in (self.holding, self.transient, self.bindings, self.leases):
                self.spawn(_kept_running(part.run))
            self._stack = stack.pop_all()

    async def _introduce(self) -> None:
        """See that the cluster is there, with what every connection needs."""
        names, groups = self.names, self.admin.groups
        await asyncio.gather(
            self._create_topic(names.transient_topic, 1),
            *(
                create_everywhere(
                    self.admin,
                    group,
                    partial(groups.create, group, max_attempts=deliveries, if_missing=True),
                )
                for group, deliveries in (
                    (names.group, self.options.max_deliveries),
                    (names.transient_group, 1),
                )
            ),
        )

    async def _create_topic(self, topic: str, queues: int) -> None:
        create = partial(self.admin.topics.create, topic, queues=queues, if_missing=True)
        await create_everywhere(self.admin, topic, create)

    async def _exit(self) -> None:
        self._pass_on_done()
        await self.holding.settle(SETTLE_S)
        await self._stack.aclose()

    # Queues, on the loop

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Have something done beside, for as long as the link is there."""
        task = asyncio.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)
        return task

    async def _end_spawned(self) -> None:
        ending = list(self._spawned)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def declare(self, queue: str, steps: Sequence[int]) -> None:
        """Have the topics of a queue that lasts."""
        for step in steps:
            topic = self.names.topic(queue, step)
            if topic not in self.topics:
                await self._create_topic(topic, self.options.topic_queues)
                self.topics.add(topic)

    async def topics_of(self, queue: str) -> list[str]:
        """The topics of a queue that are there, the most urgent one first.

        Raises:
            ConnectionLost, CallTimeout: If nobody can say whether there are any.
        """
        wanted = [self.names.topic(queue, step) for step in self.options.priority_steps]
        return (await self.topics.among(wanted))[::-1]

    async def delete(self, queue: str) -> None:
        """Delete a queue with all that is in it."""
        for topic in await self.topics_of(queue):
            if topic in self._subscribed:
                self._subscribed.discard(topic)
                await self._consumer.unsubscribe(topic)
            await self.admin.topics.delete(topic)
            self.topics.discard(topic)
            self.holding.forget(topic)
        await self.bindings.remove_queue(queue)

    async def size(self, queue: str) -> int:
        """How many messages wait in a queue, at the brokers that answer."""
        found = 0
        for topic in await self.topics_of(queue):
            try:
                places = await self.admin.offsets.known_of_group(self.names.group, topic)
            except NoRoute:
                continue
            found += sum(place.lag for place in places.values() if place is not None)
        return found

    # Messages, on the loop

    async def put(self, queue: str, message: Payload) -> None:
        """Send a message to a queue, to be received when it is due."""
        topics = await self.topics_of(queue)
        if not topics:
            # One reader has it, or nobody.
            await self.publish(tag_of_queue(queue), message)
            return
        topic = self._step_of(queue, topics, message)
        keys = [key] if (key := task_id(message)) else []
        at_ms, now_ms = due_ms(message), int(time.time() * 1000)
        if at_ms is None or at_ms <= now_ms:
            await self._producer.send(topic, packed(message), keys=keys)
            return
        hop_ms = min(at_ms, now_ms + int(self.options.max_delay * 1000) - SOON_MS)
        await self._producer.send(topic, packed(message), keys=keys, deliver_at_ms=hop_ms)

    def _step_of(self, queue: str, topics: Sequence[str], message: Payload) -> str:
        try:
            priority = int(message["properties"].get("priority") or 0)
        except (TypeError, ValueError):
            priority = 0
        for step in reversed(self.options.priority_steps):
            if step <= priority and (topic := self.names.topic(queue, step)) in topics:
                return topic
        return topics[-1]

    async def publish(self, tag: str, message: Payload) -> None:
        """Send a message to whichever processes have queues for it that keep nothing."""
        await self._producer.send(self.names.transient_topic, packed(message), tags=tag)

    async def receive(self, topics: Sequence[str], most: int, wait_ms: int) -> list[Held]:
        """Receive messages of topics, the first of them first, and hold them.

        What is not due yet, because its delay goes in hops, is sent on instead.
        """
        async with self._subscribing:
            for topic in topics:
                if topic not in self._subscribed:
                    await self._consumer.subscribe(topic)
                    self._subscribed.add(topic)
        messages = await self._consumer.receive(
            max_messages=min(most, POPPED),
            invisible_ms=self.holding.invisible_ms,
            wait_ms=wait_ms,
            topics=topics,
        )
        return [self.holding.hold(message) for message in messages]

    async def send_on(self, queue: str, held: Held, message: Payload) -> None:
        """Send a message again whose delay was too long for one send, and be done with this one."""
        try:
            await self.put(queue, message)
        except RocketPipeError as error:
            log.warning("a task that is due later is not sent on yet: %s", error)
            self.holding.let_go(held)
        else:
            self.holding.ack(held)


async def _kept_running(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run something that must not end, whatever goes wrong in it."""
    while True:
        try:
            await run()
        except Exception:
            log.exception("begun again")
            await asyncio.sleep(AGAIN_S)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Link.after_fork)
