"""Sends messages.

Provisional: one attempt a send, no compression, no automatic batches.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from rocketpipe.client.producer.queue_choice import RoundRobin
from rocketpipe.client.routes import NEW_TOPIC_QUEUES
from rocketpipe.client.session import Session
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.errors import NoRoute, RocketPipeError
from rocketpipe.model import properties as well_known
from rocketpipe.model.ids import UniqueKeys
from rocketpipe.model.message import Message
from rocketpipe.model.names import AUTO_CREATE_TOPIC, check_producer_group, check_sendable
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.sending import SendMessage

SEND_TIMEOUT_MS: Final = 3000
_LOOPBACK: Final = bytes([127, 0, 0, 1])


@dataclass(frozen=True, slots=True)
class SendResult:
    """Where a message went."""

    #: The id that the producer gave it; consumers see the same.
    message_id: str
    queue: MessageQueue
    queue_offset: QueueOffset
    #: Whether the broker has it as safe as it is set to; None when it could not say in time.
    durable: bool | None


class Producer:
    """Sends to any topic: ``async with Producer("127.0.0.1:9876") as producer``."""

    def __init__(
        self,
        name_servers: str,
        *,
        group: str = "rocketpipe-producer",
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        check_producer_group(group)
        self._group = group
        self._clock = clock or SystemClock()
        chance = chance or random.Random()  # noqa: S311 - it spreads load, it guards nothing
        self._session = Session(name_servers)
        self._choice = RoundRobin(chance)
        self._keys = UniqueKeys(_LOOPBACK, os.getpid(), chance.getrandbits(32))

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.__aexit__(kind, error, trace)

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        timeout_ms: int = SEND_TIMEOUT_MS,
    ) -> SendResult:
        """Send one message and wait until the broker has stored it.

        Raises:
            InvalidName: If no topic may have this name, or only brokers write to it.
            PropertiesError: If a tag, key or property could not be read back.
            NoRoute: If no broker takes the topic.
            RequestRejected: If the broker refuses the message.
            ConnectionLost: If the broker, or every NameServer, is out of reach.
            CallTimeout: If no answer came in time; the message may be stored.
        """
        message = Message(topic, body, tags=tags, keys=keys, properties=properties or {})
        check_sendable(topic)
        route = await self._session.routes.get_for_send(topic)
        queues = route.writable_queues(topic)
        if not queues:
            raise NoRoute(topic, "its route", "none of its queues may be written now")
        queue = self._choice.next(topic, queues)
        message_id = self._keys.next(self._clock.now_ms())
        request = self._request(message, message_id, queue)
        address = self._session.leader_of(queue, route)
        try:
            reply = await self._session.caller.call(address, request, timeout_ms)
        except RocketPipeError:
            self._session.routes.forget(topic)
            raise
        return SendResult(
            message_id,
            queue,
            reply.queue_offset,
            durable=True if reply.code == ResponseCode.SUCCESS else None,
        )

    def _request(self, message: Message, message_id: str, queue: MessageQueue) -> SendMessage:
        named = message.all_properties()
        named[well_known.UNIQ_KEY] = message_id
        return SendMessage(
            producer_group=self._group,
            topic=message.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=NEW_TOPIC_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=self._clock.now_ms(),
            flag=message.flag,
            properties=well_known.encode(named),
            broker_name=queue.broker_name,
            body=message.body,
        )
