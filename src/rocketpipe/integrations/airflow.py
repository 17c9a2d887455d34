"""Messages that start DAGs: a queue for Airflow's ``MessageQueueTrigger``, from Airflow 3.0.1 on.

    orders = Asset("orders", watchers=[
        AssetWatcher("orders", trigger=MessageQueueTrigger(
            scheme="rocketpipe", name_servers="127.0.0.1:9876", topic="orders", group="airflow"))])

    @dag(schedule=[orders])
    def bill(): ...

A message is hidden from others from when the triggerer receives it until Airflow has its event in
the database, and acknowledged then. Airflow 3.3 says when that is. Older ones say nothing: there it
is acknowledged some seconds after its event was handed over. A triggerer that dies before has the
message come again, so an event may be there twice, and is never lost.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from rocketpipe import PoppedMessage, RocketPipeError, Session, SimpleConsumer
from rocketpipe.integrations.held import HeldMessages, Ticket, is_passing

try:
    from airflow.triggers.shared_stream import SharedStreamProducer
except ImportError:  # before Airflow 3.3
    SharedStreamProducer = None

log = logging.getLogger(__name__)

#: How soon a message comes again whose triggerer died.
INVISIBLE_MS: Final = 60_000
#: An event that Airflow does not confirm in this time is one more attempt.
LONGEST_MS: Final = 3_600_000
#: How long the triggerer has to write an event down where it does not say when it did.
SETTLE_MS: Final = 15_000
AT_ONCE: Final = 16
AGAIN_MS: Final = 1000


class RocketPipeQueueProvider(BaseMessageQueueProvider):
    """Which trigger ``scheme="rocketpipe"`` means, or ``scheme="rocketmq"``."""

    scheme = "rocketpipe"

    def scheme_matches(self, scheme: str) -> bool:
        """Whether it is one of ours."""
        return scheme in ("rocketpipe", "rocketmq")

    def trigger_class(self) -> type[BaseEventTrigger]:
        """The trigger below."""
        return RocketPipeMessageTrigger


class RocketPipeMessageTrigger(BaseEventTrigger):
    """An event for each message of a topic that a group has not had yet.

    The event's payload has ``topic``, ``body`` (as text, or as ``body_base64`` if it is none),
    ``message_id``, ``tags``, ``keys``, ``properties``, ``queue_id``, ``queue_offset`` and
    ``attempt``, which is greater than 1 when it may have been there before.
    """

    def __init__(
        self,
        *,
        name_servers: str,
        topic: str,
        group: str = "airflow",
        tags: str | None = None,
        sql: str | None = None,
        invisible_ms: int = INVISIBLE_MS,
    ) -> None:
        """Take what Airflow keeps in its database: users and secrets are left to the environment.

        Args:
            name_servers: Such as ``a:9876;b:9876``.
            topic: What to watch.
            group: Who has had which messages; watchers of one group share a topic's messages.
            tags: Only messages with one of these, as ``A || B``.
            sql: Only messages with such properties.
            invisible_ms: How soon a message comes again whose triggerer died.

        Raises:
            InvalidName: If no group may have this name.
            ValueError: If ``name_servers`` is no list, or there are both tags and SQL.
        """
        super().__init__()
        SimpleConsumer(name_servers, group=group)  # what cannot be is told where a DAG is written
        if tags is not None and sql is not None:
            raise ValueError("give tags or sql, not both")
        self.name_servers, self.topic, self.group = name_servers, topic, group
        self.tags, self.sql, self.invisible_ms = tags, sql, invisible_ms

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """By which class and arguments the triggerer makes it anew."""
        return (
            "rocketpipe.integrations.airflow.RocketPipeMessageTrigger",
            {
                "name_servers": self.name_servers,
                "topic": self.topic,
                "group": self.group,
                "tags": self.tags,
                "sql": self.sql,
                "invisible_ms": self.invisible_ms,
            },
        )

    # Airflow 3.3: messages are acknowledged when their events are in the database

    def shared_stream_key(self) -> Hashable | None:
        """Watchers of the same messages are given them by one consumer."""
        return None if SharedStreamProducer is None else str(self.serialize())

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> Any:
        """The consumer that all with one key share."""
        return _stream_producer(Watched(**kwargs))

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Any]
    ) -> AsyncIterator[TriggerEvent]:
        """Every message is an event."""
        async for facts in shared_stream:
            yield TriggerEvent(facts)

    # Before: they are acknowledged after a while

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Give events for as long as somebody asks for them."""
        watched = Watched(**self.serialize()[1])
        settling: set[asyncio.Task[None]] = set()
        try:
            async for facts, ticket in watched.messages():
                yield TriggerEvent(facts)
                # Resumed, so the event is in the triggerer's hands; it writes it down in a second.
                task = asyncio.create_task(watched.settle(ticket))
                settling.add(task)
                task.add_done_callback(settling.discard)
                del ticket
        finally:
            for task in settling:
                task.cancel()
            await watched.close()


