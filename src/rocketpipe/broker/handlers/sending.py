"""Answers to sends: the message is checked, given its place and stored.

The checks come in the order in which RocketMQ 5 makes them, so that a send that is wrong in two
ways is refused for the same one:

    too busy, or not open yet          2, 14 or 1
    the broker is read-only            16, if the topic is one in order
    the topic's name                   29; 16 for those that only brokers write
    the topic is not there             17, if a send does not make it
    the queue is not there             29
    the group of a retry topic is not  26
    transactions                       16 where they are switched off
    not what the topic is for          13, by its message.type
    too far in the future              13
    too long, or illegal               13; so also what leaves no room for what comes later
"""

from __future__ import annotations

from typing import Final

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.delivery.deferral import Deferral
from rocketpipe.broker.delivery.retry import Retries, explained
from rocketpipe.broker.intake.half_messages import half_of
from rocketpipe.broker.intake.intake import Intake
from rocketpipe.broker.intake.open_transaction_limit import OpenTransactionLimit
from rocketpipe.broker.intake.sent_properties import BrokerProperties, SendOptions, waits
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.errors import InvalidName, RecordError, RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.flags import BORN_HOST_V6, INNER_BATCH, MULTI_TAGS, TRANSACTION_BITS
from rocketpipe.model.host import Host
from rocketpipe.model.ids import RecallHandle
from rocketpipe.model.names import (
    MAX_TOPIC,
    NOT_SENDABLE,
    TIMER_TOPIC,
    check_topic,
    group_of_retry,
    is_retry_topic,
)
from rocketpipe.model.topic import (
    CLEANUP_POLICY,
    MESSAGE_TYPE,
    MessageType,
    Perm,
    TopicFilterType,
    TopicSettings,
)
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageBack, SendMessageReply
from rocketpipe.record.batch import decode_batch
from rocketpipe.record.layout import HOST_BITS
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.log.puts import Put

#: Topics of these types take what others do not.
_ANY_TYPE: Final = (MessageType.MIXED, MessageType.UNSPECIFIED)
_IN_ORDER_OR_NOT: Final = {MessageType.FIFO.value: MessageType.NORMAL.value}
#: Queues that a retry topic gets when the first to name it is a send.
_RETRY_QUEUES: Final = 1


