"""Messages that show all at once, or never: ``async with producer.staged("billing", 17)``."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Literal, Self, Unpack

from rocketpipe.client.producer.composing import Composer
from rocketpipe.client.producer.parts import MessageFields
from rocketpipe.client.producer.selectors import Selector, pick_of
from rocketpipe.client.producer.sending.backoff import Backoff
from rocketpipe.client.producer.sending.delivery import Delivery
from rocketpipe.client.producer.sending.outgoing import ENTRY_BYTES
from rocketpipe.client.producer.sending.publish_routes import PublishRoute
from rocketpipe.client.producer.staging.content import Content, checksum
from rocketpipe.client.producer.staging.stages import Batch, Committer, StageWriter, brokers_of
from rocketpipe.client.routes import NEW_TOPIC_QUEUES
from rocketpipe.client.session import Session
from rocketpipe.errors import NoRoute, RocketPipeError, SessionClosed
from rocketpipe.model import properties
from rocketpipe.model.message import Message
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.batch import encode_batch

#: How much of one queue goes with one part.
PART_BYTES: Final = 256 << 10
#: How much is held back in all before the largest part goes.
HELD_BYTES: Final = 4 << 20
#: How long a broker that does not answer is asked again.
TIMEOUT_MS: Final = 60_000

#: What to do about a batch whose name was committed before, with other messages.
OnRepeat = Literal["fail", "skip"]

#: What is another in each attempt, or may be.
_PASSING: Final = tuple(
    name.encode() + b"\x01"
    for name in (
        properties.UNIQ_KEY,
        properties.WAIT,
        properties.TIMER_DELIVER_MS,
        properties.START_DELIVER_TIME,
    )
)


def _lasting(text: bytes) -> bytes:
    """Of properties, what is the same when a message is made again."""
    return b"\x02".join(
        sorted(each for each in text.split(b"\x02") if not each.startswith(_PASSING))
    )


class _PendingPart:
    def __init__(self) -> None:
        self.entries: list[tuple[int, bytes, bytes]] = []
        self.size = 0
        self.born_ms = 0


class StagedSends:
    """One batch of an application: what is sent inside its ``async with`` shows at its end, once.

    An exception inside the block leaves nothing behind that shows. The same application and number
    a second time is a block that does nothing: ``was_committed`` is true at its end. It has to hold
    the same messages, in any order, or `BatchMismatch` is raised at its end, unless ``on_repeat``
    is ``"skip"``. Needs brokers of this project; RocketMQ's own refuse it with code 3.
    """

    def __init__(
        self,
        session: Session,
        delivery: Delivery,
        intake: Composer,
        group: str,
        batch: Batch,
        *,
        new_topic_queues: int = NEW_TOPIC_QUEUES,
        timeout_ms: int = TIMEOUT_MS,
        on_repeat: OnRepeat = "fail",
    ) -> None:
        """For ``Producer.staged``.

        Raises:
            ValueError: If the application has no name, or the number is negative; or
                ``on_repeat`` is none of its words.
        """
        if on_repeat not in ("fail", "skip"):
            raise ValueError(f'on_repeat {on_repeat!r}: "fail", or "skip"')
        if not batch.application or batch.number < 0:
            named = f"application {batch.application!r}, batch {batch.number}"
            raise ValueError(f"{named}: a name, and 0 or more")
        self._session = session
        self._batch = batch
        self._delivery = delivery
        self._intake = intake
        self._timeout_ms = timeout_ms
        self._writer = StageWriter(session, group, batch, new_topic_queues=new_topic_queues)
        self._committer = Committer(session, group, timeout_ms)
        self._parts: dict[MessageQueue, _PendingPart] = {}
        self._open_queue: dict[tuple[str, str], MessageQueue] = {}
        self._contents: dict[str, Content] = {}
        self._on_repeat = on_repeat
        #: Of topics with parts: that of one still to be created is a guess nobody else remembers.
        self._lines: dict[str, PublishRoute] = {}
        self._brokers: dict[str, list[str]] = {}
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
        while self._parts:
            await self._flush(next(iter(self._parts)))
        name = self._writer.name
        plan = {broker: {name: parts} for broker, parts in self._writer.parts.items()}
        first = await self._committer.commit(
            self._batch, plan, self._contents, skip=self._on_repeat == "skip"
        )
        self.was_committed = not first

    async def send(
        self,
        topic: str | Message,
        body: bytes = b"",
        *,
        queue: MessageQueue | None = None,
        order_by: Any = None,
        selector: Selector | None = None,
        **parts: Unpack[MessageFields],
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
        out = self._intake.take(topic, body, parts)
        pick = pick_of(out.message, queue, order_by, selector)
        line = self._lines.get(out.topic)
        if line is None:
            line = self._lines[out.topic] = await self._patiently_line(out.topic)
        text = out.properties.encode()
        sum_ = checksum(out.topic, out.flag, out.body, _lasting(text))
        if pick is None:
            brokers = self._brokers.get(out.topic)
            if brokers is None:
                brokers = self._brokers[out.topic] = brokers_of(self._delivery.choice(line))
            chosen = self._any_queue(line, brokers[sum_ % len(brokers)])
        else:
            chosen = self._delivery.choose(line, pick)
        content = self._contents.setdefault(chosen.broker_name, Content())
        content.add(out.topic, sum_, len(out.body))
        part = self._parts.setdefault(chosen, _PendingPart())
        size = out.size + ENTRY_BYTES
        if part.entries and part.size + size > PART_BYTES:
            await self._flush(chosen)
            part = self._parts.setdefault(chosen, _PendingPart())
        part.entries.append((out.flag, out.body, text))
        part.size += size
        part.born_ms = out.born_ms
        self._held_bytes += size
        if part.size >= PART_BYTES:
            await self._flush(chosen)
        elif self._held_bytes > HELD_BYTES:
            await self._flush(max(self._parts, key=lambda queue: self._parts[queue].size))

    def _any_queue(self, line: PublishRoute, broker: str) -> MessageQueue:
        """The queue of a broker whose part grows; another one when it has gone."""
        at = (line.topic, broker)
        queue = self._open_queue.get(at)
        if queue is None or queue not in self._parts:
            queue = self._open_queue[at] = self._delivery.choose_of(line, broker)
        return queue

    async def _flush(self, queue: MessageQueue) -> None:
        part = self._parts.pop(queue)
        self._held_bytes -= part.size
        self._lines.pop(queue.topic, None)
        self._brokers.pop(queue.topic, None)
        if queue.broker_name in self._writer.committed_at:
            return  # nobody would keep it
        body = encode_batch(part.entries)
        ticket = self._writer.ticket(queue)
        patience = Backoff(self._session.clock, self._timeout_ms)
        while True:
            address: str | None = None
            try:
                line = await self._delivery.line(queue.topic, patience.attempt_ms)
                address = line.address(queue.broker_name)
                if address is None:
                    asked = str(self._session.name_servers)
                    raise NoRoute(queue.topic, asked, f"{queue.broker_name!r} has no leader now")
                await self._writer.put(ticket, body, part.born_ms, address, patience.attempt_ms)
            except RocketPipeError as error:
                self._session.routes.learn(queue.topic, queue.broker_name, address, error)
                await patience.after(error)
            else:
                return

    async def _patiently_line(self, topic: str) -> PublishRoute:
        patience = Backoff(self._session.clock, self._timeout_ms)
        while True:
            try:
                return await self._delivery.line(topic, patience.attempt_ms)
            except RocketPipeError as error:
                await patience.after(error)
