"""Which queue a message goes to, when its sender decides: for messages whose order matters.

A selector is any function of the queues that may be written, the message, and what the sender
orders by. It is asked once for each send, and no other queue is tried after it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Final, TypeAlias

from rocketpipe.errors import MessageRefused, NoRoute
from rocketpipe.model.message import Message
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.hot import java_hash

Selector: TypeAlias = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]

#: Chooses among the queues that may be written, in place of the producer.
Pick: TypeAlias = Callable[[Sequence[MessageQueue]], MessageQueue]

_ROOM_END: Final = "@"
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63


def by_hash(queues: Sequence[MessageQueue], message: Message, order_by: str | int) -> MessageQueue:
    """The queue that Java's clients choose too, by the hash of a text or a whole number.

    Raises:
        TypeError: If ``order_by`` is neither.
        ValueError: If it is a number wider than Java's long.
    """
    return queues[abs(java_hash_of(order_by)) % len(queues)]


def java_hash_of(value: object) -> int:
    """Java's ``hashCode`` of a String, an Integer, a Long or a Boolean; signed, of 32 bits.

    Raises:
        TypeError: If it is none of these.
        ValueError: If it is a number wider than Java's long.
    """
    if isinstance(value, str):
        return java_hash(value)
    if isinstance(value, bool):
        return 1231 if value else 1237
    if not isinstance(value, int):
        kind = type(value).__name__
        raise TypeError(f"order_by is a text or a whole number, not {kind}: str() makes it one")
    if -_INT32 <= value < _INT32:
        # An Integer's hash is itself. A Long's would be the complement of a negative number.
        return value
    if not -_INT64 <= value < _INT64:
        raise ValueError(f"order_by {value} is wider than 64 bits: str() makes it a text")
    folded = (value ^ (value >> 32)) & 0xFFFF_FFFF
    return folded - (1 << 32) if folded >= _INT32 else folded


class AtRandom:
    """Any queue, as chance has it: ``selector=AtRandom()``."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()  # noqa: S311 - it spreads load, it guards nothing

    def __call__(
        self, queues: Sequence[MessageQueue], message: Message, order_by: object
    ) -> MessageQueue:
        return self._chance.choice(queues)


class MachineRooms:
    """Goes round the queues of brokers that are named ``room@name``, of these rooms only.

    RocketMQ's own selector of this name has no body: this is what it was meant to do.
    """

    def __init__(self, rooms: Iterable[str]) -> None:
        """Take the rooms' names.

        Raises:
            ValueError: If there are none, or one has ``@`` in it.
        """
        self.rooms = frozenset([rooms] if isinstance(rooms, str) else rooms)
        if not self.rooms or any(not room or _ROOM_END in room for room in self.rooms):
            raise ValueError(f"rooms {sorted(self.rooms)}: names without '@', at least one of them")
        self._turns = count()

    def __call__(
        self, queues: Sequence[MessageQueue], message: Message, order_by: object
    ) -> MessageQueue:
        """The next queue in turn.

        Raises:
            NoRoute: If no broker of the topic is in these rooms.
        """
        near = [queue for queue in queues if room_of(queue.broker_name) in self.rooms]
        if not near:
            seen = sorted({queue.broker_name for queue in queues})[:8]
            raise NoRoute(
                message.topic,
                "its route",
                f"no broker in rooms {sorted(self.rooms)}; the topic is on {seen}",
            )
        return near[next(self._turns) % len(near)]


def room_of(broker_name: str) -> str | None:
    """The machine room that a broker's name says it is in, if it says so."""
    room, at, _ = broker_name.partition(_ROOM_END)
    return room if at and room else None


def pick_of(
    message: Message, queue: object, order_by: Any, selector: Selector | None
) -> Pick | None:
    """What a sender said about where its message goes; None if it left that open.

    Raises:
        TypeError: If both a queue and a way to choose one are given, or it is no queue.
        MessageRefused: If the queue is of another topic.
    """
    if queue is not None:
        if order_by is not None or selector is not None:
            raise TypeError("a queue is given, so there is nothing to order by or to select")
        if not isinstance(queue, MessageQueue):
            hint = "give a MessageQueue, such as the one of a SendResult; or order_by"
            raise TypeError(f"queue {queue!r} is no queue: {hint}")
        if queue.topic != message.topic:
            raise MessageRefused(
                message.topic, f"a queue of topic {queue.topic!r}", "give one of its own"
            )
        chosen_queue = queue
        return lambda _: chosen_queue
    if selector is None:
        if order_by is None:
            return None
        selector = by_hash
    chosen = selector

    def pick(queues: Sequence[MessageQueue]) -> MessageQueue:
        found = chosen(queues, message, order_by)
        if found not in queues:
            raise ValueError(f"the selector gave {found}, which is not one of those it was given")
        return found

    return pick