class Watched:
    """The messages of a topic that a group has not had yet, with what acknowledges them."""

    def __init__(
        self,
        *,
        name_servers: str,
        topic: str,
        group: str,
        tags: str | None = None,
        sql: str | None = None,
        invisible_ms: int = INVISIBLE_MS,
    ) -> None:
        self._session = Session(name_servers)
        self._consumer = SimpleConsumer(self._session, group=group)
        self._topic, self._tags, self._sql = topic, tags, sql
        self._invisible_ms = invisible_ms
        self._running = AsyncExitStack()
        #: Why nothing came, as the log has it already.
        self._told = ""

    async def messages(self) -> AsyncGenerator[tuple[dict[str, Any], Ticket], None]:
        """Wait for them, also for brokers that are away."""
        held = await self._open()
        while True:
            try:
                messages = await self._consumer.receive(
                    max_messages=AT_ONCE, invisible_ms=self._invisible_ms
                )
            except RocketPipeError as error:
                await self._pause(error)
                continue
            found = [(facts_of(each), held.ticket(each)) for each in messages]
            while found:
                yield found.pop(0)

    async def _open(self) -> HeldMessages:
        await self._running.enter_async_context(self._consumer)
        while True:
            try:
                await self._consumer.subscribe(self._topic, tags=self._tags, sql=self._sql)
                break
            except RocketPipeError as error:
                await self._pause(error)
        held = HeldMessages(
            self._consumer,
            self._session.clock,
            invisible_ms=self._invisible_ms,
            longest_ms=LONGEST_MS,
        )
        await self._running.enter_async_context(held.kept(self._consumer.group))
        return held

    async def _pause(self, error: RocketPipeError) -> None:
        if not is_passing(error):
            raise error
        if str(error) != self._told:
            self._told = str(error)
            log.warning("waiting topic=%s reason=%s", self._topic, error)
        await self._session.clock.sleep(AGAIN_MS)

    async def settle(self, ticket: Ticket) -> None:
        """Acknowledge a message when its event is certainly written down."""
        await self._session.clock.sleep(SETTLE_MS)
        await ticket()

    async def close(self) -> None:
        """Give back what was not acknowledged."""
        await self._running.aclose()


def facts_of(message: PoppedMessage) -> dict[str, Any]:
    """A message as JSON has it."""
    body = bytes(message.body)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = None
    # Databases refuse a text with this in it, and a triggerer that cannot write an event ends.
    if text is not None and "\0" not in text:
        shown = {"body": text}
    else:
        shown = {"body_base64": base64.b64encode(body).decode()}
    return {
        "topic": message.topic,
        **shown,
        "message_id": message.message_id,
        "tags": message.tags,
        "keys": list(message.keys),
        "properties": message.user_properties,
        "queue_id": message.queue.queue_id,
        "queue_offset": message.queue_offset,
        "attempt": message.reconsume_times + 1,
    }


def _stream_producer(watched: Watched) -> Any:
    class Stream(SharedStreamProducer):
        """Airflow's side of it; a class of its time, for there is no such base before 3.3."""

        def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
            return watched.messages()

        def get_advance_lane(self, broker_payload: Any) -> Hashable:
            return id(broker_payload)  # none waits for another

        async def advance(self, batch: Sequence[Any]) -> None:
            for ticket, outcome in batch:
                if outcome.is_clean:
                    await ticket()
                else:
                    await ticket.give_back()

        async def aclose(self) -> None:
            await watched.close()

    return Stream()
