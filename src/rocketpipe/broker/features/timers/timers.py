"""Messages that wait for a moment, are delivered then, or are taken back before.

The wheel knows from the log what waits; this hands it out. A copy in its own topic carries
TIMER_DEQUEUE_MS, and is what says that a message was delivered, to the wheel of the next run too:
so it is delivered once, whenever the broker dies. What is taken back is a record as well, with
TIMER_DEL_UNIQKEY, before it is answered. Which message a record is about it says by TIMER_ORIGIN:
several may have one unique key.

What waits for longer than half the time for which the log is kept is put again on the way, with
TIMER_ROLL_TIMES, so that it does not go with the log. A start does so at once, as the broker may
have been away for long, and holds the log until what is due before the next time is delivered.

A moment is one of the wall clock, whoever sets that. A delay is as long as it says: a clock that is
set forward while a message waits for its delay makes nothing early.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import closing
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple

from rocketpipe.broker.counts import Counts
from rocketpipe.broker.delivery.destinations import Destinations
from rocketpipe.broker.intake.intake import UNSTORABLE, Intake
from rocketpipe.clock import STEP_MS, Clock
from rocketpipe.errors import InvalidName, RecordError, RequestRejected, StoreError
from rocketpipe.model import properties
from rocketpipe.model.ids import RecallHandle
from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.record import checksum
from rocketpipe.record.codec import RecordView
from rocketpipe.store.errors import RecordCorrupt, RecordMissing
from rocketpipe.store.log.batch_mark import strip_mark
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.timers.entry import Timed, hashed, origin_text, out_ms
from rocketpipe.store.upkeep.retention import Pin

log = logging.getLogger(__name__)

#: How often the wheel is looked at, if nothing falls due earlier.
TICK_MS: Final = 100
#: How long to leave it alone after something went wrong that nobody thought of.
BACK_OFF_MS: Final = 10_000
#: How often to look for what would go with the log before it is due.
ROLL_EVERY_MS: Final = 600_000
_BATCH: Final = 64
_MOST_STEPS: Final = 64
_HOUR_MS: Final = 3_600_000
#: So many messages of one key are taken back by one record.
_RECALLED_AT_ONCE: Final = 100
_RECALL_TAG: Final = "_RECALL_TAG_"
_DELAYS: Final = frozenset((properties.TIMER_DELAY_SEC, properties.TIMER_DELAY_MS))


class _Step(NamedTuple):
    """The wall clock was set: where the log ended, what was so before, and when that was seen."""

    log_end: int
    apart_ms: int
    monotonic_ms: int


class _Steps:
    """When the wall clock was set in this run, as far as it concerns what waits for its delay."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._apart_ms = clock.now_ms() - clock.monotonic_ms()
        self._steps: deque[_Step] = deque(maxlen=_MOST_STEPS)

    def look(self, log_end: int) -> None:
        """Note how the clocks stand; what is before ``log_end`` was stored by now."""
        apart_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        if abs(apart_ms - self._apart_ms) >= STEP_MS:
            self._steps.append(_Step(log_end, self._apart_ms, self._clock.monotonic_ms()))
            self._apart_ms = apart_ms

    def left_ms(self, timed: Timed, record: RecordView) -> int:
        """How much of its delay a message has still to wait, by the time that has passed."""
        if not _DELAYS & record.properties.keys():
            return 0  # it is a moment that it waits for
        first = next((step for step in self._steps if timed.log_offset < step.log_end), None)
        if first is None:
            return 0
        # Stored by the clock before that step, or after it and before it was seen.
        latest_ms = first.monotonic_ms + timed.due_ms - record.stored_ms
        return min(timed.due_ms - first.apart_ms, latest_ms) - self._clock.monotonic_ms()


