"""What falls due when: messages that wait in ``rmq_sys_wheel_timer`` for their time.

Everything here follows from the log. The dispatcher shows it every record, and of these it notes

    a record of the timer topic          a message waits until it is due
      … with TIMER_ROLL_TIMES            the same message as one before it, which no longer counts
      … with TIMER_DEL_UNIQKEY           the message of this topic and key is cancelled
    TIMER_DEQUEUE_MS in another topic    a message was delivered there

so that a message is delivered once, however often the broker starts anew. What waits is saved now
and then, to spare reading the log from the oldest of them:

    timer/pending.json    {"holds_to": log offset, "pending": [[due ms, TIMER_OUT_MS, log offset,
                           size, queue offset, topic and key], …]}

RocketMQ keeps time in whole seconds: TIMER_OUT_MS is the second before the one in which a message
is due. The properties of the producer say when exactly, and that is when it is due here.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, Final

from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.properties import read_text
from rocketpipe.store.disk import Disk
from rocketpipe.store.hot import value_of
from rocketpipe.store.side_work import Portion
from rocketpipe.store.snapshot import Snapshot, SnapshotDamaged

log = logging.getLogger(__name__)

#: What TIMER_OUT_MS is rounded to.
PRECISION_MS: Final = 1000
#: The file in which it is saved what waits.
PENDING: Final = "pending.json"
MAX_DELAY_MS: Final = 3 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, order=True)
class Timed:
    """A message that waits: when it is due, and where it is in the log."""

    due_ms: int
    log_offset: LogOffset
    size: int
    queue_offset: QueueOffset
    out_ms: int
    #: Real topic and unique key, with ``+`` between them, as a recall names it.
    key: str


def out_ms(deliver_ms: int) -> int:
    """What TIMER_OUT_MS has to be for a message that is to be delivered at ``deliver_ms``."""
    return (deliver_ms - 1) // PRECISION_MS * PRECISION_MS


def due_ms(properties: bytes, out: int, stored_ms: int) -> int:
    """When a message of the timer topic is due, to the millisecond, and never too early."""
    latest = out + 2 * PRECISION_MS
    for name, unit_ms, base_ms in (
        (b"TIMER_DELAY_SEC\x01", 1000, stored_ms),
        (b"TIMER_DELAY_MS\x01", 1, stored_ms),
        (b"TIMER_DELIVER_MS\x01", 1, 0),
    ):
        text = value_of(properties, name)
        if text:
            exact = base_ms + int(text) * unit_ms if _is_number(text) else 0
            # Of a message that was put again for the rest of its delay, the delay says nothing.
            return exact if out <= exact <= latest else out + PRECISION_MS
    return out + PRECISION_MS


def _is_number(text: bytes) -> bool:
    return text.isdigit() and len(text) <= 18


class TimerWheel:
    """Messages by the time at which they are due. Every one is kept in memory, some 400 bytes each.

    `due` hands a message out; it stays noted until the log shows that it was delivered, or `done`
    says so, and comes again after a restart if neither happened.
    """

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._pending: dict[int, Timed] = {}
        self._heap: list[tuple[int, int]] = []
        self._keys: defaultdict[str, set[int]] = defaultdict(set)
        self._handed_out: set[int] = set()
        self._directory = directory
        self._disk = disk
        self._snapshot = Snapshot(disk, directory / PENDING)
        self._synced_to = LogOffset(0)
        #: What every record before it says is noted here. The dispatcher moves it.
        self.holds_to = LogOffset(0)

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def synced_to(self) -> LogOffset:
        """Up to where the saved state knows the log."""
        return self._synced_to

    def observe(
        self,
        topic: str,
        properties: bytes,
        log_offset: LogOffset,
        size: int,
        queue_offset: QueueOffset,
        stored_ms: int,
    ) -> None:
        """Take note of a record of the log; to do it again is no harm."""
        if log_offset < self.holds_to:
            return
        if topic != TIMER_TOPIC:
            if b"TIMER_DEQUEUE_MS\x01" in properties:
                self._delivered(topic, properties)
            return
        out = value_of(properties, b"TIMER_OUT_MS\x01")
        real_topic = value_of(properties, b"REAL_TOPIC\x01")
        if not _is_number(out) or not real_topic:
            log.warning("record of the timer topic has no due time log_offset=%d", log_offset)
            return
        recalled = value_of(properties, b"TIMER_DEL_UNIQKEY\x01")
        if recalled:
            self.cancel(read_text(recalled))
            return
        key = _key(read_text(real_topic), properties)
        if value_of(properties, b"TIMER_ROLL_TIMES\x01"):
            self._forget_first(key, int(out))
        exact = due_ms(properties, int(out), stored_ms)
        self._add(Timed(exact, log_offset, size, queue_offset, int(out), key))

    def _delivered(self, topic: str, properties: bytes) -> None:
        out = value_of(properties, b"TIMER_OUT_MS\x01")
        if _is_number(out):
            self._forget_first(_key(topic, properties), int(out))

    def _forget_first(self, key: str, out: int) -> None:
        """Forget the oldest message with this key and time: another may have been sent twice."""
        same = [at for at in self._keys.get(key, ()) if self._pending[at].out_ms == out]
        if same:
            self._forget(min(same))

    def _add(self, timed: Timed) -> None:
        if timed.log_offset not in self._pending:
            self._pending[timed.log_offset] = timed
            self._keys[timed.key].add(timed.log_offset)
            heappush(self._heap, (timed.due_ms, timed.log_offset))

    def _forget(self, log_offset: int) -> None:
        timed = self._pending.pop(log_offset, None)
        if timed is None:
            return
        self._handed_out.discard(log_offset)
        same = self._keys[timed.key]
        same.discard(log_offset)
        if not same:
            del self._keys[timed.key]
        if len(self._heap) > 2 * len(self._pending) + 1024:
            # Many were cancelled before their time: what is left of them would never go.
            self._refill_heap()

    def _refill_heap(self) -> None:
        self._heap = [
            (timed.due_ms, at) for at, timed in self._pending.items() if at not in self._handed_out
        ]
        heapify(self._heap)

    def due(self, now_ms: int, limit: int) -> list[Timed]:
        """Hand out at most ``limit`` messages that are due, the longest overdue first.

        None is handed out twice before `give_back`.
        """
        found: list[Timed] = []
        while self._heap and self._heap[0][0] <= now_ms and len(found) < limit:
            _, at = heappop(self._heap)
            timed = self._pending.get(at)
            if timed is not None and at not in self._handed_out:
                self._handed_out.add(at)
                found.append(timed)
        return found

    def next_due_ms(self) -> int | None:
        """When `due` will have something next; None while nothing waits."""
        while self._heap and (
            self._heap[0][1] not in self._pending or self._heap[0][1] in self._handed_out
        ):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def done(self, timed: Timed) -> None:
        """Say that a message was delivered: its copy is in the log."""
        self._forget(timed.log_offset)

    def give_back(self, timed: Timed) -> None:
        """Say that a message which was handed out could not be delivered: it is due again."""
        if timed.log_offset in self._handed_out:
            self._handed_out.discard(timed.log_offset)
            heappush(self._heap, (timed.due_ms, timed.log_offset))

    def cancel(self, key: str) -> int:
        """Forget what waits with ``topic+uniqueKey``; gives how many that were.

        A message that was handed out is not called back. To survive a restart, a record that
        says so has to be in the log: TIMER_DEL_UNIQKEY is for that.
        """
        found = [at for at in self._keys.get(key, ()) if at not in self._handed_out]
        for at in found:
            self._forget(at)
        return len(found)

    def waits(self, key: str) -> bool:
        """Whether a message with ``topic+uniqueKey`` waits and was not handed out."""
        return any(at not in self._handed_out for at in self._keys.get(key, ()))

    def pending(self, begin_ms: int, end_ms: int) -> Iterator[Timed]:
        """List what is due from ``begin_ms`` to below ``end_ms``, the first due first."""
        return iter(
            sorted(timed for timed in self._pending.values() if begin_ms <= timed.due_ms < end_ms)
        )

    def recover(
        self, log_first: LogOffset, log_end: LogOffset, oldest: LogOffset | None
    ) -> LogOffset:
        """Take over what was saved; gives the offset in the log from which to dispatch again.

        ``oldest`` is the first record of the timer topic that is still in the log, if there is one.

        Raises:
            DiskError: The file cannot be read.
        """
        saved = self._load()
        if saved is None or saved[0] > log_end:
            start = log_end if oldest is None else oldest
        else:
            start = saved[0]
            lost = 0
            for timed in saved[1]:
                if timed.log_offset >= log_first:
                    self._add(timed)
                else:
                    lost += 1
            if lost:
                log.warning("timed messages went with the log before they were due count=%d", lost)
        self.holds_to = self._synced_to = LogOffset(max(start, log_first))
        return self.holds_to

    def truncate(self, log_end: LogOffset, oldest: LogOffset | None) -> LogOffset:
        """Forget what follows from records that are not before ``log_end``, durably.

        Gives the offset in the log from which to dispatch again: a delivery that was cut off
        has not happened.

        Raises:
            DiskError: The state cannot be saved.
        """
        self._pending.clear()
        self._keys.clear()
        self._handed_out.clear()
        self._heap.clear()
        self.holds_to = LogOffset(min(log_end, log_end if oldest is None else oldest))
        self.sync()
        return self.holds_to

    def delete_before(self, log_offset: LogOffset) -> int:
        """Forget messages that are gone from the log; gives how many."""
        gone = [at for at in self._pending if at < log_offset]
        for at in gone:
            self._forget(at)
        if gone:
            log.warning("timed messages went with the log before they were due count=%d", len(gone))
        return len(gone)

    def sync(self) -> None:
        """Save what waits; ``synced_to`` moves up.

        Raises:
            DiskError: It could not be saved.
        """
        self.begin_sync().now()

    def begin_sync(self) -> Portion:
        """Have what waits now saved, as `sync` does."""
        rows = [
            [
                timed.due_ms,
                timed.out_ms,
                timed.log_offset,
                timed.size,
                timed.queue_offset,
                timed.key,
            ]
            for timed in self._pending.values()
        ]
        holds_to = self.holds_to
        text = json.dumps({"holds_to": holds_to, "pending": rows}).encode()

        def note() -> None:
            self._synced_to = holds_to

        return Portion(lambda: self._snapshot.save(text), note)

    def _load(self) -> tuple[LogOffset, list[Timed]] | None:
        if self._directory.name not in self._disk.names(self._directory.parent):
            return None
        try:
            return self._snapshot.load(parse_pending)
        except SnapshotDamaged as damage:
            log.warning("what waits for its time is read from the log again reason=%s", damage)
            return None


def _key(topic: str, properties: bytes) -> str:
    return f"{topic}+{read_text(value_of(properties, b'UNIQ_KEY' + bytes([1])))}"


def parse_pending(text: bytes) -> tuple[LogOffset, list[Timed]]:
    """Read what was saved: up to where it knows the log, and what waits.

    Raises:
        ValueError: It is something else.
    """
    whole: Any = json.loads(text)
    try:
        return LogOffset(whole["holds_to"]), [
            Timed(due, LogOffset(at), size, QueueOffset(number), out, key)
            for due, out, at, size, number, key in whole["pending"]
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"nothing that waits: {error!r}") from error
