"""Messages that wait for their delay level to be over, and are delivered then.

    send with DELAY=3   SCHEDULE_TOPIC_XXXX, queue 2, with REAL_TOPIC and REAL_QID
                        its queue entry has the time it falls due instead of a tag
    ten seconds later   the same message once more, in its own topic and queue
    then                DelayTable: level 3 reads on behind it

A copy is in the log before its level moves on, and durable before the table says so: nothing is
lost, whenever the broker dies. What was delivered and not noted by then is found again by its
unique key when the broker is back, so it is not delivered twice; only a message that has none can
be, within the second in which tables are saved.

What waits for longer than half the time for which the log is kept goes on as a timed message, and
the log is kept from the oldest on that waits: see ``delay_keeping``. A level that the settings do
not name any more delivers what it has, after the longest delay at most.

The wall clock says when a message falls due, the monotonic one how long that is to wait: setting
the wall clock makes nothing early. What was stored by a clock that was ahead of today's, or while
its level was longer, waits as long as its level says from when it was first seen here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, takewhile
from typing import Final

from rocketpipe.broker.delivery.delay_keeping import (
    WAITED,
    DelayPin,
    handed_over,
    is_copy,
    was_handed_over,
)
from rocketpipe.broker.delivery.delay_level import TICK_MS, DelayLevel
from rocketpipe.broker.delivery.destinations import Destinations
from rocketpipe.broker.intake.intake import UNSTORABLE, Intake
from rocketpipe.broker.intake.sent_properties import TIMERS
from rocketpipe.broker.tables.delays import DelayTable
from rocketpipe.clock import Clock
from rocketpipe.errors import InvalidName, RecordError, StoreError
from rocketpipe.model import properties
from rocketpipe.model.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.store.config import delays_ms
from rocketpipe.store.errors import RecordCorrupt, RecordMissing
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.reader import ReadResult
from rocketpipe.store.upkeep.retention import Pins

log = logging.getLogger(__name__)

#: How long to leave it alone after something went wrong that nobody thought of.
BACK_OFF_MS: Final = 10_000
_BATCH_BYTES: Final = 1 << 20
#: Messages with one unique key that are compared with one that may have been delivered.
_MOST_ALIKE: Final = 64
_FOREVER_MS: Final = (1 << 62) - 1
_HOUR_MS: Final = 3_600_000
#: So many queues of the schedule topic are looked at, however many levels there ever were.
_MOST_LEVELS: Final = 1000


class DelayLevels:
    """Parks messages until their level is over, and delivers them then."""

    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        table: DelayTable,
        clock: Clock,
        pins: Pins | None = None,
        destinations: Destinations | None = None,
    ) -> None:
        """Go on where the table says; the levels are those of the store's settings.

        What waits is held in ``pins`` once `hold_log` was called; what goes to a topic that was
        deleted is not delivered.
        """
        self.delays_ms: Final = delays_ms(store.config.delay_levels)
        self._store = store
        self._intake = intake
        self._table = table
        self._clock = clock
        self._trouble: str | None = None
        self._levels: list[DelayLevel] = []
        self._keep_ms = store.config.reserved_hours * _HOUR_MS
        self._destinations = destinations
        self._pin = DelayPin(store, Pins() if pins is None else pins)
        self.begin()

    def begin(self) -> None:
        """Go on where the table says now: whoever delivered before may have come further."""
        apart_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        self._levels = [
            DelayLevel(number, delay_ms, self._start(number), apart_ms, self._end(number))
            for number, delay_ms in enumerate(self._delays_of_queues(), 1)
        ]

    def hold_log(self) -> None:
        """Keep the log from the oldest message on that waits, for as long as this delivers."""
        self._pin.hold()

    def _delays_of_queues(self) -> tuple[int, ...]:
        """The delays of all levels, of those too that only had messages when there were more."""
        queues = (queue_id for topic, queue_id in self._store.queues() if topic == SCHEDULE_TOPIC)
        more = min(max(queues, default=0) + 1, _MOST_LEVELS) - len(self.delays_ms)
        return (*self.delays_ms, *[max(self.delays_ms)] * more)

    def _start(self, level: int) -> QueueOffset:
        """Where to read on: where the table says, if the queue has that."""
        first = self._store.min_offset(SCHEDULE_TOPIC, level - 1)
        end = self._end(level)
        noted = self._table.next_offset(level)
        if noted is None:
            return first
        if not first <= noted <= end:
            log.warning(
                "delay level is moved into its queue level=%d noted=%d first=%d end=%d",
                level,
                noted,
                first,
                end,
            )
        return min(max(noted, first), end)

    def _end(self, level: int) -> QueueOffset:
        return self._store.max_offset(SCHEDULE_TOPIC, level - 1)

    # What is to wait

    def parked(self, put: Put, level: int) -> Put:
        """The message as it waits; a level beyond the last is the last."""
        assert level > 0
        level = min(level, len(self.delays_ms))
        changes = {
            **dict.fromkeys((*TIMERS, *WAITED)),  # a level counts for more than a timer
            properties.DELAY: str(level),
            properties.REAL_TOPIC: put.topic,
            properties.REAL_QUEUE_ID: str(put.queue_id),
        }
        text = properties.edited(put.properties, changes)
        return put._replace(topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=text)

    def level_for(self, delay_ms: int) -> int:
        """The shortest level that lasts so long; the longest if none does."""
        by_delay = sorted((delay, level) for level, delay in enumerate(self.delays_ms, 1))
        return next((level for delay, level in by_delay if delay >= delay_ms), by_delay[-1][1])

    # What falls due

    async def keep_delivered(self) -> None:
        """Deliver what falls due, until cancelled."""
        self.begin()
        try:
            while True:
                try:
                    await self.deliver_due()
                    pause_ms = self._pause_ms()
                except Exception:
                    log.exception("delayed messages wait, and are tried again")
                    pause_ms = BACK_OFF_MS
                await self._clock.sleep(pause_ms)
        finally:
            self._store.flush()
            self._save()

    async def deliver_due(self) -> None:
        """Deliver all that is due by now."""
        busy = self._levels
        while busy:
            # A level with much to do holds up neither the others nor whoever wants to be served.
            busy = [level for level in busy if await self._deliver_some(level)]
            self._save()
            await asyncio.sleep(0)
        with suppress(StoreError):  # then as much is held as before
            self._pin.move((level.queue_id, level.at) for level in self._levels)

    def _pause_ms(self) -> int:
        now_ms = self._clock.monotonic_ms()
        waits = (level.due_ms - level.apart_ms - now_ms for level in self._levels)
        return max(1, min((wait_ms for wait_ms in waits if 0 < wait_ms < TICK_MS), default=TICK_MS))

    async def _deliver_some(self, level: DelayLevel) -> bool:
        """Deliver the next messages of a level that are due; False if there is no more to do."""
        wall_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        level.look(self._end(level.number), wall_ms, monotonic_ms)
        self._skip_lost(level)
        if level.at >= level.end:
            return False
        try:
            if level.waits(monotonic_ms):
                return await self._hand_over(level, wall_ms, monotonic_ms)
            due, behind = self._read(level, monotonic_ms + level.apart_ms)
            if behind == level.at:
                self._trouble = None
                waits = level.waits(monotonic_ms)  # what it waits for is known only now
                return waits and await self._hand_over(level, wall_ms, monotonic_ms)
            stored = await self._put([put for put in due if put is not None])
        except StoreError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("delayed messages wait, and are tried again reason=%s", error)
            return False
        self._trouble = None
        level.at = behind
        level.reached(self._store.positions.written if stored is None else stored)
        return True

    def _read(self, level: DelayLevel, now_ms: int) -> tuple[list[Put | None], QueueOffset]:
        """What is due next, ``None`` for what is not delivered, and where to read on then."""
        level.due_ms = 0
        is_ripe = level.at < level.ripe_to

        def is_due(due_ms: int) -> bool:
            # Nothing overtakes what is not due yet: the level reads on there.
            if not is_ripe and not level.due_ms and due_ms > now_ms:
                level.due_ms = due_ms
            return not level.due_ms

        found = self._next(level, is_due)
        if not found.count:
            return [], level.at if level.due_ms else found.next_offset
        messages = list(view_records(found.records))
        return [self._due(level, each) for each in messages], QueueOffset(
            messages[-1].queue_offset + 1
        )

    def _next(self, level: DelayLevel, matches: Callable[[int], bool]) -> ReadResult:
        most = level.most()
        return self._store.read(
            SCHEDULE_TOPIC,
            level.queue_id,
            level.at,
            max_count=most,
            max_bytes=_BATCH_BYTES,
            matches=matches,
            max_scan=most,
        )

    def _skip_lost(self, level: DelayLevel) -> None:
        first = self._store.min_offset(SCHEDULE_TOPIC, level.queue_id)
        if level.at < first:
            told = "delayed messages expired with the log before they were due level=%d count=%d"
            log.error(told, level.number, first - level.at)
            level.at, level.due_ms = first, 0

    async def _hand_over(self, level: DelayLevel, wall_ms: int, monotonic_ms: int) -> bool:
        """Have messages wait by the clock that would keep the log too long; False if none do."""
        now_ms = monotonic_ms + level.apart_ms
        latest_ms = now_ms + level.delay_ms - self._keep_ms // 2
        has_ended = False

        def is_old(due_ms: int) -> bool:
            nonlocal has_ended
            has_ended = has_ended or due_ms > latest_ms
            return not has_ended

        if not self._keep_ms or level.due_ms > latest_ms:
            return False
        try:
            messages = list(view_records(self._next(level, is_old).records))
        except (RecordCorrupt, RecordError):
            return False  # it is found damaged when it is due
        puts, behind = [], level.at
        for message in messages:
            left_ms = message.stored_ms + level.delay_ms - now_ms
            moved = handed_over(message, level.number, wall_ms + left_ms)
            put = self._intake.room.fitted(moved)
            if put is None:
                break  # it holds the log, and is delivered as it is
            behind = QueueOffset(message.queue_offset + 1)
            level.may_repeat = level.may_repeat and self._was_handed_over(level, message)
            if not (level.may_repeat or self._is_gone(message)):
                puts.append(put)
        if behind == level.at:
            return False
        end = await self._intake.put(puts) if puts else self._store.positions.written
        level.at, level.due_ms = behind, 0
        level.reached(end)
        return True

    def _due(self, level: DelayLevel, message: RecordView) -> Put | None:
        """The message for its own topic; None if it has none, or was delivered by the last run."""
        topic = message.properties.get(properties.REAL_TOPIC, "")
        queue_id = message.properties.get(properties.REAL_QUEUE_ID, "")
        if not topic or topic == HALF_TOPIC or not (queue_id.isascii() and queue_id.isdigit()):
            log.error(
                "delayed message has no place to go, and is passed over offset_id=%s",
                message.offset_id,
            )
            return None
        if self._is_gone(message):
            return None
        put = self._intake.room.squeezed(
            Put.copy_of(
                message,
                topic=topic,
                queue_id=int(queue_id),
                properties=message.raw_properties,
            )
        )
        if level.may_repeat:
            # They are delivered in order: behind the first that was not, none was.
            level.may_repeat = self._was_delivered(message, put) or self._was_handed_over(
                level, message
            )
            if level.may_repeat:
                log.info("delayed message was delivered before offset_id=%s", message.offset_id)
                return None
        return put

    def _was_delivered(self, message: RecordView, put: Put) -> bool:
        return any(is_copy(found, put) for found in self._alike(put.topic, message))

    def _is_gone(self, message: RecordView) -> bool:
        topic = message.properties.get(properties.REAL_TOPIC, "")
        gone = self._destinations
        return gone is not None and gone.is_gone(topic, message.log_offset)

    def _was_handed_over(self, level: DelayLevel, message: RecordView) -> bool:
        alike = self._alike(TIMER_TOPIC, message)
        return any(was_handed_over(found, message, level.number) for found in alike)

    def _alike(self, topic: str, message: RecordView) -> Iterator[RecordView]:
        """Later messages of a topic with the unique key of a message."""
        key = message.properties.get(properties.UNIQ_KEY)
        if key is None:
            return
        # A copy stands behind it, whatever the clock said when either was stored.
        found = self._store.find_by_key(topic, key, 0, _FOREVER_MS)
        for place in takewhile(message.log_offset.__lt__, islice(found, _MOST_ALIKE)):
            # What is damaged can be compared with nothing: it is delivered rather than not.
            with suppress(RecordCorrupt, RecordMissing, RecordError):
                yield RecordView(self._store.record_at(place))

    async def _put(self, puts: list[Put]) -> LogOffset | None:
        """Store messages in order; the end of the log behind them, if one was stored.

        One that cannot be stored where it belongs is put off, and holds up no other.
        """
        if not puts:
            return None
        if self._destinations is not None:
            await self._destinations.make_known(puts)
        try:
            return await self._intake.put(puts)
        except UNSTORABLE as error:
            if len(puts) == 1:
                return await self._put_off(puts[0], error)
        end = None
        for put in puts:
            end = await self._put([put]) or end
        return end

    async def _put_off(self, put: Put, error: Exception) -> LogOffset | None:
        """Have a message wait for the last level that does not fit into its own topic."""
        if isinstance(error, InvalidName):
            log.error("delayed message has no place to go, and is passed over reason=%s", error)
            return None
        log.error(
            "delayed message cannot be stored, and is put off topic=%s reason=%s", put.topic, error
        )
        return await self._intake.put([self.parked(put, len(self.delays_ms))])

    def _save(self) -> None:
        """Move the table on to where everything delivered is durable."""
        durable = self._store.positions.durable
        for level in self._levels:
            while level.unsaved is not None and level.unsaved[0] <= durable:
                self._table.advance(level.number, level.unsaved[1])
                level.unsaved, level.unsaved_later = level.unsaved_later, None
