"""Where a group begins with a queue that it has no offset for.

    "first"                        with the oldest message that is there
    "last"                         with what comes after the consumer began; of a queue that came to
                                   be after that, with its first message
    a datetime                     with the first message that was stored then, or later
    CONSUME_FROM_LAST_OFFSET       RocketMQ's rule, and the default: a young queue, which still has
                                   its very first message, from there, and any other at its end
    CONSUME_FROM_TIMESTAMP         half an hour ago, by the same rule
    CONSUME_FROM_FIRST_OFFSET      as "first"

A group that has an offset goes on there, whatever is said here. Brokers follow the rule when they
are asked for an offset, unless they are told not to: Apache's before 5.0 always do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from rocketpipe.client.consumer.group.offsets import BrokerOffsets, OffsetStore, offset_at
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.names import is_retry_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere

log = logging.getLogger(__name__)

HALF_AN_HOUR_MS: Final = 30 * 60 * 1000
BEGIN: Final = QueueOffset(0)

_FIRST: Final = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
_LAST: Final = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
_TIMESTAMP: Final = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP


@dataclass(frozen=True, slots=True)
class StartFrom:
    """Where a group begins to read a queue that it has no offset for."""

    where: ConsumeFromWhere = _LAST
    #: For ``CONSUME_FROM_TIMESTAMP``, in milliseconds since 1970; None: half an hour ago.
    at_ms: int | None = None
    #: Also of young queues, which RocketMQ's rule has read from their beginning.
    exact: bool = False


#: What may be said where a start is asked for.
Start: TypeAlias = Literal["first", "last"] | datetime | ConsumeFromWhere | StartFrom


def start_from(start: Start, now_ms: int) -> StartFrom:
    """Read what a user says.

    Raises:
        ValueError: If it says no place.
    """
    if isinstance(start, StartFrom):
        return start
    if start is _TIMESTAMP:
        return StartFrom(_TIMESTAMP, now_ms - HALF_AN_HOUR_MS)
    if start is _FIRST or start is _LAST:
        return StartFrom(start)
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise ValueError(
                "start has no zone: say datetime.now(UTC) - …, or start.astimezone() of local time"
            )
        return StartFrom(_TIMESTAMP, int(start.timestamp() * 1000), exact=True)
    if start == "first":
        return StartFrom(_FIRST)
    if start == "last":
        return StartFrom(_LAST, exact=True)
    raise ValueError(
        f"start {start!r}: say 'first', 'last', a datetime, or {_FIRST}, {_LAST} or {_TIMESTAMP} "
        "of ConsumeFromWhere"
    )


class Beginnings:
    """Finds where to begin with the queues of a group."""

    def __init__(
        self, session: Session, offsets: OffsetStore, start: StartFrom, *, keeps: bool = True
    ) -> None:
        """Prepare; who ``keeps`` an exact start saves it at once, so that nobody starts anew."""
        self._session = session
        self._offsets = offsets
        self._start = start
        self._keeps = keeps
        #: By topic, the queues that were there when the consumer began.
        self._there: dict[str, frozenset[MessageQueue]] = {}

    async def look(self, topics: Iterable[str]) -> None:
        """Note which queues are there now: for who begins at the end, all others are new."""
        if not self._start.exact:
            return
        routes = self._session.routes
        for topic in topics:
            try:
                route = routes.remembered(topic) or await routes.refresh(topic)
            except RocketPipeError as error:
                log.debug("queues not known topic=%s reason=%s", topic, error)
            else:
                queues = () if route is None else route.readable_queues(topic)
                self._there[topic] = frozenset(queues)

    async def settle(self, topic: str) -> None:
        """Save where the group begins with each queue that is there and has no offset yet.

        Raises: as ``of`` does.
        """
        for queue in sorted(self._there.get(topic, ())):
            await self.of(queue)

    async def of(self, queue: MessageQueue) -> QueueOffset:
        """Where to begin with a queue: at what is saved, or else where the start says.

        A retry topic is special: with it, a group that begins at the end begins with all that
        failed.

        Raises:
            NoRoute: If the broker of the queue is not known.
            ConnectionLost: If it is out of reach.
            CallTimeout: If it does not answer in time.
            RequestRejected: If it refuses to say. Whoever guessed instead would skip messages.
            StoreError: If a file of offsets cannot be read.
        """
        saved = await self._offsets.read(queue)
        if saved is not None:
            return saved
        offset = await self._unsaved(queue)
        if self._start.exact and self._keeps:
            self._offsets.update(queue, offset)
            try:
                await self._offsets.persist([queue])
            except RequestRejected as error:
                # The group is not made yet: it is with the first pull, and saved in its time.
                log.debug("start not saved queue=%s reason=%s", queue, error)
        return offset

    async def _unsaved(self, queue: MessageQueue) -> QueueOffset:
        start, session = self._start, self._session
        if start.where is _FIRST:
            return BEGIN
        by_time = start.where is _TIMESTAMP
        if is_retry_topic(queue.topic) and (start.exact or not by_time):
            return BEGIN
        if by_time and not is_retry_topic(queue.topic):
            at_ms = session.clock.now_ms() - HALF_AN_HOUR_MS if start.at_ms is None else start.at_ms
            return await offset_at(session, queue, at_ms)
        if queue not in self._there.get(queue.topic, {queue}):
            return BEGIN
        _, end = await session.ends_of(queue)
        return end


async def settle_pops(
    session: Session, group: str, start: StartFrom, topics: Iterable[str]
) -> None:
    """Have a group that pops begin where it says: brokers know only the first and the last.

    Raises:
        NoRoute, ConnectionLost, CallTimeout, RequestRejected: If a broker does not take it.
    """
    if not start.exact and start.where is not _TIMESTAMP:
        return
    exact = StartFrom(start.where, start.at_ms, exact=True)
    beginnings = Beginnings(session, BrokerOffsets(session, group, exact=True), exact)
    topics = list(topics)
    await beginnings.look(topics)
    for topic in topics:
        await beginnings.settle(topic)
