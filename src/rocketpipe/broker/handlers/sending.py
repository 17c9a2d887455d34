"""Answers to sends: the message is checked, placed in a queue and stored.

Provisional: delay levels, transactions and retry limits are refused rather than ignored.
"""

from __future__ import annotations

import random
from typing import Final

from rocketpipe.broker.config import BrokerConfig
from rocketpipe.broker.delivery.durability import Durability
from rocketpipe.broker.registration import Registrar
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import InvalidName, RecordError, RequestRejected, StoreError
from rocketpipe.model import properties
from rocketpipe.model.flags import BORN_HOST_V6
from rocketpipe.model.host import Host
from rocketpipe.model.ids import offset_id
from rocketpipe.model.names import check_sendable, check_topic
from rocketpipe.model.offsets import LogOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageReply
from rocketpipe.record.batch import decode_batch
from rocketpipe.record.layout import (
    HOST_BITS,
    MAX_BODY_BYTES,
    MAX_PROPERTIES_BYTES,
)
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.errors import RecordTooLarge
from rocketpipe.store.message_store import MessageStore, Put

_NOT_YET: Final = (properties.DELAY, properties.TRANSACTION_PREPARED)


class SendHandlers:
    """Stores what producers send."""

    def __init__(
        self,
        store: MessageStore,
        durability: Durability,
        topics: TopicTable,
        registrar: Registrar,
        config: BrokerConfig,
        store_host: bytes,
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._store = store
        self._durability = durability
        self._topics = topics
        self._registrar = registrar
        self._config = config
        self._store_host = store_host
        self._clock = clock
        self._chance = chance

    @handles(SendMessage)
    async def send(self, request: SendMessage, call: Call) -> SendMessageReply:
        topic = await self._topic(request)
        queue_id = self._queue_id(request, topic)
        born_host = Host.parse(call.peer.address)
        # The sender cannot know how wide the hosts in the record are.
        sys_flag = request.sys_flag & ~HOST_BITS | (BORN_HOST_V6 if born_host.is_v6 else 0)
        puts = [
            Put(
                topic=request.topic,
                queue_id=queue_id,
                body=body,
                properties=text,
                flag=flag,
                sys_flag=sys_flag,
                born_ms=request.born_timestamp,
                born_host=born_host.pack(),
                reconsume_times=request.reconsume_times,
            )
            for body, text, flag in self._messages(request)
        ]
        try:
            (placed,) = self._store.append([puts])
            end = LogOffset(placed[-1].log_offset + placed[-1].size)
            synced = await self._durability.settled(end, wait=_waits(request))
        except (RecordError, RecordTooLarge) as error:
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from error
        except StoreError as error:
            raise RequestRejected(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from error
        ids = (offset_id(self._store_host, each.log_offset) for each in placed)
        return SendMessageReply(
            code=ResponseCode.SUCCESS if synced else ResponseCode.FLUSH_DISK_TIMEOUT,
            msg_id=",".join(ids),
            queue_id=queue_id,
            queue_offset=placed[0].queue_offset,
            transaction_id=_unique_key(request),
            region=self._config.region,
            trace_on=True,
        )

    async def _topic(self, request: SendMessage) -> TopicSettings:
        try:
            check_topic(request.topic)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        try:
            check_sendable(request.topic)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.NO_PERMISSION, str(error)) from error
        found = self._topics.get(request.topic)
        if found is not None:
            return found
        created = self._topics.create_for_send(
            request.topic,
            like=request.default_topic,
            queues=request.default_topic_queue_nums,
            now_ms=self._clock.now_ms(),
        )
        if created is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{request.topic}] not exist, and a send does not create it here",
            )
        # A consumer that starts after this send must find the route: it looks again in 30 s only.
        await self._registrar.register()
        return created

    def _queue_id(self, request: SendMessage, topic: TopicSettings) -> int:
        if request.queue_id < 0:
            return self._chance.randrange(topic.write_queues)
        if request.queue_id >= max(topic.write_queues, topic.read_queues):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{request.queue_id}] is illegal, topic [{request.topic}] has "
                f"{topic.write_queues} queues to write",
            )
        return request.queue_id

    def _messages(self, request: SendMessage) -> list[tuple[bytes, bytes, int]]:
        """Body, property text and flag of each message that the request carries."""
        if len(request.body) > MAX_BODY_BYTES:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the message body is {len(request.body)} bytes, {MAX_BODY_BYTES} are the most",
            )
        if not request.batch:
            messages = [(request.body, request.properties.encode(), request.flag)]
        else:
            try:
                messages = [
                    (entry.body, entry.raw_properties, entry.flag)
                    for entry in decode_batch(request.body)
                ]
            except RecordError as error:
                raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from error
            if not messages:
                raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, "the batch is empty")
        return [(body, self._stored_properties(text), flag) for body, text, flag in messages]

    def _stored_properties(self, text: bytes) -> bytes:
        """The property text as it is kept: what the sender gave, and what the broker adds."""
        given = properties.decode(text.decode(errors="replace"))
        for name in _NOT_YET:
            if name in given:
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR, f"this broker does not serve {name} messages yet"
                )
        if text and not text.endswith(b"\x02"):
            text += b"\x02"
        added = properties.encode(
            {
                properties.MSG_REGION: self._config.region,
                properties.TRACE_ON: "true",
                properties.CLUSTER: self._config.cluster,
            }
        )
        text += added.encode()
        if len(text) > MAX_PROPERTIES_BYTES:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the properties are {len(text)} bytes, {MAX_PROPERTIES_BYTES} are the most",
            )
        return text


def _waits(request: SendMessage) -> bool:
    """Whether the sender wants to hear of the sync, where the broker syncs before it answers."""
    return properties.decode(request.properties).get(properties.WAIT) != "false"


def _unique_key(request: SendMessage) -> str | None:
    return properties.decode(request.properties).get(properties.UNIQ_KEY)
