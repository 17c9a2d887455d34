"""Queues, exchanges and bindings as AMQP has them, in topics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from queue import Empty
from typing import Any, Final, Protocol

from kombu.exceptions import ChannelError
from kombu.transport import base, virtual

from rocketpipe import RocketPipeError
from rocketpipe.integrations.held import Held
from rocketpipe.integrations.kombu.arrivals import Arrivals
from rocketpipe.integrations.kombu.bindings import Binding
from rocketpipe.integrations.kombu.envelope import NotKombus, Payload, read, unpacked, written
from rocketpipe.integrations.kombu.fetching import Fetched, Fetching
from rocketpipe.integrations.kombu.link import Link
from rocketpipe.integrations.kombu.qos import QoS
from rocketpipe.integrations.kombu.routing import fits
from rocketpipe.integrations.kombu.transient import BACKLOG, tag_of_exchange

log = logging.getLogger(__name__)

#: How many messages wait for a consumer that says no limit.
AHEAD: Final = 1000

#: A channel, the queue, the message, and what is held of it; neither, where the queue is of one
#: reader and keeps the message until it is taken.
Arrival = tuple["Channel", str, Payload | None, Held | None]


class Connected(Protocol):
    """A connection, as far as its channels use it."""

    link: Link
    arrivals: Arrivals[Arrival]

    def callback_of(self, queue: str) -> Any: ...


class Channel(virtual.Channel):
    """A channel of a connection: what it consumes from, and what it has in hand."""

    QoS = QoS
    supports_fanout = True
    connection: Connected
    closed: bool

    def __init__(self, connection: Connected, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self.link = connection.link
        self.fetching = Fetching(
            self.link, self._limit, self._room, self._arrived, connection.arrivals.add
        )
        self._without_acks: set[str] = set()
        #: Kombu has one for all channels of a connection, and loses it when one of them cancels.
        self._callbacks: dict[str, Any] = {}
        self._arrivals = connection.arrivals
        #: How many messages stand in line, for which there has to be room as well.
        self._in_line = 0
        self._announced = 0
        self._counting = threading.Lock()
        #: Whose queues of one reader go with this channel.
        self._owner = object()
        #: Queues that go with their last consumer; and those of them that are consumed here.
        self._auto_delete: set[str] = set()
        self._leased: set[str] = set()

    # Queues

    def prepare_queue_arguments(self, arguments: dict[str, Any], **kwargs: Any) -> Any:
        """Names of arguments as RabbitMQ has them."""
        return base.to_rabbitmq_queue_arguments(arguments, **kwargs)

    def _new_queue(
        self,
        queue: str,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        link, arguments = self.link, arguments or {}
        expires_ms = arguments.get("x-expires")
        if exclusive or (auto_delete and expires_ms):
            expires_s = None if expires_ms is None else expires_ms / 1000
            ttl_ms = arguments.get("x-message-ttl")
            link.run(link.transient.declare(queue, self._owner, ttl_ms, expires_s))
            return
        most = int(arguments.get("x-max-priority") or 0)
        steps = [step for step in link.options.priority_steps if step <= most]
        link.run(link.declare(queue, steps))
        if auto_delete:
            self._auto_delete.add(queue)

    def _is_transient(self, queue: str) -> bool:
        return self.link.transient.get(queue) is not None

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return self._is_transient(queue) or bool(self.link.run(self.link.topics_of(queue)))

    def _size(self, queue: str) -> int:
        if found := self.link.transient.get(queue):
            return len(found.backlog)
        return self.link.run(self.link.size(queue))

    def _purge(self, queue: str) -> int:
        if found := self.link.transient.get(queue):
            count = len(found.backlog)
            found.backlog.clear()
            return count
        return self.link.run(self._emptied(queue))

    async def _emptied(self, queue: str) -> int:
        """Acknowledge all that can be received; what is due later, or worked on, stays."""
        link, count = self.link, 0
        while topics := await link.topics_of(queue):
            held = await link.receive(topics, AHEAD, 0)
            if not held:
                break
            count += len(held)
            for each in held:
                link.holding.ack(each)
        return count

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any
    ) -> None:
        """Delete a queue with what is in it."""
        if if_empty and self._size(queue):
            return
        self.state.queue_bindings_delete(queue)
        self._auto_delete.discard(queue)
        link = self.link
        if self._is_transient(queue):
            link.run(link.transient.delete(queue))
        else:
            link.run(link.delete(queue))

    # Exchanges

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Have a queue take what is published to an exchange, by any process."""
        link, exchange, routing_key = self.link, exchange or "amq.direct", routing_key or ""
        kind = self._kind(exchange)
        self.state.binding_declare(queue, exchange, routing_key, arguments)
        if not self._is_transient(queue):
            link.run(link.bindings.add(Binding(exchange, kind, queue, routing_key)))
            return
        link.run(link.transient.bind(queue, exchange, kind, routing_key))
        if kind != "fanout":
            link.run(link.bindings.add(Binding(exchange, kind)))

    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take that back."""
        link, exchange, routing_key = self.link, exchange or "amq.direct", routing_key or ""
        self.state.binding_delete(queue, exchange, routing_key)
        if self._is_transient(queue):
            link.tell(link.transient.unbind, queue, exchange, routing_key)
        else:
            binding = Binding(exchange, self._kind(exchange), queue, routing_key)
            link.run(link.bindings.remove(binding))

    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:
        """Delete an exchange: nothing is bound to it any more."""
        link = self.link
        for binding in link.run(link.bindings.of(exchange)):
            link.run(link.bindings.remove(binding))
        self.state.exchanges.pop(exchange, None)

    def get_table(self, exchange: str) -> list[tuple[str, None, str]]:
        """What is bound to an exchange, of all processes, but for queues of one reader."""
        found = self.link.run(self.link.bindings.of(exchange))
        return [(each.routing_key, None, each.queue) for each in found if each.queue is not None]

    def _kind(self, exchange: str, bindings: Collection[Binding] = ()) -> str:
        if known := self.state.exchanges.get(exchange):
            return str(known["type"])
        return next((binding.kind for binding in bindings), "direct")

    # Publishing

    def basic_publish(
        self, message: Payload, exchange: str, routing_key: str, **kwargs: Any
    ) -> None:
        """Publish to an exchange, or to the queue that the routing key names."""
        routing_key = routing_key or ""
        self._inplace_augment_message(message, exchange, routing_key)
        self.link.run(self._publish(message, exchange, routing_key))

    async def _publish(self, message: Payload, exchange: str, routing_key: str) -> None:
        link = self.link
        if not exchange:
            await link.put(routing_key, message)
            return
        bindings = await link.bindings.of(exchange)
        kind = self._kind(exchange, bindings)
        queues = {
            each.queue
            for each in bindings
            if each.queue is not None and fits(kind, each.routing_key, routing_key)
        }
        for queue in sorted(queues):
            await link.put(queue, message)
        has_readers = kind == "fanout" or any(each.queue is None for each in bindings)
        if not queues and self.deadletter_queue and kind != "fanout":
            await link.declare(self.deadletter_queue, [0])
            await link.put(self.deadletter_queue, message)
        if has_readers or not queues:
            await link.publish(tag_of_exchange(exchange), message)

    def _put(self, queue: str, message: Payload, **kwargs: Any) -> None:
        self.link.run(self.link.put(queue, message))

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[str, str]:
        """Text stays text: a task can be read where messages are shown."""
        return written(body)

    def decode_body(self, body: Any, encoding: str | None = None) -> Any:
        """The body that was encoded."""
        return read(body, encoding)

    # Consuming

    def basic_consume(
        self,
        queue: str,
        no_ack: bool,
        callback: Callable[..., Any],
        consumer_tag: str,
        **kwargs: Any,
    ) -> None:
        """Consume from a queue."""
        is_transient = self._is_transient(queue)
        if is_transient and not no_ack:
            raise ChannelError(
                f"queue {queue!r} is exclusive, or both deleted automatically and expiring: it has "
                "one reader, and nothing to acknowledge. For tasks, declare it without x-expires",
                (60, 20),
                "Channel.basic_consume",
                "403",
            )
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)
        self._callbacks[queue] = self.connection.callback_of(queue)
        if is_transient:
            self.link.tell(self._consume_transient, queue)
            return
        if no_ack:
            self._without_acks.add(queue)
        self.fetching.add(queue)
        if queue in self._auto_delete:
            self._leased.add(queue)
            self.link.run(self.link.leases.take(queue))

    def _consume_transient(self, queue: str) -> None:
        if found := self.link.transient.get(queue):
            found.owners.add(self._owner)
            found.consume(self._announce)

    def _announce(self, queue: str) -> None:
        """Put it in line that a queue has a message; on the loop."""
        if self._announced < BACKLOG:  # it does not keep more
            self._count(announced=1)
            self._arrivals.add((self, queue, None, None))

    def basic_cancel(self, consumer_tag: str) -> None:
        """Consume from a queue no longer."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is None or queue in self._active_queues:
            return
        self._without_acks.discard(queue)
        self._callbacks.pop(queue, None)
        if found := self.link.transient.get(queue):
            self.link.tell(found.cancel)
        else:
            self.fetching.remove(queue)
        self._withdraw(queue)

    def _withdraw(self, queue: str) -> None:
        """Give back what stands in line for a consumer that is gone."""
        left = self._arrivals.withdraw(lambda each: each[0] is self and each[1] == queue)
        held = [each for _, _, _, each in left if each is not None]
        self._count(-len(held), len(held) - len(left))
        self._hand_back(held)

    def _hand_back(self, held: list[Held]) -> None:
        if held:
            try:
                self.link.start(self.link.holding.give_back(held))
            except RocketPipeError as error:
                log.debug("not given back, so that they come again later: %s", error)

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False
    ) -> None:
        """Have no more than so many messages unacknowledged in hand."""
        super().basic_qos(prefetch_size, prefetch_count, apply_global)
        self.fetching.look()

    def _get(self, queue: str, timeout: float | None = None) -> Payload:
        link = self.link
        if found := link.transient.get(queue):
            message = found.next()
            if message is None:
                raise Empty
            message["properties"]["delivery_tag"] = self._next_delivery_tag()
            return message
        held = link.run(self._one(queue))
        if held is None:
            raise Empty
        try:
            message = unpacked(held.message.body)
        except NotKombus as error:
            link.tell(link.holding.let_go, held)
            raise ChannelError(
                f"message {held.message.message_id} of {queue!r}: {error}"
            ) from error
        message["properties"]["delivery_info"]["redelivered"] = held.message.reconsume_times > 0
        message["properties"]["delivery_tag"] = tag = self._next_delivery_tag()
        self.qos.hold(tag, held)
        return message

    async def _one(self, queue: str) -> Held | None:
        topics = await self.link.topics_of(queue)
        found = await self.link.receive(topics, 1, 0) if topics else []
        return found[0] if found else None

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """The next message of a queue; None if there is none now."""
        message = super().basic_get(queue, no_ack, **kwargs)
        if message is not None and no_ack:
            self.qos.release(message.delivery_tag)
        return message

    def _limit(self) -> int:
        return self.qos.prefetch_count or AHEAD

    def _room(self) -> int:
        """How many more messages this channel may be given."""
        in_hand = self.qos.in_hand if self.qos.prefetch_count else 0
        return self._limit() - in_hand - self._in_line

    def _count(self, in_line: int = 0, announced: int = 0) -> None:
        with self._counting:
            self._in_line += in_line
            self._announced += announced

    def _arrived(self, several: Sequence[Fetched]) -> None:
        """Put messages in line for their consumers; on the loop."""
        self._count(len(several))
        if not self._arrivals.add(*((self, *each) for each in several)):
            self._count(-len(several))
            self._hand_back([held for _, _, held in several])
            return
        for queue in {queue for queue, _, _ in several}:
            if queue not in self._active_queues:
                self._withdraw(queue)  # it was cancelled meanwhile, by another thread

    def deliver(self, queue: str, message: Payload | None, held: Held | None) -> bool:
        """Hand a message to its consumer, or give it back if that has gone: then it is False."""
        try:
            return self._handed_over(queue, message, held)
        finally:
            # Not before it is in hand: in between there would seem to be room for another.
            self._count(0 if held is None else -1, -1 if held is None else 0)
            self.fetching.look()

    def _handed_over(self, queue: str, message: Payload | None, held: Held | None) -> bool:
        link = self.link
        callback = None if self.closed else self._callbacks.get(queue)
        if callback is None or queue not in self._active_queues:
            self._hand_back([held] if held is not None else [])
            return False
        if message is None:
            found = link.transient.get(queue)
            message = None if found is None else found.next()
            if message is None:
                return False
        message["properties"]["delivery_tag"] = tag = self._next_delivery_tag()
        if held is not None:
            if queue in self._without_acks:
                link.ack(held)
            else:
                self.qos.hold(tag, held)
        callback(message)
        return True

    # Its end

    def close(self) -> None:
        """Give back what is in hand, and have its own queues no longer."""
        if self.closed or not self.link.is_ours:
            self.closed = True
            return
        self.fetching.stop()
        try:
            super().close()
            self.link.run(self._leave())
        except RocketPipeError as error:
            log.warning("a channel is not closed in order: %s", error)

    async def _leave(self) -> None:
        self.link.transient.leave(self._owner)
        for queue in self._leased:
            await self.link.leases.leave(queue)
