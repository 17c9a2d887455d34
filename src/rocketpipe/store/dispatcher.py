"""Follows the log and tells the parts that derive from it what is there, in log order.

    record of …                     queue entry    key index    timer
    an ordinary message             yes            yes          –
    a half message (its own topic)  yes            yes          –
    prepared, by its flags          –              yes          –
    rolled back, by its flags       –              –            –
    rmq_sys_wheel_timer             yes            yes          yes
    SCHEDULE_TOPIC_XXXX             its tag code is when it falls due, not its tag

It reads the log and nothing else, so that it can start again anywhere: each part skips what it
already has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from rocketpipe.errors import RecordError
from rocketpipe.model.flags import TRANSACTION_BITS, Transaction
from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.properties import read_text
from rocketpipe.record.hot import Split, tag_code
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.hot import check_record, key_hashes, queue_entry, value_of
from rocketpipe.store.key_index import KeyIndex
from rocketpipe.store.positions import Positions
from rocketpipe.store.queue_files import QueueDamaged
from rocketpipe.store.queue_set import QueueSet
from rocketpipe.store.timer_wheel import TimerWheel

log = logging.getLogger(__name__)

#: Topic, queue id, queue offset, tag code, when it was stored, properties as encoded.
OnArrival = Callable[[str, int, QueueOffset, int, int, bytes], None]

#: So much waits in memory at most before it is written to the queue files.
PENDING_BYTES: Final = 4 << 20

_PREPARED: Final = int(Transaction.PREPARED)
_ROLLED_BACK: Final = int(Transaction.ROLLED_BACK)
_DELIVERED: Final = b"TIMER_DEQUEUE_MS\x01"
_MAX_TOPICS: Final = 65536


class ReadableLog(Protocol):
    """What the dispatcher needs of the commit log."""

    @property
    def first_offset(self) -> LogOffset:
        """Where the oldest segment begins."""

    def walk(self, start: LogOffset, end: LogOffset) -> Iterator[tuple[LogOffset, bytes]]:
        """Step from record to record."""


def delays_ms(levels: str) -> tuple[int, ...]:
    """Read delay levels such as ``1s 5s 2h``.

    Raises:
        ValueError: One is not a number with s, m, h or d behind it.
    """
    unit_ms = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    delays = []
    for level in levels.split():
        if level[-1:] not in unit_ms or not level[:-1].isdecimal():
            raise ValueError(f"{level!r} is no delay: a number with s, m, h or d behind it")
        delays.append(int(level[:-1]) * unit_ms[level[-1]])
    return tuple(delays)


def _nobody(
    topic: str, queue_id: int, offset: QueueOffset, code: int, stored_ms: int, properties: bytes
) -> None:
    pass


class Dispatcher:
    """Brings queues, index and timer up to the confirmed end of the log."""

    def __init__(
        self,
        commit_log: ReadableLog,
        positions: Positions,
        queues: QueueSet,
        index: KeyIndex,
        timer: TimerWheel | None = None,
        *,
        level_delays_ms: Sequence[int] = (),
        on_arrival: OnArrival = _nobody,
        deferred: bool = True,
        index_tags: bool = False,
    ) -> None:
        """Take what is read and what is written.

        ``deferred`` leaves queue entries in memory, where readers see them, until there are many;
        otherwise they are in their files when `run` returns. ``index_tags`` has tags indexed as
        RocketMQ does from 5.5 on.
        """
        self._log = commit_log
        self._positions = positions
        self._queues = queues
        self._index = index
        self._timer = timer
        self._delays_ms = level_delays_ms
        self._on_arrival = on_arrival
        self._deferred = deferred
        self._index_tags = index_tags
        self._topics: dict[bytes, str] = {}
        #: What stopped it, if something did. `skip_to` lets it go on behind.
        self.damage: RecordCorrupt | None = None

    @property
    def behind_bytes(self) -> int:
        """How much of the log readers could see if it were dispatched."""
        return self._positions.confirmed - self._positions.dispatched

    def run(self, limit_bytes: int | None = None) -> int:
        """Dispatch up to the confirmed end, or about ``limit_bytes``; gives the count of records.

        Whatever it raises, it goes on at the same record when it is run again.

        Raises:
            RecordCorrupt: A record is not as it was written. Nothing is dispatched beyond it.
            DiskError: The log cannot be read, or the derived files not be written.
        """
        positions = self._positions
        start, end = positions.dispatched, positions.confirmed
        if start >= end:
            return 0
        stop = end if limit_bytes is None else min(end, start + limit_bytes)
        count = 0
        at = start
        try:
            for at, record in self._log.walk(start, end):
                if at >= stop:
                    break
                self._dispatch(record, at)
                at = LogOffset(at + len(record))
                count += 1
                if self._queues.pending_bytes >= PENDING_BYTES:
                    self._queues.flush_pending()
            else:
                at = end
            self.damage = None
        except RecordCorrupt as damage:
            self.damage = damage
            raise
        finally:
            positions.dispatched = LogOffset(max(at, start))
            self._reached(positions.dispatched)
        if not self._deferred:
            self._queues.flush_pending()
            self._index.flush_pending()
        return count

    def skip_to(self, offset: LogOffset) -> None:
        """Go on at ``offset``: what lies before it and was not dispatched never will be."""
        log.warning("dispatch skips damage from=%d to=%d", self._positions.dispatched, offset)
        self._positions.dispatched = offset
        self._reached(offset)
        self.damage = None

    def rebuild_queue(
        self, topic: str, queue_id: int, start: LogOffset, end: LogOffset | None = None
    ) -> int:
        """Write one damaged queue again from the log; gives the count of its entries.

        ``start`` is the first offset of the log; ``end`` is where dispatching has come to, if that
        is not noted yet.

        Raises:
            RecordCorrupt: A record is not as it was written.
            DiskError: The log cannot be read, or the files not be written.
        """
        log.warning("queue is written again topic=%s queue_id=%d", topic, queue_id)
        self._queues.destroy(topic, queue_id)
        count = 0
        end = self._positions.dispatched if end is None else end
        for at, record in self._log.walk(start, end):
            head, _, topic_at, topic_end, properties_at, _ = self._check(record, at)
            if head[3] != queue_id or record[topic_at:topic_end] != topic.encode():
                continue
            if not head[7] & _PREPARED:
                code = self._code(topic, record[properties_at:], head[10])
                entry = queue_entry(at, len(record), code)
                self._queues.append(topic, queue_id, entry, QueueOffset(head[5]))
                count += 1
        queue = self._queues.queue(topic, queue_id)
        if queue is not None:
            queue.set_min(start)
        return count

    def rebuild_index(self, start: LogOffset) -> int:
        """Index again what is behind ``start``, after `KeyIndex.drop_from` gave it.

        Raises:
            RecordCorrupt: A record is not as it was written.
            DiskError: The log cannot be read, or the files not be written.
        """
        count = 0
        for at, record in self._log.walk(start, self._positions.dispatched):
            head, _, topic_at, topic_end, properties_at, _ = self._check(record, at)
            if head[7] & TRANSACTION_BITS != _ROLLED_BACK:
                topic = self._topic(record[topic_at:topic_end])
                self._index.put(
                    at, head[10], key_hashes(topic, record[properties_at:], self._index_tags)
                )
                count += 1
        self._index.holds_to = self._positions.dispatched
        return count

    def _reached(self, offset: LogOffset) -> None:
        self._queues.holds_to = max(self._queues.holds_to, offset)
        self._index.holds_to = max(self._index.holds_to, offset)
        if self._timer is not None:
            self._timer.holds_to = max(self._timer.holds_to, offset)

    def _check(self, record: bytes, at: LogOffset) -> Split:
        try:
            return check_record(record, at)
        except RecordError as error:
            raise RecordCorrupt(at, error.reason) from error

    def _dispatch(self, record: bytes, at: LogOffset) -> None:
        head, _, topic_at, topic_end, properties_at, _ = self._check(record, at)
        queue_id, offset, transaction = head[3], head[5], head[7] & TRANSACTION_BITS
        stored_ms = head[10]
        topic = self._topic(record[topic_at:topic_end])
        properties = record[properties_at:]
        code = 0
        if not transaction & _PREPARED:  # of these bits, rolled back has it too
            code = self._code(topic, properties, stored_ms)
            entry = queue_entry(at, len(record), code)
            try:
                self._queues.append(topic, queue_id, entry, QueueOffset(offset))
            except QueueDamaged:
                self.rebuild_queue(topic, queue_id, self._log.first_offset, at)
                self._queues.append(topic, queue_id, entry, QueueOffset(offset))
            except ValueError as error:
                raise RecordCorrupt(at, str(error)) from error
        if transaction != _ROLLED_BACK:
            self._index.put(at, stored_ms, key_hashes(topic, properties, self._index_tags))
        if self._timer is not None and (topic == TIMER_TOPIC or _DELIVERED in properties):
            self._timer.observe(topic, properties, at, len(record), QueueOffset(offset), stored_ms)
        if not transaction & _PREPARED:
            try:
                self._on_arrival(topic, queue_id, offset, code, stored_ms, properties)
            except Exception:
                # Who waits for messages must not stop them from being dispatched.
                log.exception("arrival callback failed topic=%s queue_id=%d", topic, queue_id)

    def _code(self, topic: str, properties: bytes, stored_ms: int) -> int:
        if topic == SCHEDULE_TOPIC:
            level = value_of(properties, b"DELAY\x01")
            if level.isdigit() and int(level) > 0 and self._delays_ms:
                return stored_ms + self._delays_ms[min(int(level), len(self._delays_ms)) - 1]
        return tag_code(properties)

    def _topic(self, raw: bytes) -> str:
        topic = self._topics.get(raw)
        if topic is None:
            if len(self._topics) >= _MAX_TOPICS:
                self._topics.clear()
            topic = self._topics[raw] = read_text(raw)
        return topic
