"""The records of queues through their brokers, many at a time.

A thread of its own asks for the next ones while a task decodes those that came. Answers are put
together until they are worth decoding; no more than two such portions wait. When a connection is
lost the route is asked for anew, and the pull repeated, until nothing came for `PATIENCE_MS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from rocketpipe.blocking.background import BackgroundLoop
from rocketpipe.client.consumer.pull import PULL_TIMEOUT_MS, pull_request
from rocketpipe.client.session import Session
from rocketpipe.errors import RecordError, RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import EVERYTHING
from rocketpipe.pipeline.filters import Wanted
from rocketpipe.pipeline.gaps import Gap
from rocketpipe.pipeline.log_decode import DamagedRecord, Records, walk
from rocketpipe.pipeline.options import ReadOptions
from rocketpipe.pipeline.ranges import Part, QueueRange
from rocketpipe.pipeline.rows import UnreadableMessage
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pulling import PullMessageReply

PORTION_BYTES: Final = 8 << 20
"""So much is put together before it is decoded, or one answer if that is longer."""

PATIENCE_MS: Final = 30_000
AGAIN_MS: Final = 500

_MAX_COUNT: Final = 4096
_WAITING: Final = 2


@dataclass(frozen=True, slots=True)
class _Portion:
    """Answers to pulls of one range that follow each other: from ``start``, next is ``next``."""

    part: QueueRange
    bodies: tuple[bytes, ...]
    start: QueueOffset
    next: QueueOffset


def read_brokers(
    part: Part, options: ReadOptions, wanted: Wanted
) -> Iterator[tuple[QueueRange, Records | Gap]]:
    """The records of a part's ranges, and what of them is missing, in the order of each queue.

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


def _expression(wanted: Wanted) -> str:
    """The tags to ask for, as far as an expression can say it; rows are looked at again anyway."""
    tags = wanted.tags
    if not tags or any(not tag.strip() or "|" in tag or tag != tag.strip() for tag in tags):
        return EVERYTHING
    return " || ".join(sorted(tags)) if "*" not in tags else EVERYTHING


def _records(portion: _Portion, batch_rows: int, *, dense: bool) -> Iterator[Records | Gap]:
    part = portion.part
    body = portion.bodies[0] if len(portion.bodies) == 1 else b"".join(portion.bodies)
    try:
        records = Records(body, *walk(body))
    except DamagedRecord as error:
        raise _unreadable(part, portion.start + error.row, error.reason) from error
    except RecordError as error:
        raise _unreadable(part, portion.start, error.reason) from error
    offsets = records.queue_offsets
    if dense:
        stop = min(portion.next, part.end)
        edges = np.concatenate([[portion.start - 1], offsets[offsets < stop], [stop]])
        for hole in np.flatnonzero(np.diff(edges) > 1).tolist():
            first, following = QueueOffset(int(edges[hole]) + 1), QueueOffset(int(edges[hole + 1]))
            yield Gap(part.queue, first, following)
    if offsets.size and int(offsets[-1]) >= part.end:
        records = records.take(np.flatnonzero(offsets < part.end))
    if records.count <= batch_rows:
        yield records
        return
    for row in range(0, records.count, batch_rows):
        yield records.take(np.arange(row, min(row + batch_rows, records.count)))


def _unreadable(part: QueueRange, offset: int, reason: str) -> UnreadableMessage:
    return UnreadableMessage(part.queue.broker_name, part.queue.queue_id, offset, reason)


async def _started(part: Part, options: ReadOptions, expression: str) -> _Pulls:
    assert options.name_servers is not None
    pulls = _Pulls(part, options, expression, Session(options.name_servers))
    await pulls.start()
    return pulls


class _Pulls:
    """Asks ahead, on the loop; `next` gives what came, in order, and None when all has."""

    def __init__(self, part: Part, options: ReadOptions, expression: str, session: Session) -> None:
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
        start = at = part.start
        bodies: list[bytes] = []
        while at < part.end:
            reply = await self._pull(part, at)
            gone_to = min(max(reply.min_offset, at), part.end)
            following = reply.next_begin_offset
            if reply.messages:
                bodies.append(reply.messages)
            if not reply.messages and following <= at:
                # The queue ends before the part does: it was made anew.
                following = gone_to = part.end
            if gone_to > at and not reply.messages:
                await self._hand_over(part, bodies, start, at)
                await self._came.put((part, Gap(part.queue, at, QueueOffset(gone_to))))
                bodies, start = [], QueueOffset(gone_to)
            at = QueueOffset(max(following, gone_to))
            if sum(map(len, bodies)) >= PORTION_BYTES:
                await self._hand_over(part, bodies, start, at)
                bodies, start = [], at
        await self._hand_over(part, bodies, start, at)

    async def _hand_over(
        self, part: QueueRange, bodies: list[bytes], start: QueueOffset, following: QueueOffset
    ) -> None:
        if following > start:
            await self._came.put(_Portion(part, tuple(bodies), start, following))

    async def _pull(self, part: QueueRange, at: QueueOffset) -> PullMessageReply:
        """One answer that moves on, or says that there is nothing.

        Raises:
            RocketPipeError: The last error, once patience is at an end.
        """
        clock = self._session.clock
        until_ms = clock.monotonic_ms() + PATIENCE_MS
        request = replace(
            pull_request(self._options.group, part.queue, at, self._expression, suspend_ms=0),
            max_msg_nums=min(_MAX_COUNT, part.end - at),
            max_msg_bytes=self._options.max_pull_bytes,
            bulk=True,
        )
        while True:
            try:
                address = await self._address(part)
                reply = await self._session.caller.call(address, request, PULL_TIMEOUT_MS)
                is_busy = reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
                if not is_busy or reply.next_begin_offset > at:
                    return reply
                if clock.monotonic_ms() >= until_ms:
                    return reply
            except RocketPipeError as error:
                may_help = error.retryable or error.stale_route
                if not may_help or clock.monotonic_ms() >= until_ms:
                    raise
                self._addresses.pop(part.queue.broker_name, None)
                self._session.routes.forget(part.queue.topic)
            await clock.sleep(AGAIN_MS)

    async def _address(self, part: QueueRange) -> str:
        name = part.queue.broker_name
        if name not in self._addresses:
            route = await self._session.routes.get(part.queue.topic)
            self._addresses[name] = self._session.reader_of(part.queue, route=route)
        return self._addresses[name]
