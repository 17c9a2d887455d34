"""What brokers ask of clients, on the connections that clients opened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from rocketpipe.client.members import (
    AnswersChecks,
    ConsumesDirectly,
    Member,
    TakesReplies,
    TakesResets,
    TellsRunning,
)
from rocketpipe.client.stacks import stack_text
from rocketpipe.errors import BodyError, RecordError, RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.properties import PRODUCER_GROUP
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeType
from rocketpipe.protocol.codes import OUR_VERSION, ResponseCode
from rocketpipe.protocol.requests.callbacks import (
    CheckTransactionState,
    NotifyConsumerIdsChanged,
    PushReplyMessage,
    ResetConsumerClientOffset,
    read_reset,
)
from rocketpipe.protocol.requests.clients import ConsumerData
from rocketpipe.protocol.requests.running import (
    ClientOffsets,
    ClientOffsetsReply,
    ConsumeDirectly,
    ConsumeDirectlyReply,
    GetClientOffsets,
    GetRunningInfo,
    RunningInfo,
    RunningInfoReply,
)
from rocketpipe.record.codec import RecordView
from rocketpipe.remoting.router import Call, handles

log = logging.getLogger(__name__)


class CallbackHandlers:
    """Hands what a broker says to the members that it concerns."""

    def __init__(self, members: Callable[[], Iterable[Member]]) -> None:
        self._members = members

    @handles(NotifyConsumerIdsChanged)
    async def ids_changed(self, request: NotifyConsumerIdsChanged, call: Call) -> None:
        group = request.consumer_group
        for member in self._of(group):
            member.on_ids_changed(group)

    @handles(ResetConsumerClientOffset)
    async def reset(self, request: ResetConsumerClientOffset, call: Call) -> None:
        try:
            offsets = read_reset(request.body)
        except BodyError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        ours = {
            queue: offset
            for queue, offset in offsets.items()
            if queue.topic == request.topic and offset >= 0
        }
        log.info(
            "offsets reset peer=%s group=%s topic=%s queues=%d",
            call.peer.address,
            request.group,
            request.topic,
            len(ours),
        )
        for member in self._of(request.group):
            if isinstance(member, TakesResets):
                member.on_offsets_reset(request.group, ours)

    @handles(CheckTransactionState)
    async def check_transaction(self, request: CheckTransactionState, call: Call) -> None:
        try:
            message = RecordView(request.message)
        except RecordError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        group = message.properties.get(PRODUCER_GROUP, "")
        for member in self._members():
            if isinstance(member, AnswersChecks) and group in member.producer_groups():
                member.on_transaction_check(request, message, call.peer.address)
                return
        log.warning(
            "nobody here knows of a transaction peer=%s group=%s message=%s",
            call.peer.address,
            group,
            message.message_id,
        )

    @handles(GetClientOffsets)
    async def offsets(self, request: GetClientOffsets, call: Call) -> ClientOffsetsReply:
        found: dict[MessageQueue, QueueOffset] = {}
        for member in self._of(request.group):
            if isinstance(member, TellsRunning):
                found.update(member.places(request.group, request.topic))
        return ClientOffsetsReply(place=ClientOffsets(offsets=found))

    @handles(GetRunningInfo)
    async def running_info(self, request: GetRunningInfo, call: Call) -> RunningInfoReply:
        group, stacks = request.consumer_group, bool(request.jstack_enable)
        members = self._of(group)
        for member in members:
            if isinstance(member, TellsRunning):
                return RunningInfoReply(info=member.running_info(group, stacks=stacks))
        for member in members:
            for consumer in member.consumers():
                if consumer.group_name == group:
                    return RunningInfoReply(info=_as_heartbeats_say(consumer, stacks=stacks))
        raise _not_here(group)

    @handles(ConsumeDirectly)
    async def consume_directly(self, request: ConsumeDirectly, call: Call) -> ConsumeDirectlyReply:
        for member in self._of(request.consumer_group):
            if isinstance(member, ConsumesDirectly):
                try:
                    result = await member.consume_directly(request.message, request.of_broker or "")
                except RecordError as error:
                    raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
                return ConsumeDirectlyReply(result=result)
        raise _not_here(request.consumer_group)

    @handles(PushReplyMessage)
    async def reply(self, request: PushReplyMessage, call: Call) -> None:
        try:
            for member in self._members():
                if isinstance(member, TakesReplies) and member.on_reply(request):
                    return
        except RecordError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        raise RequestRejected(
            ResponseCode.SYSTEM_ERROR, "nobody waits for this reply: it came too late, or twice"
        )

    def _of(self, group: str) -> list[Member]:
        return [
            member
            for member in self._members()
            if any(consumer.group_name == group for consumer in member.consumers())
        ]


def _as_heartbeats_say(consumer: ConsumerData, *, stacks: bool) -> RunningInfo:
    """What is known of a consumer that has no more to tell: what it wants, and how it gets it."""
    since_ms = min((wanted.version for wanted in consumer.subscriptions), default=0)
    return RunningInfo(
        properties={
            "PROP_CONSUME_TYPE": consumer.consume_type or ConsumeType.CONSUME_ACTIVELY,
            "PROP_CLIENT_VERSION": OUR_VERSION.name,
            # RocketMQ's tools read it as a number, and have no use for a consumer without.
            "PROP_CONSUMER_START_TIMESTAMP": str(since_ms),
        },
        subscriptions=consumer.subscriptions,
        stacks=stack_text() if stacks else None,
    )


def _not_here(group: str) -> RequestRejected:
    return RequestRejected(
        ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer"
    )
