"""What may go, and when: old segments of the log, and the derived files that spoke of them.

    in the hours of ``delete_hours``    segments whose last record is older than ``reserved_hours``
    disk above ``used_ratio`` percent   the same, at any hour; so also when someone asks for it
    above ``force_ratio``               the oldest segments, whatever their age, until below it
    above ``full_ratio``                no more than that, but appends are refused meanwhile

At most ten segments go in one run, the oldest first, never the last, and none that somebody holds
with a pin: a read that takes long, a backup, a replica, messages that wait for their delay; the
last give way above ``force_ratio``. A consumer group holds nothing. What it has not consumed goes
all the same, and a warning says how much of it.

A segment's age is the time at which the next one got its first record. That moment is in the log
itself, so copying a store, or restoring it, makes nothing younger.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import IntEnum
from typing import Final

from rocketpipe.clock import Clock
from rocketpipe.errors import StoreError
from rocketpipe.model.flags import BORN_HOST_V6
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.layout import MAGIC_V1, MAGIC_V2, SIZE_AND_MAGIC
from rocketpipe.store.config import hours_of
from rocketpipe.store.errors import StoreFull
from rocketpipe.store.files.background_sync import Steps, pause, run_steps_blocking
from rocketpipe.store.files.disk import Closing, Disk
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

MOST_SEGMENTS_A_RUN: Final = 10
#: So many queues, or places of groups, are looked at before others have their turn.
_AT_ONCE: Final = 1000
_HOUR_MS: Final = 3_600_000
_SYS_FLAG_AT: Final = 36
_STORED_AT: Final = 56
_HEAD_BYTES: Final = 88


class Watermark(IntEnum):
    """How full the disk is, by what is done about it."""

    LOW = 0
    HIGH = 1
    FORCE = 2
    FULL = 3


@dataclass(frozen=True, slots=True)
class Committed:
    """How far a group has come in one queue."""

    group: str
    topic: str
    queue_id: int
    offset: QueueOffset


@dataclass(frozen=True, slots=True)
class Removed:
    """What one run took away."""

    segments: int
    first_offset: LogOffset
    #: Messages that went unconsumed, by group.
    unconsumed: dict[str, int]


class Pin(Closing):
    """Keeps the log from an offset on until it is released, or moved further."""

    def __init__(
        self,
        offset: LogOffset,
        owner: str,
        on_release: Callable[[Pin], None],
        *,
        yields: bool = False,
        lasts: bool = False,
    ) -> None:
        self.offset = offset
        self.owner = owner
        #: Whether it gives way when the disk is about to be full.
        self.yields = yields
        #: Whether it stays at the end of a block of `Pins.temporary`.
        self.lasts = lasts
        self._on_release = on_release

    def close(self) -> None:
        """The same as `release`."""
        self.release()

    def move(self, offset: LogOffset) -> None:
        """Hold only what is at ``offset`` and after it."""
        assert offset >= self.offset, "what was let go may be gone"
        self.offset = offset

    def release(self) -> None:
        """Hold nothing any more; a second time does nothing."""
        self._on_release(self)


class Pins:
    """Who holds which part of the log. Safe to use from several threads."""

    def __init__(self) -> None:
        self._pins: set[Pin] = set()
        self._lock = threading.Lock()

    def hold(
        self, offset: LogOffset, owner: str, *, yields: bool = False, lasts: bool = False
    ) -> Pin:
        """Keep the log from ``offset`` on for ``owner``, a name that a warning may show.

        What ``yields`` gives way when the disk is about to be full; what ``lasts`` is still held
        behind the block of `temporary` that it was held in.
        """
        pin = Pin(offset, owner, self._release, yields=yields, lasts=lasts)
        with self._lock:
            self._pins.add(pin)
        return pin

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """Release at the end of the block what was held inside it and not released."""
        with self._lock:
            before = set(self._pins)
        try:
            yield
        finally:
            with self._lock:
                self._pins = {pin for pin in self._pins if pin in before or pin.lasts}

    def lowest(self) -> Pin | None:
        """The pin that holds most of the log."""
        with self.settled() as pin:
            return pin

    @contextmanager
    def settled(self, *, forced: bool = False) -> Iterator[Pin | None]:
        """Let no pin come or go inside the block, which is given the lowest.

        With ``forced`` of those that do not give way.
        """
        with self._lock:
            held = (pin for pin in self._pins if not (forced and pin.yields))
            yield min(held, key=lambda pin: pin.offset, default=None)

    def _release(self, pin: Pin) -> None:
        with self._lock:
            self._pins.discard(pin)


class Retention:
    """Decides what goes, and removes it."""

    def __init__(
        self,
        store: MessageStore,
        *,
        disk: Disk,
        clock: Clock,
        pins: Pins,
        committed: Callable[[], Iterable[Committed]] = tuple,
        zone: tzinfo | None = None,
    ) -> None:
        """Take the store to watch over, whose settings say what may go.

        ``committed`` gives what the groups have consumed, and is asked when something goes;
        ``zone`` is that of ``delete_hours``, the machine's by default.
        """
        self._store = store
        self._config = store.config
        self._disk = disk
        self._clock = clock
        self._pins = pins
        self._committed = committed
        self._zone = zone
        self._running = False
        #: How old each segment was when it was first seen here, and when that was.
        self._seen: dict[LogOffset, tuple[int, int]] = {}
        #: When the first record of each was stored, as it says itself.
        self._began: dict[LogOffset, int] = {}

    def hold(self, offset: LogOffset, owner: str, *, yields: bool = False) -> Pin:
        """Keep the log from an offset on, for as long as the pin is held; see `Pins`."""
        return self._pins.hold(offset, owner, yields=yields)

    def used_percent(self) -> int:
        """How much of the room that the store could use is taken, rounded up as RocketMQ does."""
        _, used, free = self._disk.usage(self._config.root)
        return math.ceil(100 * used / (used + free)) if used + free else 0

    def room(self) -> tuple[int, int]:
        """The bytes of the file system that the store is on: all, and those free for it.

        Raises:
            DiskError: It does not tell.
        """
        total, _, free = self._disk.usage(self._config.root)
        return total, free

    def watermark(self) -> Watermark:
        """How full the disk is."""
        percent = self.used_percent()
        config = self._config
        limits = (config.used_ratio, config.force_ratio, config.full_ratio)
        return Watermark(sum(percent > limit for limit in limits))

    def run(self, *, on_request: bool = False) -> Removed:
        """Remove what may go now; ``on_request`` does not wait for the hour.

        Raises:
            DiskError: a file could not be removed, or the disk not be asked for its room.
        """
        return run_steps_blocking(self.running(on_request=on_request))

    def running(self, *, on_request: bool = False) -> Steps[Removed]:
        """Do in steps what `run` does; while another is under way there is nothing to do.

        Raises:
            StoreFailed: the store has failed.
            DiskError: a file could not be removed, or the disk not be asked for its room.
        """
        if self._running:
            return Removed(0, self._store.first_offset, {})
        self._running = True
        try:
            return (yield from self._run(on_request=on_request))
        finally:
            self._running = False

    def _run(self, *, on_request: bool) -> Steps[Removed]:
        watermark = self.watermark()
        now_ms = self._clock.now_ms()
        hour = datetime.fromtimestamp(now_ms / 1000, self._zone).hour
        removed = Removed(0, self._store.first_offset, {})
        bases = [LogOffset(segment.base) for segment in self._store.commit_log.run.segments]
        self._see(bases, now_ms)
        if on_request or watermark >= Watermark.HIGH or self._is_hour_to_delete(hour):
            expired = self._expired(bases, now_ms)
            forced = watermark >= Watermark.FORCE
            removed = yield from self._remove(bases, expired, forced=forced)
        self.heed_room()
        return removed

    def heed_room(self) -> None:
        """Refuse appends if the disk is too full by now, and take them if it no longer is.

        Raises:
            DiskError: It cannot be asked for its room.
        """
        if self.watermark() < Watermark.FULL:
            self._store.health.watermark(None)
            return
        root = self._config.root
        _, _, free = self._disk.usage(root)
        reason = f"the disk is more than {self._config.full_ratio} percent full"
        self._store.health.watermark(StoreFull(root, 0, reason, free))

    def _is_hour_to_delete(self, hour: int) -> bool:
        return hour in hours_of(self._config.delete_hours)

    def _see(self, bases: Sequence[LogOffset], now_ms: int) -> None:
        """Note how old segments are that were not seen before."""
        seen, monotonic_ms = self._seen, self._clock.monotonic_ms()
        self._seen = {base: seen[base] for base in bases if base in seen}
        began, self._began = self._began, {}
        for base in bases:
            stored_ms = began[base] if base in began else self._stored_ms(base)
            if stored_ms is not None:
                self._began[base] = stored_ms
        for base, began_ms in self._times(now_ms).items():
            self._seen.setdefault(base, (now_ms - began_ms, monotonic_ms))

    def _times(self, now_ms: int) -> dict[LogOffset, int]:
        """When each segment was begun, by what those around it say too.

        The time of a clock that was ahead is yet to come: such a segment was begun no later than
        the next that has another time, or than now. None was begun before those before it.
        """
        times: dict[LogOffset, int] = {}
        next_ms = now_ms
        for base, stored_ms in reversed(self._began.items()):
            next_ms = times[base] = stored_ms if stored_ms <= now_ms else next_ms
        latest_ms = 0
        for base in self._began:
            latest_ms = times[base] = max(latest_ms, times[base])
        return times

    def _expired(self, bases: Sequence[LogOffset], now_ms: int) -> int:
        """How many segments from the oldest on are past their time."""
        keep_ms = self._config.reserved_hours * _HOUR_MS
        monotonic_ms = self._clock.monotonic_ms()
        times = self._times(now_ms)
        count = 0
        for following in bases[1 : MOST_SEGMENTS_A_RUN + 1]:
            rolled_ms = times.get(following)
            if rolled_ms is None or now_ms - rolled_ms < keep_ms:
                break
            # A wall clock that is set forward makes nothing older than it is.
            age_ms, seen_ms = self._seen.get(following, (0, monotonic_ms))
            if age_ms + monotonic_ms - seen_ms < keep_ms:
                break
            count += 1
        return count

    def _stored_ms(self, base: LogOffset) -> int | None:
        """When the first record of a segment was stored; None while there is none."""
        head = self._store.commit_log.run.read(base, _HEAD_BYTES)
        if len(head) < _HEAD_BYTES:
            return None
        _, magic = SIZE_AND_MAGIC.unpack_from(head)
        if magic not in (MAGIC_V1, MAGIC_V2):
            return None
        sys_flag = int.from_bytes(head[_SYS_FLAG_AT : _SYS_FLAG_AT + 4], "big")
        at = _STORED_AT + (12 if sys_flag & BORN_HOST_V6 else 0)
        return int.from_bytes(head[at : at + 8], "big", signed=True)

    def _remove(self, bases: Sequence[LogOffset], expired: int, *, forced: bool) -> Steps[Removed]:
        firsts: dict[tuple[str, int], QueueOffset] = {}
        failure: StoreError | None = None
        removed = 0
        try:
            for following in bases[1 : MOST_SEGMENTS_A_RUN + 1]:
                must = forced and self.watermark() >= Watermark.FORCE
                if removed >= expired and not must:
                    break
                if not removed:
                    firsts = yield from self._firsts()
                if not (yield from self._remove_up_to(following, forced=must)):
                    break
                removed += 1
        except StoreError as error:
            failure = error
        unconsumed = yield from self._warn_of_unconsumed(firsts)
        if failure is not None:
            raise failure
        first = self._store.first_offset
        if removed:
            log.info("segments expired count=%d first_offset=%d", removed, first)
        if removed > expired:
            log.warning(
                "segments went before their time, the disk fills up count=%d path=%s",
                removed - expired,
                self._config.root,
            )
        return Removed(removed, first, unconsumed)

    def _remove_up_to(self, offset: LogOffset, *, forced: bool) -> Steps[bool]:
        """Remove the segment that ends at ``offset``; False if somebody still needs it."""
        positions = self._store.positions
        if offset > min(positions.durable, positions.dispatched):
            return False
        with self._may_go(offset, forced=forced) as may_go:
            if not may_go:
                return False
        # One at a time: a crash in between must not leave a gap among the segments.
        yield from self._store.removal.before(offset, lambda: self._may_go(offset, forced=forced))
        return self._store.first_offset >= offset

    @contextmanager
    def _may_go(self, offset: LogOffset, *, forced: bool) -> Iterator[bool]:
        """Let no pin come or go inside the block, which is told whether one is in the way."""
        with self._pins.settled(forced=forced) as pin:
            held = pin is not None and pin.offset < offset
            if pin is not None and held:
                log.info("segment is held owner=%s offset=%d", pin.owner, pin.offset)
            yield not held

    def _firsts(self) -> Steps[dict[tuple[str, int], QueueOffset]]:
        """Where each queue begins now."""
        firsts: dict[tuple[str, int], QueueOffset] = {}
        for done, queue in enumerate(self._store.queues(), 1):
            firsts[queue] = self._store.min_offset(*queue)
            if done % _AT_ONCE == 0:
                yield pause
        return firsts

    def _warn_of_unconsumed(
        self, firsts: dict[tuple[str, int], QueueOffset]
    ) -> Steps[dict[str, int]]:
        """Tell what groups have not read of queues that began there, and do not any more."""
        now = yield from self._firsts()
        moved = {queue for queue, before in firsts.items() if now.get(queue, before) > before}
        by_topic: Counter[tuple[str, str]] = Counter()
        # There may be a million places: nobody is kept waiting for them.
        for done, place in enumerate(self._committed() if moved else (), 1):
            queue = (place.topic, place.queue_id)
            if queue in moved:
                missed = now[queue] - max(place.offset, firsts[queue])
                if missed > 0:
                    by_topic[place.group, place.topic] += missed
            if done % _AT_ONCE == 0:
                yield pause
        by_group: Counter[str] = Counter()
        for (group, topic), count in sorted(by_topic.items()):
            by_group[group] += count
            log.warning(
                "unconsumed messages expired group=%s topic=%s count=%d", group, topic, count
            )
        return dict(by_group)
