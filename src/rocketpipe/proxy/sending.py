"""SendMessage and RecallMessage: from a gRPC request to sends that brokers answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from rocketpipe.clock import Clock
from rocketpipe.errors import BatchError, InvalidName, RocketPipeError
from rocketpipe.model import properties as well_known
from rocketpipe.model.ids import OffsetId, RecallHandle
from rocketpipe.model.names import AUTO_CREATE_TOPIC, is_dlq_topic, is_retry_topic
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.topic import MessageType
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.sending import RecallMessage, SendMessage, SendMessageReply
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.calls import RpcCall
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.queues import Queues
from rocketpipe.proxy.status import Refused, code_of, ok, status_of
from rocketpipe.proxy.translation.names import topic_name
from rocketpipe.proxy.translation.outgoing import Outgoing, outgoing
from rocketpipe.proxy.translation.transaction_id import TransactionId
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.record.batch import encode_batch

#: In one request; the size of it is bounded as well.
MOST_MESSAGES: Final = 1024
_ANY_TYPE: Final = (MessageType.MIXED, MessageType.UNSPECIFIED)
_TOGETHER: Final = (MessageType.NORMAL, MessageType.FIFO)


class Sending:
    """Answers sends and recalls."""

    def __init__(self, backend: Backend, config: ProxyConfig, clock: Clock) -> None:
        self._backend = backend
        self._config = config
        self._clock = clock
        self._queues = Queues()

    async def send(self, request: pb.SendMessageRequest, call: RpcCall) -> pb.SendMessageResponse:
        """Store the messages of a request.

        Raises:
            Refused: One of them is not allowed; then none is stored.
        """
        topic = self._topic(request.messages, call)
        sent = [await self._outgoing(message) for message in request.messages]
        await self._check_types(topic, sent)
        route = await self._backend.route(topic, call.by)
        queues = route.writable_queues(topic)
        if not queues:
            raise Refused(pb.FORBIDDEN, f"topic {topic} has no queue that may be written")
        if len(sent) > 1 and _go_together(sent):
            entries = await self._send_batch(topic, sent, queues, call)
        else:
            entries = [await self._send_one(topic, each, queues, call) for each in sent]
        return pb.SendMessageResponse(status=_summary(entries), entries=entries)

    async def recall(
        self, request: pb.RecallMessageRequest, call: RpcCall
    ) -> pb.RecallMessageResponse:
        """Take back a delayed message.

        Raises:
            Refused: The handle is none, or the topic is not for delayed messages.
        """
        topic = topic_name(request.topic, call.namespace)
        try:
            handle = RecallHandle.parse(request.recall_handle)
        except InvalidName as error:
            raise Refused(pb.BAD_REQUEST, str(error)) from error
        settings = await self._backend.topic(topic)
        if (
            settings is not None
            and self._backend.checks_message_types
            and settings.message_type not in (MessageType.DELAY, *_ANY_TYPE)
        ):
            raise Refused(
                pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"topic {topic} is for {settings.message_type.value}: only delayed messages are "
                "recalled",
            )
        asked = RecallMessage(
            topic=topic,
            recall_handle=request.recall_handle,
            producer_group=topic,
            broker_name=handle.broker,
        )
        reply = await self._backend.ask(
            handle.broker, asked, call.session, call.by, self._config.timeout_ms
        )
        return pb.RecallMessageResponse(status=ok(), message_id=reply.msg_id)

    async def _outgoing(self, message: pb.Message) -> Outgoing:
        translate = partial(
            outgoing, message, self._config, self._backend.max_body_bytes, self._clock.now_ms()
        )
        if message.system_properties.body_encoding == pb.GZIP:
            return await asyncio.to_thread(
                translate
            )  # it is inflated, maybe a thousandfold, and made anew
        return translate()

    def _topic(self, messages: Sequence[pb.Message], call: RpcCall) -> str:
        if not messages:
            raise Refused(pb.BAD_REQUEST, "no message to send")
        if len(messages) > MOST_MESSAGES:
            raise Refused(
                pb.PAYLOAD_TOO_LARGE, f"{len(messages)} messages, {MOST_MESSAGES} are the most"
            )
        topic = topic_name(messages[0].topic, call.namespace)
        if any(topic_name(each.topic, call.namespace) != topic for each in messages[1:]):
            raise Refused(pb.MESSAGE_CORRUPTED, "messages of one send are for one topic")
        return topic

    async def _check_types(self, topic: str, sent: Sequence[Outgoing]) -> None:
        if not self._backend.checks_message_types or is_retry_topic(topic) or is_dlq_topic(topic):
            return
        settings = await self._backend.topic(topic)
        if settings is None or settings.message_type in _ANY_TYPE:
            return
        for each in sent:
            if each.kind is not settings.message_type:
                raise Refused(
                    pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                    f"topic {topic} is for {settings.message_type.value}, the message is "
                    f"{each.kind.value}: set the topic's message.type, or use another",
                )

    async def _send_one(
        self, topic: str, sent: Outgoing, queues: Sequence[MessageQueue], call: RpcCall
    ) -> pb.SendResultEntry:
        queue = self._queues.choose(topic, queues, sent.group)
        request = SendMessage(
            producer_group=topic,
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=8,
            queue_id=queue.queue_id,
            sys_flag=sent.sys_flag,
            born_timestamp=sent.born_ms,
            flag=0,
            properties=sent.properties,
            body=sent.body,
            broker_name=queue.broker_name,
        )
        try:
            reply = await self._ask(queue, request, call)
        except RocketPipeError as error:
            return pb.SendResultEntry(
                status=status_of(error, "SendMessage"), message_id=sent.message_id
            )
        entry = _entry(sent, reply, reply.queue_offset)
        if sent.kind is MessageType.TRANSACTION:
            entry.transaction_id = str(
                TransactionId(
                    unique_key=sent.message_id,
                    broker=queue.broker_name,
                    queue_offset=reply.queue_offset,
                    log_offset=OffsetId.parse(reply.msg_id).log_offset,
                )
            )
        return entry

    async def _send_batch(
        self,
        topic: str,
        sent: Sequence[Outgoing],
        queues: Sequence[MessageQueue],
        call: RpcCall,
    ) -> list[pb.SendResultEntry]:
        queue = self._queues.choose(topic, queues, sent[0].group)
        try:
            body = encode_batch(
                ((0, each.body, each.properties.encode()) for each in sent),
                max_bytes=self._backend.max_body_bytes,
            )
        except BatchError as error:
            raise Refused(pb.PAYLOAD_TOO_LARGE, f"{error}: send fewer at a time") from error
        request = SendMessage(
            producer_group=topic,
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=8,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=sent[0].born_ms,
            flag=0,
            properties=well_known.encode({well_known.UNIQ_KEY: sent[0].message_id}),
            batch=True,
            body=body,
            broker_name=queue.broker_name,
        )
        try:
            reply = await self._ask(queue, request, call)
        except RocketPipeError as error:
            status = status_of(error, "SendMessage")
            return [pb.SendResultEntry(status=status, message_id=each.message_id) for each in sent]
        return [_entry(each, reply, reply.queue_offset + at) for at, each in enumerate(sent)]

    async def _ask(
        self, queue: MessageQueue, request: SendMessage, call: RpcCall
    ) -> SendMessageReply:
        timeout_ms = self._config.timeout_ms
        if call.remaining_ms is not None:
            timeout_ms = min(timeout_ms, max(call.remaining_ms, 1))
        return await self._backend.ask(
            queue.broker_name, request, call.session, call.by, timeout_ms
        )


def _go_together(sent: Sequence[Outgoing]) -> bool:
    """Whether messages may be one batch of one queue."""
    group = sent[0].group
    return all(
        each.kind in _TOGETHER and each.group == group and not each.sys_flag for each in sent
    )


def _entry(sent: Outgoing, reply: SendMessageReply, offset: int) -> pb.SendResultEntry:
    code = code_of(reply.code)
    message = "OK" if reply.code == ResponseCode.SUCCESS else pb.Code.Name(code)
    return pb.SendResultEntry(
        status=pb.Status(code=code, message=message),
        message_id=sent.message_id,
        transaction_id=reply.transaction_id or "",
        offset=offset,
        recall_handle=reply.recall_handle or "",
    )


def _summary(entries: Sequence[pb.SendResultEntry]) -> pb.Status:
    first = entries[0].status
    if all(entry.status.code == first.code for entry in entries):
        return first
    return pb.Status(code=pb.MULTIPLE_RESULTS, message="some were stored, some not: see each")
