"""Sends messages, in all the ways there are."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from threading import get_ident
from typing import Any, Final, Self, Unpack

from rocketpipe.background import running
from rocketpipe.client.faults import Variant
from rocketpipe.client.lifetime import Lifetime
from rocketpipe.client.producer.callback_sends import CallbackSends, SendCallback
from rocketpipe.client.producer.composing import Composer, pick_for
from rocketpipe.client.producer.member import ProducerMember
from rocketpipe.client.producer.observed_sends import ObservedSends
from rocketpipe.client.producer.parts import MessageFields, message_of
from rocketpipe.client.producer.request_reply import OpenRequests
from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.retry import Retries
from rocketpipe.client.producer.selectors import Selector, pick_of
from rocketpipe.client.producer.sending.batching import Batching
from rocketpipe.client.producer.sending.delivery import Delivery
from rocketpipe.client.producer.sending.in_flight import MAX_BYTES, MAX_SENDS, InFlight
from rocketpipe.client.producer.sending.outgoing import Checks, Outgoing
from rocketpipe.client.producer.sending.prober import Prober
from rocketpipe.client.producer.sending.publish_routes import PublishRoutes
from rocketpipe.client.producer.sending.queue_choice import QueueChoice
from rocketpipe.client.producer.sending.sender import Sender
from rocketpipe.client.producer.sending.trace import Trace
from rocketpipe.client.producer.staging.staged import TIMEOUT_MS as STAGED_TIMEOUT_MS
from rocketpipe.client.producer.staging.staged import OnRepeat, StagedSends
from rocketpipe.client.producer.staging.stages import Batch
from rocketpipe.client.producer.transactions import Check, Decision, Transaction, Transactions
from rocketpipe.client.routes import NEW_TOPIC_QUEUES
from rocketpipe.client.session import Session
from rocketpipe.clock import Clock
from rocketpipe.model.ids import RecallHandle
from rocketpipe.model.message import Message, StoredMessage
from rocketpipe.model.names import TRACE_TOPIC, check_producer_group
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.topic import MAX_QUEUES
from rocketpipe.protocol.requests.sending import RecallMessage
from rocketpipe.record.compression import DEFAULT_LEVEL, WORTHWHILE_BYTES
from rocketpipe.record.layout import MAX_BODY_BYTES

SEND_TIMEOUT_MS: Final = 3000
DEFAULT_GROUP: Final = "rocketpipe-producer"


class Producer(Lifetime):
    """Sends to any topic: ``async with Producer("127.0.0.1:9876") as producer``."""

    def __init__(
        self,
        name_servers: str | Session,
        *,
        group: str = DEFAULT_GROUP,
        timeout_ms: int = SEND_TIMEOUT_MS,
        retries: Retries | None = None,
        batching: Batching | None = None,
        avoid_slow: Variant | bool | None = None,
        probe: bool = False,
        compress_over: int | None = WORTHWHILE_BYTES,
        compress_level: int = DEFAULT_LEVEL,
        max_message_bytes: int = MAX_BODY_BYTES,
        max_in_flight: int = MAX_SENDS,
        max_in_flight_bytes: int = MAX_BYTES,
        new_topic_queues: int = NEW_TOPIC_QUEUES,
        trace: bool | str = False,
        check: Check | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """Prepare a producer of a cluster, given by its NameServers or by a session to share.

        Args:
            name_servers: Such as ``a:9876;b:9876``; or a session, which then has the clock.
            group: Whom brokers take it for.
            timeout_ms: For each send with all its attempts, unless the send says otherwise.
            retries: What is tried again, and how often.
            batching: Whether, and when, messages are sent many at a time.
            avoid_slow: By which release's rules slow brokers are avoided, if so; True: of 5.x.
            probe: Whether brokers that refused messages are looked after; with ``Variant.V5``.
            compress_over: From which length on bodies are compressed; None for never.
            compress_level: 0 to 9, as zlib has it.
            max_message_bytes: The longest body.
            max_in_flight: How many sends are under way at a time; the next ones wait.
            max_in_flight_bytes: How long these may be together.
            new_topic_queues: How many queues a topic gets at each broker where a send creates it,
                unless the broker allows fewer; with 1 and one broker all of it is in order.
            trace: Whether what is sent is told to a topic of traces, or to which.
            check: Says how a transaction ended, when a broker asks; see ``transaction``.
            clock: The time; for tests.
            chance: What queues start at; for tests.

        Raises:
            InvalidName: If no group may have this name.
            ValueError: If ``name_servers`` or a number makes no sense.
        """
        check_producer_group(group)
        if timeout_ms < 0:
            raise ValueError(f"timeout_ms {timeout_ms}: not negative")
        if not 1 <= new_topic_queues <= MAX_QUEUES:
            raise ValueError(f"new_topic_queues {new_topic_queues}: 1 to {MAX_QUEUES}")
        self._group, self._timeout_ms, self._new_topic_queues = group, timeout_ms, new_topic_queues
        self._session = session = Session.of(name_servers, clock=clock)
        checks = Checks(
            max_bytes=max_message_bytes,
            compress_over=compress_over,
            compress_level=compress_level,
        )
        self._intake = Composer(checks, session)
        self._lines = PublishRoutes(session, group, new_topic_queues=new_topic_queues)
        self._choice = QueueChoice(avoid_slow, session.clock, chance or session.chance)
        self._in_flight = InFlight(
            session.clock, max_sends=max_in_flight, max_bytes=max_in_flight_bytes
        )
        self._delivery = Delivery(session, self._lines, self._choice, self._in_flight)
        self._sender = Sender(
            session,
            self._delivery,
            checks,
            retries or Retries(),
            batching=batching,
            trace=Trace(group, TRACE_TOPIC if trace is True else trace) if trace else None,
        )
        self._observed = ObservedSends.of(session, group, self._intake, self._sender)
        self._probes = probe and avoid_slow in (Variant.V5, True)
        self._transactions = Transactions(session, self._delivery, checks, group, check)
        self._requests = OpenRequests(session, self._in_flight)
        self._called_back = CallbackSends(self._sender)
        self._member = ProducerMember(group, self._lines, self._transactions, self._requests)
        self._running = AsyncExitStack()
        self._is_open = False

    @property
    def group(self) -> str:
        """Whom brokers take it for."""
        return self._group

    @property
    def is_open(self) -> bool:
        """Whether it can send now."""
        return self._is_open

    async def __aenter__(self) -> Self:
        """Open it.

        Raises:
            ValueError: If it is open already.
            ProcessForked, WrongThread: If that was in another process, or thread.
        """
        if self._is_open:
            self._session.check_open()
            raise ValueError("the producer is open already: tasks may share it as it is")
        self._is_open = True
        try:
            await self._open()
        except BaseException:
            self._is_open = False
            raise
        return self

    async def _open(self) -> None:
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._session)
            self._session.join(self._member)
            opening.push_async_callback(self._session.leave, self._member)
            opening.push_async_callback(self._in_flight.close)
            opening.push_async_callback(self._transactions.close)
            await opening.enter_async_context(self._sender)
            if self._probes and self._choice.faults is not None:
                clock, caller = self._session.clock, self._session.caller
                prober = Prober(self._choice.faults, caller, clock, self._lines.whereabouts)
                await opening.enter_async_context(running(prober.run(), "broker probes"))
            self._running = opening.pop_all()
        self._intake.open()

    async def __aexit__(self, *exc: object) -> None:
        if self._session.is_of_parent:
            return
        self._intake.close()
        try:
            # Who closes it twice at the same time waits twice, and ends nothing twice.
            running, self._running = self._running, AsyncExitStack()
            async with running:
                # Each of these ends by the deadlines of the sends that it waits for.
                await self._sender.drain()
                await self._in_flight.idle()
                await self._called_back.drain()
        finally:
            self._is_open = False

    async def send(
        self,
        topic: str | Message,
        body: bytes = b"",
        *,
        queue: MessageQueue | None = None,
        order_by: Any = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
        **parts: Unpack[MessageFields],
    ) -> SendResult:
        """Send one message and wait until the broker has stored it.

        Messages with the same ``order_by``, a text or a whole number, go to one queue, and are read
        in the order they were sent in if each was awaited before the next. Which queue that is
        may be left to a ``selector`` of one's own; or it is given as ``queue``. In either case no
        other queue is tried when that one fails.

        Raises:
            InvalidName: If no topic may have this name, or only brokers write to it.
            PropertiesError: If a tag, key or property could not be read back.
            MessageRefused: If the body is empty or too long.
            NoRoute: If no broker takes the topic.
            RequestRejected: If the broker refuses the message.
            ConnectionLost: If brokers, or every NameServer, are out of reach.
            CallTimeout: If no answer came in time; the message may be stored.
            ProducerFull: If too much was under way all that time.
            SessionClosed, WrongThread: Outside of the producer's ``async with``, or thread.
            TypeError: If something is not of its type; the text says what would be.
        """
        left_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        sender, intake = self._sender, self._intake
        if self._observed is not None:
            chosen = partial(pick_for, queue=queue, order_by=order_by, selector=selector)
            return await self._observed.send(message_of(topic, body, parts), left_ms, chosen)
        here = get_ident() == intake.thread_id
        if sender.batches and here and queue is order_by is selector is None:
            pending = sender.batch(topic, body, parts, left_ms)
            if pending is not None:
                return await pending
        out = intake.take(topic, body, parts)
        pick = pick_for(out, queue, order_by, selector)
        if not self._in_flight.try_enter(out.size):
            left_ms = await sender.enter(out.size, left_ms)
        return await sender.send(out, left_ms, pick)

    def _taken(self, topic: str | Message, body: bytes, parts: MessageFields) -> Outgoing:
        if self._observed is not None:
            return self._observed.take(message_of(topic, body, parts))
        return self._intake.take(topic, body, parts)

    async def send_async(
        self,
        topic: str | Message,
        body: bytes = b"",
        *,
        callback: SendCallback,
        queue: MessageQueue | None = None,
        order_by: Any = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
        **parts: Unpack[MessageFields],
    ) -> None:
        """Send one message, and have ``callback`` called with the result, or with the error.

        It waits for no answer, only for room while as much as allowed is under way. A send that is
        not answered is tried again, as by ``send``; what a broker refuses is not.

        Raises:
            InvalidName, PropertiesError, MessageRefused, ProducerFull: As by ``send``.
            TypeError: If the callback cannot be called.
        """
        if not callable(callback):
            raise TypeError(f"callback {callback!r} cannot be called; `send` needs none")
        out = self._taken(topic, body, parts)
        left_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        pick = pick_for(out, queue, order_by, selector)
        left_ms = await self._sender.enter(out.size, left_ms)
        self._called_back.begin(out, left_ms, pick, callback)

    async def send_oneway(
        self,
        topic: str | Message,
        body: bytes = b"",
        *,
        queue: MessageQueue | None = None,
        order_by: Any = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
        **parts: Unpack[MessageFields],
    ) -> None:
        """Send one message that nobody answers: it may get lost, and no one will know.

        Raises:
            InvalidName, PropertiesError, MessageRefused, NoRoute, ConnectionLost: As by ``send``.
        """
        out = self._taken(topic, body, parts)
        left_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        await self._intake.checks.compress(out)
        await self._delivery.post(out, left_ms, pick_for(out, queue, order_by, selector))

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> tuple[SendResult, ...]:
        """Send messages of one topic to one queue, all or none of them; a result for each.

        Raises:
            MessageRefused: If they cannot go together: different topics, a delay, too long in all.
            InvalidName, NoRoute, RequestRejected, ConnectionLost, CallTimeout, ProducerFull: As by
                ``send``.
        """
        self._intake.checks.check_batch(messages)
        pick = pick_of(messages[0], queue, None, None)
        left_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        if self._observed is not None:
            return await self._observed.send_batch(messages, left_ms, pick)
        parts = [self._intake.take(message) for message in messages]
        return tuple(await self._sender.send_batch(parts, left_ms, pick))

    async def request(
        self,
        topic: str | Message,
        body: bytes = b"",
        *,
        timeout_ms: int | None = None,
        **parts: Unpack[MessageFields],
    ) -> StoredMessage:
        """Send a question, and wait for the reply that a consumer gives by its ``reply``.

        Raises:
            CallTimeout: If no reply came in time.
            MessageRefused: If too many questions wait for replies; beside what ``send`` raises.
        """
        out = self._taken(topic, body, parts)
        left_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        with self._requests.opened(out, left_ms) as reply:
            await self._requests.introduce(out.topic, left_ms)
            left_ms = await self._sender.enter(out.size, left_ms)
            await self._sender.send(out, left_ms, None)
            return await reply

    # Transactions, batches that show at once, and timed messages

    def transaction(
        self,
        topic: str | Message,
        body: bytes = b"",
        *,
        immunity_s: int | None = None,
        queue: MessageQueue | None = None,
        order_by: Any = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
        **parts: Unpack[MessageFields],
    ) -> Transaction:
        """Send a message that shows if the block is left normally, and never if by an exception.

        ``async with producer.transaction("orders", body) as tx: …``. Inside, ``tx.rollback()`` and
        ``tx.unknown()`` say otherwise. If the broker hears nothing, because this process died or
        could not reach it, it asks a producer of the group, whose ``check`` decides; for the first
        ``immunity_s`` seconds it does not ask.

        Entering raises what ``send`` raises. Leaving raises, if nothing else went wrong:

        Raises:
            RequestRejected: If the transaction has ended otherwise, or is no longer there.
            ConnectionLost, CallTimeout: If the broker does not answer in time: it asks later.
        """
        if immunity_s is not None and immunity_s < 1:
            raise ValueError(f"immunity_s {immunity_s}: a second at least")
        out = self._taken(topic, body, parts)
        return Transaction(
            self._transactions,
            out,
            immunity_s=immunity_s,
            timeout_ms=self._timeout_ms if timeout_ms is None else timeout_ms,
            pick=pick_for(out, queue, order_by, selector),
        )

    async def send_in_transaction(
        self,
        topic: str | Message,
        body: bytes = b"",
        *,
        execute: Callable[[Transaction], Awaitable[Decision]],
        timeout_ms: int | None = None,
        **parts: Unpack[MessageFields],
    ) -> Decision:
        """Send a message that shows if ``execute`` gives ``Decision.COMMIT``; gives what it gave.

        What ``execute`` raises is a rollback, and raised here.

        Raises:
            RequestRejected, ConnectionLost, CallTimeout: As by ``transaction``.
        """
        async with self.transaction(topic, body, timeout_ms=timeout_ms, **parts) as begun:
            decision = await execute(begun)
            if decision is Decision.ROLLBACK:
                begun.rollback()
            elif decision is Decision.UNKNOWN:
                begun.unknown()
        return decision

    def staged(
        self,
        application: str,
        batch: int,
        *,
        timeout_ms: int = STAGED_TIMEOUT_MS,
        on_repeat: OnRepeat = "fail",
    ) -> StagedSends:
        """Messages that show at the end of an ``async with``, all of them, once; see there.

        ``application`` and ``batch`` name it: the same pair a second time shows nothing more. With
        other messages than the first time that is an error, unless ``on_repeat`` is ``"skip"``.

        Raises:
            ValueError: If the application has no name, or the number is negative.
        """
        return StagedSends(
            self._session,
            self._delivery,
            self._intake,
            self._group,
            Batch(application, batch),
            new_topic_queues=self._new_topic_queues,
            timeout_ms=timeout_ms,
            on_repeat=on_repeat,
        )

    async def recall(self, topic: str, handle: str | None) -> str:
        """Take back a message that waits for its moment, by its ``SendResult.recall_handle``.

        Gives the message's id. On return it is never delivered.

        Raises:
            TypeError: If there is no handle: the message was not sent with ``delay`` or
                ``deliver_at``.
            InvalidName: If it is no such handle.
            NoRoute: If the broker that it names is not there.
            RequestRejected: If the message does not wait any more.
            ConnectionLost, CallTimeout: If the broker does not answer.
        """
        self._intake.check_open()
        if handle is None:
            raise TypeError("no handle: what has one was sent with delay or deliver_at, no level")
        broker = RecallHandle.parse(handle).broker
        queue = MessageQueue(topic=topic, broker_name=broker, queue_id=0)
        request = RecallMessage(topic=topic, recall_handle=handle, producer_group=self._group)
        return (await self._session.leaders.ask(queue, request, self._timeout_ms)).msg_id
