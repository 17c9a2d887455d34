"""Answers to pops and to what follows them.

The checks stand in the order of RocketMQ's, so that whoever breaks two rules is told of the same
one. A pop that finds nothing waits, and looks again whenever it is woken, until its time is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from rocketpipe.broker.delivery.filtering import Choice, Filters
from rocketpipe.broker.features.popping.acks import MAX_INVISIBLE_MS, Acks, Receipt
from rocketpipe.broker.features.popping.pop import PopAsk, Popped, Pops
from rocketpipe.broker.features.popping.request_ages import RequestAges
from rocketpipe.broker.features.popping.waiting_pops import WaitingPops
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.clock import Clock
from rocketpipe.errors import FilterError, InvalidName, RequestRejected
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.ids import ReceiptHandle, RetryKind
from rocketpipe.model.names import is_retry_topic
from rocketpipe.model.subscription import TAG
from rocketpipe.model.topic import Perm, TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pop_offsets import (
    write_message_offsets,
    write_order_counts,
    write_start_offsets,
)
from rocketpipe.protocol.requests.popping import (
    AckMessage,
    BatchAck,
    BatchAckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeReply,
    Notification,
    NotificationReply,
    PeekMessage,
    PollingInfo,
    PollingInfoReply,
    PopMessage,
    PopMessageReply,
)
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import MessageStore

MAX_COUNT: Final = 32
_LOOKS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PopGate:
    """What a broker lets pops do."""

    #: Bits of ``model.topic.Perm``.
    permission: int = int(Perm.READ | Perm.WRITE)
    property_filter: bool = True
    #: A longer wait is never granted.
    max_wait_ms: int = 30_000


_REMARKS: Final = {
    ResponseCode.POLLING_TIMEOUT: "no new message",
    ResponseCode.POLLING_FULL: "too many wait for messages: ask again a little later",
}


class PopHandlers:
    """Hands out messages for a while."""

    def __init__(
        self,
        pops: Pops,
        waiting: WaitingPops,
        topic_provider: TopicProvider,
        clock: Clock,
        gate: PopGate,
        count: Callable[[str, str, int, int], None],
        filters: Filters | None = None,
    ) -> None:
        """``count`` is told the group, the topic, how many messages and bytes were given out."""
        self._count = count
        self._pops = pops
        self._waiting = waiting
        self._topic_provider = topic_provider
        self._clock = clock
        self._gate = gate
        self._filters = filters or Filters()
        self._ages = RequestAges(clock)

    @handles(PopMessage)
    async def pop(self, request: PopMessage, call: Call) -> PopMessageReply:
        born_ms = request.born_time or 0
        if self._ages.is_late(call.peer, born_ms, request.poll_time):
            nothing = Popped(self._clock.now_ms(), 0)
            return _reply(ResponseCode.POLLING_TIMEOUT, nothing, request)
        until_ms = self._until_ms(call, born_ms, request.poll_time)
        await self._filters.turn(request.exp_type, request.exp)
        ask = await self._ask(request)
        line = (request.topic, request.consumer_group, max(request.queue_id, -1))
        looks = 0
        while True:
            popped = await self._pops.pop(ask)
            if popped.count and not call.peer.is_open:
                self._pops.put_back(ask, popped)  # nobody is there to be given it
            if popped.count:
                if popped.rest > 0:
                    self._waiting.wake(*line)
                self._count(request.consumer_group, request.topic, popped.count, popped.size)
                return _reply(ResponseCode.SUCCESS, popped, request)
            if popped.moved and until_ms > self._clock.monotonic_ms():
                # What it wants may be far behind what it does not: nobody would wake it for that.
                await asyncio.sleep(0)
                continue
            looks += 1
            if self._pops.has_some(ask) and looks < _LOOKS:
                # It came while others were being looked at, or another pop was at its queue.
                await asyncio.sleep(0)
                continue
            if until_ms <= self._clock.monotonic_ms():
                return _reply(ResponseCode.POLLING_TIMEOUT, popped, request)
            if self._waiting.is_full(*line):
                return _reply(ResponseCode.POLLING_FULL, popped, request)
            call.waited = True
            found = await self._waiting.wait(*line, until_ms, ask.choice, call.peer)
            if found is None:
                return _reply(ResponseCode.POLLING_TIMEOUT, popped, request)
            try:
                await call.peer.drained()  # others of its waits were answered meanwhile
                call.check_again(request)
            except (RequestRejected, asyncio.CancelledError):
                self._waiting.wake(*line)  # what came is not for this one: the next, then
                raise
            if found:
                looks = 0
                ask = replace(ask, topic=self._topic(request.topic, request.queue_id))
            else:
                until_ms = -1  # one more look, and then an answer whatever it finds
                looks = _LOOKS

    def _until_ms(self, call: Call, born_ms: int, poll_ms: int) -> int:
        """Until when to wait, on the monotonic clock, for who has asked at that time of its own.

        When that is over it has gone, and would not see what it got.
        """
        left_ms = poll_ms - self._ages.age_ms(call.peer, born_ms)
        return self._clock.monotonic_ms() + min(left_ms, self._gate.max_wait_ms)

    @handles(PeekMessage)
    async def peek(self, request: PeekMessage, call: Call) -> PopMessageReply:
        self._check_readable("peeking")
        topic = self._topic(request.topic, request.queue_id)
        self._check_group(request.consumer_group)
        ask = PopAsk(
            group=request.consumer_group,
            topic=topic,
            queue_id=_one(request.queue_id),
            count=min(max(request.max_msg_nums, 1), MAX_COUNT),
            invisible_ms=0,
        )
        found = await self._pops.peek(ask)
        code = ResponseCode.SUCCESS if found.count else ResponseCode.POLLING_TIMEOUT
        return PopMessageReply(
            code=code,
            pop_time=found.pop_ms,
            invisible_time=0,
            revive_qid=0,
            rest_num=found.rest,
            messages=b"".join(found.chunks),
            remark=_REMARKS.get(code),
        )

    @handles(Notification)
    async def notify(self, request: Notification, call: Call) -> NotificationReply:
        self._check_readable("notification")
        topic = self._topic(request.topic, request.queue_id)
        self._check_group(request.consumer_group)
        ask = PopAsk(
            group=request.consumer_group,
            topic=topic,
            queue_id=_one(request.queue_id),
            count=1,
            invisible_ms=0,
            ordered=request.order,
            attempt_id=request.attempt_id,
        )
        until_ms = self._until_ms(call, request.born_time or 0, request.poll_time)
        line = (request.topic, request.consumer_group, max(request.queue_id, -1))
        while not self._pops.has_some(ask):
            if until_ms <= self._clock.monotonic_ms():
                return NotificationReply(has_msg=False)
            if self._waiting.is_full(*line):
                return NotificationReply(has_msg=False, polling_full=True)
            call.waited = True
            if not await self._waiting.wait(*line, until_ms, asker=call.peer):
                return NotificationReply(has_msg=self._pops.has_some(ask))
        # It took nothing: a pop that waits for the same is to have a look as well.
        self._waiting.wake(*line)
        return NotificationReply(has_msg=True)

    @handles(PollingInfo)
    async def polling(self, request: PollingInfo, call: Call) -> PollingInfoReply:
        self._check_readable("peeking")
        self._topic(request.topic, request.queue_id)
        self._check_group(request.consumer_group)
        line = (request.topic, request.consumer_group, max(request.queue_id, -1))
        return PollingInfoReply(polling_num=self._waiting.waiting(*line))

    async def _ask(self, request: PopMessage) -> PopAsk:
        self._check_readable("pop")
        if not 1 <= request.max_msg_nums <= MAX_COUNT:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"the broker pop message's num is {request.max_msg_nums}: "
                f"it goes from 1 to {MAX_COUNT}",
            )
        if not 0 < request.invisible_time <= MAX_INVISIBLE_MS:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"invisibleTime {request.invisible_time} is illegal: "
                f"it goes from 1 to {MAX_INVISIBLE_MS}",
            )
        topic = self._topic(request.topic, request.queue_id)
        # Or a broker that is killed would not know whom its check points speak of.
        _check_consuming(await self._topic_provider.kept_group(request.consumer_group))
        return PopAsk(
            group=request.consumer_group,
            topic=topic,
            queue_id=_one(request.queue_id),
            count=request.max_msg_nums,
            invisible_ms=request.invisible_time,
            init_mode=request.init_mode,
            choice=self._choice(request.exp_type, request.exp),
            ordered=request.order,
            attempt_id=request.attempt_id,
        )

    def _check_readable(self, what: str) -> None:
        if not self._gate.permission & Perm.READ:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"the broker {what} message is forbidden: its brokerPermission lacks 4",
            )

    def _topic(self, name: str, queue_id: int) -> TopicSettings:
        topic = known_topic(self._topic_provider, name)
        if not topic.perm & Perm.READ:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] peeking message is forbidden"
            )
        if queue_id >= topic.read_queues:
            raise _illegal_queue(ResponseCode.INVALID_PARAMETER, topic, queue_id)
        return topic

    def _check_group(self, name: str) -> None:
        _check_consuming(self._topic_provider.group(name))

    def _choice(self, kind: str | None, expression: str | None) -> Choice:
        if (kind or TAG) != TAG and expression and not self._gate.property_filter:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {kind}: "
                "enablePropertyFilter is off",
            )
        try:
            return self._filters.choice(kind if expression else TAG, expression)
        except FilterError as error:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed: {error}",
            ) from error


class AckHandlers:
    """Takes receipts back."""

    def __init__(self, acks: Acks, store: MessageStore, topic_provider: TopicProvider) -> None:
        self._acks = acks
        self._store = store
        self._topic_provider = topic_provider

    @handles(AckMessage)
    async def acknowledge(self, request: AckMessage, call: Call) -> None:
        handle = _handle(request.extra_info)
        group = request.consumer_group
        topic = self.checked(request.topic, group, handle, request.queue_id, request.offset)
        await self._acks.acknowledge(topic, group, handle, [request.offset])

    def checked(
        self, topic: str, group: str, handle: ReceiptHandle, queue_id: int, offset: int
    ) -> str:
        """The topic that a message was popped from, if there is such a message.

        Raises:
            RequestRejected: There is none, or its receipt is of another queue.
        """
        topic = _popped_topic(topic, group, handle)
        self._check(topic, queue_id, offset)
        _check_queue(handle, queue_id)
        return topic

    @handles(BatchAckMessage)
    async def acknowledge_many(self, request: BatchAckMessage, call: Call) -> None:
        if not request.batch.acks:
            raise RequestRejected(ResponseCode.NO_MESSAGE, "the batch acknowledges nothing")
        broker = request.batch.broker_name or request.broker_name or ""
        receipts = [self._receipt(each, broker) for each in request.batch.acks]
        await self._acks.acknowledge_all([receipt for receipt in receipts if receipt.offsets])

    def _receipt(self, ack: BatchAck, broker: str) -> Receipt:
        kind = RetryKind(int(ack.retry)) if ack.retry in ("1", "2") else RetryKind.NORMAL
        topic = kind.topic(ack.topic, ack.consumer_group)
        handle = ReceiptHandle(
            start_offset=ack.start_offset,
            pop_ms=ack.pop_time,
            invisible_ms=ack.invisible_time,
            revive_queue_id=ack.revive_queue_id,
            retry=kind,
            broker=broker,
            queue_id=ack.queue_id,
        )
        end = self._store.max_offset(topic, ack.queue_id)
        offsets = [at for at in ack.offsets() if at < end]
        return Receipt(topic, ack.consumer_group, handle, offsets)

    @handles(ChangeInvisibleTime)
    async def hide(self, request: ChangeInvisibleTime, call: Call) -> ChangeInvisibleTimeReply:
        handle = _handle(request.extra_info)
        group = request.consumer_group
        topic = self.checked(request.topic, group, handle, request.queue_id, request.offset)
        pop_ms, invisible_ms = await self._acks.hide(
            topic, group, handle, request.offset, request.invisible_time
        )
        return ChangeInvisibleTimeReply(
            pop_time=pop_ms, invisible_time=invisible_ms, revive_qid=handle.revive_queue_id
        )

    def _check(self, name: str, queue_id: int, offset: int) -> None:
        topic = known_topic(self._topic_provider, name)
        if not 0 <= queue_id < topic.read_queues:
            raise _illegal_queue(ResponseCode.MESSAGE_ILLEGAL, topic, queue_id)
        first = self._store.min_offset(name, queue_id)
        end = self._store.max_offset(name, queue_id)
        if not first <= offset < end:
            raise RequestRejected(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{name}@{queue_id}, commit:{offset}, store:{first}~{end}",
            )


def known_topic(topic_provider: TopicProvider, name: str) -> TopicSettings:
    """A topic that is there.

    Raises:
        RequestRejected: It is not.
    """
    topic = topic_provider.known(name)
    if topic is None:
        raise RequestRejected(
            ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!"
        )
    return topic


def _illegal_queue(code: ResponseCode, topic: TopicSettings, queue_id: int) -> RequestRejected:
    return RequestRejected(
        code,
        f"queueId[{queue_id}] is illegal, topic:[{topic.name}] "
        f"topicConfig.readQueueNums:[{topic.read_queues}]",
    )


def _check_consuming(group: GroupSettings) -> None:
    if not group.consume_enable:
        raise RequestRejected(
            ResponseCode.NO_PERMISSION,
            f"subscription group no permission, {group.name}: consumeEnable",
        )


def _one(queue_id: int) -> int | None:
    return None if queue_id < 0 else queue_id


def _popped_topic(topic: str, group: str, handle: ReceiptHandle) -> str:
    """The topic that a message was popped from.

    Clients name it themselves, but for those that do not know the second form of retry topics.
    """
    return topic if is_retry_topic(topic) else handle.retry.topic(topic, group)


def _handle(text: str) -> ReceiptHandle:
    try:
        return ReceiptHandle.parse(text)
    except InvalidName as error:
        raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error


def _check_queue(handle: ReceiptHandle, queue_id: int) -> None:
    if handle.queue_id != queue_id:
        raise RequestRejected(
            ResponseCode.NO_MESSAGE,
            f"the receipt handle is of queue {handle.queue_id}, the request of queue {queue_id}",
        )


def _reply(code: ResponseCode, popped: Popped, request: PopMessage) -> PopMessageReply:
    return PopMessageReply(
        code=code,
        pop_time=popped.pop_ms,
        invisible_time=request.invisible_time,
        revive_qid=popped.revive_queue,
        rest_num=popped.rest,
        start_offset_info=write_start_offsets(popped.starts),
        msg_offset_info=write_message_offsets(popped.taken),
        order_count_info=write_order_counts(popped.order_counts) if request.order else None,
        messages=b"".join(popped.chunks),
        remark=_REMARKS.get(code),
    )
