"""Popped messages whose time is over show again, or become dead letters.

    not acknowledged in time     to the group's retry topic of its topic, tried once more often
    tried as often as allowed    to %DLQ%group

The copy and the note that its pop is done with it are stored together, so that a message comes
again once, whenever the broker dies.

What was popped by a group that is not known, or from a topic that is not, is put off for as long as
its messages are there: a broker that was killed, or whose tables are older than its log, knows less
than there is. It is done with once the messages are gone, or an operator deleted the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from rocketpipe.broker.counts import Counts
from rocketpipe.broker.delivery.retry import DLQ_QUEUES, explained
from rocketpipe.broker.features.popping.in_flight import Flight
from rocketpipe.broker.features.popping.revive_log import ReviveLog
from rocketpipe.broker.intake.room import Room
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.order import OrderTable
from rocketpipe.clock import STEP_MS, Clock
from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.model import properties
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.ids import RetryKind
from rocketpipe.model.names import (
    dlq_topic,
    is_dlq_topic,
    is_retry_topic,
    topic_of_pop_retry,
)
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.record.codec import RecordView
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

TICK_MS: Final = 100
#: How long a pop rests that could not be dealt with.
BACK_OFF_MS: Final = 5_000
#: How long one rests whose group or topic is not known.
UNKNOWN_MS: Final = 30_000
RETRY_QUEUES: Final = 1
_AT_ONCE: Final = 64
#: Steps of the wall clock that are told of, and how often: one that is strobed fills no disk.
_NOTABLE_MS: Final = 1000
_TELL_EVERY_MS: Final = 60_000


class _Unknown(Exception):
    """A group or a topic is not known, though there is something of it."""


class Revivals:
    """Shows messages again that were popped and not acknowledged in time."""

    def __init__(
        self,
        store: MessageStore,
        revive_log: ReviveLog,
        topic_provider: TopicProvider,
        groups: GroupTable,
        clock: Clock,
        *,
        retry_v2: bool = True,
        orders: OrderTable | None = None,
        counts: Counts | None = None,
    ) -> None:
        """With ``retry_v2`` retry topics are named in the second form."""
        self._counts = counts or Counts(0)
        self._orders = orders
        self._store = store
        self._revive_log = revive_log
        self._room = Room(store.commit_log.segment_bytes)
        self._topic_provider = topic_provider
        self._groups = groups
        self._clock = clock
        self._kind = RetryKind.RETRY_V2 if retry_v2 else RetryKind.RETRY_V1
        self._trouble: str | None = None
        #: Groups that an operator deleted, until what they popped is done with.
        self._deleted: set[str] = set()
        #: How far the wall clock is ahead of the monotonic one.
        self._apart_ms = clock.now_ms() - clock.monotonic_ms()
        self._tell_from_ms = clock.monotonic_ms()

    async def keep_reviving(self) -> None:
        """Show again what is due, and keep the revive topic short, until cancelled."""
        try:
            while True:
                await self._clock.sleep(TICK_MS)
                try:
                    begun_ms = self._clock.monotonic_ms()
                    await self.revive_due()
                    self._counts.pop_scans.add(self._clock.monotonic_ms() - begun_ms)
                    await self._revive_log.tend()
                    self._trouble = None
                except (RequestRejected, StoreError) as error:
                    self._complain(str(error))
                except Exception:
                    log.exception("popped messages wait, and are tried again")
        finally:
            self._store.flush()
            self._revive_log.settle()

    async def revive_due(self) -> None:
        """Show all again that is due by now."""
        now_ms = self.follow_clock()
        # One that is there again meanwhile, as nothing could be stored, has pops of its own.
        deleted = self._deleted | self._groups.take_deleted()
        self._deleted = {name for name in deleted if self._groups.get(name) is None}
        if self._deleted:
            await self._give_up(self._deleted)
            self._deleted.clear()
        for done, (key, flight) in enumerate(self._revive_log.flights.due(now_ms), 1):
            if done % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if flight.point.is_ordered:
                self._revive_log.flights.forget(key)  # the queue is free by itself
                continue
            try:
                await self._revive(flight)
            except _Unknown as unknown:
                self._complain(str(unknown))
                self._revive_log.flights.put_off(key, self._clock.now_ms() + UNKNOWN_MS)
            except (RequestRejected, StoreError) as error:
                self._complain(str(error))
                self._revive_log.flights.put_off(key, self._clock.now_ms() + BACK_OFF_MS)
            except Exception as error:
                # Whatever it is about, it is about this one: the others are not to wait for it.
                self._complain(f"{type(error).__name__}: {error}")
                self._revive_log.flights.put_off(key, self._clock.now_ms() + BACK_OFF_MS)
            else:
                self._revive_log.flights.forget(key)

    async def _give_up(self, groups: Collection[str]) -> None:
        """Be done with what groups have popped that were deleted: nobody wants it any more."""
        for done, (key, flight) in enumerate(self._revive_log.flights.of_groups(groups), 1):
            if done % _AT_ONCE == 0:
                await asyncio.sleep(0)
            for offset in [] if flight.point.is_ordered else flight.open_offsets:
                await self._revive_log.revived(flight, offset, None)
            self._revive_log.flights.forget(key)

    def follow_clock(self) -> int:
        """The time by the wall clock; what is in flight is put off if somebody has set that."""
        now_ms = self._clock.now_ms()
        apart_ms = now_ms - self._clock.monotonic_ms()
        step_ms = apart_ms - self._apart_ms
        if abs(step_ms) >= STEP_MS:
            self._apart_ms = apart_ms
            self._revive_log.flights.shift(step_ms, now_ms)
            if self._orders is not None:
                self._orders.shift(step_ms, now_ms)
            self._tell_of(step_ms)
        return now_ms

    def _tell_of(self, step_ms: int) -> None:
        monotonic_ms = self._clock.monotonic_ms()
        if abs(step_ms) >= _NOTABLE_MS and monotonic_ms >= self._tell_from_ms:
            self._tell_from_ms = monotonic_ms + _TELL_EVERY_MS
            log.warning(
                "the machine's clock was set, and what waits goes on waiting as long as it was to "
                "step_ms=%d",
                step_ms,
            )

    async def _revive(self, flight: Flight) -> None:
        point = flight.point
        group = self._groups.get(point.group)
        topic = topic_of_pop_retry(point.topic, point.group)
        is_known = self._topic_provider.known(topic) is not None
        for offset in flight.open_offsets:
            copy: Put | None = None
            if self._is_there(flight, offset):
                if group is None:
                    raise _Unknown(f"group {point.group} is not known: create it")
                if not is_known:
                    raise _Unknown(f"topic {topic} is not known: create it, or delete it again")
                copy = await self._copy(flight, offset, group)
            if copy is not None:
                copy = self._room.fitted(copy, grouped=True) or copy
            if flight.is_acked(offset):
                continue  # while its topic was made
            if copy is None:
                await self._revive_log.revived(flight, offset, None)
                continue
            # From here on it is too late to acknowledge it, though others of its pop still may be.
            flight.show(offset)
            try:
                await self._show(flight, offset, copy)
            except BaseException:
                flight.unshow(offset)
                raise
            if not is_dlq_topic(copy.topic):
                self._counts.popped_again(point.group, point.topic)

    async def _show(self, flight: Flight, offset: QueueOffset, copy: Put) -> None:
        try:
            await self._revive_log.revived(flight, offset, copy)
        except RequestRejected as error:
            if error.code != ResponseCode.MESSAGE_ILLEGAL:
                raise
            # Its properties leave no room for others: it comes again as it was sent, and by
            # itself, so that a kill in between would show it twice.
            await self._revive_log.store(self._room.squeezed(await self._bare(copy, flight)))
            await self._revive_log.revived(flight, offset, None)

    async def _bare(self, put: Put, flight: Flight) -> Put:
        """The same without what was added; of which group it is, its topic says then."""
        point, name = flight.point, put.topic
        topic = topic_of_pop_retry(point.topic, point.group)
        if RetryKind.of(name) is RetryKind.RETRY_V1 and not is_retry_topic(topic):
            name = RetryKind.RETRY_V2.topic(topic, point.group)
            await self._topic_provider.ensured(name, queues=RETRY_QUEUES)
        added = {properties.FIRST_POP_TIME: None, properties.ORIGIN_GROUP: None}
        return put._replace(topic=name, properties=properties.edited(put.properties, added))

    async def _copy(self, flight: Flight, offset: QueueOffset, group: GroupSettings) -> Put | None:
        """The message as it comes again; None if it is gone."""
        message = self._message(flight, offset)
        if message is None:
            return None
        point = flight.point
        given = message.properties
        changes: dict[str, str | None] = {properties.POP_CK: None}
        if properties.FIRST_POP_TIME not in given:
            changes[properties.FIRST_POP_TIME] = str(point.pop_ms)
        is_dead = message.reconsume_times >= group.max_retries
        if is_dead:
            name = dlq_topic(group.name)
            await self._topic_provider.ensured(name, queues=DLQ_QUEUES)
        else:
            name = point.topic
            topic = topic_of_pop_retry(name, group.name)
            if not is_retry_topic(topic):
                name = self._kind.topic(topic, group.name)
            if RetryKind.of(name) is RetryKind.RETRY_V1:
                changes[properties.ORIGIN_GROUP] = group.name
            await self._topic_provider.ensured(name, queues=RETRY_QUEUES)
        put = Put.copy_of(
            message,
            topic=name,
            queue_id=0,
            properties=properties.edited(message.raw_properties, changes),
            reconsume_times=message.reconsume_times + 1,
        )
        if not is_dead:
            return put
        tried = message.reconsume_times + 1
        log.warning(
            "popped message is a dead letter group=%s topic=%s offset_id=%s attempts=%d",
            group.name,
            point.topic,
            message.offset_id,
            tried,
        )
        return explained(
            put,
            f"attempts not acknowledged: {tried} of {group.max_retries + 1}",
            topic=topic_of_pop_retry(point.topic, group.name),
            message_id=message.message_id,
        )

    def _is_there(self, flight: Flight, offset: QueueOffset) -> bool:
        """Whether the log has a message still, for all that is known."""
        point = flight.point
        first = self._store.min_offset(point.topic, point.queue_id)
        return first <= offset < self._store.max_offset(point.topic, point.queue_id)

    def _message(self, flight: Flight, offset: QueueOffset) -> RecordView | None:
        point = flight.point
        try:
            found = self._store.read(point.topic, point.queue_id, offset, max_count=1)
        except RecordCorrupt as error:
            log.error("popped message is damaged, and does not come again reason=%s", error)
            return None
        if not found.count:
            return None
        message = RecordView(found.records)
        return message if message.queue_offset == offset else None

    def _complain(self, reason: str) -> None:
        if reason != self._trouble:
            self._trouble = reason
            log.warning("popped messages wait, and are tried again reason=%s", reason)
