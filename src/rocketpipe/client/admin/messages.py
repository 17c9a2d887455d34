"""Single messages, found by id, by key or by place."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable, Iterator
from typing import Final

from rocketpipe.client.admin.fleet import Fleet, NoBroker, each
from rocketpipe.client.admin.traces import MessageTrace, traces_of
from rocketpipe.client.consumer.received import ReceivedMessage, received
from rocketpipe.errors import AccessDenied, RecordError, RequestRejected, RocketPipeError
from rocketpipe.model.ids import OffsetId
from rocketpipe.model.names import TRACE_TOPIC, check_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.properties import split_keys
from rocketpipe.model.route import MessageQueue, TopicRoute
from rocketpipe.model.trace import TraceRecord
from rocketpipe.model.trace import decode as decode_trace
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.lookups import QueryMessage, ViewMessageById
from rocketpipe.protocol.requests.offsets import SearchOffsetByTimestamp
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.remoting.accepting import address_text
from rocketpipe.remoting.caller import split_address

log = logging.getLogger(__name__)

#: A broker gives no more messages of one key than these.
MAX_FOUND: Final = 64

_END_OF_TIME_MS: Final = (1 << 63) - 1
#: A key's hash may be another's too, so a few more are asked for than are wanted.
_SPARE: Final = 8


class NoMessage(RocketPipeError):
    """No message has this id, or stands at this place; it may have been removed with age."""

    def __init__(self, what: str, remark: str) -> None:
        super().__init__(f"no message {what}: {remark}")
        self.remark = remark


class MessageAdmin:
    """Finds messages, whoever consumed them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def by_id(self, offset_id: str) -> ReceivedMessage:
        """The message that an offset id points at: ``SendResult.offset_id``, ``message.offset_id``.

        Raises:
            InvalidName: If it is no offset id.
            NoMessage: If nothing is there (any more).
            NoBroker: If it names an address that no broker of the cluster has: whoever made up an
                id does not choose whom this client connects to.
            ConnectionLost: If the broker that it names is out of reach.
        """
        place = OffsetId.parse(offset_id)
        name, address = await self._broker_at(str(place.host))
        try:
            reply = await self._fleet.call(address, ViewMessageById(offset=place.log_offset))
        except AccessDenied:
            raise
        except RequestRejected as error:
            raise NoMessage(offset_id, error.remark) from error
        (found,) = _with_queues([RecordView(reply.message)], name)
        return found

    async def by_unique_key(self, topic: str, key: str) -> list[ReceivedMessage]:
        """The messages that a producer gave this id: one, or more if it was sent more than once.

        Raises:
            NoRoute: If no NameServer knows the topic.
            ConnectionLost: If a broker is out of reach.
        """
        request = QueryMessage(
            topic=topic,
            key=key,
            max_num=MAX_FOUND,
            begin_timestamp=0,
            end_timestamp=_END_OF_TIME_MS,
            unique_key=True,
        )
        found = await self._query(request)
        return [message for message in found if message.message_id == key]

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = _END_OF_TIME_MS,
        limit: int = 32,
    ) -> list[ReceivedMessage]:
        """Messages with this key that were stored within a span of time, the newest first.

        Raises:
            ValueError: If ``limit`` is below 1 or above ``MAX_FOUND``.
            NoRoute: If no NameServer knows the topic.
            ConnectionLost: If a broker is out of reach.
        """
        if not 1 <= limit <= MAX_FOUND:
            raise ValueError(f"limit is from 1 to {MAX_FOUND}, not {limit}")
        request = QueryMessage(
            topic=topic,
            key=key,
            max_num=min(limit + _SPARE, MAX_FOUND),
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
        )
        found = await self._query(request)
        return [message for message in found if key in message.keys][:limit]

    async def trace(self, key: str, *, topic: str = TRACE_TOPIC) -> list[MessageTrace]:
        """What clients told of a message, by its id, or of all messages with one of their keys.

        Clients tell only where they are asked to: ``Producer(…, trace=True)``, and the same of
        ``PushConsumer``. Trace messages that cannot be read are left out.

        Raises:
            NoRoute: If there is no such topic of traces: no client told anything yet.
            ConnectionLost: If a broker is out of reach.
        """
        records: list[TraceRecord] = []
        for message in await self.by_key(topic, key, limit=MAX_FOUND):
            try:
                records += decode_trace(message.body.decode("utf-8", "replace"))
            except RecordError as error:
                log.warning("trace message not read message=%r reason=%s", message, error)
        return [
            trace
            for trace in traces_of(reversed(records))
            if key == trace.message_id or any(key in split_keys(said) for said in trace.keys)
        ]

    async def at(self, queue: MessageQueue, offset: QueueOffset) -> ReceivedMessage:
        """The message at one offset of a queue.

        Raises:
            NoRoute: If no NameServer knows the topic, or the broker has no leader.
            NoMessage: If nothing is there: the reason says what the queue has.
            ConnectionLost: If the broker is out of reach.
        """
        session = self._fleet.session
        route = await session.routes.get(queue.topic)
        reply = await self._fleet.pull(
            session.reader_of(queue, route=route),
            queue.topic,
            queue.queue_id,
            offset,
            broker=queue.broker_name,
            most=1,
        )
        for message in received(reply.messages, queue):
            if message.queue_offset == offset:
                return message
        raise NoMessage(
            f"at {offset} of queue {queue.queue_id} of {queue.topic!r} at {queue.broker_name!r}",
            f"it has offsets from {reply.min_offset} up to {reply.max_offset}",
        )

    async def at_time(self, queue: MessageQueue, at_ms: int) -> ReceivedMessage:
        """The first message of a queue that was stored at a moment or later.

        Raises:
            NoRoute: If no NameServer knows the topic, or the broker has no leader.
            NoMessage: If none was stored since.
            ConnectionLost: If the broker is out of reach.
        """
        session = self._fleet.session
        route = await session.routes.get(queue.topic)
        request = SearchOffsetByTimestamp(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=at_ms,
            broker_name=queue.broker_name,
        )
        reply = await self._fleet.call(session.leader_of(queue, route), request)
        found = await self.at(queue, reply.offset)
        if found.stored_ms < at_ms:
            raise NoMessage(f"since {at_ms}", f"the last was stored at {found.stored_ms}")
        return found

    async def _query(self, request: QueryMessage) -> list[ReceivedMessage]:
        check_topic(request.topic)
        route = await self._fleet.session.routes.get(request.topic)
        addresses = _readable(route)

        async def ask(name: str) -> list[ReceivedMessage]:
            try:
                reply = await self._fleet.call(addresses[name], request)
            except RequestRejected as error:
                if error.code != ResponseCode.QUERY_NOT_FOUND:
                    raise
                return []
            return list(_with_queues(view_records(reply.messages), name))

        found = [message for some in (await each(addresses, ask)).values() for message in some]
        return sorted(found, key=lambda message: message.stored_ms, reverse=True)

    async def _broker_at(self, place: str) -> tuple[str, str]:
        """The broker that stores messages under this address, and where it is to be asked."""
        known = await self._fleet.everyone()
        for name, broker in known.brokers.items():
            for address in broker.addresses.values():
                if address == place or place in await _resolved(address):
                    return name, address
        raise NoBroker(
            f"no broker of the cluster is at {place}, which the id names",
            "an id is of the cluster that it came from, and of where its broker was then",
        )


async def _resolved(address: str) -> list[str]:
    """The addresses that a broker's name stands for, as ids have them."""
    host, port = split_address(address)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [address_text(each[4]) for each in found]


def _with_queues(records: Iterable[RecordView], broker_name: str) -> Iterator[ReceivedMessage]:
    for record in records:
        queue = MessageQueue(topic=record.topic, broker_name=broker_name, queue_id=record.queue_id)
        yield ReceivedMessage(record.raw, queue)


def _readable(route: TopicRoute) -> dict[str, str]:
    return {
        broker.broker_name: broker.readable
        for broker in route.brokers
        if broker.readable is not None
    }
