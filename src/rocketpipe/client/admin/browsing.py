"""Messages of a topic, the newest first, a page at a time: all of them, or those that are wanted.

Queues are read from their ends backwards, a block of offsets each, and merged by when messages were
stored. A page ends when it is full, when enough was scanned, or at a deadline; then it says where
to go on. Of a message only that is kept which the caller makes of it, and blocks are small where
messages are long, so memory grows neither with what is scanned nor with what is found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from rocketpipe.client.admin.fleet import Fleet, each
from rocketpipe.client.consumer.received import ReceivedMessage, received
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

#: So many offsets of a queue are read at a time, where their messages are short.
BLOCK: Final = 32
#: A block that had more bytes is followed by a shorter one.
BLOCK_BYTES: Final = 1 << 20
#: So many messages are looked at for a page, unless the caller says otherwise.
SCANNED: Final = 10_000
#: So long it may take.
DEADLINE_MS: Final = 5000
_GROWTH: Final = 4

RowT = TypeVar("RowT")
#: Of each queue the first offset that counts, and the one behind the last.
Spans = Mapping[MessageQueue, tuple[QueueOffset, QueueOffset]]


@dataclass(frozen=True, slots=True)
class Page(Generic[RowT]):
    """What was made of messages, the newest first, and how far the search came."""

    rows: tuple[RowT, ...]
    scanned: int
    #: What is still to be read of each queue; nothing is left if it is empty.
    left: dict[MessageQueue, tuple[QueueOffset, QueueOffset]]

    @property
    def is_complete(self) -> bool:
        """Whether all was looked at."""
        return not self.left


@dataclass(slots=True)
class _Queue:
    """One queue, read backwards: what was read and not given yet, the newest last."""

    queue: MessageQueue
    least: int
    #: Behind the last offset that was not read yet.
    unread: int
    block: int = 1
    held: list[ReceivedMessage] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return not self.held and self.unread <= self.least


class Browsing:
    """Reads topics backwards."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def newest(
        self,
        spans: Spans,
        pick: Callable[[ReceivedMessage], RowT | None],
        *,
        limit: int,
        scanned: int = SCANNED,
        deadline_ms: int = DEADLINE_MS,
    ) -> Page[RowT]:
        """What ``pick`` makes of the newest messages of these spans; None leaves one out.

        Raises:
            NoRoute: If no NameServer knows a topic, or nobody has one of its queues.
            RequestRejected: If a broker refuses to read.
            ConnectionLost: If a broker is out of reach.
        """
        clock = self._fleet.session.clock
        until_ms = clock.monotonic_ms() + deadline_ms
        queues = [_Queue(queue, first, end) for queue, (first, end) in spans.items() if first < end]
        found: list[RowT] = []
        looked = 0
        while queues:
            empty = [one for one in queues if not one.held]
            if looked and (looked >= scanned or clock.monotonic_ms() >= until_ms):
                break
            await self._read_all(empty)
            queues = [one for one in queues if not one.is_over]
            # One whose block had nothing in it may have newer messages before it than others have.
            while queues and all(one.held for one in queues):
                newest = max(queues, key=_moment)
                row = pick(newest.held.pop())
                looked += 1
                if newest.is_over:
                    queues.remove(newest)
                if row is not None:
                    found.append(row)
                    if len(found) >= limit:
                        return Page(tuple(found), looked, _left(queues))
        return Page(tuple(found), looked, _left(queues))

    async def _read_all(self, queues: list[_Queue]) -> None:
        async def read(at: int) -> None:
            await self._read(queues[at])

        await each(range(len(queues)), read)

    async def _read(self, one: _Queue) -> None:
        """Read the block before what was read; a broker may give it in pieces."""
        begin, end = max(one.least, one.unread - one.block), one.unread
        session = self._fleet.session
        route = await session.routes.get(one.queue.topic)
        address = session.reader_of(one.queue, route=route)
        at = begin
        while at < end:
            reply = await self._fleet.pull(
                address,
                one.queue.topic,
                one.queue.queue_id,
                QueueOffset(at),
                broker=one.queue.broker_name,
                most=end - at,
            )
            some = list(received(reply.messages, one.queue))
            one.held += (message for message in some if at <= message.queue_offset < end)
            behind = some[-1].queue_offset + 1 if some else reply.next_begin_offset
            if behind <= at:
                break  # nothing is there (any more)
            at = behind
        size = sum(message.size for message in one.held)
        one.block = min(BLOCK, one.block * _GROWTH) if size < BLOCK_BYTES else 1
        one.unread = begin


def _moment(one: _Queue) -> tuple[int, int]:
    newest = one.held[-1]
    return newest.stored_ms, newest.log_offset


def _left(queues: list[_Queue]) -> dict[MessageQueue, tuple[QueueOffset, QueueOffset]]:
    return {
        one.queue: (
            QueueOffset(one.least),
            QueueOffset(one.held[-1].queue_offset + 1 if one.held else one.unread),
        )
        for one in queues
        if not one.is_over
    }
