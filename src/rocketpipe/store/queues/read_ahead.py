"""Entries read ahead: whoever reads a queue asks for those behind them next.

An entry is 20 bytes, and to read 32 of them costs as much as to read 256. They are kept for the
queues that were read last, and forgotten where a queue's entries are written anew.
"""

from __future__ import annotations

from typing import Final

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.queues.consume_queue import ConsumeQueue
from rocketpipe.store.queues.entries import QUEUE_ENTRY_BYTES

#: Of so many queues, and so many entries of each: a megabyte and a quarter.
MAX_QUEUES: Final = 256
AHEAD: Final = 256


class ReadAhead:
    """The entries behind those that were asked for last."""

    def __init__(self, *, max_queues: int = MAX_QUEUES) -> None:
        self._max_queues = max_queues
        #: How often the queue had been written anew, where the entries begin in it, and they.
        self._kept: dict[ConsumeQueue, tuple[int, int, bytes]] = {}

    def entries(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Give up to ``count`` entries from ``offset`` on; fewer only where the queue ends.

        Raises:
            QueueDamaged: They are not as they were written.
            DiskError: They cannot be read.
        """
        kept = self._kept.get(queue)
        if kept is not None:
            rewrites, start, data = kept
            at = offset * QUEUE_ENTRY_BYTES - start
            end = at + count * QUEUE_ENTRY_BYTES
            if at >= 0 and end <= len(data) and rewrites == queue.rewrites:
                return data[at:end]
            del self._kept[queue]
        data = queue.entries(QueueOffset(offset), max(count, AHEAD))
        end = count * QUEUE_ENTRY_BYTES
        if len(data) > end:
            if len(self._kept) >= self._max_queues:
                del self._kept[next(iter(self._kept))]
            self._kept[queue] = (queue.rewrites, offset * QUEUE_ENTRY_BYTES, data)
        return data[:end]
