"""A topic as it grows: its newest messages, as many as a browser shows, and how many it missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from rocketpipe.client.admin.fleet import Fleet, each
from rocketpipe.client.consumer.received import ReceivedMessage, received
from rocketpipe.client.session import Session
from rocketpipe.console.answers import Problem
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

#: So many rows a second go to a browser.
ROWS_A_SECOND: Final = 200
EVERY_MS: Final = 500
#: So many messages of a queue are taken at a time; of a queue that has more new ones, the newest.
_AT_ONCE: Final = 32
_MAX_QUEUES: Final = 256

#: A topic of many queues is looked at less often: so long for each of them.
_EACH_QUEUE_MS: Final = 8
#: Where queues end is asked once for all that follow a topic within this.
_SHARED_MS: Final = EVERY_MS * 4 // 5
_MAX_SHARED: Final = 256

RowT = TypeVar("RowT")


class SharedEnds:
    """Where the queues of topics end, asked once for all tails that want to know it together."""

    def __init__(self, session: Session, within_ms: int = _SHARED_MS) -> None:
        self._session = session
        self._within_ms = within_ms
        self._looks: dict[str, tuple[int, asyncio.Task[dict[MessageQueue, int]]]] = {}

    async def of(self, topic: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The offset behind the last message of each queue.

        Raises:
            ConnectionLost: If a broker is out of reach.
            RequestRejected: If one refuses.
        """
        now_ms = self._session.clock.monotonic_ms()
        known = self._looks.get(topic)
        if known is None or now_ms - known[0] >= self._within_ms:
            task = asyncio.create_task(self._look(queues), name=f"ends of {topic}")
            task.add_done_callback(_seen)
            self._looks.pop(topic, None)
            self._looks[topic] = known = (now_ms, task)
            while len(self._looks) > _MAX_SHARED:
                del self._looks[next(iter(self._looks))]
        # Whoever goes away does not take the answer from the others.
        return await asyncio.shield(known[1])

    async def _look(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        async def end(queue: MessageQueue) -> int:
            return (await self._session.ends_of(queue))[1]

        return await each(queues, end)


def _seen(task: asyncio.Task[dict[MessageQueue, int]]) -> None:
    if not task.cancelled():
        task.exception()  # those who wait for it were told


@dataclass(frozen=True, slots=True)
class News(Generic[RowT]):
    """What came since the last time: rows in the order of time, and how many are not among them."""

    rows: list[RowT]
    skipped: int


class Tail(Generic[RowT]):
    """Follows the queues of one topic."""

    def __init__(
        self,
        session: Session,
        topic: str,
        pick: Callable[[ReceivedMessage], RowT | None],
        places: dict[tuple[str, int], int] | None = None,
        ends: SharedEnds | None = None,
    ) -> None:
        """Take what a row is made of, and where to go on; without that it begins at the end."""
        self._fleet = Fleet(session)
        self._ends = ends or SharedEnds(session, 0)
        #: How long to leave the brokers alone after a look.
        self.every_ms = EVERY_MS
        self._topic = topic
        self._pick = pick
        self._given = places or {}
        self._places: dict[MessageQueue, int] = {}

    @property
    def places(self) -> list[tuple[str, int, int]]:
        """Where it goes on: broker, queue, offset."""
        return [(one.broker_name, one.queue_id, at) for one, at in self._places.items()]

    async def news(self) -> News[RowT]:
        """What came since the last time; the first time it finds out where to begin.

        Raises:
            NoRoute: If no NameServer knows the topic.
            ConnectionLost: If a broker is out of reach.
            Problem: If it has too many queues.
        """
        route = await self._fleet.session.routes.get(self._topic)
        queues = route.readable_queues(self._topic)
        if len(queues) > _MAX_QUEUES:
            raise Problem(
                400, f"the topic has {len(queues)} queues", f"{_MAX_QUEUES} can be followed"
            )
        self.every_ms = max(EVERY_MS, len(queues) * _EACH_QUEUE_MS)
        ends = await self._ends.of(self._topic, queues)
        found: list[tuple[int, RowT]] = []
        skipped = 0

        async def look(queue: MessageQueue) -> None:
            nonlocal skipped
            end = ends.get(queue, self._places.get(queue, 0))
            if queue not in self._places:
                given = self._given.get((queue.broker_name, queue.queue_id), end)
                self._places[queue] = min(given, end)
            at = self._places[queue]
            if end - at > _AT_ONCE:
                skipped += end - _AT_ONCE - at
                at = end - _AT_ONCE
            if at < end:
                address = self._fleet.session.reader_of(queue, route=route)
                reply = await self._fleet.pull(
                    address,
                    self._topic,
                    queue.queue_id,
                    QueueOffset(at),
                    broker=queue.broker_name,
                    most=_AT_ONCE,
                )
                for message in received(reply.messages, queue):
                    at = message.queue_offset + 1
                    if (row := self._pick(message)) is not None:
                        found.append((message.stored_ms, row))
                at = max(at, min(reply.next_begin_offset, end))
            self._places[queue] = at

        await each(queues, look)
        most = ROWS_A_SECOND * self.every_ms // 1000
        found.sort(key=lambda pair: pair[0])
        skipped += max(0, len(found) - most)
        return News([row for _, row in found[-most:]], skipped)
