"""Messages that were popped and not acknowledged yet, by the check point of their pop.

All of it is in the revive topic as well: this is what a broker knows of it without reading. How
much it may hold is the caller's to ask, by `is_full`: one group may have as much as there is room
for, until the room is used up; from then on each group may have its equal share of it, so that none
is kept from popping by what others do not acknowledge.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator
from itertools import count
from typing import Final

from rocketpipe.broker.features.popping.check_points import CheckPoint, Key
from rocketpipe.model.offsets import QueueOffset

#: Pops whose messages are not all acknowledged, of a group and of all together; those that take up
#: their share last may make it twice as many. RocketMQ keeps as many in its buffer.
MAX_POPS: Final = 200_000
#: Pops that were acknowledged to the last: whoever acknowledges twice is not told off.
MAX_FINISHED: Final = 20_000
#: So many pops are counted one by one, for who asks: some milliseconds.
MAX_COUNTED: Final = 20_000

_SLACK: Final = 1000


class Flight:
    """One pop's messages from one queue, until each was acknowledged or shows again."""

    __slots__ = (
        "acked",
        "due_ms",
        "noted_ms",
        "offsets",
        "point",
        "revive_offset",
        "revive_queue",
        "shown",
    )

    def __init__(
        self, point: CheckPoint, revive_queue: int, revive_offset: int, grace_ms: int
    ) -> None:
        self.point = point
        self.offsets = point.offsets
        self.acked = point.acked
        #: Of those that are done with: the ones that show again, and were never acknowledged.
        self.shown = 0
        self.revive_queue = revive_queue
        #: Where its check point stands, the last one if it was written again.
        self.revive_offset = revive_offset
        #: When that was, or earlier.
        self.noted_ms = point.pop_ms
        self.due_ms = point.due_ms + grace_ms

    @property
    def open_offsets(self) -> list[QueueOffset]:
        """Those that were not acknowledged."""
        return [at for bit, at in enumerate(self.offsets) if not self.acked >> bit & 1]

    def _bit(self, offset: int) -> int:
        """The bit of one of these; 0 of any other message."""
        offsets = self.offsets
        # Most pops take all that follows: then its place is how far it is from the first.
        at = offset - offsets[0] if offsets else -1
        if 0 <= at < len(offsets) and offsets[at] == offset:
            return 1 << at
        return 1 << offsets.index(QueueOffset(offset)) if offset in offsets else 0

    def holds(self, offset: int) -> bool:
        """Whether a message is one of these, acknowledged or not."""
        return self._bit(offset) != 0

    def is_acked(self, offset: int) -> bool:
        """Whether one of these was acknowledged."""
        return self.acked & self._bit(offset) != 0

    def mark(self, offset: int) -> None:
        """Note that one of these was acknowledged."""
        self.acked |= self._bit(offset)

    def unmark(self, offset: int) -> None:
        """Take that back: nobody was told."""
        self.acked &= ~self._bit(offset)

    def show(self, offset: int) -> None:
        """Note that one of these shows again: who acknowledges it now is too late."""
        self.shown |= self._bit(offset)

    def unshow(self, offset: int) -> None:
        """Take that back: it could not be stored again."""
        self.shown &= ~self._bit(offset)

    def is_shown(self, offset: int) -> bool:
        """Whether one of these shows again."""
        return self.shown & self._bit(offset) != 0

    @property
    def is_finished(self) -> bool:
        """Whether each was acknowledged, or shows again."""
        return self.acked == (1 << len(self.offsets)) - 1


class Acked:
    """Messages of one pop that are acknowledged together, marked before it is written down."""

    __slots__ = ("_fresh", "flight", "offsets")

    def __init__(self, flight: Flight, offsets: Iterable[QueueOffset] = ()) -> None:
        self.flight = flight
        self.offsets: list[QueueOffset] = []
        self._fresh: list[QueueOffset] = []
        for offset in offsets:
            self.add(offset)

    def add(self, offset: QueueOffset) -> None:
        """Mark a message; one may be acknowledged again."""
        if offset not in self.offsets:
            self.offsets.append(offset)
            if not self.flight.is_acked(offset):
                self.flight.mark(offset)
                self._fresh.append(offset)

    def take_back(self) -> None:
        """Let those that were not acknowledged before be so again: nobody was told."""
        for offset in self._fresh:
            self.flight.unmark(offset)


