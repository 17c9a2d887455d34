"""The records of queues through their brokers, many at a time.

A thread of its own asks for the next ones while a task decodes those that came. A range is asked
for in stretches, a few of them at a time, so that the broker has work while an answer travels; what
an answer had no room for is asked for when its turn has come. Answers are put together until they
are worth decoding; no more than two such portions wait. When a connection is lost the route is
asked for anew, and the pull repeated, until nothing came for `PATIENCE_MS`. So it is where one of
several brokers that have the queue says that it ends before the range does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from rocketpipe.blocking.background import BackgroundLoop
from rocketpipe.client.admin.fleet import Fleet, NoBroker
from rocketpipe.client.consumer.pull import PULL_TIMEOUT_MS, pull_request
from rocketpipe.client.session import Session
from rocketpipe.errors import NoRoute, RecordError, RequestRejected, RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import LEADER_ID
from rocketpipe.model.subscription import EVERYTHING
from rocketpipe.pipeline.columns.bad_messages import Unreadable, damaged_rows
from rocketpipe.pipeline.columns.byte_runs import Ints, Mask
from rocketpipe.pipeline.columns.records import DamagedRecord, Records, walk
from rocketpipe.pipeline.columns.rows import UnreadableMessage
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.pipeline.planning.gaps import Gap
from rocketpipe.pipeline.planning.ranges import QueueRange, ReadPartition
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pulling import PullMessageReply

#: So much is put together before it is decoded, or one answer if that is longer.
PORTION_BYTES: Final = 8 << 20

PATIENCE_MS: Final = 30_000
AGAIN_MS: Final = 500

_MAX_COUNT: Final = 4096
_WAITING: Final = 2
#: So many stretches of a range are asked for at a time.
_AHEAD: Final = 3


@dataclass(frozen=True, slots=True)
class _Portion:
    """Answers to pulls of one range that follow each other: from ``start``, next is ``next``."""

    part: QueueRange
    bodies: tuple[bytes, ...]
    start: QueueOffset
    next: QueueOffset


@dataclass(slots=True)
class _Held:
    """Answers that have come of a range and wait for more."""

    part: QueueRange
    start: QueueOffset
    #: Up to where answers have come.
    reached: QueueOffset
    bodies: list[bytes] = field(default_factory=list)
    size: int = 0


def read_brokers(
    part: ReadPartition, options: ReadOptions, wanted: RowFilter
) -> Iterator[tuple[QueueRange, Records | Gap | Unreadable]]:
    """The records of a part's ranges, and what is missing or damaged, queue by queue.

    Raises:
        UnreadableMessage: If what a broker gave are no records.
        ConnectionLost: If a broker stays out of reach.
        RequestRejected: If it refuses.
    """
    expression = _expression(wanted)
    loop = BackgroundLoop()
    try:
        pulls = loop.run(_started(part, options, expression))
        try:
            while (found := loop.run(pulls.next())) is not None:
                if isinstance(found, tuple):
                    yield found
                    continue
                for each in _records(found, options.batch_rows, dense=expression == EVERYTHING):
                    yield found.part, each
        finally:
            loop.run(pulls.close())
    finally:
        loop.stop()


async def _cancel(
    asked: deque[tuple[QueueOffset, QueueOffset, asyncio.Task[PullMessageReply]]],
) -> None:
    pulls = [pull for _, _, pull in asked]
    asked.clear()
    for pull in pulls:
        pull.cancel()
    await asyncio.gather(*pulls, return_exceptions=True)


def _expression(wanted: RowFilter) -> str:
    """The tags to ask for, as far as an expression can say it; rows are looked at again anyway."""
    tags = wanted.tags
    if not tags or any(not tag.strip() or "|" in tag or tag != tag.strip() for tag in tags):
        return EVERYTHING
    return " || ".join(sorted(tags)) if "*" not in tags else EVERYTHING


def _records(
    portion: _Portion, batch_rows: int, *, dense: bool
) -> Iterator[Records | Gap | Unreadable]:
    part = portion.part
    body = portion.bodies[0] if len(portion.bodies) == 1 else b"".join(portion.bodies)
    try:
        starts, sizes = walk(body)
    except RecordError as error:  # which one is bad cannot be told, nor where the next begins
        raise _unreadable(part, portion.start, error.reason) from error
    stop = min(portion.next, part.end)
    try:
        records = Records(body, starts, sizes)
        there = records.queue_offsets
    except DamagedRecord:
        damaged = damaged_rows(body, starts, sizes)
        is_good = ~np.isin(np.arange(starts.size), list(damaged))
        records = Records(body, starts[is_good], sizes[is_good])
        # A damaged record's own word for where it is counts no more than the rest of it.
        there = _offsets_about(records.queue_offsets, is_good, portion.start)
        for row, reason in damaged.items():
            if there[row] < stop:
                record = body[int(starts[row]) : int(starts[row] + sizes[row])]
                yield Unreadable(part.queue, int(there[row]), reason, record)
    if dense:
        edges = np.concatenate([[portion.start - 1], there[there < stop], [stop]])
        for hole in np.flatnonzero(np.diff(edges) > 1).tolist():
            first, following = QueueOffset(int(edges[hole]) + 1), QueueOffset(int(edges[hole + 1]))
            yield Gap(part.queue, first, following)
    offsets = records.queue_offsets
    if offsets.size and int(offsets[-1]) >= stop:
        records = records.take(np.flatnonzero(offsets < stop))
    if records.count <= batch_rows:
        yield records
        return
    for row in range(0, records.count, batch_rows):
        yield records.take(np.arange(row, min(row + batch_rows, records.count)))


def _offsets_about(offsets: Ints, is_good: Mask, start: QueueOffset) -> Ints:
    """The offsets of all records, where those of the good ones are known: the others follow."""
    rows = np.arange(is_good.size)
    known = np.full(is_good.size, -1, np.int64)
    known[is_good] = offsets
    before = np.maximum.accumulate(np.where(is_good, rows, -1))
    return np.where(before >= 0, known[before] + rows - before, start + rows)


def _unreadable(part: QueueRange, offset: int, reason: str) -> UnreadableMessage:
    return UnreadableMessage(part.queue.broker_name, part.queue.queue_id, offset, reason)


async def _started(part: ReadPartition, options: ReadOptions, expression: str) -> _Pulls:
    assert options.name_servers is not None
    session = options.access.session(options.name_servers)
    pulls = _Pulls(part, options, expression, session)
    await pulls.start()
    return pulls


class _Pulls:
    """Asks ahead, on the loop; `next` gives what came, in order, and None when all has."""

    def __init__(
        self, part: ReadPartition, options: ReadOptions, expression: str, session: Session
    ) -> None:
        self._part = part
        self._options = options
        self._expression = expression
        self._session = session
        self._addresses = dict(part.addresses)
        self._came: asyncio.Queue[_Portion | tuple[QueueRange, Gap] | None] = asyncio.Queue(
            _WAITING
        )
        self._work: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._session.__aenter__()
        self._work = asyncio.create_task(self._pull_all(), name="pull for spark")

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        await self._session.__aexit__(None, None, None)

    async def next(self) -> _Portion | tuple[QueueRange, Gap] | None:
        """What came next.

        Raises:
            RocketPipeError: What ended the pulls.
        """
        assert self._work is not None
        getting = asyncio.create_task(self._came.get())
        await asyncio.wait([getting, self._work], return_when=asyncio.FIRST_COMPLETED)
        if getting.done():
            return getting.result()
        getting.cancel()
        if self._came.empty():
            self._work.result()  # it failed, or all was taken
            return None
        return self._came.get_nowait()

    async def _pull_all(self) -> None:
        for queue_range in self._part.ranges:
            await self._pull_range(queue_range)
        await self._came.put(None)

    async def _pull_range(self, part: QueueRange) -> None:
        # By tags a broker may look further than it was asked for: then nobody knows where.
        is_dense = self._expression == EVERYTHING
        held = _Held(part, part.start, part.start)
        reach = _MAX_COUNT if is_dense else part.count
        planned = part.start
        asked: deque[tuple[QueueOffset, QueueOffset, asyncio.Task[PullMessageReply]]] = deque()
        try:
            while planned < part.end or asked:
                while planned < part.end and len(asked) < _AHEAD:
                    stop = QueueOffset(min(planned + reach, part.end))
                    pull = asyncio.create_task(self._pull(part, planned, stop))
                    asked.append((planned, stop, pull))
                    planned = stop
                at, stop, pull = asked.popleft()
                count = stop - at
                following = await self._take(held, at, stop, await pull)
                if is_dense:
                    # As much as an answer has room for is asked for next, or a little more.
                    fitting = following - at if following < stop else count + count // 4 + 1
                    reach = min(max(1, fitting), _MAX_COUNT)
                held.reached = following
                while following < stop:
                    again = await self._pull(part, following, stop)
                    held.reached = following = await self._take(held, following, stop, again)
                if following > stop:  # what is gone does not end with this stretch
                    await _cancel(asked)
                    planned = following
        except RequestRejected as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            # Deleted, as its broker says: what was not read yet is no more.
            await self._hand_over(held, held.reached)
            await self._came.put((part, Gap(part.queue, held.reached, part.end)))
            return
        finally:
            await _cancel(asked)
        await self._hand_over(held, part.end)

    async def _take(
        self, held: _Held, at: QueueOffset, stop: QueueOffset, reply: PullMessageReply
    ) -> QueueOffset:
        """Keep an answer, and hand over what is worth it; gives where to read on."""
        part = held.part
        if reply.messages:
            held.bodies.append(reply.messages)
            held.size += len(reply.messages)
            following = QueueOffset(min(reply.next_begin_offset, stop))
            if held.size >= PORTION_BYTES:
                await self._hand_over(held, following)
            return following
        gone_to = min(max(reply.min_offset, at), part.end)
        following = QueueOffset(min(reply.next_begin_offset, stop))
        if following <= at:
            gone_to = part.end  # the queue ends before the part does: it was made anew
        if gone_to > at:
            await self._hand_over(held, at)
            await self._came.put((part, Gap(part.queue, at, QueueOffset(gone_to))))
            held.start = QueueOffset(gone_to)
        return QueueOffset(max(following, gone_to))

    async def _hand_over(self, held: _Held, following: QueueOffset) -> None:
        if following > held.start:
            bodies = tuple(held.bodies)
            await self._came.put(_Portion(held.part, bodies, held.start, following))
        held.bodies, held.size, held.start = [], 0, following

    async def _pull(self, part: QueueRange, at: QueueOffset, stop: QueueOffset) -> PullMessageReply:
        """One answer that moves on, or says that there is nothing.

        Raises:
            RocketPipeError: The last error, once patience is at an end.
        """
        clock = self._session.clock
        until_ms = clock.monotonic_ms() + PATIENCE_MS
        request = replace(
            pull_request(self._options.group, part.queue, at, self._expression, suspend_ms=0),
            max_msg_nums=min(_MAX_COUNT, stop - at),
            max_msg_bytes=self._options.max_pull_bytes,
            bulk=True,
        )
        name, topic = part.queue.broker_name, part.queue.topic
        while True:
            address: str | None = None
            try:
                address = await self._address(part)
                reply = await self._session.caller.call(address, request, PULL_TIMEOUT_MS)
                is_busy = reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
                is_final = not is_busy or reply.next_begin_offset > at
                if is_final and not await self._is_doubtful(part, at, reply, address):
                    return reply
                if clock.monotonic_ms() >= until_ms:
                    return reply
            except RocketPipeError as error:
                may_help = error.retryable or error.stale_route
                if not may_help or clock.monotonic_ms() >= until_ms:
                    raise
                self._addresses.pop(name, None)
                self._session.routes.learn(topic, name, address, error)
                self._session.routes.forget(topic)
            await clock.sleep(AGAIN_MS)

    async def _is_doubtful(
        self, part: QueueRange, at: QueueOffset, reply: PullMessageReply, address: str
    ) -> bool:
        """Whether a queue that ends before its part does may only seem to.

        A follower may be behind, and so may a new leader, for a moment. Another one is asked then.
        """
        moved = reply.code == ResponseCode.PULL_OFFSET_MOVED
        if reply.messages or (reply.next_begin_offset > at and not moved):
            return False
        session, queue = self._session, part.queue
        try:
            addresses = session.addresses_of(queue, await session.routes.get(queue.topic))
        except NoRoute:
            return False
        if addresses.get(LEADER_ID) == address and (
            reply.next_begin_offset > at or len(addresses) == 1
        ):
            return False
        self._addresses.pop(queue.broker_name, None)
        session.routes.forget(queue.topic)
        return True

    async def _address(self, part: QueueRange) -> str:
        name = part.queue.broker_name
        if name not in self._addresses:
            try:
                route = await self._session.routes.get(part.queue.topic)
            except NoRoute as error:
                # Whether the topic is deleted, its broker knows.
                try:
                    return (await Fleet(self._session).leaders(broker=name))[name]
                except NoBroker:
                    raise error from None
            self._addresses[name] = self._session.reader_of(part.queue, route=route)
        return self._addresses[name]
