"""What was popped in order and is not acknowledged: until it is, its queue is blocked.

Kept as ``config/consumerOrderInfo.json``, where queues are by topic and group:

    "table":{"orders@billing":{0:{"popTime":…,"i":60000,"o":[17,1,2],"cm":1,"l":…,"a":"attempt"}}}

``o`` has the first offset and then how far the others are from it, ``cm`` a bit for each that was
acknowledged, ``ot`` when single ones show again, ``oc`` how often they were tried before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from rocketpipe.broker.tables.limits import TableFull
from rocketpipe.broker.tables.watched import Watched
from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.offsets import QueueOffset

MAX_QUEUES: Final = 200_000
#: A queue that nobody popped for so long is forgotten when the table is saved.
FORGOTTEN_MS: Final = 24 * 3600 * 1000

_SEPARATOR: Final = "@"


class OrderedPop(Body, frozen=True, kw_only=True):
    """The last pop from a queue in order."""

    pop_ms: Int64 = msgspec.field(name="popTime", default=0)
    invisible_ms: Int64 | None = msgspec.field(name="i", default=None)
    spans: tuple[Int64, ...] = msgspec.field(name="o", default=())
    shows_ms: dict[Int64, Int64] | None = msgspec.field(name="ot", default=None)
    counts: dict[Int64, Int32] | None = msgspec.field(name="oc", default=None)
    last_ms: Int64 = msgspec.field(name="l", default=0)
    acked: Int64 = msgspec.field(name="cm", default=0)
    attempt_id: str | None = msgspec.field(name="a", default=None)

    @property
    def offsets(self) -> tuple[QueueOffset, ...]:
        """What was popped."""
        if not self.spans:
            return ()
        first, *others = self.spans
        return (QueueOffset(first), *(QueueOffset(first + span) for span in others))

    @property
    def next_offset(self) -> QueueOffset:
        """The first that is not acknowledged, or behind them all."""
        offsets = self.offsets
        for index, offset in enumerate(offsets):
            if not self.acked >> index & 1:
                return offset
        return QueueOffset(offsets[-1] + 1)

    def free_ms(self) -> int:
        """When nothing of it is hidden any more; 0 once all was acknowledged."""
        times = self.shows_ms or {}
        usual = self.pop_ms + (self.invisible_ms or 0)
        return max(
            (
                times.get(offset, usual)
                for index, offset in enumerate(self.offsets)
                if not self.acked >> index & 1
            ),
            default=0,
        )


class OrderFile(Body, frozen=True, kw_only=True):
    """The table as it is in its file."""

    table: dict[str, dict[Int32, OrderedPop]] = msgspec.field(default_factory=dict)


class NotPopped(Exception):
    """An offset was acknowledged that the last pop in order did not give."""


class OrderTable(Watched[tuple[str, str, int]]):
    """The last ordered pop of each group from each queue."""

    def __init__(self, *, limit: int = MAX_QUEUES) -> None:
        super().__init__()
        self._limit = limit
        self._pops: dict[tuple[str, str, int], OrderedPop] = {}
        #: Grows with every change, so that one can tell whether there was any.
        self.changes = 0

    def get(self, topic: str, group: str, queue_id: int) -> OrderedPop | None:
        return self._pops.get((topic, group, queue_id))

    def is_blocked(
        self, topic: str, group: str, queue_id: int, attempt_id: str | None, now_ms: int
    ) -> bool:
        """Whether something of the queue is hidden, but from the attempt that has it."""
        pop = self._pops.get((topic, group, queue_id))
        if pop is None or (pop.attempt_id is not None and pop.attempt_id == attempt_id):
            return False
        return now_ms < pop.free_ms()

    def popped(
        self,
        topic: str,
        group: str,
        queue_id: int,
        *,
        offsets: Sequence[QueueOffset],
        pop_ms: int,
        invisible_ms: int,
        attempt_id: str | None = None,
        acked: int = 0,
        shows_ms: dict[int, int] | None = None,
    ) -> OrderedPop:
        """Block a queue by what was popped from it; tells how often each was popped before.

        Raises:
            TableFull: If it is one queue too many.
        """
        key = (topic, group, queue_id)
        before = self._pops.get(key)
        if before is None and len(self._pops) >= self._limit:
            raise TableFull("queues popped in order", self._limit, "use fewer queues or groups")
        counts: dict[int, int] | None = None
        if before is not None:
            earlier = before.counts or {}
            if before.pop_ms == pop_ms:  # the same pop, as the log tells of it
                counts, attempt_id = earlier, attempt_id or before.attempt_id
                shows_ms = shows_ms or before.shows_ms
            elif attempt_id is not None and before.attempt_id == attempt_id:
                counts = earlier
            else:
                seen = set(before.offsets)
                counts = {at: earlier.get(at, 0) + 1 for at in offsets if at in seen}
        first = offsets[0]
        pop = OrderedPop(
            pop_ms=pop_ms,
            invisible_ms=invisible_ms,
            spans=(first, *(at - first for at in offsets[1:])),
            shows_ms=shows_ms,
            counts=counts or None,
            last_ms=pop_ms,
            acked=acked,
            attempt_id=attempt_id,
        )
        self._put(key, pop)
        return pop

    def acknowledge(
        self, topic: str, group: str, queue_id: int, offset: QueueOffset, pop_ms: int
    ) -> OrderedPop | None:
        """Note that a message was consumed; None if the pop that gave it is not the last one.

        Raises:
            NotPopped: If that pop did not give it.
        """
        key = (topic, group, queue_id)
        pop = self._pops.get(key)
        if pop is None or pop.pop_ms != pop_ms:
            return None
        if offset not in pop.offsets:
            raise NotPopped(offset)
        acked = pop.acked | 1 << pop.offsets.index(offset)
        pop = msgspec.structs.replace(pop, acked=acked)
        self._put(key, pop)
        return pop

    def hide(
        self,
        topic: str,
        group: str,
        queue_id: int,
        offset: QueueOffset,
        pop_ms: int,
        until_ms: int,
    ) -> OrderedPop | None:
        """Have one message show at another time; None if the last pop did not give it."""
        key = (topic, group, queue_id)
        pop = self._pops.get(key)
        if pop is None or pop.pop_ms != pop_ms or offset not in pop.offsets:
            return None
        shows_ms = {**(pop.shows_ms or {}), int(offset): until_ms}
        pop = msgspec.structs.replace(pop, shows_ms=shows_ms)
        self._put(key, pop)
        return pop

    def shift(self, by_ms: int, now_ms: int) -> None:
        """Have what is hidden show by so much later, as the wall clock was set: no time has passed.

        Nothing is hidden for longer than its pop asked for, counted from ``now_ms``.
        """
        for key, free_ms in list(self.blocked(now_ms - by_ms)):
            pop = self._pops[key]
            times, invisible_ms = pop.shows_ms or {}, pop.invisible_ms or 0
            latest_ms = max(free_ms, now_ms + invisible_ms)
            shows_ms = {
                int(at): min(times.get(at, pop.pop_ms + invisible_ms) + by_ms, latest_ms)
                for at in pop.offsets
            }
            self._put(key, msgspec.structs.replace(pop, shows_ms=shows_ms))

    def rebase(self, now_ms: int) -> None:
        """Have pops of a time that is yet to come count from now: the clock was set back since."""
        for key, pop in list(self._pops.items()):
            ahead_ms = pop.pop_ms - now_ms
            if ahead_ms > 0:
                times, usual = pop.shows_ms or {}, pop.pop_ms + (pop.invisible_ms or 0)
                shows_ms = {int(at): times.get(at, usual) - ahead_ms for at in pop.offsets}
                self._put(key, msgspec.structs.replace(pop, shows_ms=shows_ms))

    def put_back(self, topic: str, group: str, queue_id: int, pop: OrderedPop | None) -> None:
        """Undo a pop that nobody was given; ``pop`` is the one before it."""
        if pop is None:
            self.clear(topic, group, queue_id)
        else:
            self._put((topic, group, queue_id), pop)

    def clear(self, topic: str, group: str, queue_id: int) -> None:
        """Unblock a queue: its group goes on elsewhere."""
        key = (topic, group, queue_id)
        if self._pops.pop(key, None) is not None:
            self._note(key)
            self.changes += 1

    def blocked(self, now_ms: int) -> Iterator[tuple[tuple[str, str, int], int]]:
        """Every queue that is blocked, and until when."""
        for key, pop in self._pops.items():
            free_ms = pop.free_ms()
            if free_ms > now_ms:
                yield key, free_ms

    def _put(self, key: tuple[str, str, int], pop: OrderedPop) -> None:
        self._pops[key] = pop
        self._note(key)
        self.changes += 1

    def to_file(self, now_ms: int) -> OrderFile:
        """The table as it is now; what is long over is forgotten."""
        for key, pop in list(self._pops.items()):
            if now_ms - pop.last_ms > FORGOTTEN_MS and pop.free_ms() <= now_ms:
                del self._pops[key]
                self._note(key)
        table: dict[str, dict[int, OrderedPop]] = {}
        for (topic, group, queue_id), pop in self._pops.items():
            table.setdefault(f"{topic}{_SEPARATOR}{group}", {})[queue_id] = pop
        return OrderFile(table=table)

    def keys(self) -> list[tuple[str, str, int]]:
        """Topic, group and queue of each pop."""
        return list(self._pops)

    def replicate(self, key: tuple[str, str, int], pop: OrderedPop | None) -> None:
        """Take over a pop of the leader's, or that there is none."""
        if pop is not None:
            self._pops[key] = pop
        else:
            self._pops.pop(key, None)
        self.changes += 1

    def load(self, file: OrderFile) -> None:
        """Take over a table that was saved."""
        for name, queues in file.table.items():
            topic, separator, group = name.partition(_SEPARATOR)
            if separator:
                for queue_id, pop in queues.items():
                    self._pops[topic, group, queue_id] = pop
