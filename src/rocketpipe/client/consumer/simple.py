"""Receives messages one by one, and acknowledges each when it is done with it.

    async with SimpleConsumer("127.0.0.1:9876", group="billing") as consumer:
        await consumer.subscribe("orders", tags="paid || refunded")
        for message in await consumer.receive(max_messages=16, invisible_ms=30_000):
            ...
            await consumer.ack(message)

A message that was received is hidden from everybody else in the group for a while. Who does not
acknowledge it in time has it come again, to whoever asks next. However many consumers a group has,
they share the work: nobody owns a queue.

Who is cancelled while it receives, or is closed meanwhile, has received nothing: a broker may be
about to answer, and what it gives then is given back at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Final, Self

from rocketpipe.client.consumer.group.start import Start, settle_pops, start_from
from rocketpipe.client.consumer.group.subscriptions import look_up
from rocketpipe.client.consumer.handling.handlers import subscription_to
from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.client.consumer.popping.popper import (
    MAX_COUNT,
    MAX_INVISIBLE_MS,
    Popper,
    Source,
)
from rocketpipe.client.consumer.popping.questions import Questions
from rocketpipe.client.leaders import is_moved
from rocketpipe.client.lifetime import Lifetime
from rocketpipe.client.observers import receive_observed
from rocketpipe.client.session import Session
from rocketpipe.clock import Clock, within
from rocketpipe.errors import NoRoute, RocketPipeError, SessionClosed
from rocketpipe.model.names import check_consumer_group, check_topic
from rocketpipe.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)
from rocketpipe.protocol.requests.clients import ConsumerData

log = logging.getLogger(__name__)

INVISIBLE_MS: Final = 30_000
WAIT_MS: Final = 20_000
MAX_WAIT_MS: Final = 600_000
RECEIVED: Final = 16
#: How often topics are looked for while none is there.
MISSING_MS: Final = 1000


class SimpleConsumer(Lifetime):
    """Receives for a group; see the top of this file."""

    def __init__(
        self,
        name_servers: str | Session,
        *,
        group: str,
        ordered: bool = False,
        start: Start = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        clock: Clock | None = None,
    ) -> None:
        """Prepare a member of ``group``; nothing is asked yet.

        With ``ordered`` a queue gives nothing more, to anybody of the group, before all that was
        received from it is acknowledged, or comes again.

        ``start`` says where the group begins with a queue that it has no offset for: "first",
        which is the default here, "last" (what comes from now on), a datetime with a zone, or
        RocketMQ's ``CONSUME_FROM_LAST_OFFSET``, which has a young queue read from its beginning.

        Raises:
            InvalidName: If no group of consumers may have this name.
            ValueError: If ``name_servers`` is no list of addresses, or ``start`` says no place.
        """
        check_consumer_group(group)
        self.group = group
        self._session = Session.of(name_servers, clock=clock)
        self._start = start_from(start, self._session.clock.now_ms())
        self._wanted: dict[str, Subscription] = {}
        self._popper = Popper(self._session, group, self._start, ordered=ordered)
        self._running: AsyncExitStack | None = None
        self._turn = 0
        self._questions = Questions(self._popper, self._session.clock)

    # Its life

    @property
    def is_open(self) -> bool:
        """Whether it consumes now."""
        return self._running is not None

    async def __aenter__(self) -> Self:
        """Join the session.

        Raises:
            GroupTaken: If the session has a consumer of this group.
            ValueError: If the consumer runs already.
        """
        if self._running is not None:
            raise ValueError("the consumer runs already")
        stack = AsyncExitStack()
        try:
            session = await stack.enter_async_context(self._session)
            self._questions.open()
            stack.push_async_callback(self._questions.settle)
            session.join(self)
            stack.push_async_callback(session.leave, self)
        except BaseException:
            await stack.aclose()
            raise
        self._running = stack
        if self._wanted:
            await session.beat()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the group; what was received and not acknowledged comes again in its time.

        Who still waits for a ``receive`` gets SessionClosed.
        """
        if self._session.is_of_parent:
            return
        stack, self._running = self._running, None
        if stack is not None:
            await stack.aclose()

    # What to receive

    async def subscribe(
        self, topic: str, *, tags: str | None = None, sql: str | None = None
    ) -> None:
        """Receive messages of a topic: all, or those that ``tags`` (``A || B``) or ``sql`` chooses.

        Every consumer of a group subscribes to the same. A topic that is not there yet is looked
        for with each ``receive``.

        Raises:
            InvalidName: If no topic may have this name.
            FilterError: If the expression does not compile.
            ConnectionLost: If no NameServer can be reached.
            ValueError: If there are both tags and SQL.
        """
        check_topic(topic)
        now_ms = self._session.clock.now_ms()
        wanted = subscription_to(topic, tags=tags, sql=sql, version=now_ms)
        self._check_open()
        await look_up(self._session, topic, again="with each receive")
        self._wanted[topic] = wanted
        await self._session.beat()
        await settle_pops(self._session, self.group, self._start, [topic])

    async def unsubscribe(self, topic: str) -> None:
        """Receive nothing more of a topic."""
        self._check_open()
        if self._wanted.pop(topic, None) is not None:
            await self._session.beat()

    async def receive(
        self,
        *,
        max_messages: int = RECEIVED,
        invisible_ms: int = INVISIBLE_MS,
        wait_ms: int = WAIT_MS,
        topics: Sequence[str] | None = None,
    ) -> list[PoppedMessage]:
        """Receive up to ``max_messages``, which nobody else gets for ``invisible_ms``.

        Waits for as long as ``wait_ms`` until there is one; gives an empty list if none came.
        Topics take turns, unless ``topics`` names some of those subscribed to: then only these,
        and what is in the first of them comes first.

        Raises:
            ValueError: If nothing is subscribed to, or a topic is not, or a number is out of its
                range.
            ConnectionLost, CallTimeout: If no broker could be reached.
            RequestRejected: If one refuses.
            SessionClosed: If the consumer is not open, or is closed meanwhile.
        """
        _check("max_messages", max_messages, 1, MAX_COUNT)
        _check("invisible_ms", invisible_ms, 1, MAX_INVISIBLE_MS)
        _check("wait_ms", wait_ms, 0, MAX_WAIT_MS)
        self._check_open()
        if not self._wanted:
            raise ValueError("subscribe to a topic before receiving")
        for topic in topics or ():
            if topic not in self._wanted:
                raise ValueError(f"topic {topic!r} is not subscribed to")
        asking = self._receive(max_messages, invisible_ms, wait_ms, topics)
        return await receive_observed(self._session, self.group, asking)

    async def _receive(
        self, max_messages: int, invisible_ms: int, wait_ms: int, topics: Sequence[str] | None
    ) -> list[PoppedMessage]:
        clock = self._session.clock
        until_ms = clock.monotonic_ms() + wait_ms
        while True:
            self._check_open()
            sources = await self._sources(topics)
            alone = len(sources) == 1
            left_ms = max(0, until_ms - clock.monotonic_ms())
            if not sources:
                if not left_ms:
                    return []
                await clock.sleep(min(left_ms, MISSING_MS))
                continue
            try:
                found = await self._receive_from(
                    sources, max_messages, invisible_ms, left_ms if alone else 0
                )
                left_ms = until_ms - clock.monotonic_ms()
                if found or left_ms <= 0:
                    return found
                if not alone:
                    await within(clock, left_ms, self._wait(sources, left_ms))
            except RocketPipeError as error:
                left_ms = until_ms - clock.monotonic_ms()
                if not is_moved(error) or left_ms <= 0:
                    raise
                # Another leader is there soon, and will have something then.
                if not await within(clock, left_ms, self._session.routes.renew(sources[0].topic)):
                    raise

    async def ack(self, message: PoppedMessage | Iterable[PoppedMessage]) -> None:
        """Be done with a message, or with several: they never come again.

        Raises:
            TypeError: If one is nothing that ``receive`` gave.
            ReceiptExpired: If one has been held for too long, so that it comes again.
            ConnectionLost, CallTimeout: If its broker could not be reached; ask again.
            RequestRejected: If it refuses.
        """
        self._check_open()
        messages = [message] if isinstance(message, PoppedMessage) else list(message)
        for each in messages:
            _check_received(each)
        if messages:
            await self._popper.ack(messages)

    async def change_invisible(self, message: PoppedMessage, invisible_ms: int) -> None:
        """Have a message come again in so many milliseconds from now: later, or with 0 at once.

        Raises:
            TypeError: If it is nothing that ``receive`` gave.
            ReceiptExpired: If it has been held for too long, or was acknowledged.
            ValueError: If the number is out of its range.
            ConnectionLost, CallTimeout: If its broker could not be reached; ask again.
            RequestRejected: If it refuses.
        """
        _check("invisible_ms", invisible_ms, 0, MAX_INVISIBLE_MS)
        self._check_open()
        _check_received(message)
        await self._popper.hide(message, invisible_ms)

    async def _sources(self, topics: Sequence[str] | None) -> list[Source]:
        """Everything that can be popped from, another one first each time.

        Of topics that were named, it is their brokers that take turns.
        """
        by_topic: list[list[Source]] = []
        for topic in sorted(self._wanted) if topics is None else topics:
            try:
                by_topic.append(await self._popper.sources(topic))
            except NoRoute as error:
                log.debug("topic not there topic=%s reason=%s", topic, error)
        self._turn += 1
        if topics is None:
            by_topic = [[source for sources in by_topic for source in sources]]
        return [source for sources in by_topic for source in _turned(sources, self._turn)]

    async def _receive_from(
        self, sources: Sequence[Source], count: int, invisible_ms: int, wait_ms: int
    ) -> list[PoppedMessage]:
        failure: RocketPipeError | None = None
        answered = False
        questions = self._questions
        found = questions.taken_late({source.topic for source in sources}, count)
        has_others = len({source.broker_name for source in sources}) > 1
        for source in sources:
            wanted = self._wanted.get(source.topic)
            if wanted is None:
                continue
            if len(found) >= count:
                break
            if found and source.broker_name != found[-1].queue.broker_name:
                continue  # what there is does not wait for another broker, which may be away
            try:
                given = await questions.ask(
                    source,
                    wanted,
                    count=count - len(found),
                    invisible_ms=invisible_ms,
                    wait_ms=wait_ms,
                    has_others=has_others,
                )
            except (asyncio.CancelledError, SessionClosed):
                questions.give_back(found)
                raise
            except RocketPipeError as error:
                failure = failure or error
                if found:
                    break
                if not (error.stale_route or error.retryable):
                    raise
            else:
                answered |= given is not None
                found += given or ()
            if self._running is None:
                questions.give_back(found)
                self._check_open()
        if answered or found:
            return found
        if failure is not None:
            raise failure
        await questions.first_late()
        return questions.taken_late({source.topic for source in sources}, count)

    async def _wait(self, sources: Sequence[Source], wait_ms: int) -> None:
        """Wait until one of several has something; who cannot be asked is left out."""
        questions = self._questions
        asking = {
            asyncio.ensure_future(self._popper.wait(each, wait_ms)): each.broker_name
            for each in sources
            if not questions.is_awaited(each.broker_name)
        }
        late = asyncio.ensure_future(questions.has_late.wait())
        try:
            waiting = set(asking)
            while waiting:
                done, _ = await asyncio.wait({late, *waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting -= done
                for task in done & asking.keys():
                    if task.exception() is None:
                        questions.answered(asking[task])
                if late in done or any(task.exception() is None and task.result() for task in done):
                    return
            errors = [task.exception() for task in asking]
            if errors and None not in errors:
                assert errors[0] is not None
                raise errors[0]
        finally:
            ending = [late, *asking]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    def _check_open(self) -> None:
        if self._running is None:
            raise SessionClosed("the consumer")
        self._session.check_open()

    # What the session asks, and tells

    @property
    def session(self) -> Session:
        """The client that it is part of."""
        return self._session

    def producer_groups(self) -> Sequence[str]:
        """It produces for nobody."""
        return ()

    def consumers(self) -> Sequence[ConsumerData]:
        """Its group, and all it subscribes to."""
        return (
            ConsumerData(
                group_name=self.group,
                consume_type=ConsumeType.CONSUME_POP,
                message_model=MessageModel.CLUSTERING,
                consume_from_where=self._start.where,
                subscriptions=tuple(self._wanted.values()),
            ),
        )

    def topics(self) -> Collection[str]:
        """What it receives."""
        return tuple(self._wanted)

    def on_ids_changed(self, group: str) -> None:
        """Nothing to do: nobody owns a queue."""

    def on_routes_changed(self, topic: str) -> None:
        """Nothing to do: routes are looked at with each receive."""


def _turned(sources: list[Source], turn: int) -> list[Source]:
    first = turn % max(1, len(sources))
    return sources[first:] + sources[:first]


def _check_received(message: object) -> None:
    if not isinstance(message, PoppedMessage):
        raise TypeError(f"{message!r:.40} was not received: give what receive() gave")


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} {value}: it goes from {least} to {most}")
