"""Tells what became of messages, as messages of a topic of their own.

Records are kept for a moment and sent together, those of one topic and region in one message. They
never hold anybody up: where too many wait to be sent, the next ones are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.message import Message
from rocketpipe.model.names import TRACE_TOPIC
from rocketpipe.model.trace import Published, TraceRecord, encode, lookup_keys
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

MAX_WAITING: Final = 2048
BATCH_RECORDS: Final = 10
MAX_BODY_BYTES: Final = 128_000
LINGER_MS: Final = 500

_unsent = LogBudget()


class Tracer:
    """Collects trace records and sends them with ``send``, a producer's or any other."""

    def __init__(
        self,
        send: Callable[[Message], Awaitable[object]],
        clock: Clock,
        *,
        topic: str = TRACE_TOPIC,
        max_waiting: int = MAX_WAITING,
        batch_records: int = BATCH_RECORDS,
    ) -> None:
        self.topic = topic
        self._send = send
        self._clock = clock
        self._max_waiting = max_waiting
        self._batch_records = batch_records
        self._waiting: deque[TraceRecord] = deque()
        self._some = asyncio.Event()
        self._flushing = asyncio.Lock()
        #: Records that nobody will see.
        self.dropped = 0

    def add(self, record: TraceRecord) -> bool:
        """Have a record sent soon; False if too many wait already, and it is dropped."""
        if isinstance(record, Published) and record.topic == self.topic:
            return False  # a trace of traces would never end
        if len(self._waiting) >= self._max_waiting:
            self._drop(1, "too many wait")
            return False
        self._waiting.append(record)
        self._some.set()
        return True

    async def run(self) -> None:
        """Send what was added, from time to time, for ever."""
        while True:
            await self._some.wait()
            if len(self._waiting) < self._batch_records:
                await self._clock.sleep(LINGER_MS)
            await self.flush()

    async def flush(self) -> None:
        """Send all that was added; what cannot be sent is dropped."""
        async with self._flushing:
            self._some.clear()
            records = list(self._waiting)
            self._waiting.clear()
            for batch in self._batches(records):
                try:
                    body = encode(batch).encode()
                    await self._send(Message(self.topic, body, keys=lookup_keys(batch)))
                except RocketPipeError as error:
                    self._drop(len(batch), str(error))

    def _batches(self, records: Sequence[TraceRecord]) -> Iterator[list[TraceRecord]]:
        groups: dict[tuple[str | None, str | None], list[TraceRecord]] = {}
        for record in records:
            key = (getattr(record, "topic", None), getattr(record, "region", None))
            groups.setdefault(key, []).append(record)
        for group in groups.values():
            batch: list[TraceRecord] = []
            size = 0
            for record in group:
                length = _length(record)
                if batch and (len(batch) >= self._batch_records or size + length > MAX_BODY_BYTES):
                    yield batch
                    batch, size = [], 0
                batch.append(record)
                size += length
            yield batch

    def _drop(self, count: int, reason: str) -> None:
        self.dropped += count
        if _unsent.allows():
            log.warning(
                "trace records dropped count=%d topic=%s reason=%s%s",
                count,
                self.topic,
                reason,
                _unsent.suppressed(),
            )


def _length(record: TraceRecord) -> int:
    try:
        return len(encode([record]).encode())
    except RocketPipeError:
        return 0  # said when its batch is written
