"""Where each group pops on in each queue, and when that is committed.

A place moves as soon as messages are given out, and is committed once the check point that speaks
of them is durable: a power cut then takes both or none. Beside the places it is noted how far the
revive topic was taken into account (``NOTED_GROUP``), in the same table and so in the same file:
a broker that was killed reads the check points behind that, and moves the places on by them.

Whoever commits another offset meanwhile, an operator above all, has the last word.
"""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.model.offsets import LogOffset, QueueOffset

#: Its offset in a revive queue is that of the last note that is not needed any more.
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"

#: Its offset in a revive queue is behind the notes that committed offsets know of.
NOTED_GROUP: Final = "CID_RMQ_SYS_REVIVE_NOTED"

#: Group, topic and queue.
Place: TypeAlias = tuple[str, str, int]


class _Ahead:
    """A place that is ahead of what was committed."""

    __slots__ = ("committed", "next")

    def __init__(self, committed: QueueOffset | None) -> None:
        self.committed = committed
        self.next = committed


class PopOffsets:
    """The next offset to pop, by group, topic and queue."""

    def __init__(self, offsets: OffsetTable) -> None:
        self._offsets = offsets
        self._ahead: dict[Place, _Ahead] = {}
        self._waiting: deque[tuple[LogOffset, Place, QueueOffset, _Ahead | None]] = deque()

    def next(self, group: str, topic: str, queue_id: int) -> QueueOffset | None:
        """Where to pop on; None if the group never read this queue."""
        place = (group, topic, queue_id)
        committed = self._offsets.committed(*place)
        ahead = self._ahead.get(place)
        if ahead is None:
            return committed
        if ahead.committed != committed:
            del self._ahead[place]  # somebody else moved it
            return committed
        return ahead.next

    def begin(self, group: str, topic: str, queue_id: int, offset: QueueOffset) -> None:
        """Commit a place at once: where a group begins, or what there was no message at.

        Raises:
            TableFull: If it is one place too many.
        """
        self._ahead.pop((group, topic, queue_id), None)
        self._offsets.commit(group, topic, queue_id, offset)

    def advance(
        self, group: str, topic: str, queue_id: int, offset: QueueOffset, end: LogOffset
    ) -> None:
        """Move a place on, to be committed once the log is durable up to ``end``."""
        place = (group, topic, queue_id)
        self.next(*place)
        ahead = self._ahead.get(place)
        if ahead is None:
            ahead = self._ahead[place] = _Ahead(self._offsets.committed(*place))
        ahead.next = offset
        self._waiting.append((end, place, offset, ahead))

    def note(self, topic: str, queue_id: int, offset: QueueOffset, end: LogOffset) -> None:
        """Have it committed with the next places that the revive topic is known up to here."""
        self._waiting.append((end, (NOTED_GROUP, topic, queue_id), offset, None))

    def revived(self, topic: str, queue_id: int, offset: QueueOffset, end: LogOffset) -> None:
        """Have it committed that notes up to this one are not needed any more."""
        self._waiting.append((end, (REVIVE_GROUP, topic, queue_id), offset, None))

    def settle(self, durable: LogOffset) -> None:
        """Commit what waits for no more than this to be durable."""
        while self._waiting and self._waiting[0][0] <= durable:
            _, place, offset, ahead = self._waiting.popleft()
            if ahead is None:
                self._offsets.commit(*place, offset)
                continue
            if self._ahead.get(place) is not ahead:
                continue
            if self._offsets.committed(*place) != ahead.committed:
                del self._ahead[place]
                continue
            self._offsets.commit(*place, offset)
            ahead.committed = offset
            if ahead.next == offset:
                del self._ahead[place]
