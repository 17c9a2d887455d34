"""Pops from brokers for a group, and tells them what became of the messages."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from rocketpipe.client.consumer.group.start import StartFrom
from rocketpipe.client.consumer.popped import PoppedMessage, popped
from rocketpipe.client.session import Session
from rocketpipe.errors import ReceiptExpired, RequestRejected
from rocketpipe.model.ids import ReceiptHandle
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere, Subscription
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.popping import (
    ANY_QUEUE,
    FROM_MAX,
    FROM_MIN,
    AckMessage,
    BatchAck,
    BatchAckMessage,
    BatchAcks,
    ChangeInvisibleTime,
    Notification,
    PopMessage,
    marks_of,
)

ReplyT = TypeVar("ReplyT")

#: An answer may take this much longer than the broker may hold the pop.
PATIENCE_MS: Final = 10_000
MAX_COUNT: Final = 32
#: From the longest time that a broker hides a message.
MAX_INVISIBLE_MS: Final = 3 * 24 * 3600 * 1000

_UNKNOWN: Final = frozenset(
    {ResponseCode.NO_MESSAGE, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.INVALID_PARAMETER}
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where to pop: a queue of a broker, or any of its queues of a topic (-1)."""

    topic: str
    broker_name: str
    queue_id: int = ANY_QUEUE

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(topic=self.topic, broker_name=self.broker_name, queue_id=self.queue_id)


