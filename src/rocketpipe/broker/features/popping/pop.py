"""Takes messages from queues for a group, so that nobody else gets them for a while.

A pop looks at the queues of its topic from a random one on, and at those of its retry topic before
or behind them. What it takes of a queue is written down first (`ReviveLog`), and given out then.
In order, a queue gives nothing while something of it is hidden; otherwise it gives what comes next.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from rocketpipe.broker.delivery.filtering import EVERYTHING, Choice
from rocketpipe.broker.delivery.retry import of_group
from rocketpipe.broker.delivery.sieve import Sieve
from rocketpipe.broker.features.popping.check_points import MAX_MESSAGES, check_point
from rocketpipe.broker.features.popping.revive_log import ReviveLog
from rocketpipe.broker.intake.intake import unreadable
from rocketpipe.broker.tables.order import OrderedPop, OrderTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.model import properties
from rocketpipe.model.ids import ReceiptHandle, RetryKind
from rocketpipe.model.names import is_retry_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pop_offsets import PoppedMessage, PoppedQueue
from rocketpipe.protocol.requests.popping import FROM_MIN, ORDER_REVIVE_QUEUE
from rocketpipe.record import checksum
from rocketpipe.record.codec import RecordView, encode_record, view_records
from rocketpipe.record.hot import queue_offsets
from rocketpipe.record.layout import MAX_PROPERTIES_BYTES
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.reader import MAX_READ_BYTES, ReadResult, ReadStatus

log = logging.getLogger(__name__)

#: One pop gives no more than about so many bytes, however many queues it looks at.
MAX_POP_BYTES: Final = 1 << 20
#: So often one pop reads on in a queue whose messages it does not want.
_MAX_SCANS: Final = 8
_MOVED: Final = frozenset(
    {
        ReadStatus.OFFSET_TOO_SMALL,
        ReadStatus.OFFSET_OVERFLOW_BADLY,
        ReadStatus.OFFSET_FOUND_NULL,
        ReadStatus.MESSAGE_WAS_REMOVING,
        ReadStatus.NO_MATCHED_MESSAGE,
        ReadStatus.FOUND,  # and by its properties not wanted
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PopRules:
    """How a broker hands out popped messages. The defaults are RocketMQ's."""

    broker: str
    #: Out of a hundred pops, so many look at what comes again first.
    retry_first: int = 20
    #: Whether what comes again goes to retry topics of the second form.
    retry_v2: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PopAsk:
    """What somebody wants to pop."""

    group: str
    topic: TopicSettings
    #: None for any of the topic's queues.
    queue_id: int | None
    count: int
    invisible_ms: int
    init_mode: int = FROM_MIN
    choice: Choice = EVERYTHING
    ordered: bool = False
    attempt_id: str | None = None


@dataclass(slots=True)
class Popped:
    """What a pop got, and what receipt handles are made of."""

    pop_ms: int
    revive_queue: int
    rest: int = 0
    #: Records back to back, how many they are, and how many bytes they have.
    chunks: list[bytes] = field(default_factory=list)
    count: int = 0
    size: int = 0
    #: Whether it passed over messages that its group does not want.
    moved: bool = False
    #: Whether its group begins somewhere that a killed broker could not find again.
    began: bool = False
    starts: dict[PoppedQueue, QueueOffset] = field(default_factory=dict)
    taken: dict[PoppedQueue, list[QueueOffset]] = field(default_factory=dict)
    order_counts: dict[PoppedQueue | PoppedMessage, int] = field(default_factory=dict)

    def add(self, records: bytes, count: int) -> None:
        """Give so many more, which follow each other."""
        self.chunks.append(records)
        self.count += count
        self.size += len(records)


class Wanted(NamedTuple):
    """Records of one queue, back to back, and their places in it."""

    records: bytes
    offsets: list[QueueOffset]

    @classmethod
    def all_of(cls, records: bytes) -> Wanted:
        return cls(records, [QueueOffset(offset) for offset in queue_offsets(records)])


