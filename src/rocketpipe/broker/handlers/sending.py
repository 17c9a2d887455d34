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
from rocketpipe.broker.delivery.retry import Retries, explained
from rocketpipe.broker.delivery.single_sends import (
    Sent,
    SingleSends,
    check_keys,
    check_type,
    illegal,
    plain_put,
)
from rocketpipe.broker.intake.intake import Intake
from rocketpipe.broker.intake.sent_properties import BrokerProperties, SendOptions, waits
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.errors import InvalidName, RecordError, RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.host import Host
from rocketpipe.model.names import (
    MAX_TOPIC,
    NOT_SENDABLE,
    check_topic,
    group_of_retry,
    is_retry_topic,
)
from rocketpipe.model.topic import Perm, TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageBack, SendMessageReply
from rocketpipe.record.batch import decode_batch
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.log.puts import Put

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
        singles: SingleSends,
        retries: Retries,
    ) -> None:
        self._config = config
        self._intake = intake
        self._topic_provider = topic_provider
        self._stamp = stamp
        self._singles = singles
        self._retries = retries

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings from now on."""
        self._config = config
        self._singles.reconfigure(config)

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
            recall_handle=self._singles.recall_handle(puts[0], unique_key),
            region=self._stamp.region,
            trace_on=self._stamp.trace_on,
        )

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
        put = self._singles.put(
            _sent(request, call), topic, queue_id, wishes, unique_key, may_wait=given_up is None
        )
        if given_up:
            put = await self._dead_letter(put, given_up)
        retried = is_retry_topic(topic.name)
        if retried:
            put = self._intake.room.fitted(put, grouped=True) or put
        self._intake.room.check(put, retried=retried)
        return put

    def _batch(
        self, request: SendMessage, call: Call, topic: TopicSettings, queue_id: int
    ) -> list[Put]:
        if len(topic.name) > MAX_TOPIC:
            raise illegal(f"message topic length too long {len(topic.name)}")
        if is_retry_topic(topic.name):
            raise illegal(f"batch request does not support retry group {topic.name}")
        self._singles.check_body(request.body)
        try:
            entries = list(decode_batch(request.body, max_bytes=self._config.max_message_bytes))
        except RecordError as error:
            raise illegal(str(error)) from error
        puts = []
        sent = _sent(request, call)
        for entry in entries:
            wishes = SendOptions.of(properties.decode_bytes(entry.raw_properties))
            check_keys(topic, wishes)
            if wishes.delay_level > 0:
                raise illegal("a message of a batch may have no DELAY: send it on its own")
            if wishes.timer is not None:
                raise illegal(f"a message of a batch may have no {wishes.timer}: send it alone")
            if wishes.is_half:
                raise illegal("a message of a batch may not be a half one: send it alone")
            check_type(self._config, topic, wishes)
            new_key = None if wishes.unique_key else self._stamp.new_key()
            text = self._stamp.stamped(entry.raw_properties, new_key)
            put = plain_put(sent._replace(body=entry.body, flag=entry.flag), topic, queue_id, text)
            self._intake.room.check(put)
            puts.append(put)
        return puts

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


def _sent(request: SendMessage, call: Call) -> Sent:
    return Sent(
        body=request.body,
        properties=request.properties,
        flag=request.flag,
        sys_flag=request.sys_flag,
        born_ms=request.born_timestamp,
        born_host=Host.parse(call.peer.address).pack(),
        reconsume_times=request.reconsume_times,
        producer_group=request.producer_group,
    )
