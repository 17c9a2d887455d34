"""What was popped and acknowledged, written down before anybody is told.

    pop       append ck         → in flight, the place moves on
    ack       append ack        → answered
    change    append ck and ack → together: the message is hidden anew, and the old pop is done
    revive    append copy, ack  → together: the message shows again, once

All of it goes to the revive topic, eight queues of it in turn. A broker that was killed reads the
notes behind the last one that is not needed any more, and knows what it knew. Where a pop that
lasts long would keep many notes from being done with, its check point is written again at the end.

A pop that fails when its check point may be in the log already leaves its queue in doubt: the group
gets nothing more of it until the log has been looked at, lest two check points speak of a message.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from rocketpipe.broker.counts import Counts
from rocketpipe.broker.features.popping.check_points import (
    CheckPoint,
    Doubt,
    Key,
    ack_of,
    java_int,
    put_ack,
    put_point,
    read_note,
    was_timed,
)
from rocketpipe.broker.features.popping.in_flight import Acked, Flight, InFlight
from rocketpipe.broker.features.popping.note_counts import NoteCounts
from rocketpipe.broker.features.popping.pop_offsets import (
    NOTED_GROUP,
    REVIVE_GROUP,
    Place,
    PopOffsets,
)
from rocketpipe.broker.intake.intake import Intake
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.order import OrderTable
from rocketpipe.broker.tables.system_topics import REVIVE_QUEUES
from rocketpipe.clock import Clock
from rocketpipe.errors import BodyError, RecordError, RequestRejected, StoreError
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

#: Acknowledgements of a pop that RocketMQ's broker parked come later than its check point.
TIMED_GRACE_MS: Final = 5000
#: So many notes of a queue are read again after a kill, and not many more.
MAX_SPAN: Final = 4000
#: A check point that is older is written again, so that no file is kept for it.
MAX_AGE_MS: Final = 3600_000
_RENEWED_AT_ONCE: Final = 64
_READ_COUNT: Final = 512
_READ_BYTES: Final = 1 << 20


class ReviveLog:
    """Keeps `InFlight`, the places of groups and the revive topic in step."""

    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        offsets: OffsetTable,
        orders: OrderTable,
        clock: Clock,
        *,
        topic: str,
        host: bytes,
        counts: Counts | None = None,
    ) -> None:
        """Write to ``topic``; ``host`` is this broker as records name it."""
        self._counted = NoteCounts(counts or Counts(0))
        self._store = store
        self._intake = intake
        self._offsets = offsets
        self._orders = orders
        self._clock = clock
        self._topic = topic
        self._host = host
        self.flights: Final = InFlight()
        self.places: Final = PopOffsets(offsets)
        self._turn = 0
        #: Up to where each queue's notes are known here.
        self._known = [QueueOffset(0)] * REVIVE_QUEUES
        #: Notes of our own behind that: they count already, and are not read.
        self._ahead: list[set[int]] = [set() for _ in range(REVIVE_QUEUES)]
        #: Notes of our own that were read from the log before who wrote them went on.
        self._read_back: set[LogOffset] = set()
        self._revived = [-1] * REVIVE_QUEUES
        self._strange: set[int] = set()
        self._doubts: dict[Place, Doubt] = {}

    def next_queue(self) -> int:
        """The revive queue for the next pop."""
        self._turn = (self._turn + 1) % REVIVE_QUEUES
        return self._turn

    # Writing

    async def popped(self, point: CheckPoint, queue_id: int, next_offset: QueueOffset) -> None:
        """Note a pop, and move its group's place on to ``next_offset``.

        Raises:
            RequestRejected: The store takes nothing now; nothing was popped.
        """
        place = (point.group, point.topic, point.queue_id)
        written = self._store.positions.written
        try:
            (placed,) = await self._write([self._point(point, queue_id)], wait=False, adds=True)
        except BaseException:
            end = self._store.positions.written
            if end != written:
                start = QueueOffset(point.start_offset)
                self._doubts[place] = Doubt(point.key, queue_id, start, next_offset, end)
            raise
        self._add(point.key, point, queue_id, placed)
        self._counted.noted(point)
        self.places.advance(*place, next_offset, placed.end)
        self._note(queue_id, placed.end)

    def is_sure(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether it is known what of a queue a group was given; else it is given nothing now."""
        place = (group, topic, queue_id)
        if place in self._doubts:
            with contextlib.suppress(StoreError):  # `tend` tries it too, and complains
                self._look_into(place)
        return place not in self._doubts

    def _look_into(self, place: Place) -> None:
        doubt = self._doubts[place]
        if self._store.positions.dispatched < doubt.end:
            return
        self._read_on(doubt.queue_id, None)
        if self.flights.get(doubt.key) and self.places.next(*place) == doubt.start:  # not moved
            self.places.advance(*place, doubt.next_offset, doubt.end)
            self._note(doubt.queue_id, doubt.end)
        self.flights.put_off(doubt.key, self._clock.now_ms())  # nobody was given it
        del self._doubts[place]

    async def ordered(self, point: CheckPoint, next_offset: QueueOffset, *, wait: bool) -> None:
        """Note what is popped in order from a queue now, and what of it was acknowledged.

        Raises:
            RequestRejected: The store takes nothing now.
        """
        key = point.order_key
        before = self.flights.get(key)
        queue_id = self.next_queue() if before is None else before.revive_queue
        (placed,) = await self._write([self._point(point, queue_id)], wait=wait)
        flight = self.flights.add(key, point, queue_id, placed.queue_offset)
        self._counted.noted(point)
        if flight.is_finished:
            self.flights.forget(key)
            self._counted.finished(flight)
        self.places.advance(point.group, point.topic, point.queue_id, next_offset, placed.end)
        self._note(queue_id, placed.end)

    async def acked_together(self, turn: Sequence[Acked]) -> None:
        """Note what was acknowledged of several pops, with one write; it never shows again then.

        Raises:
            RequestRejected: The store takes nothing now, or it is not known whether it did.
        """
        notes = [self._ack(acked.flight, acked.offsets) for acked in turn]
        try:
            await self._write(notes, wait=True, together=False)
        except RequestRejected:
            for acked in turn:
                acked.take_back()
            raise
        for acked in turn:
            self._counted.acked(acked.flight)
            self._close(acked.flight)

    async def moved(self, flight: Flight, offset: QueueOffset, point: CheckPoint) -> None:
        """Note that one message is hidden anew, by a check point of its own.

        Raises:
            RequestRejected: The store takes nothing now, or it is not known whether it did.
        """
        queue_id = flight.revive_queue
        renewed = self._point(point, queue_id)
        placed = await self._write_ack([renewed], flight, [offset], wait=True)
        self._add(point.key, point, queue_id, placed[0])
        self._counted.noted(point)
        self._counted.acked(flight)
        self._close(flight)

    async def revived(self, flight: Flight, offset: QueueOffset, copy: Put | None) -> None:
        """Store a message that shows again, and note that its pop is done with it, together.

        Raises:
            RequestRejected: The store takes nothing now; neither was stored.
        """
        await self._write_ack([] if copy is None else [copy], flight, [offset], wait=False)
        self._counted.acked(flight)
        if flight.is_finished:
            self.flights.forget(flight.point.key)
            self._counted.finished(flight)

    async def store(self, copy: Put) -> None:
        """Store a message that shows again, by itself.

        Raises:
            RequestRejected: The store takes nothing now, or not this.
        """
        await self._write([copy], wait=False)

    async def _write_ack(
        self, before: Sequence[Put], flight: Flight, offsets: Sequence[QueueOffset], *, wait: bool
    ) -> Sequence[Appended]:
        # Marked before it is written: whoever writes the check point again meanwhile knows of it.
        acked = Acked(flight, offsets)
        try:
            adds = bool(before) and before[0].topic == self._topic
            return await self._write([*before, self._ack(flight, offsets)], wait=wait, adds=adds)
        except RequestRejected:
            acked.take_back()
            raise

    def _close(self, flight: Flight) -> None:
        key = flight.point.key
        current = self.flights.get(key)
        if current is not None:
            current.acked |= flight.acked
            if current.is_finished:
                self.flights.finish(key)
                self._counted.finished(current)

    def _point(self, point: CheckPoint, queue_id: int) -> Put:
        return put_point(point, self._topic, queue_id, self._host, self._clock.now_ms())

    def _ack(self, flight: Flight, offsets: Sequence[QueueOffset]) -> Put:
        ack = ack_of(flight.point, offsets)
        due_ms = flight.point.due_ms
        now_ms = self._clock.now_ms()
        return put_ack(ack, due_ms, self._topic, flight.revive_queue, self._host, now_ms)

    async def _write(
        self, puts: Sequence[Put], *, wait: bool, adds: bool = False, together: bool = True
    ) -> Sequence[Appended]:
        """Store notes; with ``adds`` the first is a check point that `_add` is called with next."""
        stored = await self._intake.take(puts, wait=wait, together=together)
        first = stored.placed[0]
        if adds and first.queue_offset < self._known[puts[0].queue_id]:
            self._read_back.add(first.log_offset)
        for put, placed in zip(puts, stored.placed, strict=True):
            if put.topic == self._topic and placed.queue_offset >= self._known[put.queue_id]:
                self._ahead[put.queue_id].add(placed.queue_offset)
                self._pass_over(put.queue_id)
        return stored.placed

    def _pass_over(self, queue_id: int) -> None:
        """Move on over notes that count already."""
        known, ahead = self._known[queue_id], self._ahead[queue_id]
        while known in ahead:
            ahead.remove(known)
            known = QueueOffset(known + 1)
        self._known[queue_id] = known

    def _add(self, key: Key, point: CheckPoint, queue_id: int, placed: Appended) -> Flight | None:
        """Have a check point that was written count, unless it was read from the log meanwhile.

        Then it counts already, or its messages have even been shown again.
        """
        if placed.log_offset in self._read_back:
            self._read_back.discard(placed.log_offset)
            return self.flights.get(key)
        return self.flights.add(key, point, queue_id, placed.queue_offset)

    def _note(self, queue_id: int, end: LogOffset) -> None:
        self.places.note(self._topic, queue_id, self._known[queue_id], end)

    # Reading

    def arrived(self, topic: str, queue_id: int, offset: QueueOffset) -> None:
        """Be told of every message that became readable; what others wrote is read by `tend`."""
        if topic == self._topic and queue_id < REVIVE_QUEUES and offset >= self._known[queue_id]:
            self._strange.add(queue_id)

    def recover(self) -> None:
        """Know again what was known when the broker stopped, however it did.

        Raises:
            StoreError: The revive topic cannot be read.
        """
        for queue_id in range(REVIVE_QUEUES):
            done = self._offsets.committed(REVIVE_GROUP, self._topic, queue_id)
            noted = self._offsets.committed(NOTED_GROUP, self._topic, queue_id)
            first = self._store.min_offset(self._topic, queue_id)
            self._known[queue_id] = QueueOffset(max(first, 0 if done is None else done + 1))
            self._revived[queue_id] = -1 if done is None else done
            self._read_on(queue_id, self._known[queue_id] if noted is None else noted)
            # From here on the table has a row for it, whatever else fills it.
            self._offsets.commit(NOTED_GROUP, self._topic, queue_id, self._known[queue_id])
        self.flights.rebase(self._clock.now_ms())
        self._orders.rebase(self._clock.now_ms())
        if len(self.flights):
            log.info("popped messages are in flight pops=%d", len(self.flights))

    def _read_on(self, queue_id: int, noted: QueueOffset | None) -> None:
        """Take in the notes of a queue; those from ``noted`` on move places as well."""
        while True:
            at = self._known[queue_id]
            if at >= self._store.max_offset(self._topic, queue_id):
                return
            try:
                found = self._store.read(
                    self._topic, queue_id, at, max_count=_READ_COUNT, max_bytes=_READ_BYTES
                )
            except RecordCorrupt as error:
                log.error("note of a pop is damaged, and passed over reason=%s", error)
                self._known[queue_id] = QueueOffset(at + 1)
                continue
            ahead = self._ahead[queue_id]
            for record in view_records(found.records):
                # A pop that was noted here may be over by now, by a note that is not shown yet.
                if record.queue_offset in ahead:
                    ahead.remove(record.queue_offset)
                else:
                    self._take_in(record, noted)
            if found.next_offset <= at:
                return
            self._known[queue_id] = found.next_offset
            self._pass_over(queue_id)

    def _take_in(self, record: RecordView, noted: QueueOffset | None) -> None:
        try:
            note = read_note(record)
        except (BodyError, RecordError) as error:
            log.error(
                "note of a pop cannot be read offset_id=%s reason=%s", record.offset_id, error
            )
            return
        if note is None:
            return
        if not isinstance(note, CheckPoint):
            flight = self.flights.get(note.key)
            if flight is not None:
                for offset in note.offsets:
                    if flight.holds(offset):
                        flight.mark(offset)
                self._close(flight)
            return
        timed = was_timed(record)
        is_new = noted is not None and record.queue_offset >= noted and not timed
        if note.is_ordered and note.diffs:
            self._take_in_ordered(note, record, is_new=is_new)
        elif note.count:
            grace_ms = TIMED_GRACE_MS if timed else 0
            self.flights.add(note.key, note, record.queue_id, record.queue_offset, grace_ms)
            if is_new:
                self._move(note, note.end)

    def _take_in_ordered(self, note: CheckPoint, record: RecordView, *, is_new: bool) -> None:
        key = note.order_key
        flight = self.flights.add(key, note, record.queue_id, record.queue_offset)
        pop = self._orders.popped(
            note.topic,
            note.group,
            note.queue_id,
            offsets=note.offsets,
            pop_ms=note.pop_ms,
            invisible_ms=note.invisible_ms,
            acked=note.acked,
            shows_ms=note.shows_ms,
        )
        if flight.is_finished:
            self.flights.forget(key)
        if is_new:
            self._move(note, pop.next_offset)

    def _move(self, note: CheckPoint, offset: QueueOffset) -> None:
        place = (note.group, note.topic, note.queue_id)
        self._offsets.commit(*place, max(offset, self._offsets.committed(*place) or offset))

    # What is not needed any more

    async def tend(self) -> None:
        """Read what others noted, write again what is old, and commit what is durable.

        Raises:
            RequestRejected: The store takes nothing now; the next time does it.
            StoreError: The revive topic cannot be read.
        """
        while self._strange:
            self._read_on(self._strange.pop(), None)
        # Before what was read just now can fall due, and be forgotten.
        for place in list(self._doubts):
            self._look_into(place)
        for queue_id in range(REVIVE_QUEUES):
            await self._renew(queue_id)
            oldest = self.flights.oldest(queue_id)
            upto = (self._known[queue_id] if oldest is None else oldest.revive_offset) - 1
            if upto > self._revived[queue_id]:
                self._revived[queue_id] = upto
                written = self._store.positions.written
                self.places.revived(self._topic, queue_id, QueueOffset(upto), written)
                self._note(queue_id, written)
        self.settle()

    def behind(self) -> list[tuple[int, int]]:
        """By queue: how many notes are still needed, or stand behind one, and how old that is."""
        now_ms, found = self._clock.now_ms(), []
        for queue_id in range(REVIVE_QUEUES):
            oldest = self.flights.oldest(queue_id)
            if oldest is None:
                found.append((0, 0))
            else:
                notes = max(0, self._known[queue_id] - oldest.revive_offset)
                found.append((notes, max(0, now_ms - oldest.noted_ms)))
        return found

    def settle(self) -> None:
        """Commit places whose notes are durable by now."""
        self.places.settle(self._store.positions.durable)

    async def _renew(self, queue_id: int) -> None:
        now_ms = self._clock.now_ms()
        for _ in range(_RENEWED_AT_ONCE):
            flight = self.flights.oldest(queue_id)
            if flight is None:
                return
            behind = self._known[queue_id] - flight.revive_offset
            if behind <= MAX_SPAN and now_ms - flight.noted_ms <= MAX_AGE_MS:
                return
            point = msgspec.structs.replace(flight.point, bits=java_int(flight.acked))
            (placed,) = await self._write([self._point(point, queue_id)], wait=False, adds=True)
            key = point.order_key if point.is_ordered else point.key
            renewed = self._add(key, point, queue_id, placed)
            if renewed is not None:
                renewed.noted_ms = now_ms
