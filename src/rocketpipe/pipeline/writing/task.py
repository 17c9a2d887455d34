"""One attempt of one task: its Arrow batches encoded, cut into parcels and sent.

any row             in batches of ``batchBytes``, to whichever queue
with a queue key    in batches to the queue that its hash chooses, in the rows' order
delayed, very long, or to a retry topic
                    alone, as brokers take no batches of those

What is staged is also counted (``client.producer.stage_content``), by the broker that it goes to. A
row that may go anywhere goes to the broker that its checksum says, so that each attempt brings the
same rows to the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from rocketpipe.client.identity import Identity
from rocketpipe.client.producer.staging.content import Content
from rocketpipe.client.producer.staging.stages import brokers_of
from rocketpipe.client.session import Session
from rocketpipe.clock import Clock
from rocketpipe.model.names import is_retry_topic
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.columns.encode import Entries, KeyRun, Numbers, encode_rows
from rocketpipe.pipeline.columns.write_rows import Rows, rows_by_topic
from rocketpipe.pipeline.options.write import WriteOptions
from rocketpipe.pipeline.writing.sender import SendUnit, Sink, TaskSender
from rocketpipe.record.batch import decode_batch

_NO_HASH: Final = -1


@dataclass(slots=True)
class Sent:
    """What an attempt has sent."""

    rows: int = 0
    sends: int = 0
    #: Of what is staged, what each broker has.
    contents: dict[str, Content] = field(default_factory=dict)


def write_task(
    batches: Iterable[pa.RecordBatch],
    options: WriteOptions,
    session: Session,
    way: Sink,
    *,
    staged: bool = False,
) -> Sent:
    """Send every row; returns when all of it is stored. No connection is made for no rows.

    Raises:
        BadRow: If a row is no message.
        RocketPipeError: If brokers do not take it within the options' time.
    """
    total = Sent()
    with ExitStack() as stack:
        work: TaskWork | None = None
        for batch in batches:
            if work is None and batch.num_rows:
                outlet = stack.enter_context(TaskSender(options, session, way))
                work = TaskWork(options, outlet, session.clock, total, staged=staged)
            if work is not None:
                work.add(batch)
        if work is not None:
            work.finish()
    return total


class TaskWork:
    """Encodes and cuts for one outlet."""

    def __init__(
        self,
        options: WriteOptions,
        outlet: TaskSender,
        clock: Clock,
        total: Sent,
        *,
        staged: bool = False,
    ) -> None:
        self._staged = staged
        self._options = options
        self._outlet = outlet
        self._clock = clock
        self._total = total
        # No other client has this identity, so nobody else makes these keys.
        self._keys = KeyRun(Identity.of_this_process().unique_keys())
        self._batch_keys = Identity.of_this_process().unique_keys()

    def add(self, batch: pa.RecordBatch) -> None:
        """Send the rows of a batch, but for what the outlet has no room for yet.

        Raises:
            BadRow: If a row is no message.
            RocketPipeError: If an earlier send failed.
        """
        for topic, rows in rows_by_topic(batch, self._options.topic, self._total.rows):
            self._topic(topic, rows)
        self._total.rows += batch.num_rows

    def finish(self) -> None:
        """Wait until everything is stored.

        Raises:
            RocketPipeError: If a send failed.
        """
        self._outlet.finish()

    def _topic(self, topic: str, rows: Rows) -> None:
        if rows.levels is None and rows.hashes is None and not is_retry_topic(topic):
            self._anywhere(topic, self._encode(rows))
            return
        alone = np.zeros(len(rows), bool)
        if rows.levels is not None:
            alone = rows.levels.is_valid().to_numpy(zero_copy_only=False)
        if is_retry_topic(topic):
            alone[:] = True
        queues: Sequence[MessageQueue] = ()
        chosen = np.full(len(rows), _NO_HASH)
        if rows.hashes is not None:
            queues = self._outlet.queues(topic)
            chosen = np.where(rows.hashes == _NO_HASH, _NO_HASH, rows.hashes % len(queues))
        if alone.any():
            self._alone(topic, rows, np.flatnonzero(alone), queues, chosen)
        together = np.flatnonzero(~alone)
        if not together.size:
            return
        order = together[np.argsort(chosen[together], kind="stable")]
        entries = self._encode(rows.take(order))
        sums = self._sums(topic, entries)
        cuts = np.flatnonzero(np.diff(chosen[order])) + 1
        for first, last in pairwise([0, *cuts.tolist(), order.size]):
            queue = _one_of(queues, int(chosen[order[first]]))
            if sums is None:
                self._batches(topic, entries, first, last, queue)
            elif queue is None:
                some = np.arange(first, last)
                self._spread(topic, entries.take(some), sums[some])
            else:
                self._count(topic, queue.broker_name, entries, sums, first, last)
                self._batches(topic, entries, first, last, queue)

    def _alone(
        self,
        topic: str,
        rows: Rows,
        indices: Numbers,
        queues: Sequence[MessageQueue],
        chosen: Numbers,
    ) -> None:
        entries = self._encode(rows.take(indices))
        sums = self._sums(topic, entries)
        brokers = self._brokers(topic)
        for at, number in enumerate(chosen[indices].tolist()):
            queue = _one_of(queues, number)
            broker = None
            if sums is not None:
                broker = brokers[int(sums[at]) % len(brokers)]
                goes_to = broker if queue is None else queue.broker_name
                self._count(topic, goes_to, entries, sums, at, at + 1)
            self._single(topic, entries.body(at), queue, broker)

    def _anywhere(self, topic: str, entries: Entries) -> None:
        """Send what may go to any queue."""
        sums = self._sums(topic, entries)
        if sums is None:
            self._batches(topic, entries)
        else:
            self._spread(topic, entries, sums)

    def _spread(self, topic: str, entries: Entries, sums: Numbers) -> None:
        """Send each row to the broker that its sum says."""
        brokers = self._brokers(topic)
        for number, name in enumerate(brokers):
            some, its_sums = entries, sums
            if len(brokers) > 1:
                indices = np.flatnonzero(sums % len(brokers) == number)
                some, its_sums = entries.take(indices), sums[indices]
            self._count(topic, name, some, its_sums, 0, len(some))
            self._batches(topic, some, broker=name)

    def _sums(self, topic: str, entries: Entries) -> Numbers | None:
        return entries.checksums(crc32(topic.encode())) if self._staged else None

    def _brokers(self, topic: str) -> list[str]:
        return brokers_of(self._outlet.queues(topic)) if self._staged else []

    def _count(
        self, topic: str, broker: str, entries: Entries, sums: Numbers, first: int, last: int
    ) -> None:
        size = int(entries.starts[last] - entries.starts[first])
        content = self._total.contents.setdefault(broker, Content())
        content.take(topic, last - first, size, int(sums[first:last].sum()))

    def _batches(
        self,
        topic: str,
        entries: Entries,
        first: int = 0,
        last: int | None = None,
        queue: MessageQueue | None = None,
        broker: str | None = None,
    ) -> None:
        limit = self._options.batch_bytes
        for body, count in entries.bodies(limit, first, last):
            if len(body) > limit:
                self._single(topic, body, queue, broker)
            else:
                self._send(topic, body, count, None, queue, broker)

    def _single(
        self,
        topic: str,
        entry: memoryview,
        queue: MessageQueue | None,
        broker: str | None = None,
    ) -> None:
        [(_, body, text)] = decode_batch(entry, max_bytes=len(entry))
        self._send(topic, body, 1, text.decode(), queue, broker)

    def _send(
        self,
        topic: str,
        body: bytes | memoryview,
        count: int,
        text: str | None,
        queue: MessageQueue | None,
        broker: str | None,
    ) -> None:
        now_ms = self._clock.now_ms()
        parcel = SendUnit(topic, body, count, self._batch_keys.next(now_ms), now_ms, text, broker)
        self._outlet.send(parcel, queue)
        self._total.sends += 1

    def _encode(self, rows: Rows) -> Entries:
        return encode_rows(rows, self._keys, self._clock.now_ms())


def _one_of(queues: Sequence[MessageQueue], number: int) -> MessageQueue | None:
    return None if number == _NO_HASH else queues[number]
