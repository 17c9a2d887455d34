"""AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: what became of messages."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from rocketpipe.clock import Clock
from rocketpipe.errors import InvalidName, RequestRejected, RocketPipeError
from rocketpipe.model.ids import ReceiptHandle
from rocketpipe.model.message import Readable
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.popping import AckMessage
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.calls import RpcCall
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.receipts import Receipts, hide
from rocketpipe.proxy.status import Refused, ok, status_of
from rocketpipe.proxy.translation.names import group_name, topic_name
from rocketpipe.proxy.translation.times import ms_of
from rocketpipe.proxy.v2 import messaging_pb2 as pb

#: In one request.
MOST_ENTRIES: Final = 4096
_AT_ONCE: Final = 64
#: By which a broker says that a receipt is of no message that is out.
_UNKNOWN: Final = frozenset(
    {ResponseCode.NO_MESSAGE, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.INVALID_PARAMETER}
)
_STRAIGHT_TO_THE_DEAD: Final = -1


class Handling:
    """Takes receipts back."""

    def __init__(
        self, backend: Backend, config: ProxyConfig, clock: Clock, receipts: Receipts
    ) -> None:
        self._backend = backend
        self._config = config
        self._clock = clock
        self._receipts = receipts
        #: What goes on after its call is over.
        self._afterwards: set[asyncio.Task[None]] = set()

    async def acknowledge(
        self, request: pb.AckMessageRequest, call: RpcCall
    ) -> pb.AckMessageResponse:
        """Be done with messages; each has a status of its own.

        Raises:
            Refused: The topic, the group or the number of entries is wrong.
        """
        topic = topic_name(request.topic, call.namespace)
        group = group_name(request.group, call.namespace)
        if not request.entries:
            raise Refused(pb.BAD_REQUEST, "no entry to acknowledge")
        if len(request.entries) > MOST_ENTRIES:
            raise Refused(
                pb.PAYLOAD_TOO_LARGE,
                f"{len(request.entries)} entries, {MOST_ENTRIES} are the most",
            )
        results: list[pb.AckMessageResultEntry] = []
        entries = list(request.entries)
        for at in range(0, len(entries), _AT_ONCE):
            some = entries[at : at + _AT_ONCE]
            results += await asyncio.gather(
                *(self._acknowledge(topic, group, entry, call) for entry in some)
            )
        first = results[0].status
        if any(each.status.code != first.code for each in results):
            first = pb.Status(code=pb.MULTIPLE_RESULTS, message="see each entry")
        return pb.AckMessageResponse(status=first, entries=results)

    async def change(
        self, request: pb.ChangeInvisibleDurationRequest, call: RpcCall
    ) -> pb.ChangeInvisibleDurationResponse:
        """Hide a message for so long from now on; gives its next handle.

        Raises:
            Refused: The duration or the handle is wrong.
        """
        topic = topic_name(request.topic, call.namespace)
        group = group_name(request.group, call.namespace)
        _refuse_lite(request)
        invisible_ms = ms_of(request.invisible_duration)
        if not 0 <= invisible_ms <= self._config.max_invisible_ms:
            raise Refused(
                pb.ILLEGAL_INVISIBLE_TIME,
                f"invisible_duration is {invisible_ms} ms: "
                f"it goes from 0 to {self._config.max_invisible_ms}",
            )
        given = request.receipt_handle
        handle = self._handle(call, group, given)
        after = await self.hide(
            call, topic=topic, group=group, handle=handle, invisible_ms=invisible_ms
        )
        self._receipts.release(call.session, group, given)
        return pb.ChangeInvisibleDurationResponse(status=ok(), receipt_handle=str(after))

    async def forward(
        self, request: pb.ForwardMessageToDeadLetterQueueRequest, call: RpcCall
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        """Put a message to its group's dead letters.

        Raises:
            Refused: The handle is wrong.
        """
        topic = topic_name(request.topic, call.namespace)
        group = group_name(request.group, call.namespace)
        _refuse_lite(request)
        given = request.receipt_handle
        handle = self._handle(call, group, given)
        if handle.log_offset is None:
            raise Refused(
                pb.INVALID_RECEIPT_HANDLE, "the handle does not say where its message is stored"
            )
        await self.to_dead_letters(call, topic=topic, group=group, handle=handle)
        self._receipts.release(call.session, group, given)
        return pb.ForwardMessageToDeadLetterQueueResponse(status=ok())

    # What others do with it as well

    async def to_dead_letters(
        self,
        call: RpcCall,
        *,
        topic: str,
        group: str,
        handle: ReceiptHandle,
        message: Readable | None = None,
    ) -> None:
        """Store a message among the dead letters, and then acknowledge it.

        Raises:
            RequestRejected, CallTimeout, ConnectionLost: The broker did not.
        """
        assert handle.log_offset is not None
        back = SendMessageBack(
            offset=LogOffset(handle.log_offset),
            group=group,
            delay_level=_STRAIGHT_TO_THE_DEAD,
            origin_msg_id=None if message is None else message.message_id,
            origin_topic=topic,
            max_reconsume_times=0,
            broker_name=handle.broker,
        )
        await self._backend.ask(handle.broker, back, call.session, call.by, self._config.timeout_ms)
        await self._ack(call, topic, group, handle)

    async def hide(
        self, call: RpcCall, *, topic: str, group: str, handle: ReceiptHandle, invisible_ms: int
    ) -> ReceiptHandle:
        """Have a message come again in so many milliseconds.

        Raises:
            Refused: It is not out under this handle.
        """
        try:
            return await hide(
                self._backend,
                call.session,
                call.by,
                topic=topic,
                group=group,
                handle=handle,
                invisible_ms=invisible_ms,
                timeout_ms=self._config.timeout_ms,
            )
        except RequestRejected as error:
            raise _expired(error) from error

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done though its call is over."""
        task = asyncio.ensure_future(work)
        self._afterwards.add(task)
        task.add_done_callback(self._afterwards.discard)

    async def finish(self) -> None:
        """Wait for what goes on."""
        if self._afterwards:
            await asyncio.wait(self._afterwards, timeout=self._config.timeout_ms / 1000)

    # Inside

    async def _acknowledge(
        self, topic: str, group: str, entry: pb.AckMessageEntry, call: RpcCall
    ) -> pb.AckMessageResultEntry:
        given = entry.receipt_handle
        try:
            _refuse_lite(entry)
            handle = self._handle(call, group, given)
            await self._ack(call, topic, group, handle)
            self._receipts.release(call.session, group, given)
            status = ok()
        except RocketPipeError as error:
            status = status_of(error, "AckMessage")
        return pb.AckMessageResultEntry(
            message_id=entry.message_id, receipt_handle=given, status=status
        )

    async def _ack(self, call: RpcCall, topic: str, group: str, handle: ReceiptHandle) -> None:
        asked = AckMessage(
            consumer_group=group,
            topic=handle.retry.topic(topic, group),
            queue_id=handle.queue_id,
            extra_info=str(handle),
            offset=QueueOffset(handle.queue_offset or 0),
            broker_name=handle.broker,
        )
        try:
            await self._backend.ask(
                handle.broker, asked, call.session, call.by, self._config.timeout_ms
            )
        except RequestRejected as error:
            raise _expired(error) from error

    def _handle(self, call: RpcCall, group: str, given: str) -> ReceiptHandle:
        """The handle that is good now.

        Raises:
            Refused: It is none, or its time is over.
        """
        renewed = self._receipts.current(call.session, group, given)
        if renewed is not None:
            return renewed
        try:
            handle = ReceiptHandle.parse(given)
        except InvalidName as error:
            raise Refused(pb.INVALID_RECEIPT_HANDLE, str(error)) from error
        if handle.queue_offset is None:
            raise Refused(pb.INVALID_RECEIPT_HANDLE, "the handle does not name a message")
        if handle.visible_at_ms <= self._clock.now_ms():
            raise Refused(
                pb.INVALID_RECEIPT_HANDLE,
                "the handle has expired: the message comes again, hide it for longer next time",
            )
        return handle


def _expired(error: RequestRejected) -> RocketPipeError:
    if error.code not in _UNKNOWN:
        return error
    return Refused(pb.INVALID_RECEIPT_HANDLE, error.remark)


def _refuse_lite(request: Any) -> None:
    if request.HasField("lite_topic"):
        raise Refused(pb.UNSUPPORTED, "lite topics are not served")
