"""Queues of one reader, which keep nothing: mailboxes of workers, answers to them, events.

Such a queue is nothing at the broker, so that nothing of it is left when its process is killed. All
messages to queues of this kind go to one topic, each once, with a tag for its exchange, or for its
queue where there is no exchange; every process reads of it, from when it declared a queue on, what
has a tag of its own queues, and shares it out among them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from rocketpipe import PullConsumer, ReceivedMessage, RocketPipeError, Session
from rocketpipe.integrations.kombu.envelope import NotKombus, Payload, unpacked
from rocketpipe.integrations.kombu.names import Names
from rocketpipe.integrations.kombu.routing import fits

log = logging.getLogger(__name__)

#: What a queue holds for a consumer that does not come: the oldest goes first.
BACKLOG: Final = 10_000
#: How often queues that have come to the topic are looked for.
LOOK_S: Final = 30
AGAIN_S: Final = 1.0

#: Told that a queue has one message more to take.
Announce = Callable[[str], None]


def tag_of_queue(queue: str) -> str:
    """What a message has that is sent to a queue itself."""
    return _tag(f"q:{queue}")


def tag_of_exchange(exchange: str) -> str:
    """What a message has that is published to an exchange."""
    return _tag(f"x:{exchange}")


def _tag(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


@dataclass(slots=True, eq=False)
class TransientQueue:
    """A queue as its process has it."""

    name: str
    #: Messages that are older are not given; None: whatever their age.
    ttl_ms: int | None = None
    #: How long it is there without a consumer.
    expires_s: float | None = None
    #: Exchange, kind and key of each binding.
    bindings: set[tuple[str, str, str]] = field(default_factory=set)
    #: Who declared it, or consumes from it: it goes with the last of them.
    owners: set[Hashable] = field(default_factory=set)
    announce: Announce | None = None
    backlog: deque[tuple[int, Payload]] = field(default_factory=lambda: deque(maxlen=BACKLOG))
    used_s: float = field(default_factory=time.monotonic)

    def takes(self, exchange: str, routing_key: str) -> bool:
        """Whether something that was published is for this one."""
        if not exchange:
            return routing_key == self.name
        return any(
            bound == exchange and fits(kind, key, routing_key) for bound, kind, key in self.bindings
        )

    def add(self, sent_ms: int, message: Payload) -> None:
        """Keep a message until it is taken, and tell the consumer if there is one."""
        self.backlog.append((sent_ms, message))
        if self.announce is not None:
            self.announce(self.name)

    def next(self) -> Payload | None:
        """Take the oldest message that is kept; from any thread."""
        self.used_s = time.monotonic()
        while self.backlog:
            sent_ms, message = self.backlog.popleft()
            if not self._is_old(sent_ms):
                return message
        return None

    def consume(self, announce: Announce) -> None:
        """Tell a consumer of all that is kept, and of what comes."""
        self.announce = announce
        for _ in range(len(self.backlog)):
            announce(self.name)

    def cancel(self) -> None:
        """Tell nobody any more."""
        self.announce, self.used_s = None, time.monotonic()

    @property
    def is_expired(self) -> bool:
        """Whether nobody has asked for anything for too long."""
        if self.expires_s is None or self.announce is not None:
            return False
        return time.monotonic() - self.used_s > self.expires_s

    def _is_old(self, sent_ms: int) -> bool:
        return self.ttl_ms is not None and time.time() * 1000 - sent_ms > self.ttl_ms


class TransientQueues:
    """The queues of one process, and the reader of the topic that they share; all on the loop."""

    def __init__(self, session: Session, names: Names) -> None:
        self._session = session
        self._names = names
        self._queues: dict[str, TransientQueue] = {}
        self._read_tags: frozenset[str] = frozenset()
        self._is_wanted = asyncio.Event()
        self._is_read = asyncio.Condition()
        self._failure: RocketPipeError | None = None

    def get(self, name: str) -> TransientQueue | None:
        """A queue of this process."""
        return self._queues.get(name)

    async def declare(
        self, name: str, owner: Hashable, ttl_ms: int | None, expires_s: float | None
    ) -> None:
        """Have a queue; whatever is sent to it from now on is read."""
        for old in [queue for queue in self._queues.values() if queue.is_expired]:
            del self._queues[old.name]
        queue = self._queues.setdefault(name, TransientQueue(name, ttl_ms, expires_s))
        queue.owners.add(owner)
        queue.used_s = time.monotonic()
        await self._reading()

    async def bind(self, name: str, exchange: str, kind: str, routing_key: str) -> None:
        """Have a queue take what is published to an exchange."""
        self._queues[name].bindings.add((exchange, kind, routing_key))
        await self._reading()

    def unbind(self, name: str, exchange: str, routing_key: str) -> None:
        """Take that back."""
        if queue := self._queues.get(name):
            queue.bindings = {
                each for each in queue.bindings if (each[0], each[2]) != (exchange, routing_key)
            }

    async def delete(self, name: str) -> None:
        """Have a queue no longer."""
        self._queues.pop(name, None)

    def leave(self, owner: Hashable) -> None:
        """Delete the queues that were this one's alone."""
        for queue in list(self._queues.values()):
            queue.owners.discard(owner)
            if not queue.owners:
                del self._queues[queue.name]

    async def run(self) -> None:
        """Read the topic while there is a queue, until cancelled."""
        while True:
            await self._is_wanted.wait()
            try:
                await self._read()
            except RocketPipeError as error:
                log.warning("what is sent to this process alone cannot be read: %s", error)
                await self._tell(frozenset(), error)
                await asyncio.sleep(AGAIN_S)
                self._is_wanted.set()

    # Reading

    def _tags(self) -> frozenset[str]:
        return frozenset(
            {tag_of_queue(name) for name in self._queues}
            | {
                tag_of_exchange(exchange)
                for queue in self._queues.values()
                for exchange, _, _ in queue.bindings
            }
        )

    async def _reading(self) -> None:
        """Wait until all tags of all queues are read.

        Raises:
            RocketPipeError: If the topic cannot be read.
        """
        wanted = self._tags()
        self._failure = None
        self._is_wanted.set()
        async with self._is_read:
            await self._is_read.wait_for(
                lambda: wanted <= self._read_tags or self._failure is not None
            )
        if not wanted <= self._read_tags and self._failure is not None:
            raise self._failure

    async def _tell(self, tags: frozenset[str], failure: RocketPipeError | None = None) -> None:
        async with self._is_read:
            self._read_tags, self._failure = tags, failure
            self._is_read.notify_all()

    async def _read(self) -> None:
        topic = self._names.transient_topic
        group = self._names.transient_group
        consumer = PullConsumer(self._session, group=group, start="last", auto_commit=False)
        async with consumer:
            looked_s = -1.0
            while True:
                tags = self._tags()
                self._is_wanted.clear()
                if not tags:
                    await self._tell(tags)
                    return
                if tags != self._read_tags or time.monotonic() - looked_s > LOOK_S:
                    looked_s = time.monotonic()
                    await consumer.assign(
                        await consumer.queues_of(topic), tags=" || ".join(sorted(tags))
                    )
                    await self._tell(tags)
                poll = asyncio.ensure_future(consumer.poll(LOOK_S * 1000))
                change = asyncio.ensure_future(self._is_wanted.wait())
                try:
                    await asyncio.wait({poll, change}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    poll.cancel()
                    change.cancel()
                    await asyncio.wait({poll, change})
                for message in () if poll.cancelled() else poll.result():
                    self._share_out(message)

    def _share_out(self, message: ReceivedMessage) -> None:
        try:
            payload = unpacked(message.body)
        except NotKombus as error:
            log.warning("left alone message=%s reason=%s", message.message_id, error)
            return
        sent_ms = message.born_ms
        info = payload["properties"]["delivery_info"]
        exchange, routing_key = info.get("exchange") or "", info["routing_key"] or ""
        for queue in list(self._queues.values()):
            if queue.takes(exchange, routing_key):
                queue.add(sent_ms, unpacked(message.body))  # to each its own