class Popper:
    """What a group asks brokers about popped messages."""

    def __init__(
        self, session: Session, group: str, start: StartFrom, *, ordered: bool = False
    ) -> None:
        """``start`` says where the group begins that has no offsets yet.

        With one that is exact, what is there is settled already, and the rest is new.
        """
        self.session = session
        self.group = group
        self.ordered = ordered
        at_end = start.where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        self._init_mode = FROM_MAX if at_end and not start.exact else FROM_MIN

    async def sources(self, topic: str) -> list[Source]:
        """Every broker that has queues of a topic.

        Raises:
            NoRoute: If no NameServer knows the topic.
        """
        route = await self.session.routes.get(topic)
        brokers = dict.fromkeys(queue.broker_name for queue in route.readable_queues(topic))
        return [Source(topic, name) for name in brokers if route.broker(name) is not None]

    async def pop(
        self,
        source: Source,
        wanted: Subscription,
        *,
        count: int,
        invisible_ms: int,
        wait_ms: int,
        attempt_id: str | None = None,
    ) -> list[PoppedMessage]:
        """Pop up to ``count`` messages; none if none came in time.

        Raises:
            NoRoute: If the broker has no leader now.
            ConnectionLost, CallTimeout: If it does not answer.
            RequestRejected: If it refuses.
        """
        request = PopMessage(
            consumer_group=self.group,
            topic=source.topic,
            queue_id=source.queue_id,
            max_msg_nums=count,
            invisible_time=invisible_ms,
            poll_time=wait_ms,
            born_time=self.session.clock.now_ms(),
            init_mode=self._init_mode,
            exp_type=wanted.expression_type,
            exp=wanted.expression,
            order=self.ordered,
            attempt_id=attempt_id,
            broker_name=source.broker_name,
        )
        reply = await self.session.leaders.ask(source.queue, request, wait_ms + PATIENCE_MS)
        if reply.code != ResponseCode.SUCCESS:
            return []
        messages = popped(reply, source.topic, source.broker_name)
        received_ms = self.session.clock.monotonic_ms()
        for message in messages:
            message.hidden_until_ms = received_ms + reply.invisible_time
        if not wanted.tags:
            return messages
        # Brokers compare hashes of tags, and two tags may share one: those are done with.
        others = [message for message in messages if message.tags not in wanted.tags]
        if others:
            await self.ack(others)
        return [message for message in messages if message.tags in wanted.tags]

    async def wait(self, source: Source, wait_ms: int) -> bool:
        """Wait until a broker has something to pop; False if nothing came in time.

        Raises:
            NoRoute, ConnectionLost, CallTimeout, RequestRejected: As for ``pop``.
        """
        request = Notification(
            consumer_group=self.group,
            topic=source.topic,
            queue_id=source.queue_id,
            poll_time=wait_ms,
            born_time=self.session.clock.now_ms(),
            order=self.ordered,
            broker_name=source.broker_name,
        )
        reply = await self.session.leaders.ask(source.queue, request, wait_ms + PATIENCE_MS)
        return reply.has_msg

    async def ack(self, messages: Iterable[PoppedMessage]) -> None:
        """Be done with messages: they never come again.

        Raises:
            ReceiptExpired: If one has been held for too long; the others are acknowledged.
            NoRoute, ConnectionLost, CallTimeout, RequestRejected: As for ``pop``.
        """
        by_broker: defaultdict[str, list[PoppedMessage]] = defaultdict(list)
        for message in messages:
            by_broker[message.queue.broker_name].append(message)
        results = await asyncio.gather(
            *(self._ack_at_broker(together) for together in by_broker.values()),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _ack_at_broker(self, messages: list[PoppedMessage]) -> None:
        first = messages[0]
        request: AckMessage | BatchAckMessage
        if len(messages) == 1:
            request = AckMessage(
                consumer_group=self.group,
                topic=self._real_topic(first),
                queue_id=first.handle.queue_id,
                extra_info=str(first.handle),
                offset=_offset(first),
                broker_name=first.queue.broker_name,
            )
        else:
            acks = BatchAcks(broker_name=first.queue.broker_name, acks=self._batch(messages))
            request = BatchAckMessage(broker_name=first.queue.broker_name, batch=acks)
        try:
            await self._tell(first.queue, request)
        except RequestRejected as error:
            if error.code in _UNKNOWN:
                raise ReceiptExpired(str(first.handle), error.remark) from error
            raise

    def _batch(self, messages: list[PoppedMessage]) -> tuple[BatchAck, ...]:
        pops: defaultdict[tuple[str, ReceiptHandle], list[QueueOffset]] = defaultdict(list)
        for message in messages:
            whole = replace(message.handle, queue_offset=None, log_offset=None)
            pops[message.topic, whole].append(_offset(message))
        return tuple(
            BatchAck(
                consumer_group=self.group,
                topic=topic,
                retry=str(int(handle.retry)),
                start_offset=QueueOffset(handle.start_offset),
                queue_id=handle.queue_id,
                revive_queue_id=handle.revive_queue_id,
                pop_time=handle.pop_ms,
                invisible_time=handle.invisible_ms,
                marks=marks_of(QueueOffset(handle.start_offset), offsets),
            )
            for (topic, handle), offsets in pops.items()
        )

    async def hide(self, message: PoppedMessage, invisible_ms: int) -> None:
        """Have a message come again in so many milliseconds from now; its receipt is another then.

        Raises:
            ReceiptExpired: If it has been held for too long, or was acknowledged.
            NoRoute, ConnectionLost, CallTimeout, RequestRejected: As for ``pop``.
        """
        handle = message.handle
        request = ChangeInvisibleTime(
            consumer_group=self.group,
            topic=self._real_topic(message),
            queue_id=handle.queue_id,
            extra_info=str(handle),
            offset=_offset(message),
            invisible_time=invisible_ms,
            broker_name=message.queue.broker_name,
        )
        asked_ms = self.session.clock.monotonic_ms()
        try:
            reply = await self._tell(message.queue, request)
        except RequestRejected as error:
            if error.code in _UNKNOWN:
                raise ReceiptExpired(str(handle), error.remark) from error
            raise
        message.hidden_until_ms = asked_ms + invisible_ms
        start = handle.start_offset if handle.is_ordered else _offset(message)
        message.handle = replace(
            handle,
            start_offset=start,
            pop_ms=reply.pop_time,
            invisible_ms=reply.invisible_time,
            revive_queue_id=reply.revive_qid,
        )

    def _real_topic(self, message: PoppedMessage) -> str:
        return message.handle.retry.topic(message.topic, self.group)

    async def _tell(self, queue: MessageQueue, request: Request[ReplyT]) -> ReplyT:
        """Tell the leader, and wait for one: a receipt is good wherever the log is."""
        session = self.session
        return await session.leaders.ask(queue, request, session.timeout_ms, patient=True)


def _offset(message: PoppedMessage) -> QueueOffset:
    offset = message.handle.queue_offset
    return message.queue_offset if offset is None else QueueOffset(offset)
