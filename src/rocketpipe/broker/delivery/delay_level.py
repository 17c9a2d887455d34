"""One delay level: where it reads on, and by which clock its messages wait."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from rocketpipe.clock import STEP_MS
from rocketpipe.model.offsets import LogOffset, QueueOffset

#: How often the queues are looked at, if nothing falls due earlier.
TICK_MS: Final = 100
#: So many messages are read at once.
BATCH: Final = 64
_MOST_TURNS: Final = 64
_NEITHER: Final = -(1 << 62)


@dataclass(slots=True)
class DelayLevel:
    """Where one level has come to, and by which clock its messages wait.

    Time is counted as it passes, from what the wall clock said when they were stored: whoever sets
    that clock makes nothing early. From a turn on, messages are of another setting of it.
    """

    number: int
    delay_ms: int
    at: QueueOffset
    #: How far the wall clock of the message at ``at`` is ahead of the monotonic one.
    apart_ms: int
    #: Where the queue ended at the last look.
    end: QueueOffset
    #: From which place on the wall clock is that far ahead.
    turns: deque[tuple[QueueOffset, int]] = field(default_factory=deque)
    #: When the message at ``at`` falls due; 0 while that is not known.
    due_ms: int = 0
    #: Ends of the queue, each with when it was seen, for what goes by neither clock.
    seen: deque[tuple[QueueOffset, int]] = field(default_factory=deque)
    #: All before this was seen so long ago that it is due, whatever its time says.
    ripe_to: int = 0
    #: Whether what is due may have been delivered by the last run.
    may_repeat: bool = True
    #: Places reached, each with the end of the log that has to be durable first.
    unsaved: tuple[LogOffset, QueueOffset] | None = None
    unsaved_later: tuple[LogOffset, QueueOffset] | None = None

    @property
    def queue_id(self) -> int:
        """The queue of the schedule topic that has its messages."""
        return self.number - 1

    def look(self, end: QueueOffset, wall_ms: int, monotonic_ms: int) -> None:
        """Note how the clocks stand, and that the queue ends at ``end``."""
        apart_ms = wall_ms - monotonic_ms
        latest_ms = self.turns[-1][1] if self.turns else self.apart_ms
        if abs(apart_ms - latest_ms) >= STEP_MS:
            if len(self.turns) < _MOST_TURNS:
                # What came since the last look may be of before or of after.
                self.turns += ((self.end, _NEITHER), (end, apart_ms))
            else:
                self.turns[-1] = (end, apart_ms)
            self._see(end, monotonic_ms)
        elif apart_ms < latest_ms and not self.turns:
            self.apart_ms = apart_ms  # too little for a turn, and enough to be early by
        self.end = end
        while self.turns and self.at >= self.turns[0][0]:
            _, self.apart_ms = self.turns.popleft()
        while self.seen and self.seen[0][1] + self.delay_ms <= monotonic_ms:
            self.ripe_to, _ = self.seen.popleft()

    def waits(self, monotonic_ms: int) -> bool:
        """Whether the message at ``at`` is not due yet, as far as that is known."""
        now_ms = monotonic_ms + self.apart_ms
        if self.due_ms <= max(now_ms, 0) or self.at < self.ripe_to:
            return False
        if self.due_ms > now_ms + self.delay_ms:
            # No send of now could fall due so late: it waits from now on.
            self._see(self.end, monotonic_ms)
        return True

    def most(self) -> int:
        """How many messages from ``at`` on go by the same."""
        if self.at < self.ripe_to:
            return min(BATCH, self.ripe_to - self.at)
        return min(BATCH, self.turns[0][0] - self.at) if self.turns else BATCH

    def _see(self, end: QueueOffset, monotonic_ms: int) -> None:
        """Note that everything before ``end`` is here by now; about a hundred notes at most."""
        if self.seen:
            last, seen_ms = self.seen[-1]
            if end <= last or monotonic_ms - seen_ms < max(TICK_MS, self.delay_ms // 100):
                return
        self.seen.append((end, monotonic_ms))

    def reached(self, end: LogOffset) -> None:
        """Note that it has come to ``at``, once the log is durable up to ``end``.

        The first and the last such place are remembered: the ones between are covered.
        """
        if self.unsaved is None:
            self.unsaved = (end, self.at)
        else:
            self.unsaved_later = (end, self.at)