class InFlight:
    """All flights of a broker, by key, by when they are due, and by where they were noted."""

    def __init__(self, *, limit: int = MAX_POPS, max_finished: int = MAX_FINISHED) -> None:
        self._limit = limit
        self._max_finished = max_finished
        self._flights: dict[Key, Flight] = {}
        self._by_group: Counter[str] = Counter()
        self._due: list[tuple[int, int, Key]] = []
        self._turn = count()
        self._noted: dict[int, OrderedDict[int, Flight]] = {}
        self._finished: OrderedDict[Key, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._flights)

    def count(self, group: str) -> int:
        """How many pops of a group are in flight."""
        return self._by_group[group]

    def share(self, group: str) -> int:
        """How many pops of a group may be in flight now."""
        if len(self._flights) < self._limit:
            return self._limit
        groups = len(self._by_group) + (group not in self._by_group)
        return max(1, self._limit // groups)

    def is_full(self, group: str) -> bool:
        """Whether a group may pop nothing more until it acknowledges, or something shows again."""
        return self._by_group[group] >= self.share(group)

    def by_topic(self) -> Counter[tuple[str, str]] | None:
        """How many messages groups have in flight, by group and topic; None if there are many."""
        if len(self._flights) > MAX_COUNTED:
            return None
        found: Counter[tuple[str, str]] = Counter()
        for flight in self._flights.values():
            point = flight.point
            found[point.group, point.topic] += len(flight.offsets) - flight.acked.bit_count()
        return found

    def of_groups(self, groups: Collection[str]) -> list[tuple[Key, Flight]]:
        """What these groups have in flight."""
        if not any(self._by_group[group] for group in groups):
            return []
        return [each for each in self._flights.items() if each[1].point.group in groups]

    def get(self, key: Key) -> Flight | None:
        return self._flights.get(key)

    def was_finished(self, key: Key) -> bool:
        """Whether it is known that all of a pop's messages were acknowledged."""
        return key in self._finished

    def add(
        self, key: Key, point: CheckPoint, queue_id: int, revive_offset: int, grace_ms: int = 0
    ) -> Flight:
        """Take note of a check point; one with the same key takes the place of the earlier."""
        before = self._flights.get(key)
        if before is not None:
            if before.revive_offset >= revive_offset and before.revive_queue == queue_id:
                return before
            self._drop(key, before)
        flight = Flight(point, queue_id, revive_offset, grace_ms)
        if before is not None and before.offsets == flight.offsets:
            flight.acked |= before.acked
            flight.shown |= before.shown
            if before.point.due_ms == point.due_ms:
                flight.due_ms = before.due_ms  # the same, noted again; it may have been put off
        self._flights[key] = flight
        self._by_group[point.group] += 1
        self._noted.setdefault(queue_id, OrderedDict())[revive_offset] = flight
        heapq.heappush(self._due, (flight.due_ms, next(self._turn), key))
        if len(self._due) > 2 * len(self._flights) + _SLACK:
            self._refill()
        return flight

    def finish(self, key: Key) -> None:
        """Forget a flight whose messages were all acknowledged, but for that."""
        self.forget(key)
        self._finished[key] = None
        if len(self._finished) > self._max_finished:
            self._finished.popitem(last=False)

    def forget(self, key: Key) -> None:
        """Forget a flight: its messages show again, or nobody wants them any more."""
        flight = self._flights.get(key)
        if flight is not None:
            self._drop(key, flight)

    def _drop(self, key: Key, flight: Flight) -> None:
        del self._flights[key]
        del self._noted[flight.revive_queue][flight.revive_offset]
        group = flight.point.group
        self._by_group[group] -= 1
        if not self._by_group[group]:
            del self._by_group[group]

    def due(self, now_ms: int) -> Iterator[tuple[Key, Flight]]:
        """Those whose time is over, the first first; each is given once."""
        while self._due and self._due[0][0] <= now_ms:
            due_ms, _, key = heapq.heappop(self._due)
            flight = self._flights.get(key)
            if flight is not None and flight.due_ms == due_ms:
                yield key, flight

    def put_off(self, key: Key, until_ms: int) -> None:
        """Have a flight fall due at another time."""
        flight = self._flights.get(key)
        if flight is not None:
            flight.due_ms = until_ms
            heapq.heappush(self._due, (until_ms, next(self._turn), key))

    def shift(self, by_ms: int, now_ms: int) -> None:
        """Have all fall due by so much later, as the wall clock was set: no time has passed.

        Nothing waits for longer than its pop asked for, counted from ``now_ms``.
        """
        for flight in self._flights.values():
            latest_ms = max(flight.due_ms, now_ms + flight.point.invisible_ms)
            flight.due_ms = min(flight.due_ms + by_ms, latest_ms)
        self._refill()

    def rebase(self, now_ms: int) -> None:
        """Have pops of a time that is yet to come count from now: the clock was set back since."""
        for flight in self._flights.values():
            flight.due_ms -= max(0, flight.point.pop_ms - now_ms)
        self._refill()

    def _refill(self) -> None:
        self._due = [(each.due_ms, next(self._turn), at) for at, each in self._flights.items()]
        heapq.heapify(self._due)

    @property
    def next_due_ms(self) -> int | None:
        """When there may be something due; None while nothing is in flight."""
        return self._due[0][0] if self._due else None

    def oldest(self, queue_id: int) -> Flight | None:
        """The flight whose check point stands first in a revive queue."""
        noted = self._noted.get(queue_id)
        return next(iter(noted.values())) if noted else None
