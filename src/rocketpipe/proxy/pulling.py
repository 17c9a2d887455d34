"""PullMessage and the offsets: a queue read by its numbers, as consumers of the other protocol do.

RocketMQ's own proxy does not serve these; its protocol has them, and a client may call them.
"""

from __future__ import annotations

from typing import Final

from rocketpipe.errors import RequestRejected
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.offsets import (
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.calls import RpcCall
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.receiving import readable
from rocketpipe.proxy.rpc.call import Call
from rocketpipe.proxy.slow_readers import SlowReaders
from rocketpipe.proxy.status import Refused, ok
from rocketpipe.proxy.translation.incoming import stored
from rocketpipe.proxy.translation.names import group_name, topic_name
from rocketpipe.proxy.translation.settings import expression_of
from rocketpipe.proxy.translation.times import ms_of
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.record.codec import view_records

_MOST_QUEUES: Final = 1 << 16


class Pulling:
    """Answers pulls, and where groups and queues are."""

    def __init__(self, backend: Backend, config: ProxyConfig, readers: SlowReaders) -> None:
        self._readers = readers
        self._backend = backend
        self._config = config

    async def pull(self, request: pb.PullMessageRequest, call: RpcCall, answer: Call) -> None:
        """Answer one pull on its stream: a status, the messages, and where to go on.

        Raises:
            Refused, RocketPipeError: It is not served; nothing was written.
        """
        self._readers.check_room()
        topic, broker, queue_id = _queue(request.message_queue, call)
        if request.offset < 0:
            raise Refused(pb.ILLEGAL_OFFSET, f"offset {request.offset}: they count from 0")
        if request.batch_size < 1:
            raise Refused(pb.BAD_REQUEST, f"batch_size is {request.batch_size}: ask for at least 1")
        kind, expression = expression_of(request.filter_expression)
        wait_ms = min(max(ms_of(request.long_polling_timeout), 0), self._config.max_polling_ms)
        if call.remaining_ms is not None:
            wait_ms = min(wait_ms, max(call.remaining_ms - self._config.timeout_ms // 2, 0))
        flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_ms else PullFlag(0))
        asked = PullMessage(
            consumer_group=group_name(request.group, call.namespace),
            topic=topic,
            queue_id=queue_id,
            queue_offset=QueueOffset(request.offset),
            max_msg_nums=min(request.batch_size, self._config.max_batch),
            sys_flag=int(flags),
            commit_offset=QueueOffset(0),
            suspend_timeout_millis=wait_ms,
            subscription=expression,
            sub_version=0,
            expression_type=kind,
            broker_name=broker,
        )
        reply = await self._backend.ask(
            broker, asked, call.session, call.by, wait_ms + self._config.timeout_ms
        )
        status = ok()
        if reply.code == ResponseCode.PULL_OFFSET_MOVED:
            status = pb.Status(
                code=pb.ILLEGAL_OFFSET,
                message=f"the queue has offsets from {reply.min_offset} to {reply.max_offset}: "
                f"go on at {reply.next_begin_offset}",
            )
        elif reply.code != ResponseCode.SUCCESS:
            status = pb.Status(code=pb.MESSAGE_NOT_FOUND, message="no new message")
        await answer.write(pb.PullMessageResponse(status=status))
        for record in view_records(reply.messages):
            message = await readable(record, stored, request.message_queue.topic)
            if message is None:
                continue
            await answer.write(pb.PullMessageResponse(message=message))
        await answer.write(pb.PullMessageResponse(next_offset=reply.next_begin_offset))

    async def update(
        self, request: pb.UpdateOffsetRequest, call: RpcCall
    ) -> pb.UpdateOffsetResponse:
        """Record how far a group has come.

        Raises:
            Refused: The offset is none.
        """
        topic, broker, queue_id = _queue(request.message_queue, call)
        if request.offset < 0:
            raise Refused(pb.ILLEGAL_OFFSET, f"offset {request.offset}: they count from 0")
        asked = UpdateConsumerOffset(
            consumer_group=group_name(request.group, call.namespace),
            topic=topic,
            queue_id=queue_id,
            commit_offset=QueueOffset(request.offset),
            broker_name=broker,
        )
        await self._backend.ask(broker, asked, call.session, call.by, self._config.timeout_ms)
        return pb.UpdateOffsetResponse(status=ok())

    async def get(self, request: pb.GetOffsetRequest, call: RpcCall) -> pb.GetOffsetResponse:
        """How far a group has come.

        Raises:
            Refused: It has no offset there.
        """
        topic, broker, queue_id = _queue(request.message_queue, call)
        asked = QueryConsumerOffset(
            consumer_group=group_name(request.group, call.namespace),
            topic=topic,
            queue_id=queue_id,
            set_zero_if_not_found=False,
            broker_name=broker,
        )
        try:
            offset = await self._offset(asked, broker, call)
        except RequestRejected as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                raise Refused(pb.OFFSET_NOT_FOUND, error.remark) from error
            raise
        return pb.GetOffsetResponse(status=ok(), offset=offset)

    async def query(self, request: pb.QueryOffsetRequest, call: RpcCall) -> pb.QueryOffsetResponse:
        """Where a queue begins, ends, or was at a moment.

        Raises:
            Refused: The policy is none.
        """
        topic, broker, queue_id = _queue(request.message_queue, call)
        policy = request.query_offset_policy
        asked: Request[OffsetReply]
        if policy == pb.BEGINNING:
            asked = GetMinOffset(topic=topic, queue_id=queue_id, broker_name=broker)
        elif policy == pb.END:
            asked = GetMaxOffset(topic=topic, queue_id=queue_id, broker_name=broker)
        elif policy == pb.TIMESTAMP and request.HasField("timestamp"):
            asked = SearchOffsetByTimestamp(
                topic=topic,
                queue_id=queue_id,
                timestamp=ms_of(request.timestamp),
                broker_name=broker,
            )
        else:
            raise Refused(pb.BAD_REQUEST, "BEGINNING, END, or TIMESTAMP with a timestamp")
        return pb.QueryOffsetResponse(status=ok(), offset=await self._offset(asked, broker, call))

    async def _offset(self, asked: Request[OffsetReply], broker: str, call: RpcCall) -> int:
        reply = await self._backend.ask(
            broker, asked, call.session, call.by, self._config.timeout_ms
        )
        return reply.offset


def _queue(queue: pb.MessageQueue, call: RpcCall) -> tuple[str, str, int]:
    """Topic, broker and number of one queue."""
    topic = topic_name(queue.topic, call.namespace)
    if not queue.broker.name:
        raise Refused(
            pb.BAD_REQUEST, "message_queue.broker.name is missing: name the queue's broker"
        )
    if not 0 <= queue.id < _MOST_QUEUES:
        raise Refused(pb.BAD_REQUEST, f"{queue.id} is no number of a queue")
    return topic, queue.broker.name, queue.id
