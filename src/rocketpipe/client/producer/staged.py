"""Messages that show all at once, or never: ``async with producer.staged("billing", 17)``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, Unpack

from rocketpipe.client.producer.delivery import Delivery
from rocketpipe.client.producer.lines import Line
from rocketpipe.client.producer.outgoing import ENTRY_BYTES, Outgoing
from rocketpipe.client.producer.parts import MessageParts, message_of
from rocketpipe.client.producer.patience import Patience
from rocketpipe.client.producer.queue_choice import QueueChoice
from rocketpipe.client.producer.selectors import Selector, pick_of
from rocketpipe.client.producer.stages import Batch, Committer, StageWriter
from rocketpipe.client.session import Session
from rocketpipe.errors import NoRoute, RocketPipeError, SessionClosed
from rocketpipe.model.message import Message
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.batch import encode_batch

#: How much of one queue goes with one part.
PART_BYTES: Final = 256 << 10
#: How much is held back in all before the largest pile goes.
HELD_BYTES: Final = 4 << 20
#: How long a broker that does not answer is asked again.
TIMEOUT_MS: Final = 60_000


class _Pile:
    def __init__(self) -> None:
        self.entries: list[tuple[int, bytes, bytes]] = []
        self.size = 0
        self.born_ms = 0


class StagedSends:
    """One batch of an application: what is sent inside its ``async with`` shows at its end, once.

    An exception inside the block leaves nothing behind that shows. The same application and number
    a second time is a block that does nothing: ``was_committed`` is true at its end. Needs brokers
    of this project; RocketMQ's own refuse it with code 3.
    """

    def __init__(
        self,
        session: Session,
        group: str,
        batch: Batch,
        find_line: Callable[[str, int], Awaitable[Line]],
        choice: QueueChoice,
        outgoing: Callable[[Message], Outgoing],
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self._session = session
        self._batch = batch
        self._find_line = find_line
        self._choice = choice
        self._outgoing = outgoing
        self._timeout_ms = timeout_ms
        self._writer = StageWriter(session, group, batch)
        self._committer = Committer(session, group, timeout_ms)
        self._piles: dict[MessageQueue, _Pile] = {}
        self._open_queue: dict[str, MessageQueue] = {}
        #: Of topics with piles: that of one still to be created is a guess nobody else remembers.
        self._lines: dict[str, Line] = {}
        self._held_bytes = 0
        self._is_open = False
        #: Whether this batch was committed before; known at the end of the block.
        self.was_committed: bool | None = None

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        if kind is not None:
            return  # what is staged expires
        while self._piles:
            await self._flush(next(iter(self._piles)))
        name = self._writer.name
        plan = {broker: {name: parts} for broker, parts in self._writer.parts.items()}
        self.was_committed = not await self._committer.commit(self._batch, plan)

    async def send(
        self,
        topic: str | Message,
        body: bytes = b"",
        *,
        queue: MessageQueue | None = None,
        order_by: Any = None,
        selector: Selector | None = None,
        **parts: Unpack[MessageParts],
    ) -> None:
        """Stage one message; the arguments are those of ``Producer.send``.

        Messages are staged many at a time, so an error may be that of an earlier one.

        Raises:
            InvalidName, PropertiesError, MessageRefused: If no broker would take it.
            NoRoute: If no broker takes the topic.
            RequestRejected: If the broker refuses the message, or does not stage.
            ConnectionLost, CallTimeout: If the broker does not answer for too long.
        """
        if not self._is_open:
            raise SessionClosed("the batch")
        message = message_of(topic, body, parts)
        out = self._outgoing(message)
        pick = pick_of(message, queue, order_by, selector)
        line = self._lines.get(out.topic)
        if line is None:
            line = self._lines[out.topic] = await self._patiently_line(out.topic)
        chosen = pick(line.queues) if pick is not None else self._any_queue(line)
        pile = self._piles.setdefault(chosen, _Pile())
        size = out.size + ENTRY_BYTES
        if pile.entries and pile.size + size > PART_BYTES:
            await self._flush(chosen)
            pile = self._piles.setdefault(chosen, _Pile())
        pile.entries.append((out.flag, out.body, out.properties.encode()))
        pile.size += size
        pile.born_ms = out.born_ms
        self._held_bytes += size
        if pile.size >= PART_BYTES:
            await self._flush(chosen)
        elif self._held_bytes > HELD_BYTES:
            await self._flush(max(self._piles, key=lambda queue: self._piles[queue].size))

    def _any_queue(self, line: Line) -> MessageQueue:
        """The queue whose pile grows; another one when it has gone."""
        queue = self._open_queue.get(line.topic)
        if queue is None or queue not in self._piles or queue not in line.queues:
            queue = self._open_queue[line.topic] = self._choice.choose(line.topic, line.queues)
        return queue

    async def _flush(self, queue: MessageQueue) -> None:
        pile = self._piles.pop(queue)
        self._held_bytes -= pile.size
        self._lines.pop(queue.topic, None)
        if self._writer.is_committed:
            return  # nobody would keep it
        body = encode_batch(pile.entries)
        ticket = self._writer.ticket(queue)
        patience = Patience(self._session.clock, self._timeout_ms)
        while True:
            try:
                address = (await self._find_line(queue.topic, patience.attempt_ms)).address(
                    queue.broker_name
                )
                if address is None:
                    asked = str(self._session.name_servers)
                    raise NoRoute(queue.topic, asked, f"{queue.broker_name!r} has no leader now")
                await self._writer.put(ticket, body, pile.born_ms, address, patience.attempt_ms)
            except RocketPipeError as error:
                await patience.after(error)
            else:
                return

    async def _patiently_line(self, topic: str) -> Line:
        patience = Patience(self._session.clock, self._timeout_ms)
        while True:
            try:
                return await self._find_line(topic, patience.attempt_ms)
            except RocketPipeError as error:
                await patience.after(error)


class StagesMessages(ABC):
    """The part of a producer that makes batches of staged messages."""

    _session: Session
    _group: str
    _delivery: Delivery
    _choice: QueueChoice

    @abstractmethod
    def _outgoing(self, topic: str | Message, body: bytes, parts: Any) -> Outgoing:
        """A message that may be sent, on its way."""

    def staged(self, application: str, batch: int, *, timeout_ms: int = TIMEOUT_MS) -> StagedSends:
        """Messages that show at the end of an ``async with``, all of them, once; see there.

        ``application`` and ``batch`` name it: the same pair a second time shows nothing more.

        Raises:
            ValueError: If the application has no name, or the number is negative.
        """
        if not application or batch < 0:
            raise ValueError(f"application {application!r}, batch {batch}: a name, and 0 or more")
        return StagedSends(
            self._session,
            self._group,
            Batch(application, batch),
            self._delivery.line,
            self._choice,
            lambda message: self._outgoing(message, b"", {}),
            timeout_ms=timeout_ms,
        )
