"""Messages that were fetched before anybody asked for them.

    done          what the application has finished: this far is committed
    position      what it is given next
    next_offset   where the next pull begins

One queue's messages are a ``ReadAhead``; the ``FetchBuffer`` has all of them, and hands out those
that have something in turn, so that a busy queue does not hide the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """How far to read ahead. The values are those of RocketMQ's pull consumer."""

    #: In one queue.
    messages: int = 1000
    body_bytes: int = 100 * _MIB
    #: From the first message in hand to the last; filters leave gaps.
    span: int = 2000
    #: In all queues together.
    messages_in_all: int = 10_000

    def __post_init__(self) -> None:
        for name in ("messages", "body_bytes", "span", "messages_in_all"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: a limit is 1 or more")


class ReadAhead:
    """One queue: the messages in hand, and how far each of the three offsets is."""

    def __init__(self, queue: MessageQueue, start: QueueOffset) -> None:
        self.queue = queue
        self.next_offset = start
        self.position = start
        self.done = start
        self.paused = False
        self._messages: deque[ReceivedMessage] = deque()
        self._body_bytes = 0

    def __len__(self) -> int:
        """How many messages are in hand."""
        return len(self._messages)

    @property
    def is_ready(self) -> bool:
        """Whether there is something to hand out."""
        return bool(self._messages) and not self.paused

    def has_room(self, limits: ReadLimits) -> bool:
        """Whether another pull may be made for this queue."""
        held = self._messages
        if not held:
            return True
        return (
            len(held) < limits.messages
            and self._body_bytes < limits.body_bytes
            and held[-1].queue_offset - held[0].queue_offset <= limits.span
        )

    def add(self, messages: Sequence[ReceivedMessage], next_offset: QueueOffset) -> None:
        """Take the answer of a pull: what is wanted of it, and where to go on."""
        self._messages.extend(messages)
        self._body_bytes += sum(message.body_bytes for message in messages)
        self.next_offset = next_offset
        if not self._messages:
            # Nothing of it was wanted: that is done as soon as all before it is.
            if self.done == self.position:
                self.done = next_offset
            self.position = next_offset

    def take(self, most: int) -> list[ReceivedMessage]:
        """Hand out the next messages; they are not done yet."""
        held = self._messages
        taken = [held.popleft() for _ in range(min(most, len(held)))]
        if taken:
            self._body_bytes -= sum(message.body_bytes for message in taken)
            last = QueueOffset(taken[-1].queue_offset + 1)
            self.position = last if held else self.next_offset
        return taken

    def settle(self) -> None:
        """Take note that all that was handed out is done."""
        self.done = self.position

    def drop(self) -> None:
        """Drop what is in hand, to fetch it once more."""
        self._messages.clear()
        self._body_bytes = 0
        self.next_offset = self.position

    def seek(self, offset: QueueOffset) -> None:
        """Go on from another place; what is in hand is dropped."""
        self.drop()
        self.next_offset = self.position = self.done = offset


class FetchBuffer:
    """All queues that are read, and who waits for messages or for room."""

    def __init__(self, limits: ReadLimits) -> None:
        self.limits = limits
        #: Why queues get no messages, until somebody is told or they get some.
        self._failures: dict[MessageQueue, RocketPipeError] = {}
        self._places: dict[MessageQueue, ReadAhead] = {}
        #: Queues with something to hand out, in turn.
        self._ready: dict[MessageQueue, None] = {}
        self._held = 0
        self._arrival = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def places(self) -> Mapping[MessageQueue, ReadAhead]:
        """What is read, by queue."""
        return self._places

    def __iter__(self) -> Iterator[ReadAhead]:
        return iter(tuple(self._places.values()))

    def __len__(self) -> int:
        """How many messages are in hand in all."""
        return self._held

    def open(self, queue: MessageQueue, start: QueueOffset) -> ReadAhead:
        """Begin with a queue."""
        assert queue not in self._places, "a queue is read once"
        place = self._places[queue] = ReadAhead(queue, start)
        return place

    def remove(self, queue: MessageQueue) -> ReadAhead | None:
        """Drop a queue and what is in hand of it."""
        self._ready.pop(queue, None)
        self._failures.pop(queue, None)
        place = self._places.pop(queue, None)
        if place is not None:
            self._held -= len(place)
            self._wake(self._room)
        return place

    def add(
        self, place: ReadAhead, messages: Sequence[ReceivedMessage], next_offset: QueueOffset
    ) -> None:
        """Take the answer of a pull."""
        assert self._places.get(place.queue) is place, "a queue that was dropped takes nothing"
        place.add(messages, next_offset)
        self._failures.pop(place.queue, None)
        self._held += len(messages)
        self._sort(place)

    def fail(self, place: ReadAhead, error: RocketPipeError) -> None:
        """Have whoever asks for messages told that some will not come."""
        self._failures[place.queue] = error
        self._wake(self._arrival)

    def failure(self) -> RocketPipeError | None:
        """Why some queue gets no messages, if one does not; it is told once."""
        for queue in self._failures:
            return self._failures.pop(queue)
        return None

    def take(self, most: int) -> tuple[ReadAhead, list[ReceivedMessage]] | None:
        """Hand out messages of the queue whose turn it is; None if there is nothing."""
        for queue in self._ready:
            place = self._places[queue]
            taken = place.take(most)
            self._held -= len(taken)
            del self._ready[queue]
            self._sort(place)
            self._wake(self._room)
            return place, taken
        return None

    def pause(self, queue: MessageQueue, paused: bool) -> None:
        """Hand out nothing of a queue for some time, and fetch no more of it."""
        place = self._places[queue]
        place.paused = paused
        self._sort(place)
        self._wake(self._room)

    def seek(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """Go on from another place in a queue."""
        place = self._places[queue]
        self._held -= len(place)
        place.seek(offset)
        self._sort(place)
        self._wake(self._room)

    def drop(self, queue: MessageQueue) -> None:
        """Drop what is in hand of a queue, to fetch it once more."""
        place = self._places[queue]
        self._held -= len(place)
        place.drop()
        self._sort(place)
        self._wake(self._room)

    async def room(self, place: ReadAhead) -> None:
        """Wait until another pull may be made for a queue."""
        while place.paused or not self._fits(place):
            await self._room.wait()

    async def arrival(self) -> None:
        """Wait until something came, or failed."""
        while not self._ready and not self._failures:
            await self._arrival.wait()

    def _fits(self, place: ReadAhead) -> bool:
        if not place.has_room(self.limits):
            return False
        # A queue with nothing in hand may always ask, or full ones could shut it out for good.
        return not len(place) or self._held < self.limits.messages_in_all

    def _sort(self, place: ReadAhead) -> None:
        if not place.is_ready:
            self._ready.pop(place.queue, None)
        elif place.queue not in self._ready:
            self._ready[place.queue] = None
            self._wake(self._arrival)

    @staticmethod
    def _wake(event: asyncio.Event) -> None:
        # Whoever waits now looks again; whoever comes later looks before it waits.
        event.set()
        event.clear()