class SendHandlers:
    """Stores what producers send, and what consumers send back."""

    def __init__(
        self,
        config: BrokerConfig,
        intake: Intake,
        topic_provider: TopicProvider,
        stamp: BrokerProperties,
        deferral: Deferral,
        retries: Retries,
        transaction_limit: OpenTransactionLimit,
    ) -> None:
        self._config = config
        self._intake = intake
        self._topic_provider = topic_provider
        self._stamp = stamp
        self._deferral = deferral
        self._retries = retries
        self._transaction_limit = transaction_limit

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings from now on."""
        self._config = config

    @handles(SendMessage)
    async def send(self, request: SendMessage, call: Call) -> SendMessageReply:
        self._intake.admit()
        topic = await self._topic(request)
        queue_id = self._queue_id(request, topic)
        given = properties.decode(request.properties)
        if request.batch:
            puts = self._batch(request, call, topic, queue_id)
            # The key of the batch itself; its messages have their own.
            unique_key = given.get(properties.UNIQ_KEY)
        else:
            wishes = SendOptions.of(given)
            unique_key = wishes.unique_key or self._stamp.new_key()
            puts = [await self._single(request, call, topic, queue_id, wishes, unique_key)]
        stored = await self._intake.send(puts, wait=waits(given))
        return SendMessageReply(
            code=stored.code,
            msg_id=self._intake.ids(stored),
            queue_id=queue_id,
            queue_offset=stored.first_offset,
            transaction_id=unique_key,
            recall_handle=self._recall_handle(puts[0], unique_key),
            region=self._stamp.region,
            trace_on=self._stamp.trace_on,
        )

    def _recall_handle(self, put: Put, unique_key: str | None) -> str | None:
        """What takes a message back that waits for its moment."""
        if put.topic != TIMER_TOPIC or unique_key is None:
            return None
        said = properties.decode_bytes(put.properties)
        topic, out_ms = said.get(properties.REAL_TOPIC), said.get(properties.TIMER_OUT_MS, "")
        if topic is None or is_retry_topic(topic) or not (out_ms.isascii() and out_ms.isdigit()):
            return None
        handle = RecallHandle(
            topic=topic,
            broker=self._config.name,
            # A millisecond more: rounded down, it is the second that the message waits for.
            deliver_ms=int(out_ms) + 1,
            unique_key=unique_key,
        )
        return str(handle)

    @handles(SendMessageBack)
    async def send_back(self, request: SendMessageBack, call: Call) -> None:
        self._intake.admit()
        group = self._topic_provider.group(request.group)
        if not self._config.permission & Perm.WRITE:
            raise self._read_only()
        if group.retry_queues <= 0:
            return  # this group does not want anything twice
        put = await self._retries.sent_back(request, group, call.command.version)
        # The consumer moves on with the answer: from then on this copy is all there is.
        await self._intake.send([put], wait=True)

    # Where it goes

    async def _topic(self, request: SendMessage) -> TopicSettings:
        name = request.topic
        found = self._topic_provider.known(name)
        if found is not None and found.ordered and not self._config.permission & Perm.WRITE:
            raise self._read_only()
        try:
            check_topic(name)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        if name in NOT_SENDABLE:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"Sending message to topic[{name}] is forbidden: only brokers write to it",
            )
        if is_retry_topic(name):
            return await self._topic_provider.ensured(name, queues=_RETRY_QUEUES)
        return await self._topic_provider.for_send(
            name, like=request.default_topic, queues=request.default_topic_queue_nums
        )

    def _read_only(self) -> RequestRejected:
        return RequestRejected(
            ResponseCode.NO_PERMISSION,
            f"the broker[{self._config.name}] sending message is forbidden: its brokerPermission "
            f"is {self._config.permission}",
        )

    def _queue_id(self, request: SendMessage, topic: TopicSettings) -> int:
        if request.queue_id < 0:
            return self._topic_provider.any_queue(topic.write_queues)
        if request.queue_id >= max(topic.write_queues, topic.read_queues):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{request.queue_id}] is illegal, topic [{request.topic}] has "
                f"{topic.write_queues} queues to write",
            )
        return request.queue_id

    # What is stored

    async def _single(
        self,
        request: SendMessage,
        call: Call,
        topic: TopicSettings,
        queue_id: int,
        wishes: SendOptions,
        unique_key: str,
    ) -> Put:
        given_up = self._given_up(request, call)
        check_keys(topic, wishes)
        is_half = self._is_half(wishes, given_up is None, request.reconsume_times)
        check_type(self._config, topic, wishes, is_half=is_half)
        self._check_body(request.body)
        text = self._stamp.stamped(
            request.properties.encode("utf-8", "replace"),
            None if wishes.unique_key else unique_key,
        )
        put = self._put(request, call, topic, queue_id, request.body, text, request.flag)
        if given_up:
            put = await self._dead_letter(put, given_up)
        elif is_half:
            self._transaction_limit.check()
            if wishes.waits:
                self._deferral.parked(put)  # or only its commit would find that it cannot wait so
            put = half_of(put, unique_key, request.producer_group)
        elif wishes.waits:
            put = self._deferral.parked(put)
        retried = is_retry_topic(topic.name)
        if retried:
            put = self._intake.room.fitted(put, grouped=True) or put
        self._intake.room.check(put, retried=retried)
        return put

    def _batch(
        self, request: SendMessage, call: Call, topic: TopicSettings, queue_id: int
    ) -> list[Put]:
        if len(topic.name) > MAX_TOPIC:
            raise _illegal(f"message topic length too long {len(topic.name)}")
        if is_retry_topic(topic.name):
            raise _illegal(f"batch request does not support retry group {topic.name}")
        self._check_body(request.body)
        try:
            entries = list(decode_batch(request.body, max_bytes=self._config.max_message_bytes))
        except RecordError as error:
            raise _illegal(str(error)) from error
        puts = []
        for entry in entries:
            wishes = SendOptions.of(properties.decode_bytes(entry.raw_properties))
            check_keys(topic, wishes)
            if wishes.delay_level > 0:
                raise _illegal("a message of a batch may have no DELAY: send it on its own")
            if wishes.timer is not None:
                raise _illegal(f"a message of a batch may have no {wishes.timer}: send it alone")
            if wishes.is_half:
                raise _illegal("a message of a batch may not be a half one: send it alone")
            check_type(self._config, topic, wishes)
            new_key = None if wishes.unique_key else self._stamp.new_key()
            text = self._stamp.stamped(entry.raw_properties, new_key)
            put = self._put(request, call, topic, queue_id, entry.body, text, entry.flag)
            self._intake.room.check(put)
            puts.append(put)
        return puts

    def _put(
        self,
        request: SendMessage,
        call: Call,
        topic: TopicSettings,
        queue_id: int,
        body: bytes,
        text: bytes,
        flag: int,
    ) -> Put:
        if request.sys_flag & INNER_BATCH:
            raise _illegal(
                "sysFlag says inner batch, and topics of queue.type BatchCQ are not served"
            )
        born_host = Host.parse(call.peer.address)
        # The sender cannot know how wide the hosts in the record are, and what makes a message a
        # half one is its property: with the bit alone it would never show.
        sys_flag = request.sys_flag & ~(HOST_BITS | TRANSACTION_BITS)
        if born_host.is_v6:
            sys_flag |= BORN_HOST_V6
        if topic.filter_type is TopicFilterType.MULTI_TAG:
            sys_flag |= MULTI_TAGS
        return Put(
            topic=topic.name,
            queue_id=queue_id,
            body=body,
            properties=text,
            flag=flag,
            sys_flag=sys_flag,
            born_ms=request.born_timestamp,
            born_host=born_host.pack(),
            reconsume_times=request.reconsume_times,
        )

    # Retries

    def _given_up(self, request: SendMessage, call: Call) -> str | None:
        """Why a send to a retry topic is a dead letter, if it is one."""
        if not is_retry_topic(request.topic):
            return None
        group = self._topic_provider.group(group_of_retry(request.topic))
        return self._retries.gives_up(
            group, request.reconsume_times, request.max_reconsume_times, call.command.version
        )

    async def _dead_letter(self, put: Put, reason: str) -> Put:
        topic = await self._retries.dead_letters(group_of_retry(put.topic))
        given = properties.decode_bytes(put.properties)
        text = properties.edited(put.properties, {properties.DELAY: "-1"})
        put = explained(
            put._replace(topic=topic.name, queue_id=0, properties=text),
            reason,
            topic=given.get(properties.RETRY_TOPIC),
            message_id=given.get(properties.ORIGIN_MESSAGE_ID),
        )
        return self._intake.room.fitted(put, grouped=True, arrived=True) or put

    # Checks of what was sent

    def _is_half(self, wishes: SendOptions, may_wait: bool, reconsume_times: int) -> bool:
        # Clients before 4.6.1 leave the mark in what they send to be consumed again.
        delayed = may_wait and wishes.delay_level > 0
        if not wishes.is_half or (reconsume_times > 0 and delayed):
            return False
        if self._config.reject_transactions:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._config.name}] sending transaction message is forbidden",
            )
        return True

    def _check_body(self, body: bytes) -> None:
        most = self._config.max_message_bytes
        if len(body) > most:
            raise _illegal(f"the message body is {len(body)} bytes, {most} are the most")


def check_type(
    config: BrokerConfig, topic: TopicSettings, wishes: SendOptions, *, is_half: bool = False
) -> None:
    """Refuse what a topic is not for; one that says nothing of it takes everything.

    Whether a message is one in order is not looked at: of Java's clients, which choose its
    queue by themselves, nobody could tell.

    Raises:
        RequestRejected: It is not for this.
    """
    wanted = topic.attributes.get(MESSAGE_TYPE)
    if wanted is None or not config.check_message_types or is_retry_topic(topic.name):
        return
    actual = MessageType.NORMAL
    if is_half:
        actual = MessageType.TRANSACTION
    elif wishes.waits:
        actual = MessageType.DELAY
    if _IN_ORDER_OR_NOT.get(wanted, wanted) not in (actual, *_ANY_TYPE):
        raise _illegal(
            f"TopicMessageType validate failed, the expected type is {wanted}, but actual type "
            f"is {actual.value}: send it to a topic of that message.type, or to one without"
        )


def check_keys(topic: TopicSettings, wishes: SendOptions) -> None:
    """Refuse a message without a key where a topic keeps the last of each.

    Raises:
        RequestRejected: It has none.
    """
    if topic.attributes.get(CLEANUP_POLICY) == "COMPACTION" and not (wishes.keys or "").strip():
        raise _illegal("Required message key is missing")


def _illegal(remark: str) -> RequestRejected:
    return RequestRejected(ResponseCode.MESSAGE_ILLEGAL, remark)
