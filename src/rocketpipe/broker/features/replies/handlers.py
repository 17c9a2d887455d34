"""Replies: handed at once to the producer that waits for them, and kept as messages too.

    the reply topic is another cluster's     29
    too busy, or not open yet                2, 14 or 1
    a body that is empty or too long         13
    nobody named, gone, or does not take it  1, with the reason

A reply that reached nobody is kept all the same, where replies are kept: its sender hears that it
was in vain, and whoever looks into the reply topic finds it.
"""

from __future__ import annotations

import logging
from typing import Final, cast

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.intake.intake import Intake, Stored
from rocketpipe.broker.intake.sent_properties import BrokerProperties
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.clock import Clock
from rocketpipe.errors import PropertiesError, RequestRejected, RocketPipeError
from rocketpipe.model import properties
from rocketpipe.model.flags import BORN_HOST_V6, TRANSACTION_BITS
from rocketpipe.model.names import reply_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.callbacks import PushReplyMessage
from rocketpipe.protocol.requests.sending import SendMessageReply, SendReply
from rocketpipe.record.layout import HOST_BITS
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.log.puts import Put

log = logging.getLogger(__name__)

#: How long a producer may take to say that it has its reply; as RocketMQ's brokers wait.
PUSH_TIMEOUT_MS: Final = 10_000
#: What an answer has for an id where nothing was kept: Java's clients take no other.
NO_ID: Final = "0"

_unkept = LogBudget()


class ReplyHandlers:
    """Pushes replies to producers."""

    def __init__(
        self,
        config: BrokerConfig,
        address: str,
        intake: Intake,
        connected: ClientTable,
        stamp: BrokerProperties,
        clock: Clock,
    ) -> None:
        """``address`` is this broker's, as replies name it."""
        self._config = config
        self._address = address
        self._intake = intake
        self._connected = connected
        self._stamp = stamp
        self._clock = clock
        self._topic = reply_topic(config.cluster)

    @handles(SendReply)
    async def reply(self, request: SendReply, call: Call) -> SendMessageReply:
        self._intake.admit()
        self._check(request)
        try:
            await self._push(request, call)
            in_vain = None
        except RequestRejected as error:
            in_vain = error
        stored = await self._keep(request, call)
        if in_vain is not None:
            raise in_vain
        return SendMessageReply(
            msg_id=self._intake.ids(stored) if stored is not None else NO_ID,
            queue_id=0,
            queue_offset=stored.first_offset if stored is not None else QueueOffset(0),
            region=self._stamp.region,
            trace_on=self._stamp.trace_on,
        )

    def _check(self, request: SendReply) -> None:
        if request.topic != self._topic:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"replies go to {self._topic} here, not to {request.topic[:255]}: ask a broker of "
                "the cluster that the question's CLUSTER names",
            )
        if not 0 < len(request.body) <= self._config.max_message_bytes:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a reply of {len(request.body)} bytes: 1 to {self._config.max_message_bytes}",
            )

    async def _push(self, request: SendReply, call: Call) -> None:
        """Hand it to whoever asked.

        Raises:
            RequestRejected: If that is nobody, or does not take it.
        """
        named = properties.decode(request.properties)
        asker = named.get(properties.REPLY_TO_CLIENT)
        if asker is None:
            raise _in_vain(f"reply message properties[{properties.REPLY_TO_CLIENT}] is null")
        called = self._connected.producers_called(asker)
        if not called:
            raise _in_vain(f"push reply message fail, channel of <{asker[:255]}> not found.")
        client = called[0]
        if any(each.by_name != client.by_name for each in called):
            # Whose it is cannot be told, and who only says to be the asker is not to read it.
            raise _in_vain(f"push reply message fail, several users say to be <{asker[:255]}>.")
        now_ms = self._clock.now_ms()
        pushed = properties.edited(
            request.properties.encode("utf-8", "replace"), {properties.PUSH_REPLY_TIME: str(now_ms)}
        )
        push = PushReplyMessage(
            producer_group=request.producer_group,
            topic=request.topic,
            default_topic=request.default_topic,
            default_topic_queue_nums=request.default_topic_queue_nums,
            queue_id=request.queue_id,
            sys_flag=request.sys_flag,
            born_timestamp=request.born_timestamp,
            flag=request.flag,
            properties=pushed.decode("utf-8", "replace"),
            reconsume_times=request.reconsume_times,
            unit_mode=request.unit_mode,
            born_host=call.peer.address,
            store_host=self._address,
            store_timestamp=now_ms,
            body=request.body,
        )
        peer = cast("PeerConnection", client.connection)
        try:
            if peer.is_slow:
                raise _in_vain("it does not take what was written to it before")
            await peer.call(push, PUSH_TIMEOUT_MS)
        except RocketPipeError as error:
            raise _in_vain(f"push reply message to {asker[:255]} fail: {error}") from error

    async def _keep(self, request: SendReply, call: Call) -> Stored | None:
        if not self._config.store_replies:
            return None
        raw = request.properties.encode("utf-8", "replace")
        new_key = None
        if properties.UNIQ_KEY not in properties.decode(request.properties):
            new_key = self._stamp.new_key()
        born_host = call.peer.packed_host
        sys_flag = request.sys_flag & ~(HOST_BITS | TRANSACTION_BITS)
        try:
            put = Put(
                topic=self._topic,
                queue_id=0,
                body=request.body,
                properties=self._stamp.stamped(raw, new_key),
                flag=request.flag,
                sys_flag=sys_flag | (BORN_HOST_V6 if len(born_host) > 8 else 0),
                born_ms=request.born_timestamp,
                born_host=born_host,
            )
            return await self._intake.take([put], wait=False)
        except (RequestRejected, PropertiesError) as error:
            # Whoever asked has the reply, or never will: that it was not kept changes neither.
            if _unkept.allows():
                log.warning(
                    "reply not kept peer=%s reason=%s%s",
                    call.peer.address,
                    error,
                    _unkept.suppressed(),
                )
            return None


def _in_vain(reason: str) -> RequestRejected:
    return RequestRejected(ResponseCode.SYSTEM_ERROR, reason)
