"""Which half messages wait for a decision, as the log says it.

It follows the half topic and the topic of op messages, each from where the last run had come to:
``CID_RMQ_SYS_TRANS`` commits offsets of both, as at RocketMQ's brokers. What lies before them is
decided. A place is committed once everything before it is durable, so a power cut leaves no half
message that nobody knows of.

Each that waits takes some 500 bytes of memory, and `HalfRoom` says how many may. None waits for
ever: the broker asks its producer a number of times, and then gives it up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rocketpipe.broker.intake.half_messages import QUEUE, Half, offsets_done
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.errors import RecordError
from rocketpipe.model.names import HALF_OP_TOPIC, HALF_TOPIC, TRANSACTION_GROUP
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.log.puts import Appended
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

_BATCH: Final = 256
_BATCH_BYTES: Final = 1 << 20
#: So many of the last decisions are remembered, for those who come late or ask twice.
REMEMBERED: Final = 65_536


class Outcome(Enum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    GIVEN_UP = "given up"


@dataclass(slots=True)
class Ended:
    """How a transaction ended, and up to where the log has to be durable for that to stay."""

    outcome: Outcome
    #: None while it is being written.
    end: LogOffset | None = None


class OpenTransactions:
    """The half messages that nobody has decided, by the place of their first copy."""

    def __init__(self, store: MessageStore, offsets: OffsetTable) -> None:
        """Read what the last run left.

        Raises:
            DiskError: The log or a queue cannot be read.
        """
        self._store = store
        self._offsets = offsets
        self._open: dict[QueueOffset, Half] = {}
        #: The first copy's place by that of the newest.
        self._origins: dict[QueueOffset, QueueOffset] = {}
        self._by_key: dict[str, QueueOffset] = {}
        self._moving: dict[QueueOffset, asyncio.Future[None]] = {}
        self._ended: OrderedDict[QueueOffset, Ended] = OrderedDict()
        self._half_at = self._start(HALF_TOPIC)
        self._op_at = self._start(HALF_OP_TOPIC)
        #: Op messages, each with the last half message it names, that the place is not beyond.
        self._ops: deque[tuple[QueueOffset, QueueOffset]] = deque()
        self._unsaved: tuple[LogOffset, QueueOffset, QueueOffset] | None = None
        self.catch_up()
        for half in self._open.values():
            half.inherited = True

    def _start(self, topic: str) -> QueueOffset:
        first, end = self._store.min_offset(topic, QUEUE), self._store.max_offset(topic, QUEUE)
        noted = self._offsets.committed(TRANSACTION_GROUP, topic, QUEUE)
        if noted is None:
            return first
        if not first <= noted <= end:
            log.warning(
                "place is moved into its queue topic=%s noted=%d first=%d end=%d",
                topic,
                noted,
                first,
                end,
            )
        return min(max(noted, first), end)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Half]:
        """Those that wait, as they are now, the oldest first."""
        return iter(sorted(self._open.values(), key=lambda half: half.offset))

    def by_topic(self) -> Counter[str]:
        """How many wait, by the topic that they are for."""
        return Counter(half.topic for half in self._open.values())

    def has_room(self, limit: int) -> bool:
        """Whether fewer than so many wait; asking costs next to nothing while few do."""
        unread = self._store.max_offset(HALF_TOPIC, QUEUE) - self._half_at
        if len(self._open) + unread < limit:
            return True
        self.catch_up()
        return len(self._open) < limit

    # What the log says

    def catch_up(self) -> None:
        """Take note of what became readable since.

        Raises:
            DiskError: The log or a queue cannot be read.
        """
        # The half messages first: whatever an op message names is known by then.
        self._half_at = self._follow(HALF_TOPIC, self._half_at, self._note_half)
        self._op_at = self._follow(HALF_OP_TOPIC, self._op_at, self._note_op)

    def _follow(
        self, topic: str, at: QueueOffset, note: Callable[[RecordView], None]
    ) -> QueueOffset:
        end = self._store.max_offset(topic, QUEUE)
        while at < end:
            try:
                found = self._store.read(
                    topic, QUEUE, at, max_count=_BATCH, max_bytes=_BATCH_BYTES, max_scan=_BATCH
                )
                for record in view_records(found.records):
                    note(record)
            except (RecordCorrupt, RecordError) as error:
                log.error("%s: a record is damaged, and passed over reason=%s", topic, error)
                at = QueueOffset(at + 1)
                continue
            if found.next_offset <= at:
                break
            at = found.next_offset
        return at

    def _note_half(self, record: RecordView) -> None:
        half = Half.of(record)
        if half.checks and half.origin == half.offset and half.key in self._by_key:
            # Apache's brokers do not say of which one a copy is; the key does.
            half.origin = self._by_key[half.key]
        if half.origin in self._ended:
            return
        known = self._open.get(half.origin)
        if known is None or known.offset < half.offset:
            self._set(half)

    def _set(self, half: Half) -> None:
        known = self._open.get(half.origin)
        if known is not None:
            self._origins.pop(known.offset, None)
        self._open[half.origin] = half
        self._origins[half.offset] = half.origin
        if half.key:
            self._by_key[half.key] = half.origin

    def _note_op(self, record: RecordView) -> None:
        last = QueueOffset(-1)
        for offset in offsets_done(record):
            last = max(last, offset)
            origin = self._origins.get(offset)
            if origin is not None:
                self._drop(self._open[origin])
        self._ops.append((record.queue_offset, last))

    def _drop(self, half: Half) -> None:
        del self._open[half.origin]
        self._origins.pop(half.offset, None)
        if self._by_key.get(half.key) == half.origin:
            del self._by_key[half.key]

    # What is about to be in the log

    def get(self, origin: QueueOffset) -> Half | None:
        """The half message whose first copy is there, if it waits."""
        return self._open.get(origin)

    def is_open(self, key: str) -> bool:
        """Whether one with this unique key waits."""
        return key in self._by_key

    def end(self, half: Half, outcome: Outcome) -> Ended:
        """Say that a transaction ends now: nobody else can end it, from here on.

        Whoever says so fills in ``end``, or calls `reopen`.
        """
        assert half.origin not in self._moving, "it is being put again"
        self._drop(half)
        ended = self._ended[half.origin] = Ended(outcome)
        while len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
        return ended

    def reopen(self, half: Half) -> None:
        """Say that its end could not be written: it waits again."""
        self._ended.pop(half.origin, None)
        self._set(half)

    def ended(self, origin: QueueOffset) -> Ended | None:
        """How a transaction ended, if that was one of the last."""
        return self._ended.get(origin)

    def move(self, halves: list[Half]) -> asyncio.Future[None]:
        """Say that these are put again now; `moved` is called with where, or with nothing."""
        moving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for half in halves:
            self._moving[half.origin] = moving
        return moving

    def moved(self, halves: list[Half], placed: list[Appended]) -> None:
        """Take over the new places; without any, they stay as they were."""
        for half, place in zip(halves, placed, strict=bool(placed)):
            self._origins.pop(half.offset, None)
            half.offset, half.log_offset = place.queue_offset, place.log_offset
            half.stored_ms = place.stored_ms
            half.checks += 1
            self._origins[half.offset] = half.origin
        for half in halves:
            moving = self._moving.pop(half.origin, None)
            if moving is not None and not moving.done():
                moving.set_result(None)

    async def settled(self, origin: QueueOffset) -> None:
        """Wait while a half message is being put again: until then nobody knows its place."""
        while (moving := self._moving.get(origin)) is not None:
            await asyncio.shield(moving)

    # How far it has come

    def save_place(self, *, closing: bool = False) -> None:
        """Commit how far both topics are done with, as far as that is durable by now."""
        durable = self._store.positions.durable
        if self._unsaved is not None and self._unsaved[0] <= durable:
            self._commit(*self._unsaved[1:])
            self._unsaved = None
        if self._unsaved is None:
            half_at = min(self._origins, default=self._half_at)
            while self._ops and self._ops[0][1] < half_at:
                self._ops.popleft()
            op_at = self._ops[0][0] if self._ops else self._op_at
            self._unsaved = (self._store.positions.written, half_at, op_at)
            if closing:
                self.save_place()

    def _commit(self, half_at: QueueOffset, op_at: QueueOffset) -> None:
        for topic, offset in ((HALF_TOPIC, half_at), (HALF_OP_TOPIC, op_at)):
            if self._offsets.committed(TRANSACTION_GROUP, topic, QUEUE) != offset:
                self._offsets.commit(TRANSACTION_GROUP, topic, QUEUE, offset)

    def lost(self) -> list[Half]:
        """Forget those whose newest copy has gone with the oldest part of the log; gives them."""
        first = self._store.first_offset
        gone = [half for half in self._open.values() if half.log_offset < first]
        for half in gone:
            self._drop(half)
        return gone