class Timers:
    """Delivers what waits in the timer topic, and takes it back."""

    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        clock: Clock,
        destinations: Destinations | None = None,
        pin: Pin | None = None,
        counts: Counts | None = None,
    ) -> None:
        """``pin`` holds the log, and is released once nothing is in danger to go with it."""
        self._counts = counts or Counts(0)
        self._destinations = destinations
        self._pin = pin
        self._store = store
        self._wheel = store.derived.timer
        self._intake = intake
        self._clock = clock
        #: What is being taken back, and so neither delivered nor put again: by where it first
        #: stood in the log, and up to where that has to be dispatched.
        self._recalling: dict[LogOffset, float] = {}
        self._rolled_at_ms: int | None = None
        self._rolls = 0
        self._trouble: str | None = None
        self._steps = _Steps(clock)

    async def keep_delivered(self) -> None:
        """Deliver what falls due, until cancelled."""
        while True:
            try:
                await self.deliver_due()
                pause_ms = self._pause_ms()
            except Exception:
                log.exception("timed messages wait, and are tried again")
                pause_ms = BACK_OFF_MS
            await self._clock.sleep(pause_ms)

    def _pause_ms(self) -> int:
        due_ms = self._wheel.next_due_ms()
        wait_ms = TICK_MS if due_ms is None else due_ms - self._clock.now_ms()
        # What is due and still here could not be delivered, and is not tried in a loop.
        return wait_ms if 0 < wait_ms < TICK_MS else TICK_MS

    async def deliver_due(self) -> None:
        """Deliver all that is due by now."""
        self._steps.look(self._store.positions.written)
        await self._deliver_now()
        now_ms, last_ms = self._clock.monotonic_ms(), self._rolled_at_ms
        if last_ms is None or now_ms - last_ms >= ROLL_EVERY_MS:
            self._rolled_at_ms = now_ms
            await self.roll()
            self._rolls += 1
            if self._pin is not None and (self._rolls > 1 or not self._wheel):
                self._pin.release()

    async def _deliver_now(self) -> None:
        held: list[Timed] = []
        self._forget_recalled()
        try:
            while self._wheel.is_due(self._clock.now_ms()):
                due = self._wheel.due(self._clock.now_ms(), _BATCH)
                held += [timed for timed in due if self._is_recalled(timed)]
                if not await self._deliver([each for each in due if each not in held]):
                    break
                await asyncio.sleep(0)
        finally:
            for timed in held:
                self._wheel.give_back(timed)

    async def _deliver(self, due: list[Timed]) -> bool:
        """Store copies of messages in their own topics; False if the store takes none now."""
        now_ms = self._clock.now_ms()
        puts: list[Put] = []
        waiting = list(due)
        try:
            for timed in due:
                put = self._delivered(timed, now_ms)
                if put is None:
                    waiting.remove(timed)
                else:
                    puts.append(put)
            await self._put(puts, waiting)
        except BaseException as error:
            for timed in waiting:
                self._wheel.give_back(timed)
            if not isinstance(error, StoreError):
                raise
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("timed messages wait, and are tried again reason=%s", error)
            return False
        self._trouble = None
        return True

    async def _put(self, puts: list[Put], waiting: list[Timed]) -> None:
        if not puts:
            return
        if self._destinations is not None:
            await self._destinations.make_known(puts)
        try:
            await self._intake.put(puts)
        except UNSTORABLE as error:
            if len(puts) == 1:
                self._put_off(waiting.pop(), error)
                return
            for put, timed in zip(puts, list(waiting), strict=True):
                await self._put([put], [timed])
                waiting.remove(timed)
            return
        # The wheel lets them go when it sees the copies in the log.
        for put in puts:
            self._counts.delivered(put.topic)

    def _put_off(self, timed: Timed, error: Exception) -> None:
        """Have a message wait on that does not fit into its own topic."""
        if isinstance(error, InvalidName):
            log.error("timed message has no place to go, and is passed over reason=%s", error)
            self._wheel.done(timed)
            return
        log.error("timed message cannot be stored, and is put off reason=%s", error)
        self._wheel.give_back(replace(timed, due_ms=self._clock.now_ms() + ROLL_EVERY_MS))

    def _delivered(self, timed: Timed, now_ms: int) -> Put | None:
        """A message for its own topic; None if it has none, waits on, or cannot be read."""
        record = self._record(timed)
        if record is None:
            return None
        if (left_ms := self._steps.left_ms(timed, record)) > 0:
            self._wheel.give_back(replace(timed, due_ms=now_ms + left_ms))
            return None
        topic = record.properties.get(properties.REAL_TOPIC, "")
        queue_id = record.properties.get(properties.REAL_QUEUE_ID, "")
        if not topic or topic == TIMER_TOPIC or not (queue_id.isascii() and queue_id.isdigit()):
            log.error(
                "timed message has no place to go, and is passed over offset_id=%s",
                record.offset_id,
            )
            self._wheel.done(timed)
            return None
        stamps = {
            properties.TIMER_ENQUEUE_MS: str(record.stored_ms),
            properties.TIMER_DEQUEUE_MS: str(now_ms),
            properties.TIMER_ORIGIN: origin_text([timed]),
        }
        put = _copy(record, stamps)._replace(topic=topic, queue_id=int(queue_id))
        return self._intake.room.squeezed(put)

    def _record(self, timed: Timed) -> RecordView | None:
        """A message as it waits; None if it cannot be read, or its topic was deleted since."""
        try:
            record = RecordView(self._store.record_at(timed.log_offset))
            topic = record.properties.get(properties.REAL_TOPIC, "")
            gone = self._destinations
            if gone is not None and gone.is_gone(topic, record.log_offset):
                self._wheel.done(timed)
                return None
            return record
        except (RecordCorrupt, RecordMissing, RecordError) as error:
            log.error("timed message cannot be read, and is passed over reason=%s", error)
            self._wheel.done(timed)
            return None

    # Messages that wait for long

    async def roll(self) -> None:
        """Put again what has waited for half the time for which the log is kept.

        So also what a clock stored that was far ahead: the log's files go by other times.

        Raises:
            StoreError: The store takes nothing now.
        """
        now_ms, keep_ms = self._clock.now_ms(), self._store.config.reserved_hours * _HOUR_MS
        stored_ms, ahead_ms = now_ms - keep_ms // 2, now_ms + keep_ms // 4
        found = self._wheel.stored_before(stored_ms, now_ms + ROLL_EVERY_MS, ahead_ms)
        with closing(found) as portions:
            for some in portions:
                for timed in some:
                    if self._is_recalled(timed):
                        continue
                    if not self._wheel.waits(timed):
                        self._wheel.is_stale(timed)
                        continue
                    if (put := self._again(timed, stored_ms, ahead_ms)) is not None:
                        await self._intake.put([put])
                    await asyncio.sleep(0)
                    await self._deliver_now()  # nobody waits for those that wait for long
                await asyncio.sleep(0)

    def _again(self, timed: Timed, stored_ms: int, ahead_ms: int) -> Put | None:
        """A message to be put again; None if it is not old enough, or cannot be read."""
        record = self._record(timed)
        if record is None or stored_ms < record.stored_ms <= ahead_ms:
            return None
        text = record.properties.get(properties.TIMER_ROLL_TIMES, "0")
        times = int(text) + 1 if text.isascii() and text.isdigit() and len(text) < 9 else 1
        # By its delay it would be due that long after it was put again: the moment is said.
        moment = {
            properties.TIMER_DELAY_SEC: None,
            properties.TIMER_DELAY_MS: None,
            properties.TIMER_DELIVER_MS: str(timed.due_ms),
            properties.TIMER_ROLL_TIMES: str(times),
            properties.TIMER_ORIGIN: origin_text([timed]),
        }
        again = self._intake.room.fitted(_copy(record, moment))
        if again is None:
            log.error(
                "timed message has no room to be put again, and goes with the log if that goes "
                "before its time offset_id=%s",
                record.offset_id,
            )
        return again

    # Taking back

    async def recall(self, handle: RecallHandle, group: str, born_host: bytes) -> None:
        """Take a message back: on return it is never delivered.

        That is every message with the topic, the unique key and the second of the handle: a
        producer that got no answer may have sent it twice.

        Raises:
            RequestRejected: It does not wait (any more), or this could not be stored.
        """
        key = f"{handle.topic}+{handle.unique_key}"
        found = await self._found(hashed(key), out_ms(handle.deliver_ms))
        synced, taken = True, 0
        for start in range(0, len(found), _RECALLED_AT_ONCE):
            # From here to the append nobody has a turn.
            newest = map(self._wheel.newest, found[start : start + _RECALLED_AT_ONCE])
            some = [timed for timed in newest if timed and self._may_be_recalled(timed, handle)]
            if some:
                taken += len(some)
                synced &= await self._take_back(some, handle, group, born_host)
        if not taken:
            raise RequestRejected(
                ResponseCode.ILLEGAL_OPERATION,
                f"recall failed, no message {handle.unique_key} of {handle.topic} waits here: it "
                "was delivered, or taken back before",
            )
        if not synced:
            raise RequestRejected(
                ResponseCode.FLUSH_DISK_TIMEOUT,
                "the recall is stored and not durable yet: it may be delivered all the same",
            )

    async def _found(self, key: int, out: int) -> list[Timed]:
        """What may wait with a key and a second."""
        search = self._wheel.alike(key, out)
        try:
            while True:
                next(search)
                await asyncio.sleep(0)
        except StopIteration as end:
            found: list[Timed] = end.value
            return found
        finally:
            search.close()

    def _may_be_recalled(self, timed: Timed, handle: RecallHandle) -> bool:
        if self._is_recalled(timed):
            return False
        record = self._record(timed)
        said = {} if record is None else record.properties
        return (said.get(properties.REAL_TOPIC), said.get(properties.UNIQ_KEY)) == (
            handle.topic,
            handle.unique_key,
        )

    async def _take_back(
        self, some: list[Timed], handle: RecallHandle, group: str, born_host: bytes
    ) -> bool:
        """Store that messages are taken back; False if that is not durable yet."""
        now_ms = self._clock.now_ms()
        told = {
            properties.TAGS: _RECALL_TAG,
            properties.TIMER_DEL_UNIQ_KEY: f"{handle.topic}+{handle.unique_key}",
            properties.UNIQ_KEY: handle.unique_key,
            properties.TIMER_DELIVER_MS: str(handle.deliver_ms),
            properties.BORN_TIMESTAMP: str(now_ms),
            properties.TIMER_OUT_MS: str(out_ms(handle.deliver_ms)),
            properties.TIMER_ORIGIN: origin_text(some),
            properties.REAL_TOPIC: handle.topic,
            properties.REAL_QUEUE_ID: "0",
            properties.PRODUCER_GROUP: group or None,
        }
        put = Put(
            topic=TIMER_TOPIC,
            queue_id=0,
            body=b"0",
            properties=properties.encode_bytes(told),
            flag=0,
            sys_flag=0,
            born_ms=now_ms,
            born_host=born_host,
        )
        for timed in some:
            self._recalling[timed.origin] = inf
        try:
            stored = await self._intake.take([put], wait=True)
        finally:
            # Whether or not anybody waits for it, it may be in the log: then the wheel sees it.
            for timed in some:
                self._recalling[timed.origin] = self._store.positions.written
        return stored.is_safe

    def _is_recalled(self, timed: Timed) -> bool:
        """Whether a message is being taken back, and the wheel does not know yet."""
        return self._recalling.get(timed.origin, -1) > self._store.positions.dispatched

    def _forget_recalled(self) -> None:
        dispatched = self._store.positions.dispatched
        for origin in [each for each, upto in self._recalling.items() if upto <= dispatched]:
            del self._recalling[origin]


def _copy(record: RecordView, changes: dict[str, str | None] | dict[str, str]) -> Put:
    raw = strip_mark(checksum.strip(record.raw_properties))
    return Put.copy_of(
        record,
        topic=record.topic,
        queue_id=record.queue_id,
        properties=properties.edited(raw, changes),
    )
