"""Questions that a producer sends as messages, and the replies that come back to it.

    producer  send, with CORRELATION_ID, REPLY_TO_CLIENT and TTL      → a topic
    consumer  ``reply``, to the broker that the question came from    → SEND_REPLY_MESSAGE
    broker    finds the client among its producers                    → PUSH_REPLY_MESSAGE_TO_CLIENT
    producer  hands the reply to whoever asked

A reply is for the process that asked, and for no other: what comes too late is refused, and its
sender hears so.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from rocketpipe.client.producer.sending.in_flight import InFlight
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.client.session import Session
from rocketpipe.clock import in_time
from rocketpipe.errors import CallTimeout, MessageRefused, PropertiesError, RocketPipeError
from rocketpipe.model import properties
from rocketpipe.model.flags import with_compression
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.requests.callbacks import PushReplyMessage
from rocketpipe.record.compression import inflate

log = logging.getLogger(__name__)

MAX_OPEN: Final = 4096
_NOWHERE: Final = Host.parse("0.0.0.0:0")


class OpenRequests:
    """The questions of one producer that wait for their replies; so many at most."""

    def __init__(self, session: Session, in_flight: InFlight, *, max_open: int = MAX_OPEN) -> None:
        self._session = session
        self._in_flight = in_flight
        self._max_open = max_open
        self._open: dict[str, asyncio.Future[StoredMessage]] = {}

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def opened(self, out: Outgoing, timeout_ms: int) -> Iterator[asyncio.Future[StoredMessage]]:
        """Make a question of a message, for the length of the block; gives where its reply will be.

        Raises:
            MessageRefused: If too many wait already.
            PropertiesError: If its properties leave no room for a question's.
        """
        if len(self._open) >= self._max_open:
            reason = f"{len(self._open)} questions wait for their replies already"
            raise MessageRefused(out.topic, reason, "wait for some of them, or ask less")
        session = self._session
        chance = session.chance.getrandbits(128)
        correlation_id = str(uuid.UUID(int=chance, version=4))
        out.properties += properties.encode(
            {
                properties.CORRELATION_ID: correlation_id,
                properties.REPLY_TO_CLIENT: session.client_id,
                properties.TTL: str(timeout_ms),
            }
        )
        size = len(out.properties.encode())
        if size > properties.MAX_BYTES:
            raise PropertiesError(f"properties of {size} bytes, more than {properties.MAX_BYTES}")
        out.size = len(out.body) + size
        reply: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()
        self._open[correlation_id] = reply
        deadline_ms = session.clock.monotonic_ms() + timeout_ms
        late = f"question {out.message_id}"
        self._in_flight.watch(reply, deadline_ms, CallTimeout, out.topic, late, timeout_ms)
        try:
            yield reply
        finally:
            del self._open[correlation_id]
            self._in_flight.unwatch(reply)
            if not reply.cancel() and not reply.cancelled():
                reply.exception()  # the send failed first, and that is what the caller hears

    async def introduce(self, topic: str, timeout_ms: int) -> None:
        """Have the brokers of a topic that is new here know this client, before one replies to it.

        Raises:
            NoRoute: If nobody takes messages of this topic.
            ConnectionLost: If no NameServer can be reached.
            CallTimeout: If all this takes too long.
        """
        session = self._session
        if session.routes.remembered(topic) is not None:
            return
        late = partial(
            CallTimeout, str(session.name_servers), f"the route of {topic!r}", timeout_ms
        )
        await in_time(session.clock, timeout_ms, self._introduce(topic), late)

    async def _introduce(self, topic: str) -> None:
        routes = self._session.routes
        route = await routes.get_for_send(topic)
        if routes.remembered(topic) is not route:
            # The topic is still to be made: those who would make it are told.
            await routes.get(AUTO_CREATE_TOPIC)
        await self._session.beat()

    def take(self, pushed: PushReplyMessage) -> bool:
        """Hand a reply to whoever asked; False if nobody here waits for it.

        Raises:
            CompressionError: If its body cannot be read.
        """
        named = properties.decode(pushed.properties)
        waiting = self._open.get(named.get(properties.CORRELATION_ID, ""))
        if waiting is None or waiting.done():
            return False
        waiting.set_result(read_reply_message(pushed, self._session.clock.now_ms()))
        return True


def read_reply_message(pushed: PushReplyMessage, now_ms: int) -> StoredMessage:
    """The message that a broker pushes, with its body as it was before it was compressed.

    Raises:
        CompressionError: If its body cannot be read.
    """
    raw = pushed.properties.encode("utf-8", "replace")
    return StoredMessage(
        topic=pushed.topic,
        body=inflate(pushed.body, pushed.sys_flag),
        raw_properties=properties.edited(raw, {properties.ARRIVE_TIME: str(now_ms)}),
        queue_id=pushed.queue_id,
        queue_offset=QueueOffset(0),
        log_offset=LogOffset(0),
        flag=pushed.flag,
        sys_flag=with_compression(pushed.sys_flag, None),
        born_ms=pushed.born_timestamp,
        born_host=_host(pushed.born_host),
        stored_ms=pushed.store_timestamp,
        store_host=_host(pushed.store_host),
        reconsume_times=pushed.reconsume_times,
    )


def _host(text: str) -> Host:
    try:
        return Host.parse(text)
    except (RocketPipeError, ValueError):
        return _NOWHERE  # some peers write a name, or nothing: it is not what was asked for
