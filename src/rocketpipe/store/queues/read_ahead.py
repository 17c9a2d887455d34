"""Entries read ahead: whoever reads a queue asks for those behind them next.

An entry is 20 bytes, and to read 32 of them costs as much as to read 256. They are kept for those
who read last, each at its own place, and forgotten where a queue's entries are written anew.
"""

from __future__ import annotations

from typing import Final

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.errors import QueueDamaged
from rocketpipe.store.files.disk_error import DiskError
from rocketpipe.store.queues.consume_queue import ConsumeQueue
from rocketpipe.store.queues.entries import QUEUE_ENTRY_BYTES

#: For so many readers, and so many entries for each: a megabyte and a quarter.
MAX_READERS: Final = 256
AHEAD: Final = 256


class ReadAhead:
    """The entries behind those that were given last, for each who reads on from there."""

    def __init__(self, *, max_readers: int = MAX_READERS) -> None:
        self._max_readers = max_readers
        #: By the queue and who asks next for which offset: how often the queue had been written
        #: anew, at which byte of it the entries begin, and they.
        self._kept: dict[tuple[ConsumeQueue, int], tuple[int, int, bytes]] = {}

    def entries(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Give up to ``count`` entries from ``offset`` on; fewer only where the queue ends.

        Raises:
            QueueDamaged: They are not as they were written.
            DiskError: They cannot be read.
        """
        size = count * QUEUE_ENTRY_BYTES
        kept = self._kept.pop((queue, offset), None)
        if kept is not None and kept[0] == queue.rewrites:
            _, start, data = kept
            at = offset * QUEUE_ENTRY_BYTES - start
            if at + size < len(data):
                self._kept[queue, offset + count] = kept
                return data[at : at + size]
        try:
            data = queue.entries(QueueOffset(offset), max(count, AHEAD))
        except (QueueDamaged, DiskError):
            # What is behind may be in another file: who did not ask for it does not suffer by it.
            data = queue.entries(QueueOffset(offset), count)
        if size < len(data):
            if len(self._kept) >= self._max_readers:
                del self._kept[next(iter(self._kept))]
            start = offset * QUEUE_ENTRY_BYTES
            self._kept[queue, offset + count] = (queue.rewrites, start, data)
        return data[:size]
