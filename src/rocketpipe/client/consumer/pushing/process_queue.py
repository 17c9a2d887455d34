"""The messages of one queue that were pulled and are not done with, and what may be committed.

                     concurrent                            ordered
    put              cached, by queue offset               the same; says whether to begin
    take             –                                     the n smallest are being consumed
    remove, commit   gives the offset to commit:           gives the last consumed offset + 1
                     the smallest left, or the
                     greatest ever put + 1
    again            –                                     consumed ones are cached again

Nothing here waits or knows a clock: times are given in milliseconds of one monotonic clock.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import Final

from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.model.offsets import QueueOffset

#: The clean-up of stuck messages looks at so many of a queue at a time.
STUCK_AT_ONCE: Final = 16


class ProcessQueue:
    """One queue's messages in hand, by queue offset."""

    def __init__(self) -> None:
        self._cached: dict[int, ReceivedMessage] = {}
        #: The keys of ``_cached``, sorted: pulls come in order, so that inserting is appending.
        self._offsets: list[int] = []
        self._taken: dict[int, ReceivedMessage] = {}
        self._started: dict[int, int] = {}
        self._greatest = -1
        self._bytes = 0
        self._consuming = False
        #: Results of a queue that was given up count for nothing any more.
        self.dropped = False

    def __len__(self) -> int:
        return len(self._cached) + len(self._taken)

    def __contains__(self, message: ReceivedMessage) -> bool:
        held = self._cached.get(message.queue_offset) or self._taken.get(message.queue_offset)
        return held is message

    @property
    def bytes(self) -> int:
        """The bodies of all that is in hand."""
        return self._bytes

    @property
    def span(self) -> int:
        """How far the greatest cached offset is from the smallest."""
        return self._offsets[-1] - self._offsets[0] if self._offsets else 0

    @property
    def ends(self) -> tuple[int, int]:
        """The smallest and the greatest offset in hand; 0 and 0 if there is nothing."""
        offsets = [*self._offsets[:1], *self._offsets[-1:], *self._taken]
        return (min(offsets), max(offsets)) if offsets else (0, 0)

    def put(self, messages: Iterable[ReceivedMessage]) -> bool:
        """Cache messages; says whether an ordered consumer has to begin, because none is at it.

        One whose offset is there already takes its place and is not counted twice.
        """
        cached, offsets = self._cached, self._offsets
        for message in messages:
            offset = message.queue_offset
            if offset in cached:
                self._bytes += message.body_bytes - cached[offset].body_bytes
            else:
                if not offsets or offset > offsets[-1]:
                    offsets.append(offset)
                else:
                    insort(offsets, offset)
                self._greatest = offset
                self._bytes += message.body_bytes
            cached[offset] = message
        if cached and not self._consuming:
            self._consuming = True
            return True
        return False

    # Concurrent

    def start(self, messages: Iterable[ReceivedMessage], now_ms: int) -> None:
        """Note that a handler was given these, for the clean-up of what is stuck."""
        cached, started = self._cached, self._started
        for message in messages:
            offset = message.queue_offset
            if cached.get(offset) is message:
                started[offset] = now_ms

    def remove(self, messages: Iterable[ReceivedMessage]) -> QueueOffset | None:
        """Be done with messages; gives the offset to commit, None when nothing was in hand."""
        cached, offsets = self._cached, self._offsets
        if not cached:
            return None
        for message in messages:
            offset = message.queue_offset
            if cached.get(offset) is message:
                del cached[offset]
                del offsets[0 if offsets[0] == offset else bisect_left(offsets, offset)]
                self._started.pop(offset, None)
                self._bytes -= message.body_bytes
        assert self._bytes >= 0
        return QueueOffset(offsets[0] if offsets else self._greatest + 1)

    def stuck(self, now_ms: int, timeout_ms: int) -> list[ReceivedMessage]:
        """The messages at the head that a handler has had for longer than the timeout; a few."""
        found: list[ReceivedMessage] = []
        for offset in self._offsets[:STUCK_AT_ONCE]:
            started_ms = self._started.get(offset)
            if started_ms is None or now_ms - started_ms <= timeout_ms:
                break
            found.append(self._cached[offset])
        return found

    # Ordered

    def take(self, count: int) -> list[ReceivedMessage]:
        """Have the smallest ``count`` consumed next; empty when there are none to begin with.

        After an empty answer the next ``put`` says to begin again.
        """
        offsets = self._offsets[:count]
        del self._offsets[:count]
        taken = [self._cached.pop(offset) for offset in offsets]
        self._taken.update(zip(offsets, taken, strict=True))
        if not taken:
            self._consuming = False
        return taken

    def commit(self) -> QueueOffset | None:
        """Be done with all that was taken; gives the offset to commit, None without any."""
        if not self._taken:
            return None
        last = max(self._taken)
        self._bytes -= sum(message.body_bytes for message in self._taken.values())
        self._taken.clear()
        assert self._bytes >= 0
        return QueueOffset(last + 1)

    def again(self, messages: Sequence[ReceivedMessage] | None = None) -> None:
        """Put what was taken back to the head of the queue: these, or all of it."""
        for message in list(self._taken.values()) if messages is None else messages:
            offset = message.queue_offset
            if self._taken.get(offset) is message:
                del self._taken[offset]
                self._cached[offset] = message
                insort(self._offsets, offset)

    def drop(self) -> None:
        """Give the queue up: nothing is in hand any more, and no result counts."""
        self.dropped = True
        self._cached.clear()
        self._taken.clear()
        self._offsets.clear()
        self._started.clear()
        self._bytes = 0