class Pops:
    """Pops from one store."""

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        revive_log: ReviveLog,
        orders: OrderTable,
        clock: Clock,
        chance: random.Random,
        rules: PopRules,
        keep: Callable[[], Awaitable[None]] | None = None,
        follow: Callable[[], object] | None = None,
    ) -> None:
        """``keep`` waits until the places of groups are on disk.

        ``follow`` has what is hidden stay so for as long, if somebody has set the wall clock.
        """
        self._keep = keep
        self._follow = follow
        self._sieve = Sieve()
        self._store = store
        self._topics = topics
        self._revive_log = revive_log
        self._orders = orders
        self._clock = clock
        self._chance = chance
        self.rules = rules
        #: Queues that somebody is popping from at this moment.
        self._busy: set[tuple[str, str, int]] = set()

    async def pop(self, ask: PopAsk) -> Popped:
        """Take what is there, nothing if nothing is.

        Who is cancelled has taken nothing: it comes again at once.

        Raises:
            RequestRejected: Too much is in flight, or the store takes nothing now.
        """
        flights = self._revive_log.flights
        if flights.is_full(ask.group):
            raise RequestRejected(
                ResponseCode.SYSTEM_BUSY,
                f"{flights.count(ask.group)} pops of group {ask.group} are not acknowledged, and "
                f"it may have {flights.share(ask.group)} now: acknowledge what was received, or "
                "receive more at once, or with a shorter invisible time",
            )
        if ask.ordered and self._follow is not None:
            self._follow()  # or a queue would be free before its time
        turn = self._chance.randrange(100)
        queue_id = ORDER_REVIVE_QUEUE if ask.ordered else self._revive_log.next_queue()
        popped = Popped(self._clock.now_ms(), queue_id)
        try:
            await self._take(ask, popped, turn)
        except asyncio.CancelledError:
            self.put_back(ask, popped)
            raise
        return popped

    async def _take(self, ask: PopAsk, popped: Popped, turn: int) -> None:
        retry_first = turn < self.rules.retry_first
        if retry_first and not ask.ordered:
            await self._from_retries(ask, popped, turn)
        await self._from_topic(ask, ask.topic, popped, turn, ask.queue_id)
        if not retry_first and not ask.ordered:
            await self._from_retries(ask, popped, turn)
        if popped.began and self._keep is not None:
            try:
                await self._keep()
            except StoreError as error:
                log.warning("where a group begins could not be saved, is tried again: %s", error)

    def put_back(self, ask: PopAsk, popped: Popped) -> None:
        """Have all that a pop took come again at once: nobody was given it."""
        now_ms = self._clock.now_ms()
        for at, offsets in popped.taken.items():
            place = (RetryKind(at.retry).topic(ask.topic.name, ask.group), ask.group, at.queue_id)
            if ask.ordered:
                for offset in offsets:
                    self._orders.hide(*place, offset, popped.pop_ms, now_ms)
            else:
                key = (*place, popped.starts[at], popped.pop_ms)
                self._revive_log.flights.put_off(key, now_ms)

    async def _from_retries(self, ask: PopAsk, popped: Popped, turn: int) -> None:
        # What the form that is not written now has left is looked at too, first every other time.
        for kind in _RETRIES if turn % 2 else reversed(_RETRIES):
            topic = self._topics.get(kind.topic(ask.topic.name, ask.group))
            if topic is not None:
                await self._from_topic(ask, topic, popped, turn, None)

    async def _from_topic(
        self, ask: PopAsk, topic: TopicSettings, popped: Popped, turn: int, only: int | None
    ) -> None:
        queues = topic.read_queues
        ids = [only] if only is not None else [(turn + i) % queues for i in range(queues)]
        for queue_id in ids:
            place = (ask.group, topic.name, queue_id)
            if place in self._busy or not self._revive_log.is_sure(*place):
                continue
            self._busy.add(place)
            try:
                await self._from_queue(ask, topic.name, queue_id, popped)
            except RequestRejected:
                if not popped.count:
                    raise
                return  # what was taken before is given out, not hidden for nothing
            finally:
                self._busy.discard(place)

    async def _from_queue(self, ask: PopAsk, topic: str, queue_id: int, popped: Popped) -> None:
        now_ms = self._clock.now_ms()
        if ask.ordered and self._orders.is_blocked(
            topic, ask.group, queue_id, ask.attempt_id, now_ms
        ):
            return
        if ask.init_mode != FROM_MIN and not is_retry_topic(topic):
            # Forgotten, it would begin at another end, and miss what came in between.
            popped.began |= self._revive_log.places.next(ask.group, topic, queue_id) is None
        start = self.place(ask.group, topic, queue_id, ask.init_mode)
        room = min(ask.count, MAX_MESSAGES) - popped.count
        if room <= 0 or popped.size >= MAX_POP_BYTES:
            popped.rest += max(0, self._store.max_offset(topic, queue_id) - start)
            return
        choice = of_group(ask.group, topic, self._sieve) if is_retry_topic(topic) else ask.choice
        for _ in range(_MAX_SCANS):
            found, wanted = await self._read(topic, queue_id, start, room, choice)
            if wanted.offsets:
                await self._give(ask, topic, queue_id, start, wanted, found, popped)
                popped.rest += max(0, found.max_offset - found.next_offset)
                return
            if found.status not in _MOVED or found.next_offset == start:
                return
            # Nothing here is for this group: whoever comes next need not look again.
            start = found.next_offset
            self._revive_log.places.begin(ask.group, topic, queue_id, start)
            popped.moved = True
            await asyncio.sleep(0)
        popped.rest += max(0, self._store.max_offset(topic, queue_id) - start)

    def place(self, group: str, topic: str, queue_id: int, init_mode: int) -> QueueOffset:
        """Where a group pops on; one that comes for the first time begins where it says.

        Raises:
            TableFull: There are too many groups and queues.
        """
        place = self._revive_log.places.next(group, topic, queue_id)
        if place is not None:
            return place
        first = self._store.min_offset(topic, queue_id)
        start = first
        if init_mode != FROM_MIN and not is_retry_topic(topic) and first > 0:
            # As RocketMQ: a queue that has lost nothing is read from its beginning all the same,
            # and of others the last message is the first that is given.
            start = QueueOffset(max(first, self._store.max_offset(topic, queue_id) - 1))
        self._revive_log.places.begin(group, topic, queue_id, start)
        return start

    async def _read(
        self, topic: str, queue_id: int, start: QueueOffset, room: int, choice: Choice
    ) -> tuple[ReadResult, Wanted]:
        """Read on, and choose; where the records end that were looked at is in the result."""
        try:
            found = self._store.read(
                topic,
                queue_id,
                start,
                max_count=room if choice.accepts is None else MAX_MESSAGES,
                max_bytes=MAX_READ_BYTES,
                matches=choice.matches,
            )
        except StoreError as error:
            raise unreadable(error) from error
        if choice.accepts is None:
            return found, Wanted.all_of(found.records)
        kept: list[RecordView] = []
        for record in view_records(found.records):
            if choice.accepts.sieve.is_spent:
                await choice.accepts.sieve.turn()
            if choice.accepts(record.raw_properties):
                kept.append(record)
                if len(kept) >= room:
                    found = replace(found, next_offset=QueueOffset(record.queue_offset + 1))
                    break
        return found, Wanted(
            b"".join(record.raw for record in kept), [record.queue_offset for record in kept]
        )

    async def _give(
        self,
        ask: PopAsk,
        topic: str,
        queue_id: int,
        start: QueueOffset,
        wanted: Wanted,
        found: ReadResult,
        popped: Popped,
    ) -> None:
        records, offsets = wanted
        point = check_point(
            topic=topic,
            group=ask.group,
            queue_id=queue_id,
            start=start,
            offsets=offsets,
            pop_ms=popped.pop_ms,
            invisible_ms=ask.invisible_ms,
            broker=self.rules.broker,
            ordered=ask.ordered,
        )
        at = PoppedQueue(int(RetryKind.of(topic)), queue_id)
        if ask.ordered:
            before = self._orders.get(topic, ask.group, queue_id)
            pop = self._orders.popped(
                topic,
                ask.group,
                queue_id,
                offsets=offsets,
                pop_ms=popped.pop_ms,
                invisible_ms=ask.invisible_ms,
                attempt_id=ask.attempt_id,
            )
            try:
                await self._revive_log.ordered(point, start, wait=False)
            except (RequestRejected, asyncio.CancelledError):
                self._orders.put_back(topic, ask.group, queue_id, before)
                raise
            popped.order_counts.update(_order_counts(at, pop))
        else:
            await self._revive_log.popped(point, popped.revive_queue, found.next_offset)
        popped.starts[at] = start
        popped.taken[at] = offsets
        if at.retry:
            records = b"".join(
                self._as_sent(record, ask, start, popped) for record in view_records(records)
            )
        popped.add(records, len(offsets))

    def _as_sent(
        self, record: RecordView, ask: PopAsk, start: QueueOffset, popped: Popped
    ) -> bytes:
        """A message that comes again, under the topic it was sent to, with its own receipt."""
        handle = ReceiptHandle(
            start_offset=start,
            pop_ms=popped.pop_ms,
            invisible_ms=ask.invisible_ms,
            revive_queue_id=popped.revive_queue,
            retry=RetryKind.of(record.topic),
            broker=self.rules.broker,
            queue_id=record.queue_id,
            queue_offset=record.queue_offset,
        )
        given = checksum.strip(record.raw_properties)
        text = properties.edited(given, {properties.POP_CK: str(handle)})
        if len(text) > MAX_PROPERTIES_BYTES:
            return record.raw  # clients make the same handle of the answer's offsets
        stored = record.message(verify=False)
        return encode_record(
            replace(stored, topic=ask.topic.name, raw_properties=text, long_topic=None)
        )

    async def peek(self, ask: PopAsk) -> Popped:
        """Look at what a pop would give, and leave it as it is.

        Raises:
            RequestRejected: The store cannot read it.
        """
        popped = Popped(self._clock.now_ms(), 0)
        turn = self._chance.randrange(100)
        queues = ask.topic.read_queues
        ids = (
            [ask.queue_id]
            if ask.queue_id is not None
            else [(turn + i) % queues for i in range(queues)]
        )
        for queue_id in ids:
            start = self._revive_log.places.next(ask.group, ask.topic.name, queue_id)
            if start is None:
                start = self._store.min_offset(ask.topic.name, queue_id)
            room = min(ask.count, MAX_MESSAGES) - popped.count
            if room > 0 and popped.size < MAX_POP_BYTES:
                _, wanted = await self._read(ask.topic.name, queue_id, start, room, ask.choice)
                popped.add(wanted.records, len(wanted.offsets))
            popped.rest += max(0, self._store.max_offset(ask.topic.name, queue_id) - start)
        popped.rest = max(0, popped.rest - popped.count)
        return popped

    def has_some(self, ask: PopAsk) -> bool:
        """Whether a pop would look at any message now, wanted or not."""
        names = [ask.topic.name]
        if not ask.ordered:
            names += [kind.topic(ask.topic.name, ask.group) for kind in _RETRIES]
        for name in names:
            topic = self._topics.get(name)
            if topic is None:
                continue
            of_topic = name == ask.topic.name and ask.queue_id is not None
            for queue_id in [ask.queue_id or 0] if of_topic else range(topic.read_queues):
                if ask.ordered and self._orders.is_blocked(
                    name, ask.group, queue_id, ask.attempt_id, self._clock.now_ms()
                ):
                    continue
                place = self._revive_log.places.next(ask.group, name, queue_id)
                if place is None:
                    place = self._store.min_offset(name, queue_id)
                if place < self._store.max_offset(name, queue_id):
                    return True
        return False


_RETRIES: Final = (RetryKind.RETRY_V1, RetryKind.RETRY_V2)


def _order_counts(at: PoppedQueue, pop: OrderedPop) -> dict[PoppedQueue | PoppedMessage, int]:
    """How often messages were popped before; clients of old look for it under their queue."""
    counts = pop.counts or {}
    told: dict[PoppedQueue | PoppedMessage, int] = {
        PoppedMessage(at, QueueOffset(offset)): times for offset, times in counts.items()
    }
    told[at] = min(counts.values()) if len(counts) == len(pop.spans) else 0
    return told
