"""ReceiveMessage: a pop of a broker, streamed, for a consumer that may wait for it.

    the answer    one status, then each message, then when they were handed out
    nothing       MESSAGE_NOT_FOUND, which clients take for an empty list
    not taken     what a slow or broken stream did not get shows a second later

A message that was tried as often as its group allows goes to the dead letters and is not told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from rocketpipe.client.consumer.popped import PoppedMessage, popped
from rocketpipe.clock import Clock
from rocketpipe.errors import RecordError, RocketPipeError
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.ids import ReceiptHandle
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.popping import ANY_QUEUE, FROM_MAX, PopMessage
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.calls import RpcCall
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.handling import Handling
from rocketpipe.proxy.receipts import GONE_MS, Held, Receipts
from rocketpipe.proxy.rpc.call import Call
from rocketpipe.proxy.slow_readers import SlowReaders
from rocketpipe.proxy.status import Refused, ok
from rocketpipe.proxy.translation.incoming import received, takes_long
from rocketpipe.proxy.translation.names import group_name, topic_name
from rocketpipe.proxy.translation.settings import expression_of
from rocketpipe.proxy.translation.times import ms_of, set_ms
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.record.codec import RecordView
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

_unreadable = LogBudget()
#: Clients know ILLEGAL_POLLING_TIME since then.
_POLLING_CODE_SINCE: Final = (5, 0, 3)


class Receiving:
    """Hands messages out."""

    def __init__(
        self,
        backend: Backend,
        config: ProxyConfig,
        clock: Clock,
        receipts: Receipts,
        handling: Handling,
        readers: SlowReaders,
    ) -> None:
        self._readers = readers
        self._backend = backend
        self._config = config
        self._clock = clock
        self._receipts = receipts
        self._handling = handling
        self._waiting = 0

    async def receive(self, request: pb.ReceiveMessageRequest, call: RpcCall, told: Call) -> None:
        """Answer one receive on its stream.

        Raises:
            Refused, RocketPipeError: It is not served; nothing was written.
        """
        topic = topic_name(request.message_queue.topic, call.namespace)
        group = await self._backend.group(group_name(request.group, call.namespace))
        if request.auto_renew:
            self._receipts.check_room(self._config.max_batch)
        self._readers.check_room()
        asked = self._pop(request, call, topic, group)
        broker = asked.broker_name or await self._any_broker(topic, call)
        if self._waiting >= self._config.max_waiting_receives:
            raise Refused(pb.TOO_MANY_REQUESTS, "too many receives wait: ask again a little later")
        self._waiting += 1
        try:
            reply = await self._backend.ask(
                broker,
                replace(asked, broker_name=broker),
                call.session,
                call.by,
                asked.poll_time + self._config.timeout_ms,
            )
        finally:
            self._waiting -= 1
        if reply.code == ResponseCode.POLLING_FULL:
            raise Refused(pb.TOO_MANY_REQUESTS, reply.remark or "too many receives wait")
        messages = popped(reply, topic, broker)
        left = await self._without_spent(messages, group, topic, call)
        await self._stream(left, request, call, group, topic, told)

    def _pop(
        self, request: pb.ReceiveMessageRequest, call: RpcCall, topic: str, group: GroupSettings
    ) -> PopMessage:
        if request.batch_size < 1:
            raise Refused(pb.BAD_REQUEST, f"batch_size is {request.batch_size}: ask for at least 1")
        queue = request.message_queue
        if queue.id < ANY_QUEUE:
            raise Refused(pb.BAD_REQUEST, f"queue {queue.id}: -1 is any, others count from 0")
        kind, expression = expression_of(request.filter_expression)
        return PopMessage(
            consumer_group=group.name,
            topic=topic,
            # Of all that its broker has, as at RocketMQ's proxy: clients go round the queues of a
            # route, and would wait at one while messages lie in another.
            queue_id=ANY_QUEUE,
            max_msg_nums=min(request.batch_size, self._config.max_batch),
            invisible_time=self._invisible_ms(request),
            poll_time=self._polling_ms(request, call),
            born_time=0,
            init_mode=FROM_MAX,
            exp_type=kind,
            exp=expression,
            order=group.ordered,
            attempt_id=request.attempt_id or None,
            broker_name=queue.broker.name or None,
        )

    def _invisible_ms(self, request: pb.ReceiveMessageRequest) -> int:
        if request.auto_renew:
            return self._config.renewed_invisible_ms
        asked_ms: int = ms_of(request.invisible_duration)
        least_ms, most_ms = self._config.min_invisible_ms, self._config.max_invisible_ms
        if not least_ms <= asked_ms <= most_ms:
            raise Refused(
                pb.ILLEGAL_INVISIBLE_TIME,
                f"invisible_duration is {asked_ms} ms: it goes from {least_ms} to {most_ms}",
            )
        return asked_ms

    def _polling_ms(self, request: pb.ReceiveMessageRequest, call: RpcCall) -> int:
        """How long to wait for a message: as asked, within bounds, and before the deadline."""
        least_ms, most_ms = self._config.min_polling_ms, self._config.max_polling_ms
        left_ms = call.remaining_ms
        if request.HasField("long_polling_timeout"):
            wait_ms = ms_of(request.long_polling_timeout)
        elif left_ms is not None:
            wait_ms = left_ms - call.session.request_timeout_ms // 2
        else:
            wait_ms = most_ms
        wait_ms = min(max(wait_ms, least_ms), most_ms)
        if left_ms is None or wait_ms <= left_ms:
            return wait_ms
        if left_ms >= least_ms:
            return left_ms
        raise Refused(
            pb.ILLEGAL_POLLING_TIME
            if _version(call.version) >= _POLLING_CODE_SINCE
            else pb.BAD_REQUEST,
            f"the deadline is in {left_ms} ms, and a receive waits {least_ms} at least: give it "
            "more time",
        )

    async def _any_broker(self, topic: str, call: RpcCall) -> str:
        route = await self._backend.route(topic, call.by)
        queues = route.readable_queues(topic)
        if not queues:
            raise Refused(pb.FORBIDDEN, f"no readable queue: topic {topic} may not be read")
        return queues[self._clock.monotonic_ms() % len(queues)].broker_name

    async def _without_spent(
        self, messages: Sequence[PoppedMessage], group: GroupSettings, topic: str, call: RpcCall
    ) -> list[PoppedMessage]:
        """Those that may be tried once more; the others go to the dead letters."""
        left: list[PoppedMessage] = []
        for message in messages:
            if message.reconsume_times + 1 <= group.max_attempts:
                left.append(message)
                continue
            handle = replace(message.handle, log_offset=message.log_offset)
            try:
                await self._handling.to_dead_letters(
                    call, topic=topic, group=group.name, handle=handle, message=message
                )
            except RocketPipeError:
                left.append(message)  # better once too often than never
        return left

    async def _stream(
        self,
        messages: Sequence[PoppedMessage],
        request: pb.ReceiveMessageRequest,
        call: RpcCall,
        group: GroupSettings,
        topic: str,
        answer: Call,
    ) -> None:
        status = ok()
        if not messages:
            status = pb.Status(code=pb.MESSAGE_NOT_FOUND, message="no new message")
        written = 0
        given: list[str] = []

        def give_back() -> None:
            for each in given[written:]:
                self._receipts.release(call.session, group.name, each)
            left = messages[written:]
            # Nobody waits for this: the call is over, or its reader takes nothing.
            self._handling.later(self._give_back(left, topic, group.name, call))

        try:
            await answer.write(pb.ReceiveMessageResponse(status=status))
            for message in messages:
                handle = replace(message.handle, log_offset=message.log_offset)
                translated = await readable(
                    message, received, request.message_queue.topic, str(handle)
                )
                if translated is None:
                    # It comes again in its time, and is a dead letter in the end.
                    written += 1
                    given.append("")
                    continue
                told = pb.ReceiveMessageResponse(message=translated)
                given.append(str(handle))
                if request.auto_renew:
                    self._renew(call, group, topic, handle, message)
                await answer.write(told)
                written += 1
            last = pb.ReceiveMessageResponse()
            set_ms(last.delivery_timestamp, self._clock.now_ms())
            await answer.write(last)
        except BaseException:
            give_back()
            raise

    def _renew(
        self,
        call: RpcCall,
        group: GroupSettings,
        topic: str,
        handle: ReceiptHandle,
        message: PoppedMessage,
    ) -> None:
        now_ms = self._clock.monotonic_ms()
        self._receipts.hold(
            Held(
                session=call.session,
                by=call.by,
                topic=topic,
                group=group.name,
                handle=handle,
                attempts=message.reconsume_times,
                since_ms=now_ms,
                hidden_until_ms=now_ms + handle.invisible_ms,
            ),
            str(handle),
        )

    async def _give_back(
        self, messages: Sequence[PoppedMessage], topic: str, group: str, call: RpcCall
    ) -> None:
        for message in messages:
            try:
                await self._handling.hide(
                    call, topic=topic, group=group, handle=message.handle, invisible_ms=GONE_MS
                )
            except RocketPipeError:
                continue  # it shows when its time is over


async def readable(
    message: RecordView, translate: Callable[..., pb.Message], *more: Any
) -> pb.Message | None:
    """A message as it is told; None if its body is not what it says, which others do not suffer."""
    try:
        if takes_long(message):
            return await asyncio.to_thread(translate, message, *more)
        return translate(message, *more)
    except RecordError as error:
        if _unreadable.allows():
            log.warning(
                "message not told to gRPC clients topic=%s queue=%d offset=%d reason=%s%s",
                message.topic,
                message.queue_id,
                message.queue_offset,
                error,
                _unreadable.suppressed(),
            )
        return None


def _version(text: str) -> tuple[int, ...]:
    """``5.0.7`` or ``5.0.7-SNAPSHOT`` as numbers; nothing for what is none."""
    numbers: list[int] = []
    for part in text.partition("-")[0].split(".")[:4]:
        if not (part.isascii() and part.isdigit() and len(part) < 9):
            break
        numbers.append(int(part))
    return tuple(numbers)
