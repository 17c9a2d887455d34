"""What a task has encoded, on its way to the brokers: bounded, patient, and in order where asked.

The task's thread encodes, while the loop of ``rocketpipe.blocking`` sends. So much may be on its
way at a time; the task waits for room beyond it. A send that fails in a way that may pass (a broker
that is restarted, a route that is stale) is tried again, with growing pauses, until its time is up.

    any queue        whichever the producer's own turn comes to, another one when that fails
    a queue's own    sent one after the other, each when the one before it is stored
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, Self

from rocketpipe.blocking.background import BackgroundLoop, Life, shared
from rocketpipe.client.producer.sending.backoff import Backoff
from rocketpipe.client.producer.sending.in_flight import InFlight
from rocketpipe.client.producer.staging.stages import Ticket
from rocketpipe.client.session import Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.options.write import WriteOptions

#: More sends than this at a time make nothing quicker.
MAX_SENDS: Final = 64


class SendUnit:
    """One send: the body of a batch, or of a single message with its properties."""

    __slots__ = (
        "body",
        "born_ms",
        "broker",
        "count",
        "message_id",
        "properties",
        "ticket",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        body: bytes | memoryview,
        count: int,
        message_id: str,
        born_ms: int,
        properties: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Take what goes together; ``properties`` are given of a message that goes alone.

        ``broker`` is where it goes, if that matters and its queue does not.
        """
        self.topic = topic
        self.body = body
        self.count = count
        self.message_id = message_id
        self.born_ms = born_ms
        self.properties = properties
        self.broker = broker
        #: Its place in a stage, once it has one.
        self.ticket: Ticket | None = None


class Sink(Protocol):
    """How parcels get to brokers."""

    async def queues(self, topic: str, timeout_ms: int) -> Sequence[MessageQueue]:
        """The queues of a topic that may be written now, in the order that Java's clients see."""

    async def send(self, parcel: SendUnit, queue: MessageQueue | None, timeout_ms: int) -> None:
        """Bring one parcel to a broker; where no queue is given, any will do."""

    async def close(self) -> None:
        """Let go of what it holds; everything was sent, or is given up."""


class TaskSender:
    """Sends for one attempt of one task: ``with TaskSender(…) as outlet``."""

    def __init__(self, options: WriteOptions, session: Session, way: Sink) -> None:
        self._timeout_ms = options.timeout_ms
        self._session = session
        self._way = way
        self._clock = session.clock
        self._room = InFlight(
            session.clock, max_sends=MAX_SENDS, max_bytes=options.max_in_flight_bytes
        )
        self._life = Life("the writer")
        self._loop: BackgroundLoop | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._last_of: dict[MessageQueue, asyncio.Task[None]] = {}
        self._failed: Exception | None = None

    def __enter__(self) -> Self:
        loop = shared.begin(self._life)
        try:
            loop.run(self._session.__aenter__())
        except BaseException:
            shared.end(self._life)
            raise
        self._loop = loop
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._loop is not None
        try:
            self._loop.run(self._close())
        finally:
            shared.end(self._life)

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic that may be written now.

        Raises:
            NoRoute: If nobody takes messages of this topic.
            ConnectionLost, CallTimeout: If no NameServer is reached in time.
        """
        return self._here.run(self._patiently_queues(topic))

    def send(self, parcel: SendUnit, queue: MessageQueue | None = None) -> None:
        """Put a parcel on its way; waits for room only.

        Raises:
            RocketPipeError: If an earlier one could not be sent.
        """
        self._here.run(self._start(parcel, queue))

    def finish(self) -> None:
        """Wait until every parcel is stored.

        Raises:
            RocketPipeError: If one could not be sent.
        """
        self._here.run(self._drain())

    @property
    def _here(self) -> BackgroundLoop:
        assert self._loop is not None, "used outside its with"
        return self._loop

    # On the loop

    async def _patiently_queues(self, topic: str) -> Sequence[MessageQueue]:
        patience = Backoff(self._clock, self._timeout_ms)
        while True:
            try:
                return await self._way.queues(topic, patience.attempt_ms)
            except RocketPipeError as error:
                await patience.after(error)

    async def _start(self, parcel: SendUnit, queue: MessageQueue | None) -> None:
        if self._failed is not None:
            raise self._failed
        size = len(parcel.body)
        await self._room.enter(size, self._timeout_ms)
        before = self._last_of.get(queue) if queue is not None else None
        task = asyncio.create_task(self._bring(parcel, queue, before), name="parcel")
        if queue is not None:
            self._last_of[queue] = task
        self._sending.add(task)
        task.add_done_callback(lambda task: self._over(task, size, queue))

    async def _bring(
        self, parcel: SendUnit, queue: MessageQueue | None, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
            if self._failed is not None:
                return  # nothing may overtake what failed
        patience = Backoff(self._clock, self._timeout_ms)
        while True:
            try:
                await self._way.send(parcel, queue, patience.attempt_ms)
            except RocketPipeError as error:
                await patience.after(error)
            else:
                return

    def _over(self, task: asyncio.Task[None], size: int, queue: MessageQueue | None) -> None:
        self._sending.discard(task)
        self._room.leave(size)
        if queue is not None and self._last_of.get(queue) is task:
            del self._last_of[queue]
        if not task.cancelled():
            error = task.exception()
            if isinstance(error, Exception) and self._failed is None:
                self._failed = error

    async def _drain(self) -> None:
        while self._sending:
            await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)
            if self._failed is not None:
                break
        if self._failed is not None:
            raise self._failed

    async def _close(self) -> None:
        for task in tuple(self._sending):
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending)
        await self._room.close()
        await self._way.close()
        await self._session.__aexit__(None, None, None)
